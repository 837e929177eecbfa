"""Adversaries through the store: resumed after a kill, tensors shared, siblings of every kind of base."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from rashomon.errors import UserError
from rashomon.experiments import trials
from rashomon.experiments.adversaries import Member, Outcome, Relative, adversary_training, train_adversaries
from rashomon.experiments.context import Context
from rashomon.experiments.subject import GIVEN, Subject
from rashomon.experiments.trials import against_base, prepare, selecting
from rashomon.models.base import Model
from rashomon.models.build import load_model
from rashomon.models.encoders import encoders
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.files import write_parquet
from rashomon.runs.store import Store
from rashomon.training.adversarial import ATTENTION, PROBABILITIES, AttefaAdversary, ModelConsistentAdversary
from tests.models.tiny import dataset, tiny_checkpoint
from tests.studies.trials import FEW, fewer, planted, trial_of

SHORT = fewer(FEW, 2)


@pytest.mark.parametrize("encoder", encoders.names())
@pytest.mark.parametrize("attention", ["additive", "dot"])
def test_every_encoder_and_attention(encoder: str, attention: str, tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, planted(classes=3, size=48), encoder, attention=attention)
    trial = prepare(context, [subject])[0]
    member = Member(trial, AttefaAdversary(trial.reading), adversary_training(trial, fewer(FEW, 1)), 5)
    outcome = train_adversaries(context, [member])[0]
    assert 0 <= outcome.scores["tvd"] <= 1
    assert 0 < outcome.scores["jsd"] <= np.log(2) + 1e-6
    assert len(outcome.instances) == 24
    assert outcome.instances["tvd"].mean() == pytest.approx(outcome.scores["tvd"])


@pytest.mark.parametrize("settings", [{"heads": 2}, {"temperature": 0.5}, {"weights": "sparsemax"}])
def test_heads_and_temperature(settings: dict[str, object], tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, planted(size=48), **settings)
    trial = prepare(context, [subject])[0]
    heads = settings.get("heads", 1)
    assert trial.rows("test").whole.extras[ATTENTION].shape[1] == heads
    objective = ModelConsistentAdversary(trial.reading, 0.01)
    outcome = train_adversaries(context, [Member(trial, objective, adversary_training(trial, SHORT), 1)])[0]
    assert np.isfinite(outcome.scores["jsd"])


@pytest.mark.parametrize(
    ("own", "base", "gave_up"),
    [
        ([0] * 100, [0, 1] * 50, True),
        ([2] * 99 + [1], [0, 1, 2, 2] * 25, True),
        ([0] * 98 + [1] * 2, [0, 1] * 50, False),
        ([0] * 100, [0] * 95 + [1] * 5, False),  # so does the base
    ],
)
def test_an_adversary_that_calls_every_text_the_same_has_given_up(
    own: list[int], base: list[int], gave_up: bool, tmp_path: Path
) -> None:
    write_parquet(tmp_path / "instances.parquet", pd.DataFrame({"class": own, "base_class": base}))
    assert Outcome(None, tmp_path, 1, 1, {}, {}).gave_up is gave_up  # type: ignore[arg-type]


def test_a_base_against_itself_is_at_distance_zero(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, model="bilstm", heads=2)
    trial = prepare(context, [subject])[0]
    table = against_base(trial, trial.base_model())
    assert table[["tvd", "jsd"]].abs().max().max() < 1e-5
    assert (table["base_class"] == table["class"]).all()


def test_pairs(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, dataset(pair=True), "gru")
    trial = prepare(context, [subject])[0]
    attention = trial.rows("test").whole.extras[ATTENTION]
    assert torch.allclose(attention.sum(-1), torch.ones(4, 1), atol=1e-5)
    objective = AttefaAdversary(trial.reading)
    outcome = train_adversaries(context, [Member(trial, objective, adversary_training(trial, SHORT), 1)])[0]
    assert outcome.scores["jsd"] <= np.log(2) + 1e-6


def test_relatives_start_afresh_or_near_the_base_or_from_the_same_checkpoint(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    trial = prepare(context, [subject])[0]
    base = trial.base_model()
    first, again, other = (Relative(trial.base).build(seed) for seed in (1, 1, 2))
    assert first.fingerprint() == again.fingerprint() != other.fingerprint()
    assert first.labels == base.labels
    assert far_from(base, first) > 0.5
    assert 0 < far_from(base, Relative(trial.base, warm=True).build(1)) < 0.2
    folder = tiny_checkpoint("bert", tmp_path / "bert")
    known = load_model(folder)
    near, nearby = (Relative(folder).build(seed) for seed in (3, 4))
    assert near.fingerprint() not in (known.fingerprint(), nearby.fingerprint())
    assert 0 < far_from(known, near) < 0.2
    fresh = Relative(folder, ModelSpec(name=str(folder))).build(3)
    assert fresh.labels == known.labels


def far_from(base: Model, other: Model) -> float:
    """The largest spread of the difference of two matrices, in spreads of the base's."""
    weights = base.state_dict()
    spreads = [
        float((tensor - weights[name]).std() / weights[name].std())
        for name, tensor in other.state_dict().items()
        if tensor.dim() > 1
    ]
    return max(spreads)


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta"])
@pytest.mark.parametrize("reading", [None, "rollout"])
def test_fine_tuned_transformers(kind: str, reading: str | None, tmp_path: Path) -> None:
    folder = tiny_checkpoint(kind, tmp_path / kind)
    context = Context(Store(tmp_path / "store"), workers=1)
    subject = Subject(context.adopt(dataset()), checkpoint=str(folder))
    trial = prepare(context, [subject], reading)[0]  # type: ignore[arg-type]
    assert trial.reading == (reading or "mean")
    assert not trial.fresh
    training = replace(adversary_training(trial, None), epochs=40, batch_size=2, learning_rate=2e-3)
    members = [Member(trial, ModelConsistentAdversary(trial.reading, w), training, 1) for w in (0.0, 1.0)]
    members += [Member(trial, AttefaAdversary(trial.reading), training, seed) for seed in (1, 2)]
    still, moved, first, second = train_adversaries(context, members)
    assert moved.scores["jsd"] > max(
        0.05, 4 * still.scores["jsd"]
    )  # it does not rest at the base, where no slope is
    assert still.scores["tvd"] < 0.15
    assert first.scores["jsd"] > 0.05
    assert first.scores != second.scores


def test_labels_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, planted("mock-5"))
    base = context.folders(subject)[0] / "model"
    right = prepare(context, [subject])[0]
    data = right.data
    turned = {
        split: tuple(replace(e, label=1 - e.label) for e in data[split] if e.label is not None)
        for split in data
    }
    reversed_ = context.adopt(replace(data, splits=turned, labels=data.labels[::-1]))
    trial = prepare(context, [Subject(reversed_, checkpoint=str(base))])[0]
    assert trial.base_scores == pytest.approx(right.base_scores)
    assert trial.data.labels == data.labels


def test_attention_that_is_not_learned_is_refused(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    with pytest.raises(UserError, match="uniform, not learned"):
        prepare(context, [subject.with_model(weights="uniform")])


def test_a_given_model_is_kept_and_used(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    model = prepare(context, [subject])[0].base_model()
    context.given_model = model
    trial = prepare(context, [replace(subject, checkpoint=GIVEN)])[0]
    assert trial.base_model().fingerprint() == model.fingerprint()


def test_selection_on_test_is_a_different_run(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    published = selecting(context, [subject.dataset], "test")
    assert published.dataset(subject.dataset)["dev"] == context.dataset(subject.dataset)["test"]
    assert context.dataset(subject.dataset)["dev"] != context.dataset(subject.dataset)["test"]
    assert selecting(context, [subject.dataset], "dev") is context
    assert prepare(published, [subject])[0].folder != prepare(context, [subject])[0].folder


def test_base_outputs_are_read_once_for_all_members(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    trial = prepare(context, [subject])[0]
    trials._read_rows.cache_clear()
    members = [
        Member(trial, AttefaAdversary(), adversary_training(trial, fewer(FEW, 1)), s) for s in (1, 2, 3)
    ]
    train_adversaries(context, members)
    assert trials._read_rows.cache_info().misses == 3  # train, dev and test
    assert trial.rows("test").whole.extras[PROBABILITIES].shape == (24, 2)


def sweep(place: Path) -> list[tuple[int, float, float]]:
    """Five lambdas on a dataset and in a store below ``place``."""
    context, subject = trial_of(place)
    trial = prepare(context, [subject])[0]
    training = adversary_training(trial, fewer(FEW, 20))
    objectives = [ModelConsistentAdversary(trial.reading, w) for w in (0.0, 1e-3, 1e-2, 1e-1, 1.0)]
    outcomes = train_adversaries(context, [Member(trial, objective, training, 1) for objective in objectives])
    return [(outcome.epoch, outcome.scores["tvd"], outcome.scores["jsd"]) for outcome in outcomes]


def test_a_sweep_killed_halfway_goes_on_where_it_was(tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    code = f"from pathlib import Path; from {__name__} import sweep; sweep(Path({str(killed)!r}))"
    process = subprocess.Popen([sys.executable, "-c", code])
    folder = killed / "store" / "adversaries"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if len(finished_in(folder)) >= 2:
            break
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = finished_in(folder)
    assert 2 <= len(before) < 5
    written = {path: (path / "history.json").stat().st_mtime_ns for path in before}
    assert sweep(killed) == sweep(tmp_path / "whole")
    assert len(finished_in(folder)) == 5
    assert all((path / "history.json").stat().st_mtime_ns == then for path, then in written.items())


def finished_in(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*") if not path.name.endswith(".partial")]
