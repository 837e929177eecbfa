"""Curvature: exact and estimated norms, nearest texts, and what they go with, of models trained here and elsewhere."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import pearsonr
from sklearn.neighbors import NearestNeighbors

from rashomon.experiments.context import Context
from rashomon.experiments.curvature import gradient_norms, representations
from rashomon.models.evaluator import rows_of
from rashomon.runs.store import Store
from rashomon.studies.base import Finding
from rashomon.studies.curvature import NEAREST, NORM, Curvature, _verdict
from tests.models.tiny import dataset, tiny_checkpoint
from tests.studies.planted import subject_in
from tests.studies.trials import check_finding

METHODS = ("gradient-x-input", "integrated-gradients")


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Store(tmp_path_factory.mktemp("store")), workers=1)


def study_in(context: Context, **settings: object) -> Curvature:
    subject = subject_in(context)
    subject = replace(subject, training=replace(subject.how_trained, epochs=3, learning_rate=0.005))
    asked = {"variants": ("tying(weight=0.1)",), **settings}
    return Curvature(subject, METHODS, 16, **asked)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def finding(context: Context) -> Finding:
    return study_in(context).run(context)


def test_every_statistic_goes_with_the_map_and_with_agreement(finding: Finding) -> None:
    check_finding(finding)
    summary = finding.summary.set_index(["statistic", "attribute", "variant"])
    attributes = {"confidence", "variability", "closeness", "kendall", "pearson"}
    assert set(finding.summary["attribute"]) == attributes
    assert len(summary) == 2 * 5 * 2
    table = finding.tables["instances"].query("variant == 'tying'")
    known = pearsonr(table[NEAREST], table["confidence"])
    row = summary.loc[(NEAREST, "confidence", "tying")]
    assert (row["mean"], row["n"]) == (pytest.approx(known.statistic), 16)
    assert row["low"] < row["mean"] < row["high"]


def test_statistics_are_those_of_the_model_after_the_last_epoch(finding: Finding, context: Context) -> None:
    study = study_in(context)
    model = context.epoch_model(context.folders(study.base)[0], 3)
    texts = context.dataset(study.subject.dataset)["test"]
    vectors = representations(model, rows_of(model, texts))
    nearest = NearestNeighbors(n_neighbors=2).fit(vectors).kneighbors(vectors)[0][:, 1]
    norms = gradient_norms(model, rows_of(model, texts), projections=0).norms
    own = finding.tables["instances"].query("variant == 'base'").set_index("example")
    for example, distance, norm in zip(texts, nearest, norms, strict=True):
        if example.id in own.index:
            assert own.loc[example.id, NEAREST] == pytest.approx(distance, abs=1e-6)
            assert own.loc[example.id, NORM] == pytest.approx(norm, rel=1e-4)


def test_it_says_whether_norms_are_exact(finding: Finding, context: Context) -> None:
    assert finding.tables["precision"]["exact"].all()
    assert "exact" in finding.warnings[0]
    rough = study_in(context, projections=4, variants=()).run(context)
    precision = rough.tables["precision"].iloc[0]
    assert (precision["exact"], precision["projections"]) == (False, 4)
    assert "estimated from 4 random projections" in rough.warnings[0]
    error = rough.tables["instances"]["error"].to_numpy()
    assert precision["error"] == pytest.approx(np.sqrt(np.mean(error**2)))


def test_a_checkpoint_stands_alone_without_dynamics(context: Context, tmp_path: Path) -> None:
    checkpoint = str(tiny_checkpoint("bert", tmp_path / "bert"))
    subject = replace(study_in(context).subject, dataset=context.adopt(dataset()), checkpoint=checkpoint)
    found = Curvature(subject, METHODS).run(context)
    assert set(found.summary["attribute"]) == {"kendall", "pearson"}
    assert found.summary["variant"].unique().tolist() == ["base"]


def row(statistic: str, attribute: str, mean: float, low: float, high: float) -> dict[str, object]:
    figures = {"mean": mean, "low": low, "high": high, "interval": "95 %"}
    return {"statistic": statistic, "attribute": attribute, "variant": "base", **figures}


def test_the_verdict_tells_signs_only_where_intervals_do() -> None:
    rows = [
        row(NORM, "pearson", 0.4, 0.2, 0.5),
        row(NEAREST, "pearson", -0.3, -0.5, -0.1),
        row(NORM, "variability", 0.1, -0.1, 0.3),
    ]
    said = _verdict(pd.DataFrame(rows), "pearson")
    assert "With agreement (pearson): gradient norm rises (r = 0.40 [0.20, 0.50])" in said
    assert "nearest distance falls (r = -0.30 [-0.50, -0.10])." in said
    assert "With variability in training: gradient norm shows no clear relation" in said
