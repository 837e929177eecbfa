"""How good is the model? Shares against a hand count, and the warnings that a reader must not miss."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix
from statsmodels.stats.proportion import proportion_confint
from transformers import BertConfig

import rashomon as ra
from rashomon.data import Dataset
from rashomon.errors import Caution, UserError
from rashomon.experiments.context import Context
from rashomon.measures.answers import exact_match, token_f1
from rashomon.models.base import Model
from rashomon.models.build import load_model
from rashomon.studies.performance import Performance
from tests.models.tiny import questions, tiny_checkpoint
from tests.studies.planted import planted, subject_in

LABELS = ("bad", "good")


@pytest.fixture(scope="module")
def model() -> Model:
    return ra.train("mlp", planted(), embedding_dim=8, hidden=8, epochs=3, learning_rate=0.03)


@pytest.fixture
def ask(tmp_path: Path, model: Model) -> Callable[..., Any]:
    def asked(data: Any, of: Model | None = None, **settings: Any) -> Any:
        return ra.study("performance", of or model, data, store=tmp_path / "store", **settings)

    return asked


def test_the_figures_are_those_of_a_hand_count(ask: Callable[..., Any], model: Model) -> None:
    data = planted()
    with warnings.catch_warnings():
        warnings.simplefilter("error", Caution)
        finding = ask(data)
    said = model.predict(data["test"])["prediction"].tolist()
    true = [LABELS[example.label or 0] for example in data["test"]]
    right = sum(a == b for a, b in zip(said, true, strict=True))
    accuracy = finding.summary.iloc[0]
    assert (accuracy["figure"], accuracy["n"]) == ("accuracy", 24)
    assert accuracy["mean"] == pytest.approx(right / 24)
    assert (accuracy["low"], accuracy["high"]) == pytest.approx(
        proportion_confint(right, 24, method="wilson")
    )
    assert finding.summary["figure"].tolist()[1] == "always saying bad"
    classes = finding.tables["classes"]
    counts = confusion_matrix(true, said, labels=LABELS)
    assert classes["labelled"].tolist() == counts.sum(1).tolist()
    assert classes["predicted"].tolist() == counts.sum(0).tolist()
    assert classes["found"].tolist() == pytest.approx((counts.diagonal() / counts.sum(1)).tolist())
    (matrix,) = finding.figures
    np.testing.assert_allclose(
        matrix.layers["share of the label's texts"], counts / counts.sum(1, keepdims=True)
    )
    assert matrix.details["share of the label's texts"][0][0] == f"{counts[0, 0]} of 12 texts"
    assert "The labels are the model's own." in finding.verdict


def renamed(labels: Sequence[str], turned: bool = False) -> Dataset:
    data = planted()
    splits = {
        name: tuple(replace(e, label=abs(turned - (e.label or 0))) for e in data[name]) for name in data
    }
    return Dataset("d", splits, tuple(labels))


@pytest.mark.parametrize(
    ("data", "how", "warned"),
    [
        (renamed(("Good ", "BAD"), turned=True), "were matched by name", None),
        (renamed(("0", "1")), "were read as numbers of its classes", None),
        (renamed(("1 star", "5 stars")), "were matched in order", "1 star with bad, 5 stars with good"),
        (renamed(("5 stars", "1 star"), turned=True), "were matched in order", "the wrong way round"),
        (renamed(("a", "b", "c")), "cannot be told", "nothing that needs labels was done"),
    ],
)
def test_how_labels_were_matched_is_said(
    ask: Callable[..., Any], data: Dataset, how: str, warned: str | None
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        finding = ask(data)
    assert how in finding.verdict
    cautions = [str(w.message) for w in caught if issubclass(w.category, Caution)]
    assert any(warned in text for text in cautions) if warned else not cautions
    assert set(cautions) <= set(finding.warnings)


def test_without_labels_it_says_so(ask: Callable[..., Any]) -> None:
    finding = ask([f"a good film {n}" for n in range(9)] + ["awful dull bad"])
    assert finding.verdict.startswith("The 10 texts of the test split have no labels, so how often")
    assert finding.summary["figure"].tolist() == ["predicted as bad", "predicted as good"]
    assert finding.summary["mean"].sum() == pytest.approx(1)
    assert finding.figures == ()


@pytest.mark.parametrize(("texts", "warned"), [(10, True), (9, False)])
def test_one_class_only_is_a_warning(ask: Callable[..., Any], texts: int, warned: bool) -> None:
    finding = ask(["great witty good"] * texts)
    assert any("predicts one class only, good" in warning for warning in finding.warnings) == warned


def test_of_several_seeds_the_interval_is_over_seeds(context: Context) -> None:
    finding = Performance(subject_in(context, seeds=(0, 1, 2))).run(context)
    row = finding.summary.iloc[0]
    assert (row["n"], finding.tables["instances"]["seed"].nunique()) == (72, 3)
    assert row["mean"] == pytest.approx(finding.tables["instances"]["accuracy"].mean())


def test_answers_are_scored_by_exact_match_and_f1(ask: Callable[..., Any], tmp_path: Path) -> None:
    answerer = load_model(tiny_checkpoint("bert", tmp_path / "answerer", answers=True))
    data = questions()
    finding = ask(data, of=answerer)
    said = answerer.predict(data["test"])["prediction"]
    golds = [[(e.text_pair or "")[a.start : a.end] for a in e.answers or ()] for e in data["test"]]
    for row, score in zip(finding.summary.itertuples(), (exact_match, token_f1), strict=True):
        expected = [max(score(mine, gold) for gold in known) for mine, known in zip(said, golds, strict=True)]
        assert row.mean == pytest.approx(np.mean(expected))
    assert finding.summary["figure"].tolist() == ["exact-match", "f1"]
    assert finding.verdict.startswith("Exact-match ")
    unanswered = Dataset("q", {"test": tuple(replace(e, answers=()) for e in data["test"])}, ())
    assert "have no answers, so how often" in ask(unanswered, of=answerer).verdict


def test_a_regression_head_is_said_to_be_one(
    ask: Callable[..., Any], checkpoint: Callable[..., Path], tmp_path: Path, context: Context
) -> None:
    folder = shutil.copytree(checkpoint("bert", 1), tmp_path / "regression")
    BertConfig.from_pretrained(folder, problem_type="regression").save_pretrained(folder)
    head = load_model(folder)
    texts = ["a good film", "a dull one", "one two three people sleep"]
    finding = ask(texts, of=head)
    assert "(it has a regression head)" in finding.verdict
    values = head.predict(texts)["prediction"]
    assert finding.summary["mean"].tolist() == pytest.approx([values.mean()])
    assert list(head.predict(texts).columns) == ["prediction"]
    with pytest.raises(UserError, match=r"regression head\), which has no probability; explain its logit"):
        ra.explain(head, texts, "gradient-x-input", space="probability")
    report = ra.audit(head, texts, methods=("gradient-x-input", "leave-one-out"), store=tmp_path / "store")
    assert [f.study for f in report.audit.findings][:3] == ["performance", "model-check", "agreement"]
    assert any(
        "erasure was left out: The model gives a number" in warning for warning in report.audit.warnings
    )
    assert "gives a number" in report.audit.model
