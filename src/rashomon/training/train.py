"""Train a model on a dataset in one call, and say how good it is."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from rashomon.data.example import Dataset, Example, require_labels
from rashomon.errors import UserError
from rashomon.models.base import Model
from rashomon.models.build import is_pretrained
from rashomon.models.evaluator import rows_of, scores_of
from rashomon.models.label_names import in_model_labels
from rashomon.models.model_spec import ModelSpec
from rashomon.models.tasks import SPAN, task_of
from rashomon.training.objectives import Objective, make_objective
from rashomon.training.run import DatasetRows, NewModel, TrainingRun
from rashomon.training.settings import ANSWERING, FINE_TUNING, TrainingSpec


def default_training(model: ModelSpec, data: Dataset | None = None) -> TrainingSpec:
    """The papers' settings: Adam at 1e-3 from scratch, AdamW with warm-up for what is pretrained.

    With questions as ``data``, small batches and more epochs: a head for answers has much to learn from few of them.
    """
    if data is not None and task_of(data) is SPAN:
        return ANSWERING
    return FINE_TUNING if is_pretrained(model.name) else TrainingSpec()


def training_run(
    model: ModelSpec,
    data: Dataset,
    training: TrainingSpec,
    seed: int,
    objective: str | Objective = "cross-entropy",
    callbacks: tuple[str, ...] = (),
) -> TrainingRun:
    """The training of a model on ``train``, keeping the epoch that is best on ``dev``."""
    from rashomon.training.callbacks import make_callback

    for split in ("train", "dev"):
        if not data[split]:
            raise UserError(f"The {split} split of {data.name} is empty.")
        require_targets(data, split, f"Training on {data.name}")
    if task_of(data) is SPAN and training.select not in (*SPAN.figures, "loss", "train-loss"):
        training = replace(training, select="f1")  # the figures of classes are not those of answers
    return TrainingRun(
        NewModel(model, data),
        DatasetRows(data),
        training,
        seed,
        make_objective(objective),
        tuple(make_callback(callback) for callback in callbacks),
        title=f"{model.name} on {data.name}",
    )


def train(model: str | ModelSpec, data: Dataset, *, seed: int = 0, **settings: Any) -> Model:
    """Train a model by name and return it.

    ``settings`` are fields of ``ModelSpec`` or ``TrainingSpec`` (``hidden=150``, ``epochs=5`` ...), and ``objective``.
    """
    spec = ModelSpec(name=model) if isinstance(model, str) else model
    objective = settings.pop("objective", "cross-entropy")
    for_model = {key: value for key, value in settings.items() if key in ModelSpec.__dataclass_fields__}
    for_training = {key: value for key, value in settings.items() if key not in for_model}
    unknown = sorted(set(for_training) - set(TrainingSpec.__dataclass_fields__))
    if unknown:
        raise UserError(f"Neither a model nor a training has a setting {unknown[0]!r}.")
    spec = replace(spec, **for_model)
    training = replace(default_training(spec, data), **for_training)
    return training_run(spec, data, training, seed, objective).train().model


def evaluate(model: Model, data: Dataset, split: str = "test") -> dict[str, float]:
    """The loss and the figures of a model on a split, labels matched with the model's classes by name."""
    require_targets(data, split, "Evaluation")
    notes: list[str] = []
    data = in_model_labels(data, model, notes)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    require_targets(data, split, "Evaluation")  # none are left where they could not be matched
    return scores_of(model, rows_of(model, data[split]))


def require_targets(data: Dataset, split: str, what: str) -> None:
    """Refuse examples without what the task wants to know of them: a label, or an answer."""
    if task_of(data) is not SPAN:
        require_labels(data[split], what)
        return
    missing: Example | None = next((example for example in data[split] if not example.answers), None)
    if missing is not None:
        raise UserError(f"{what} needs answers, and question {missing.id!r} has none.")
