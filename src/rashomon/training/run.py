"""One training by specification: base models, adversaries, guided MLPs, regularised models and students alike.

``key()`` is all that decides the numbers; ``make(folder)`` builds the model, trains it with checkpoints, and leaves the
weights, the history and what the callbacks keep. Where the model begins (``Start``) and where its rows come from
(``RowSource``) are small things of their own, so that one class serves them all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Protocol

from rashomon.data.batches import Rows
from rashomon.data.example import Dataset, Example
from rashomon.errors import UserError
from rashomon.models.base import Model, best_device
from rashomon.models.build import build_model, load_model
from rashomon.models.evaluator import rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.progress import progress
from rashomon.runs.files import read_json, write_json
from rashomon.runs.specifications import Plain, content_hash, to_plain
from rashomon.training.callbacks import Callback, ShowProgress
from rashomon.training.loop import History, fit
from rashomon.training.objectives import CrossEntropy, Objective
from rashomon.training.settings import TrainingSpec

MODEL, HISTORY, CHECKPOINT = "model", "history.json", "checkpoint.safetensors"
SPLITS = ("train", "dev", "test")


class Start(Protocol):
    """Where a training begins."""

    def key(self) -> Plain: ...

    def build(self, seed: int) -> Model: ...


class RowSource(Protocol):
    """What is trained on: the rows of each split, with what travels beside them."""

    def key(self) -> Plain: ...

    def rows(self, model: Model, split: str) -> Rows: ...

    def splits(self) -> Sequence[str]:
        """Those that the model is scored on at the end."""
        ...


@dataclass(frozen=True)
class NewModel:
    """A model by its specification, its vocabulary that of the data."""

    spec: ModelSpec
    data: Dataset

    def key(self) -> Plain:
        return {"model": model_key(self.spec), "dataset": self.data.fingerprint}

    def build(self, seed: int) -> Model:
        return build_model(self.spec, self.data, seed)


@dataclass(frozen=True)
class DatasetRows:
    """The splits of a dataset as the model reads them."""

    data: Dataset

    def key(self) -> Plain:
        return self.data.fingerprint

    def rows(self, model: Model, split: str) -> Rows:
        return rows_of(model, self.data[split])

    def splits(self) -> Sequence[str]:
        return [split for split in self.data if self.data[split] and _has_targets(self.data[split])]


@dataclass(frozen=True)
class Trained:
    """A model, how it came to be, its figures by split, and where it is kept."""

    model: Model
    history: History
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    folder: Path | None = None


@dataclass(frozen=True)
class TrainingRun:
    """One training: its parts decide its numbers."""

    start: Start
    source: RowSource
    training: TrainingSpec
    seed: int
    objective: Objective = field(default_factory=CrossEntropy)
    callbacks: tuple[Callback, ...] = ()
    title: str = "a model"  # for the progress bar
    keeps_weights: bool = True  # false: what callbacks keep is all that anyone wants of it

    def key(self) -> dict[str, Plain]:
        return {
            "start": self.start.key(),
            "rows": self.source.key(),
            "training": to_plain(self.training),
            "objective": self.objective.key(),
            "callbacks": [callback.key() for callback in self.callbacks],
            "seed": self.seed,
        }

    def make(self, folder: Path) -> None:
        """Train into ``folder``, going on from the checkpoint that a killed attempt left there."""
        trained = self.train(folder)
        if self.keeps_weights:
            trained.model.save(folder / MODEL)
        history = {"records": trained.history.records, "best": trained.history.best}
        write_json(folder / HISTORY, {**history, "scores": trained.scores})
        (folder / CHECKPOINT).unlink(missing_ok=True)

    def train(self, folder: Path | None = None) -> Trained:
        """The trained model; without a folder nothing is written, and callbacks have nowhere to keep anything."""
        model = self.start.build(self.seed).to(best_device())
        rows = cache(partial(self.source.rows, model))
        listeners = [] if folder is None else [callback.listen(rows, folder) for callback in self.callbacks]
        with progress(f"training {self.title}, seed {self.seed}", self.training.epochs) as advance:
            history = fit(
                model,
                rows("train"),
                rows("dev"),
                self.objective,
                self.training,
                seed=self.seed,
                listeners=[*listeners, ShowProgress(advance, self.training.select)],
                checkpoint=None if folder is None else folder / CHECKPOINT,
            )
        for listener in listeners:
            assert folder is not None
            listener.on_end(model, folder)
        scores = {split: self.objective.scores(model, rows(split)) for split in self.source.splits()}
        return Trained(model, history, scores, folder)


def read_history(folder: Path) -> tuple[History, dict[str, dict[str, float]]]:
    """The history of a finished run and its scores by split; undefined figures are NaN again."""
    record = read_json(folder / HISTORY)
    records = [_numbers(epoch) for epoch in record["records"]]
    scores = {split: _numbers(figures) for split, figures in record["scores"].items()}
    return History(records, record["best"]), scores


def read_trained(folder: Path) -> Trained:
    """A finished run, its model on the best device."""
    history, scores = read_history(folder)
    return Trained(load_model(folder / MODEL).to(best_device()), history, scores, folder)


def _numbers(figures: dict[str, float | None]) -> dict[str, float]:
    return {name: float("nan") if value is None else value for name, value in figures.items()}


def model_key(model: ModelSpec) -> Plain:
    """A model's specification with files by content, so that moving a file changes nothing."""
    plain = to_plain(model)
    assert isinstance(plain, dict)
    if model.embedding_scale is None:
        del plain["embedding_scale"]  # what is left as it is has the name it always had
    if not model.decay_embeddings:
        del plain["decay_embeddings"]
    if model.embeddings is not None:
        if not Path(model.embeddings).is_file():
            raise UserError(f"There is no file of word vectors at {model.embeddings}.")
        plain["embeddings"] = content_hash(Path(model.embeddings))
    folder = Path(model.name).expanduser()
    if folder.is_dir() and not model.is_builtin:  # a folder that happens to be called bilstm is none of ours
        plain["name"] = json.dumps(content_hash(folder))
    return plain


def _has_targets(examples: Sequence[Example]) -> bool:
    return all(example.label is not None or example.answers for example in examples)
