"""Adversaries of a base model on trial, trained side by side through the store.

Each is a ``TrainingRun`` like any other: it starts from another seed, or near the base (``warm``), its rows carry the
base's outputs, and it keeps how far every test text has moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pandas as pd
import torch

from rashomon.data import Dataset
from rashomon.experiments.context import Context, Work
from rashomon.experiments.subject import Subject
from rashomon.experiments.trials import StoredRows, Trial, instance_table
from rashomon.models.base import Model, best_device
from rashomon.models.build import build_model, is_pretrained, load_model
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.files import read_parquet, write_parquet
from rashomon.runs.specifications import Plain, content_hash
from rashomon.training.adversarial import Adversary, Reading, distances
from rashomon.training.callbacks import Callback, Listener, RowsOf, callbacks
from rashomon.training.objectives import LOWER_IS_BETTER
from rashomon.training.run import MODEL, TrainingRun, model_key, read_history
from rashomon.training.settings import FINE_TUNING, TrainingSpec

SHAKE = 0.1
GIVEN_UP, CONSTANT_BASE = 0.99, 0.9  # shares of the commonest class, of an adversary and of its base
# An adversary that has found nothing, or all there is, creeps on by millionths; that does not keep it alive.
LEAST_GAIN = 1e-4
# As in paper *not-not*, it trains for as long as its own loss falls: what moves the attention comes late.
ADVERSARY = TrainingSpec(epochs=80, patience=10, least_gain=LEAST_GAIN, select="train-loss")
FINE_TUNED_ADVERSARY = replace(
    FINE_TUNING, epochs=20, patience=5, least_gain=LEAST_GAIN, select="loss", warmup=0.0
)
KIND = "adversaries"
INSTANCES = "instances.parquet"


def usual_adversary(subject: Subject) -> TrainingSpec:
    """How adversaries of this subject are trained where nothing is said: from nothing, or as one fine-tunes."""
    fine_tuned = subject.checkpoint is not None or is_pretrained(subject.model.name)
    return FINE_TUNED_ADVERSARY if fine_tuned else ADVERSARY


def adversary_training(trial: Trial, asked: TrainingSpec | None) -> TrainingSpec:
    """How adversaries are trained: as asked, else what suits the base; the epoch is chosen by a loss."""
    training = asked or (ADVERSARY if trial.fresh else FINE_TUNED_ADVERSARY)
    return training if training.select in LOWER_IS_BETTER else replace(training, select="loss")


@dataclass(frozen=True)
class Relative:
    """A model of the base's architecture: freshly seeded, where both were pretrained, or near the base.

    Of a transformer of which nothing but the fine-tuned checkpoint is known, the copy begins close to that: at the
    very place it would stay, since neither distance has a slope at 0.
    """

    base: Path
    pretrained: ModelSpec | None = None  # what both base and relative start from
    warm: bool = False  # near the base, also where it could start from nothing

    def key(self) -> Plain:
        origin = None if self.pretrained is None else model_key(self.pretrained)
        return {"base": content_hash(self.base), "pretrained": origin, "warm": self.warm}

    def build(self, seed: int) -> Model:
        base = load_model(self.base)
        if self.warm:
            return shaken(base, seed)
        if self.pretrained is not None:
            return build_model(self.pretrained, Dataset("labels", {}, base.labels), seed)
        return base.fresh(seed) if "fresh" in base.capabilities else shaken(base, seed)


def shaken(model: Model, seed: int) -> Model:
    """The model with every matrix moved at random by a small share of its own spread."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                noise = torch.randn(weights.shape, generator=generator).to(weights)
                weights.add_(noise, alpha=SHAKE * float(weights.std()))
    return model


@callbacks.register("distances-from-base")
@dataclass(frozen=True)
class DistancesFromBase(Callback):
    """How far every test text's prediction and attention are from the base's in the end."""

    name: ClassVar[str] = "distances-from-base"
    reading: Reading = "heads"

    def listen(self, rows: RowsOf, folder: Path) -> Listener:
        return _KeepDistances(rows, self.reading)


@dataclass
class _KeepDistances(Listener):
    rows: RowsOf
    reading: Reading

    def on_end(self, model: Model, folder: Path) -> None:
        test = self.rows("test")
        write_parquet(folder / INSTANCES, instance_table(distances(model, test, self.reading), test))


@dataclass(frozen=True)
class Member:
    """One adversary of a sweep."""

    trial: Trial
    objective: Adversary
    training: TrainingSpec
    seed: int
    warm: bool = False

    def run(self) -> TrainingRun:
        subject = self.trial.subject
        pretrained = subject.checkpoint is None and is_pretrained(subject.model.name)
        return TrainingRun(
            Relative(self.trial.base, subject.model if pretrained else None, self.warm),
            StoredRows(self.trial.folder),
            self.training,
            self.seed,
            self.objective,
            (DistancesFromBase(self.trial.reading),),
            title=f"an adversary of {subject.describe()}",
        )


@dataclass(frozen=True)
class Outcome:
    """What became of a member: its figures on test and on dev, and its folder."""

    member: Member
    folder: Path
    epoch: int  # the one that was kept
    epochs: int  # how many there were
    scores: Mapping[str, float]  # tvd (0..1), jsd, kl, and f1 and accuracy where there are labels
    dev: Mapping[str, float]

    @property
    def instances(self) -> pd.DataFrame:
        return read_parquet(self.folder / INSTANCES)

    @property
    def gave_up(self) -> bool:
        """Whether it calls nearly every text the same although the base does not: it no longer imitates."""
        table = self.instances
        own, base = (table[column].value_counts(normalize=True).max() for column in ("class", "base_class"))
        return bool(own >= GIVEN_UP and base < CONSTANT_BASE)

    @property
    def was_cut_off(self) -> bool:
        """Whether the kept epoch is the last that it was given, so that it might have gone on."""
        return self.epoch >= self.member.training.epochs

    def model(self) -> Model:
        return load_model(self.folder / MODEL).to(best_device())


def adversary_work(context: Context, members: Sequence[Member]) -> list[Work]:
    """What ``train_adversaries`` would have to do, for those who have other work to do beside it."""
    runs = [member.run() for member in members]
    return context.missing([run.key() for run in runs], KIND, [run.make for run in runs])


def train_adversaries(context: Context, members: Sequence[Member]) -> list[Outcome]:
    """The outcomes of all members; those that are not in the store are trained side by side."""
    folders = context.train_runs([member.run() for member in members], KIND)
    outcomes = []
    for member, folder in zip(members, folders, strict=True):
        history, scores = read_history(folder)
        outcomes.append(
            Outcome(member, folder, history.best, len(history.records), scores["test"], history.best_record)
        )
    return outcomes
