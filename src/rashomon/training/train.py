"""Train a model on a dataset in one call, and say how good it is."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

from rashomon.data.example import Dataset, Example, require_dataset, require_labels
from rashomon.errors import DoesNotFit, UserError, unknown_name
from rashomon.models.base import Model
from rashomon.models.build import is_pretrained
from rashomon.models.evaluator import rows_of, scores_of
from rashomon.models.given import not_a_model, require_model
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
            raise DoesNotFit(f"The {split} split of {data.name} is empty.")
        require_targets(data, split, f"Training on {data.name}")
    if task_of(data) is SPAN and training.select not in (*SPAN.figures, "loss", "train-loss"):
        training = replace(training, select="f1")  # the figures of classes are not those of answers
    pulling = make_objective(objective)
    if pulling.travelling:
        raise UserError(
            f"The objective {pulling.name} compares a model with another ({', '.join(pulling.travelling)}), "
            "which only a study hands to it; see `rashomon list studies`."
        )
    return TrainingRun(
        NewModel(model, data),
        DatasetRows(data),
        training,
        seed,
        pulling,
        tuple(make_callback(callback) for callback in callbacks),
        title=f"{model.name} on {data.name}",
    )


def train(model: str | ModelSpec, data: Dataset, *, seed: int = 0, **settings: Any) -> Model:
    """Train a model and keep the epoch that is best on the dev split.

    Args:
        model: ``"bilstm"``, ``"gru"``, ``"cnn"``, ``"mlp"``, ``"transformer"``, ``"minilm"``, ``"distilbert"``,
            ``"bert"``, a checkpoint folder or a hub id to fine-tune, or a ``ModelSpec``.
        data: a dataset with the splits ``train`` and ``dev``.
        seed: decides the weights to begin with and the order of the examples; the same seed gives the same model.
        settings: fields of ``ModelSpec`` (``hidden=150``) and of ``TrainingSpec`` (``epochs=5``), and ``objective``.

    Returns:
        The trained model. Its ``history`` has a record of every epoch: ``model.history.to_pandas()``.

    Of models trained from scratch the defaults follow Wiegreffe & Pinter, *Attention is not not Explanation* (2019).
    """
    if not isinstance(model, str | ModelSpec):
        raise UserError(f"{not_a_model(model)} that could be trained by name; give a name such as 'bilstm'.")
    require_dataset(data)
    spec = ModelSpec(name=model) if isinstance(model, str) else model
    objective = settings.pop("objective", "cross-entropy")
    for_model = {key: value for key, value in settings.items() if key in ModelSpec.__dataclass_fields__}
    for_training = {key: value for key, value in settings.items() if key not in for_model}
    unknown = sorted(set(for_training) - set(TrainingSpec.__dataclass_fields__))
    if unknown:
        known = {*ModelSpec.__dataclass_fields__, *TrainingSpec.__dataclass_fields__, "objective"} - {"name"}
        raise unknown_name("setting of a model or a training", unknown[0], known)
    spec = replace(spec, **for_model)
    training = replace(default_training(spec, data), **for_training)
    trained = training_run(spec, data, training, seed, objective).train()
    trained.model.history = trained.history
    return trained.model


def evaluate(model: Model, data: Dataset, split: str = "test") -> dict[str, float]:
    """How good a model is on a split of a dataset.

    Args:
        model: any model.
        data: its labels are matched with the model's classes by name; where that is a guess, a warning says so.
        split: the split to evaluate on.

    Returns:
        The loss, and the figures of the model's task: accuracy, F1 and ROC-AUC of classes; token F1 and exact match of
        answers.
    """
    require_model(model)
    require_dataset(data)
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
        raise DoesNotFit(f"{what} needs answers, and question {missing.id!r} has none.")
