"""AtteFa: one row a seed, one summary a dataset and encoder, published figures beside them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rashomon.measures.divergence import LN2
from rashomon.papers import papers, published
from rashomon.studies.attefa import SEEDS, Attefa
from rashomon.studies.subject import DatasetSpec
from tests.studies.trials import FEW, check_finding, fewer, finished_runs, planted, trial_of


def test_the_published_tables_agree_with_themselves() -> None:
    assert {"attefa", "not_not"} <= set(papers())
    told = published("attefa")
    assert tuple(told["seeds"]) == SEEDS
    column = {"bilstm": 5, "mlp": 10}
    for row in told["results"]:
        by_seed = told["per_seed"][row["dataset"]]
        assert len(by_seed) == len(SEEDS)
        mean = np.mean([values[column[row["encoder"]]] for values in by_seed])
        assert mean == pytest.approx(row["attefa"], abs=1e-3)
        assert row["attefa"] == pytest.approx(min(row["tvd"] / 0.5 / (row["jsd"] / LN2), 1), abs=5e-3)


def test_seeds_encoders_and_what_was_published(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, planted("mock-5"))
    study = Attefa(subject, encoders=("mlp", "cnn"), seeds=(10, 50, 257), training=fewer(FEW, 2))
    finding = study.run(context)
    check_finding(finding)
    seeds, summary = finding.tables["seeds"], finding.tables["summary"]
    assert len(seeds) == 6
    expected = np.minimum(seeds["tvd"] / (seeds["jsd"] / LN2), 1)
    assert np.allclose(seeds["attefa"], expected)
    mlp = summary[summary["encoder"] == "mlp"].iloc[0]
    assert mlp["n"] == 3
    assert mlp["low"] <= mlp["mean"] <= mlp["high"]
    assert mlp["published_attefa"] == 0.4987
    assert mlp["published_halved_tvd"] == 0.247
    assert np.isnan(summary[summary["encoder"] == "cnn"].iloc[0]["published_attefa"])
    assert len(finding.tables["comparison"]) == 1
    assert set(finding.figures[0].groups) == {"mlp on mock-5", "cnn on mock-5"}
    before = finished_runs(context)
    assert study.run(context).verdict == finding.verdict
    assert finished_runs(context) == before


def test_several_datasets_by_name(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    for name in ("mock-1", "mock-4q"):
        context._datasets[DatasetSpec(name=name)] = planted(name, size=32)
    study = Attefa(
        replace(subject, dataset=DatasetSpec()), ("mock-1", "mock-4q"), seeds=(1,), training=fewer(FEW, 1)
    )
    finding = study.run(context)
    assert finding.tables["summary"]["dataset"].tolist() == ["mock-1", "mock-4q"]
    assert finding.tables["summary"]["published_base_f1"].tolist() == [0.975, 1.0]


def test_selection_on_test_is_said(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    finding = Attefa(subject, seeds=(1,), selection="test", training=fewer(FEW, 1)).run(context)
    assert any("test split" in warning for warning in finding.warnings)
    assert finding.configuration["selection"] == "test"
