"""Seed variance: the largest distance over seeds, binned by sharpness and class."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from rashomon.errors import UserError
from rashomon.experiments.attention_bins import by_bin, overall, with_bins
from rashomon.experiments.trials import prepare
from rashomon.measures.divergence import jsd
from rashomon.models.evaluator import predict, rows_of
from rashomon.studies.seed_variance import SeedVariance, _verdict
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
    (between,) = finding.tables["between"].to_dict("records")
    assert between["models"] == 3
    assert "too few" in finding.verdict
    trial = prepare(context, [study.base])[0]
    models = [trial.base_model(), *(t.model for t in context.trained([replace(study.base, seeds=(1, 2))])[0])]
    pairs = [
        jsd(*(predict(m, rows_of(m, trial.data["test"]), attention=True).attention[:, 0] for m in two))
        for two in combinations(models, 2)
    ]
    assert between["mean"] == pytest.approx(float(torch.stack(pairs).mean()), abs=1e-5)
    before = finished_runs(context)
    again = study.run(context)
    assert finished_runs(context) == before
    assert again.verdict == finding.verdict


@pytest.mark.parametrize(
    ("mean", "models", "words"),
    [
        (0.01, 3, "too few"),
        (0.6, 3, "too few"),
        (0.01, 4, "stable over seeds"),
        (0.3, 4, "moves noticeably"),
        (0.4, 9, "accident of the seed"),
    ],
)
def test_the_verdict_goes_by_the_distance_between_every_two(mean: float, models: int, words: str) -> None:
    row = {"n": 50, "mean": mean, "low": mean, "high": mean, "interval": "95 %"}
    assert words in _verdict(row, models)


def test_needs_a_model_to_train_and_other_seeds(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    checkpoint = str(tiny_checkpoint("bert", tmp_path / "bert"))
    with pytest.raises(UserError, match="other seeds"):
        SeedVariance(replace(subject, checkpoint=checkpoint)).run(context)
    with pytest.raises(UserError, match="besides"):
        SeedVariance(subject, other_seeds=(0,)).run(context)
