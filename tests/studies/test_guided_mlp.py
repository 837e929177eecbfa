"""The guided MLP: weights find their words, guides reach the model, and a good guide helps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rashomon.data.batches import Encoding
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.runs.store import Store
from rashomon.studies.guided_mlp import GuidedMlp, _compare, _Given, _verdict
from tests.models.tiny import dataset, tiny_checkpoint
from tests.studies.trials import FEW, check_finding, fewer, finished_runs, planted, trial_of


def encoding(word_ids: list[int], segments: list[int]) -> Encoding:
    count = len(word_ids)
    empty = np.zeros((count, 2), dtype=np.int64)
    ids = np.arange(count)
    words = np.array(word_ids)
    return Encoding("e", ("t",) * count, ids, np.array(segments), np.zeros(count, bool), words, empty, ids)


def test_weights_follow_the_words_of_each_segment() -> None:
    # [CLS] wit ##ty film [SEP] fun [SEP]
    given = _Given(
        np.array([9.0, 0.1, 0.2, 0.3, 9.0, 0.4, 9.0]),
        np.array([0, 0, 0, 0, 0, 1, 1]),
        np.array([-1, 0, 0, 1, -1, 0, -1]),
    )
    assert given.onto(encoding([0, 1, 0], [0, 0, 1])) == pytest.approx([0.3, 0.3, 0.4])
    assert given.onto(encoding([1, 1, 2], [0, 0, 0])) == pytest.approx([0.15, 0.15, 0.0])  # shared; unknown


def test_every_kind_of_guide(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, planted("mock-5", size=64), "bilstm")
    guides = ("uniform", "own", "base", "adversary", "gradient-x-input")
    study = GuidedMlp(subject, guides, seeds=(0, 1), adversary=fewer(FEW, 1), training=fewer(FEW, 2))
    finding = study.run(context)
    check_finding(finding)
    summary = finding.tables["summary"]
    assert summary["guide"].unique().tolist() == list(guides)
    assert (summary["n"] == 2).all()
    assert len(finding.tables["instances"]) == 5 * 2 * 24
    compared = finding.tables["comparison"]
    assert len(compared) == 9
    assert set(compared["test"]) == {"hierarchical t"}
    assert set(compared["interval"]) == set(summary["interval"]) == {"range"}
    assert finding.verdict.startswith("Under 3 seeds nobody can tell the training's luck")
    assert ("adversary", "base") in set(zip(compared["guide"], compared["against"], strict=True))
    gaps = finding.tables["gaps"].set_index(["guide", "than", "figure"])["difference"]
    seeds = finding.tables["seeds"].set_index(["guide", "seed"])["f1"]
    assert gaps["base", "own", "f1"] == pytest.approx((seeds["base"] - seeds["own"]).mean())
    assert gaps["own", "base", "f1"] == pytest.approx(-gaps["base", "own", "f1"])
    guides_kept = [run for run in finished_runs(context) if run.startswith("guides/")]
    assert len(guides_kept) == 3  # base, adversary and explainer: three different sets of weights
    assert study.run(context).verdict == finding.verdict


def test_a_guide_that_knows_the_planted_word_beats_uniform(tmp_path: Path) -> None:
    data = planted("mock-1", size=400)
    context, subject = trial_of(tmp_path, data)
    # A base that was trained well on the same texts is not needed: leave-one-out of the MLP points at the word.
    subject = replace(subject, training=replace(FEW, epochs=12))
    finding = GuidedMlp(
        subject, ("uniform", "leave-one-out"), seeds=(0,), training=replace(FEW, epochs=6)
    ).run(context)
    scores = finding.tables["seeds"].set_index("guide")["loss"]
    assert scores["leave-one-out"] < scores["uniform"]


def test_a_transformer_guides_the_words(tmp_path: Path) -> None:
    context = Context(Store(tmp_path / "store"), workers=1)
    subject = Subject(context.adopt(dataset()), checkpoint=str(tiny_checkpoint("bert", tmp_path / "bert")))
    finding = GuidedMlp(subject, ("uniform", "base"), seeds=(0,), training=fewer(FEW, 1)).run(context)
    check_finding(finding)


def test_unknown_guides_and_missing_labels_are_refused(tmp_path: Path) -> None:
    data = planted(size=32)
    context, subject = trial_of(tmp_path, data)
    with pytest.raises(UserError, match="guide"):
        GuidedMlp(subject, ("unifrom",)).run(context)
    bare = tuple(replace(example, label=None) for example in data["test"])
    context, subject = trial_of(tmp_path, replace(data, splits={**data.splits, "test": bare}))
    with pytest.raises(UserError, match="labels"):
        GuidedMlp(subject).run(context)


def _trials(shares: dict[str, tuple[float, ...]]) -> pd.DataFrame:
    texts = [f"e{i}" for i in range(200)]
    parts = [
        pd.DataFrame(
            {"guide": guide, "seed": s, "example": texts, "correct": (np.arange(200) < 200 * share) * 1.0}
        )
        for guide, by_seed in shares.items()
        for s, share in enumerate(by_seed)
    ]
    return pd.concat(parts, ignore_index=True)


def test_guides_are_compared_over_seeds_and_texts() -> None:
    luck = _compare(_trials({"uniform": (0.7, 0.7, 0.8), "base": (0.9, 0.9, 0.6)})).iloc[0]
    assert (luck["guide"], luck["against"], luck["seeds"]) == ("base", "uniform", 3)
    assert luck["difference"] == pytest.approx(0.2 / 3)
    assert luck["p_holm"] > 0.3
    sure = _compare(_trials({"uniform": (0.70, 0.71, 0.70), "base": (0.90, 0.91, 0.90)})).iloc[0]
    assert sure["p_holm"] < 0.001
    assert 0.1 < sure["low"] < 0.2 < sure["high"] < 0.3
    assert _compare(_trials({"lime": (0.5,)})).empty


@pytest.mark.parametrize(
    ("base", "seeds", "said"),
    [
        (0.2, 3, "(accuracy under the base's minus under uniform weights 0.200 [0.100, 0.300];"),
        (-0.2, 3, "was not shown to help"),
        (0.2, 2, "Under 3 seeds nobody can tell"),
    ],
)
def test_the_verdict_on_a_guide(base: float, seeds: int, said: str) -> None:
    row = {"guide": "base", "against": "uniform", "seeds": seeds, "difference": base, "p_holm": 0.01}
    row |= {"low": base - 0.1, "high": base + 0.1, "interval": "95 %"}
    worse = row | {"guide": "adversary", "against": "base", "difference": -0.1}
    figure = {"figure": "f1", "guide": "base", "mean": 0.5, "low": 0.4, "high": 0.6, "interval": "95 %"}
    verdict = _verdict(pd.DataFrame([figure]), pd.DataFrame([row, worse]))
    assert said in verdict
    assert ("carries information" in verdict) == (base > 0 and seeds == 3)
    assert ("worse guide" in verdict) == (seeds == 3)
    assert "base 0.50 [0.40, 0.60]" in verdict
