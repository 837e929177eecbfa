"""Agreement and truth: the same models, texts and seeds by all measures, and a sentence that follows from the tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score

from rashomon.data import Dataset
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.evidence import rationale_of
from rashomon.runs.store import Store
from rashomon.studies.agreement_and_truth import AgreementAndTruth, _conclusion, over_methods
from rashomon.studies.base import Finding
from tests.studies.planted import planted, subject_in
from tests.studies.trials import check_finding

METHODS = ("gradient-x-input", "integrated-gradients")
ERASED = ("comprehensiveness (removal)", "comprehensiveness (padding)")


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Store(tmp_path_factory.mktemp("store")), workers=1)


def study_in(context: Context, data: Dataset | None = None, **settings: object) -> AgreementAndTruth:
    subject = replace(subject_in(context, data), seeds=(0, 1, 2))
    subject = replace(subject, training=replace(subject.how_trained, epochs=3))
    asked = {"variants": ("tying(weight=0.5)",), **settings}
    return AgreementAndTruth(subject, METHODS, 12, fractions=(0.2, 0.5), **asked)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def finding(context: Context) -> Finding:
    return study_in(context).run(context)


def test_one_table_has_agreement_recovery_and_faithfulness(finding: Finding) -> None:
    check_finding(finding)
    summary = finding.summary.set_index(["measure", "variant"])
    for measure in ("kendall", "pearson", "average-precision", *ERASED):
        assert (measure, "base") in summary.index
        assert (measure, "tying") in summary.index
    methods = finding.tables["methods"]
    assert set(methods["method"]) == {*METHODS, "random"}
    assert finding.verdict.startswith("Tying: pearson agreement ")
    assert "truth" in finding.verdict or "nothing follows" in finding.verdict


def test_recovery_is_that_of_the_last_epochs_model(finding: Finding, context: Context) -> None:
    study = study_in(context)
    data = context.dataset(study.subject.dataset)
    model = context.epoch_model(context.folders(study.base)[0], 3)
    known = finding.tables["instances"].query(
        "measure == 'average-precision' and variant == 'base' and seed == 0"
    )
    by_id = {example.id: example for example in data["test"]}
    texts = [by_id[text] for text in known["example"]]
    explanations = context.explanations(model, texts, METHODS, seed=0)
    expected = {example.id: [] for example in texts}
    for item in explanations:
        where, marks = rationale_of(item, by_id[item.example_id])
        expected[item.example_id].append(average_precision_score(marks, np.abs(item.scores[where])))
    for text, value in known[["example", "value"]].itertuples(index=False):
        assert value == pytest.approx(np.mean(expected[text]))


def test_erasing_is_told_beyond_the_random_order() -> None:
    rows = [
        ("comprehensiveness (removal)", "lime", 0.5),
        ("comprehensiveness (removal)", "attention", 0.3),
        ("comprehensiveness (removal)", "random", 0.1),
        ("average-precision", "lime", 0.8),
        ("average-precision", "random", 0.2),
    ]
    table = pd.DataFrame(rows, columns=["measure", "method", "value"]).assign(
        seed=0, example="a", variant="base"
    )
    found = over_methods(table).set_index("measure")["value"].to_dict()
    assert found == {
        "comprehensiveness (removal)": pytest.approx(0.3),
        "average-precision": pytest.approx(0.8),
    }


def test_without_known_tokens_erasure_alone_decides(context: Context) -> None:
    data = planted()
    bare = {name: tuple(replace(e, rationale=None) for e in data[name]) for name in data}
    found = study_in(context, replace(data, splits=bare)).run(context)
    assert "average-precision" not in set(found.summary["measure"])
    assert any("erasure alone" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("agreement", "truths", "words"),
    [
        ("rises", ["rises", "rises"], "higher agreement came with higher truth"),
        ("rises", ["falls", "does not clearly move"], "higher agreement came with lower truth"),
        ("rises", ["falls", "rises"], "more truth in one respect and less in another"),
        ("rises", ["rises", "does not clearly move"], "in some respects only"),
        ("rises", ["does not clearly move"], "no clear change"),
        ("falls", ["falls"], "lower agreement came with lower truth"),
        ("falls", ["rises"], "lower agreement came with higher truth"),
        ("does not clearly move", ["rises"], "nothing follows"),
    ],
)
def test_the_sentence_follows_from_the_moves(agreement: str, truths: list[str], words: str) -> None:
    assert words in _conclusion(agreement, truths)


def test_a_penalty_is_needed(context: Context) -> None:
    with pytest.raises(UserError, match="and a penalty"):
        study_in(context, variants=()).run(context)
    with pytest.raises(UserError, match="no penalty to compare"):
        study_in(context, variants=("tying",), grid=(1000.0,), margin=0.0).run(context)
