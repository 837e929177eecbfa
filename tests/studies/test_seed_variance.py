"""Seed variance: the largest distance over seeds, binned by sharpness and class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rashomon.errors import UserError
from rashomon.experiments.attention_bins import by_bin, overall, with_bins
from rashomon.studies.seed_variance import SeedVariance
from tests.models.tiny import tiny_checkpoint
from tests.studies.trials import check_finding, finished_runs, trial_of


def test_bins_have_the_papers_edges() -> None:
    sharpness = [0.1, 0.25, 0.4, 0.5, 0.74, 0.75, 1.0]
    table = pd.DataFrame(
        {"max_attention": sharpness, "label": [0, 1] * 3 + [0], "jsd": np.arange(7.0), "seed": 0}
    ).assign(example=list("abcdefg"))
    binned = with_bins(table, ["no", "yes"])
    assert binned["bin"].tolist() == ["0-.25", ".25-.5", ".25-.5", ".5-.75", ".5-.75", ".75-1", ".75-1"]
    summary = by_bin(binned, "jsd")
    assert overall(summary)["mean"] == pytest.approx(3.0)
    row = summary[(summary["max_attention"] == ".25-.5") & (summary["class"] == "yes")].iloc[0]
    assert (row["n"], row["median"]) == (1, 1.0)


def test_the_largest_distance_of_every_text_is_kept(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    study = SeedVariance(subject, other_seeds=(1, 2, 0, 2))  # the base and repetitions do not count
    finding = study.run(context)
    check_finding(finding)
    seeds = finding.tables["seeds"]
    assert set(seeds["seed"]) == {1, 2}
    instances = finding.tables["instances"]
    assert len(instances) == instances["example"].nunique() == 24
    assert (instances["jsd"] >= instances["mean_jsd"] - 1e-12).all()
    means = seeds[seeds["figure"] == "jsd"]["mean"]
    assert instances["mean_jsd"].mean() == pytest.approx(means.mean())
    assert instances["jsd"].mean() >= means.max() - 1e-9
    before = finished_runs(context)
    again = study.run(context)
    assert finished_runs(context) == before
    assert again.verdict == finding.verdict


def test_needs_a_model_to_train_and_other_seeds(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    checkpoint = str(tiny_checkpoint("bert", tmp_path / "bert"))
    with pytest.raises(UserError, match="other seeds"):
        SeedVariance(replace(subject, checkpoint=checkpoint)).run(context)
    with pytest.raises(UserError, match="besides"):
        SeedVariance(subject, other_seeds=(0,)).run(context)
