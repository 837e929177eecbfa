"""AtteFa: one row a seed, one summary a dataset and encoder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rashomon.experiments.subject import DatasetSpec
from rashomon.experiments.trials import against_base, attention_on_evidence, prepare
from rashomon.measures.divergence import LN2
from rashomon.models.build import build_model
from rashomon.models.evaluator import rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.studies.attefa import Attefa, _judgements, _verdict
from tests.studies.trials import FEW, check_finding, fewer, finished_runs, planted, trial_of


def test_seeds_and_encoders(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, planted("mock-5"))
    study = Attefa(subject, encoders=("mlp", "cnn"), seeds=(10, 50, 257), training=fewer(FEW, 2))
    finding = study.run(context)
    check_finding(finding)
    seeds, summary = finding.tables["seeds"], finding.tables["summary"]
    assert len(seeds) == 6
    assert summary["gave_up"].tolist() == seeds.groupby("encoder", sort=False)["gave_up"].mean().tolist()
    expected = np.minimum(seeds["tvd"] / (seeds["jsd"] / LN2), 1)
    assert np.allclose(seeds["attefa"], expected)
    mlp = summary[summary["encoder"] == "mlp"].iloc[0]
    assert mlp["n"] == 3
    assert mlp["low"] <= mlp["mean"] <= mlp["high"]
    assert len(finding.tables["comparison"]) == 1
    assert set(finding.figures[0].groups) == {"mlp on mock-5", "cnn on mock-5"}
    before = finished_runs(context)
    assert study.run(context).verdict == finding.verdict
    assert finished_runs(context) == before


def test_several_bases_are_told_apart(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, planted("mock-5"))
    study = Attefa(
        replace(subject, seeds=(0, 1, 2)), encoders=("mlp", "cnn"), seeds=(10, 50), training=fewer(FEW, 2)
    )
    finding = study.run(context)
    check_finding(finding)
    seeds, bases, summary = (finding.tables[name] for name in ("seeds", "bases", "summary"))
    assert len(seeds) == 12
    assert len(bases) == 6
    row = summary.iloc[0]
    assert (row["bases"], row["n"]) == (3, 6)
    of_mlp = bases[bases["encoder"] == "mlp"]
    assert row["mean"] == pytest.approx(of_mlp["mean"].mean())
    assert row["base_on_evidence"] == pytest.approx(of_mlp["on_evidence"].mean())
    assert (of_mlp["least_class"] <= of_mlp["on_evidence"]).all()
    pairs = finding.tables["between-bases"]
    assert len(pairs) == 6
    assert row["another_base"] == pytest.approx(pairs[pairs["encoder"] == "mlp"]["attefa"].min())
    trials = [prepare(context, [replace(subject, seeds=(seed,), training=FEW)])[0] for seed in (0, 1)]
    distances = against_base(trials[0], trials[1].base_model())
    assert pairs.iloc[0][["tvd", "jsd"]].tolist() == pytest.approx(
        [distances["tvd"].mean(), distances["jsd"].mean()]
    )
    comparison = finding.tables["comparison"].iloc[0]
    assert (comparison["paired_by"], comparison["n"]) == ("base", 3)
    difference = of_mlp["mean"].to_numpy() - bases[bases["encoder"] == "cnn"]["mean"].to_numpy()
    assert comparison["difference"] == pytest.approx(difference.mean())


ROW = {
    "dataset": "mock-2",
    "encoder": "mlp",
    "bases": 3,
    "n": 9,
    "mean": 0.9,
    "low": 0.8,
    "high": 1.0,
    "jsd": 0.4,
    "gave_up": 0.0,
    "cut_off": 0.0,
}


@pytest.mark.parametrize(
    ("another", "apart", "said"),
    [(0.03, 0.6, True), (0.4, 0.6, False), (0.03, 0.05, False), (float("nan"), 0.6, False)],
)
def test_a_score_that_another_base_refutes_is_said_to_be(another: float, apart: float, said: bool) -> None:
    verdict = _verdict(pd.DataFrame([ROW | {"another_base": another, "another_base_jsd": apart}]))
    assert ("another attention exists" in verdict) == said


@pytest.mark.parametrize(
    ("mean", "jsd", "words"),
    [
        (1.0, 0.01, "hardly moved"),
        (0.01, 0.01, "hardly moved"),
        (0.02, 0.6, "quite different attention"),
        (0.3, 0.6, "some cost"),
        (0.9, 0.4, "Training did not move"),
    ],
)
def test_words_follow_how_far_attention_was_moved(mean: float, jsd: float, words: str) -> None:
    assert words in _verdict(pd.DataFrame([ROW | {"mean": mean, "jsd": jsd}]))


@pytest.mark.parametrize(
    ("changes", "words", "rating"),
    [
        ({}, "Training did not move", "good"),
        ({"cut_off": 0.6}, "cannot be told yet", "unknown"),  # a search that was stopped proves nothing
        ({"cut_off": 0.5}, "Training did not move", "good"),
        ({"gave_up": 0.6}, "constant prediction", "unknown"),
        ({"jsd": 0.01}, "hardly moved", "unknown"),
        ({"mean": 0.3}, "some cost", "mixed"),
        ({"mean": 0.05, "jsd": 0.6, "cut_off": 1.0}, "quite different attention gives", "poor"),  # it found one
        ({"bound": 0.02, "bound_jsd": 0.5, "bound_by": "a model with uniform weights", "cut_off": 1.0},
         "attention (a model with uniform weights) gives the same", "poor"),
        ({"bound": 0.02, "bound_jsd": 0.05, "bound_by": "x"}, "Training did not move", "good"),  # not apart
        ({"bound": 0.3, "bound_jsd": 0.5, "bound_by": "x"}, "some cost", "mixed"),
        ({"mean": 0.3, "bound": 0.4, "bound_jsd": 0.5, "bound_by": "x"}, "some cost", "mixed"),
    ],
)  # fmt: skip
def test_words_follow_the_best_that_anything_found(changes: dict, words: str, rating: str) -> None:
    table = pd.DataFrame([ROW | changes])
    assert words in _verdict(table)
    (judgement,) = _judgements(table)
    assert (judgement.method, judgement.aspect, judgement.rating) == ("attention", "exclusiveness", rating)


@pytest.mark.parametrize(("share", "said"), [(0.0, False), (0.5, False), (0.6, True), (1.0, True)])
def test_a_score_of_adversaries_that_gave_up_is_said_to_be(share: float, said: bool) -> None:
    verdict = _verdict(pd.DataFrame([ROW | {"mean": 0.5, "jsd": 0.69, "gave_up": share}]))
    assert ("constant prediction" in verdict) == said
    rows = [ROW | {"mean": 0.5, "jsd": 0.69, "gave_up": share}, ROW | {"mean": 0.02, "encoder": "bilstm"}]
    assert ("gave up" in _verdict(pd.DataFrame(rows))) == said


def test_the_attention_on_planted_words_is_measured(tmp_path: Path) -> None:
    data = planted("mock-5")
    model = build_model(ModelSpec(name="mlp", weights="uniform", embedding_dim=8, hidden=8), data, 0)
    encodings = model.encode(data["test"])
    uniform = rows_of(model, data["test"], encodings).whole.mask.float()
    uniform = (uniform / uniform.sum(1, keepdim=True)).unsqueeze(1)
    shares = attention_on_evidence(data, encodings, uniform)
    for number, label in enumerate(data.labels):
        own = [sum(e.rationale) / len(e.rationale) for e in data["test"] if e.label == number]
        assert shares[label] == pytest.approx(np.mean(own), abs=1e-6)


def test_several_datasets_by_name(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    context = context.with_datasets(
        {DatasetSpec(name=name): planted(name, size=32) for name in ("mock-1", "mock-4q")}
    )
    study = Attefa(
        replace(subject, dataset=DatasetSpec()), ("mock-1", "mock-4q"), seeds=(1,), training=fewer(FEW, 1)
    )
    finding = study.run(context)
    assert finding.tables["summary"]["dataset"].tolist() == ["mock-1", "mock-4q"]
    assert study.about(finding) == ("mlp", "mock-1, mock-4q")


def test_selection_on_test_is_said(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    finding = Attefa(subject, seeds=(1,), selection="test", training=fewer(FEW, 1)).run(context)
    assert any("test split" in warning for warning in finding.warnings)
    assert finding.configuration["selection"] == "test"
