"""What may listen to a training, and what it leaves beside the weights.

A ``Callback`` is a registered frozen dataclass, so that it is part of a run's specification; ``listen`` makes the
listener that hears of every epoch. What a listener remembers is checkpointed with the run, so that a killed training
goes on as if nothing had happened; at the end it keeps its artefact in the run's folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from torch import Tensor

from rashomon.data.batches import Rows
from rashomon.models.base import Model
from rashomon.models.evaluator import predict
from rashomon.models.tasks import LABEL
from rashomon.progress import Advance
from rashomon.registry import Registry
from rashomon.runs.by_name import make_by_name
from rashomon.runs.files import read_tensors, write_parquet, write_tensors
from rashomon.runs.specifications import to_plain

EpochRecord = Mapping[str, float]
RowsOf = Callable[[str], Rows]  # the rows of a split
CORRECT = "correct.parquet"
OF_ONE_TEXT = {"accuracy": "correct"}  # what a figure is called where it is that of a single text


class Listener:
    """Hears of a training. Every method may be left as it is."""

    def on_epoch_end(self, model: Model, record: EpochRecord) -> None:
        """After every epoch, with the weights of that epoch."""

    def on_end(self, model: Model, folder: Path) -> None:
        """After the last epoch, with the weights that are kept; artefacts go into ``folder``."""

    def state(self) -> dict[str, Tensor]:
        """What must survive a kill."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take up what ``state`` gave."""


@dataclass(frozen=True)
class Callback(ABC):
    """What is to be heard and kept: one more part of a training's specification."""

    name: ClassVar[str]

    @abstractmethod
    def listen(self, rows: RowsOf, folder: Path) -> Listener:
        """A listener for one training whose run lies in ``folder``."""

    def key(self) -> dict[str, Any]:
        return {"name": self.name, **to_plain(self)}


callbacks: Registry[type[Callback]] = Registry("callback", "callbacks", "rashomon.training")


def make_callback(callback: str | Callback) -> Callback:
    """A callback by name, with its settings behind it: ``"dynamics(split=train)"``."""
    return callback if isinstance(callback, Callback) else make_by_name(callbacks, callback)


@dataclass
class ShowProgress(Listener):
    """Moves a progress bar and notes the figure that picks the epoch."""

    advance: Advance
    figure: str

    def on_epoch_end(self, model: Model, record: EpochRecord) -> None:
        value = record.get(self.figure, float("nan"))
        self.advance(1, f"epoch {int(record['epoch'])}: {self.figure} {value:.3f}")


@callbacks.register("dynamics")
@dataclass(frozen=True)
class Dynamics(Callback):
    """Logits of a split after every epoch: what cartography is drawn from."""

    name: ClassVar[str] = "dynamics"
    split: str = "train"

    def listen(self, rows: RowsOf, folder: Path) -> EpochLogits:
        return EpochLogits(rows(self.split), self.split)


@dataclass
class EpochLogits(Listener):
    """Collects logits epoch by epoch and keeps them as ``dynamics-SPLIT.safetensors``."""

    rows: Rows
    split: str
    logits: list[Tensor] = field(default_factory=list)  # each [N, C]

    def on_epoch_end(self, model: Model, record: EpochRecord) -> None:
        self.logits.append(torch.from_numpy(predict(model, self.rows).logits))

    def on_end(self, model: Model, folder: Path) -> None:
        kept = {"logits": torch.stack(self.logits)}
        if LABEL in self.rows.whole.extras:
            kept["label"] = self.rows.whole.extras[LABEL].cpu()
        write_tensors(folder / dynamics_file(self.split), kept)

    def state(self) -> dict[str, Tensor]:
        return {"logits": torch.stack(self.logits)} if self.logits else {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.logits = list(state["logits"]) if "logits" in state else []


def dynamics_file(split: str) -> str:
    return f"dynamics-{split}.safetensors"


def read_dynamics(folder: Path, split: str = "train") -> dict[str, Tensor]:
    """``logits`` ``[epochs, N, C]`` (and ``label`` ``[N]``) as the callback ``dynamics`` kept them."""
    return read_tensors(folder / dynamics_file(split))


@callbacks.register("epoch-models")
@dataclass(frozen=True)
class EpochModels(Callback):
    """The whole model after every epoch, for what is measured over a training."""

    name: ClassVar[str] = "epoch-models"

    def listen(self, rows: RowsOf, folder: Path) -> Listener:
        return _SaveEpochs(folder)


@dataclass
class _SaveEpochs(Listener):
    folder: Path

    def on_epoch_end(self, model: Model, record: EpochRecord) -> None:
        model.save(epoch_folder(self.folder, int(record["epoch"])))


def epoch_folder(folder: Path, epoch: int) -> Path:
    """Where the model of an epoch lies in a run that kept them."""
    return folder / "epochs" / str(epoch)


@callbacks.register("correct-answers")
@dataclass(frozen=True)
class CorrectAnswers(Callback):
    """How right the model is about each test text in the end: ``correct``; of answers, exact match and F1."""

    name: ClassVar[str] = "correct-answers"

    def listen(self, rows: RowsOf, folder: Path) -> Listener:
        return _KeepCorrect(rows)


@dataclass
class _KeepCorrect(Listener):
    rows: RowsOf

    def on_end(self, model: Model, folder: Path) -> None:
        test = self.rows("test")
        assert test.source is not None
        answers = model.task.answers(torch.from_numpy(predict(model, test).logits)).numpy()
        rows = [
            {"example": example.id, **model.task.right(answer, example, encoding)}
            for answer, (example, encoding) in zip(answers, test.source, strict=True)
        ]
        write_parquet(folder / CORRECT, pd.DataFrame(rows).rename(columns=OF_ONE_TEXT))
