"""A training that takes its time, to be killed: run in a process of its own by the tests of the context."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from rashomon.experiments.context import Context
from rashomon.models.base import Model
from rashomon.runs.store import Store
from rashomon.training import loop
from rashomon.training.callbacks import EpochRecord, ShowProgress
from rashomon.training.run import TrainingRun
from tests.studies.planted import QUICK, subject_in

LONG = replace(QUICK, epochs=8)


def train_slowly(store: Path, log: Path) -> None:
    note, make = ShowProgress.on_epoch_end, TrainingRun.make

    def slow(self: ShowProgress, model: Model, record: EpochRecord) -> None:
        time.sleep(0.1)
        note(self, model, record)

    def logged(self: TrainingRun, folder: Path) -> None:
        with log.open("a") as lines:
            lines.write("training\n")
        make(self, folder)

    loop.CHECKPOINT_SECONDS = 0.0
    ShowProgress.on_epoch_end = slow  # type: ignore[method-assign]
    TrainingRun.make = logged  # type: ignore[method-assign]
    context = Context(Store(store), workers=1)
    context.models(subject_in(context, training=LONG))
