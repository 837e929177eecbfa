"""A training that takes its time, to be killed: run in a process of its own by the tests of the context."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from rashomon.experiments import context as module
from rashomon.models.base import Model
from rashomon.runs.store import Store
from rashomon.training.callbacks import EpochRecord, ShowProgress
from rashomon.training.train import train_model
from tests.studies.planted import QUICK, subject_in

LONG = replace(QUICK, epochs=8)


def train_slowly(store: Path, log: Path) -> None:
    note = ShowProgress.on_epoch_end

    def slow(self: ShowProgress, model: Model, record: EpochRecord) -> None:
        time.sleep(0.1)
        note(self, model, record)

    def told(*arguments, **options):  # type: ignore[no-untyped-def]
        with log.open("a") as lines:
            lines.write("training\n")
        return train_model(*arguments, **options)

    ShowProgress.on_epoch_end = slow  # type: ignore[method-assign]
    module.train_model = told
    context = module.Context(Store(store), workers=1)
    context.models(subject_in(context, training=LONG))
