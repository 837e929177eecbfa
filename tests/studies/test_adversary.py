"""The sweep of lambda: its curve as a number, what lies beside it, and the best F1 far from the base."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.instance_search import Search
from rashomon.experiments.subject import Subject
from rashomon.experiments.trials import prepare
from rashomon.measures.curves import height_at
from rashomon.runs.store import Store
from rashomon.studies.adversary import AdversarySweep
from tests.models.tiny import dataset, tiny_checkpoint
from tests.studies.trials import FEW, check_finding, fewer, finished_runs, planted, trial_of


def test_the_sweep_and_what_lies_beside_it(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, planted(classes=3))
    study = AdversarySweep(
        subject,
        lambdas=(1.0, 0.0, 0.01),
        seeds=(1, 2),
        other_seeds=(1, 2),
        search=Search(starts=2, steps=5),
        instances=10,
        floor=0.05,
        training=fewer(FEW, 6),
    )
    finding = study.run(context)
    check_finding(finding)
    points = finding.tables["summary"]
    everywhere = points[points["class"] == "all"]
    sweep = everywhere[everywhere["kind"] == "adversary"]
    assert sweep["lambda"].tolist() == [0.0, 0.01, 1.0]
    assert sweep["jsd"].is_monotonic_increasing
    assert (sweep["n"] == 48).all()  # both seeds
    assert np.allclose(points["halved_tvd"], points["tvd"] / 2)
    assert (everywhere["kind"] == "seed").sum() == 2
    assert {"uniform", "instance"} <= set(everywhere["kind"])
    assert len(finding.figures) == 4  # all texts and each class
    markers = {series.name: series.marker for series in finding.figures[0].series}
    assert markers["other seeds"] == "triangle"
    assert markers["uniform weights"] == "square"
    assert markers["per-instance adversary"] == "plus"
    curve = finding.tables["curve"].iloc[0]
    assert curve["points"] == 3
    assert (
        np.isnan(curve["area"]) or 0 <= curve["area"] <= 1
    )  # bounded by what lies beside it, it may be level
    uniform = everywhere[everywhere["kind"] == "uniform"].iloc[0]
    height = height_at(uniform["jsd"], sweep["jsd"].to_numpy(), sweep["tvd"].to_numpy())
    assert curve["uniform_above_curve"] == pytest.approx(uniform["tvd"] - height, nan_ok=True)
    assert not curve["uniform_above_curve_low"] > curve["uniform_above_curve_high"]
    best = finding.tables["best"].iloc[0]
    assert np.isnan(best["f1_low"])  # of two seeds there is no interval
    assert best["jsd_low"] <= best["jsd"] <= best["jsd_high"]
    far = sweep[sweep["jsd"] > 0.05]
    assert best["f1"] == far["f1"].max()
    assert finding.tables["instances"]["example"].notna().all()
    before = finished_runs(context)
    study.run(context)
    assert finished_runs(context) == before


def test_a_fine_tuned_transformer(tmp_path: Path) -> None:
    folder = tiny_checkpoint("bert", tmp_path / "bert")
    context = Context(Store(tmp_path / "store"), workers=1)
    subject = Subject(context.adopt(dataset()), checkpoint=str(folder))
    training = replace(FEW, epochs=2, learning_rate=1e-3, optimizer="adamw")
    finding = AdversarySweep(subject, (0.0, 0.1, 1.0), training=training, reading="rollout").run(context)
    check_finding(finding)
    assert (
        len(finding.warnings) == 3
    )  # labels matched in order; no other seeds or uniform weights; no per-instance adversary
    assert set(finding.tables["summary"]["kind"]) == {"adversary"}


def test_without_labels_it_is_still_seen_that_attention_moved(tmp_path: Path) -> None:
    data = planted("mock-5")
    model, subject = trial_of(tmp_path, data)
    base = model.folders(subject)[0] / "model"
    model.trained([subject])
    bare = {split: tuple(replace(e, label=None) for e in data[split]) for split in data}
    context = Context(Store(tmp_path / "other"), workers=1)
    study = AdversarySweep(
        Subject(context.adopt(replace(data, splits=bare, labels=())), checkpoint=str(base)),
        lambdas=(0.0, 1.0),
        search=None,
        floor=-1.0,
        training=fewer(FEW, 3),
    )
    finding = study.run(context)
    (best,) = finding.tables["best"].to_dict("records")
    assert (
        best["tvd"]
        == finding.tables["summary"].query("kind == 'adversary' and `class` == 'all'")["tvd"].min()
    )
    assert np.isnan(best["f1"])
    assert "attends elsewhere" in finding.verdict
    assert "needs labels" in finding.verdict
    assert set(finding.tables["summary"]["class"]) <= {"all", *data.labels}


def test_lambda_is_chosen_on_dev(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, planted("mock-5"))
    study = AdversarySweep(subject, lambdas=(0.1, 1.0, 10.0), other_seeds=(), uniform=False, search=None)
    study = replace(study, floor=-1.0, training=fewer(FEW, 2))
    finding = study.run(context)
    trial = prepare(context, [subject])[0]
    outcomes = study._sweep(context, trial)
    chosen = max(outcomes, key=lambda outcome: outcome.dev["f1"])
    assert finding.tables["best"].iloc[0]["lambda"] == chosen.member.objective.weight


def test_refuses_an_empty_sweep(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    for lambdas in ((), (-1.0,)):
        with pytest.raises(UserError, match="lambda"):
            AdversarySweep(subject, lambdas).run(context)
