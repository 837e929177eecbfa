"""The guided MLP: weights find their words, guides reach the model, and a good guide helps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rashomon.data.batches import Encoding
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.runs.store import Store
from rashomon.studies.guided_mlp import GuidedMlp, _Given
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
    assert ("adversary", "base") in set(zip(compared["guide"], compared["against"], strict=True))
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
