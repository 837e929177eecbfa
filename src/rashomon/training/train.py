"""Train a model on a dataset in one call."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from rashomon.data.example import Dataset, require_labels
from rashomon.errors import UserError
from rashomon.models.base import Model
from rashomon.models.build import build_model, is_pretrained
from rashomon.models.evaluator import predict, rows_of
from rashomon.models.label_names import in_model_labels
from rashomon.models.model_spec import ModelSpec
from rashomon.progress import progress
from rashomon.training.callbacks import Callback, ShowProgress
from rashomon.training.loop import History, fit
from rashomon.training.objectives import CrossEntropy, classification_scores
from rashomon.training.settings import FINE_TUNING, TrainingSpec


@dataclass(frozen=True)
class Trained:
    """A model, how it came to be, and its figures by split."""

    model: Model
    history: History
    scores: dict[str, dict[str, float]] = field(default_factory=dict)


def default_training(model: ModelSpec) -> TrainingSpec:
    """The papers' settings: Adam at 1e-3 from scratch, AdamW with warm-up for what is pretrained."""
    return FINE_TUNING if is_pretrained(model.name) else TrainingSpec()


def best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def train_model(
    model: ModelSpec,
    data: Dataset,
    training: TrainingSpec,
    *,
    seed: int,
    callbacks: Sequence[Callback] = (),
    checkpoint: Path | None = None,
) -> Trained:
    """Build the model, train it on ``train`` and keep the epoch that is best on ``dev``."""
    for split in ("train", "dev"):
        require_labels(data[split], f"Training on {data.name}")
        if not data[split]:
            raise UserError(f"The {split} split of {data.name} is empty.")
    built = build_model(model, data, seed).to(best_device())
    train, dev = rows_of(built, data["train"]), rows_of(built, data["dev"])
    with progress(f"training {model.name} on {data.name}, seed {seed}", training.epochs) as advance:
        history = fit(
            built,
            train,
            dev,
            CrossEntropy(),
            training,
            seed=seed,
            callbacks=[*callbacks, ShowProgress(advance, training.select)],
            checkpoint=checkpoint,
        )
    return Trained(built, history)


def train(model: str | ModelSpec, data: Dataset, *, seed: int = 0, **settings: Any) -> Model:
    """Train a model by name and return it.

    ``settings`` are fields of ``ModelSpec`` or ``TrainingSpec`` (``hidden=150``, ``epochs=5`` ...).
    """
    spec = ModelSpec(name=model) if isinstance(model, str) else model
    for_model = {key: value for key, value in settings.items() if key in ModelSpec.__dataclass_fields__}
    for_training = {key: value for key, value in settings.items() if key not in for_model}
    unknown = sorted(set(for_training) - set(TrainingSpec.__dataclass_fields__))
    if unknown:
        raise UserError(f"Neither a model nor a training has a setting {unknown[0]!r}.")
    spec = replace(spec, **for_model)
    return train_model(spec, data, replace(default_training(spec), **for_training), seed=seed).model


def evaluate(model: Model, data: Dataset, split: str = "test") -> dict[str, float]:
    """Loss, accuracy, F1 and ROC-AUC of a model on a split, labels matched with the model's classes by name."""
    require_labels(data[split], "Evaluation")
    notes: list[str] = []
    data = in_model_labels(data, model, notes)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    require_labels(data[split], "Evaluation")  # none are left where they could not be matched
    rows = rows_of(model, data[split])
    labels = rows.whole.extras["label"].cpu().numpy()
    return classification_scores(predict(model, rows).probabilities, labels)
