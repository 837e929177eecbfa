"""A small planted dataset and a small model to put attention on trial with."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rashomon.data import Dataset
from rashomon.data.planted import mock
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.store import Store
from rashomon.studies.base import Finding
from rashomon.training.settings import TrainingSpec

FEW = TrainingSpec(epochs=4, learning_rate=0.01, patience=None)


def planted(name: str = "mock-1q", classes: int = 2, size: int = 96) -> Dataset:
    return mock(name, classes=classes, train_size=size, dev_size=24, test_size=24)


def trial_of(
    folder: Path, data: Dataset | None = None, model: str = "mlp", **settings: object
) -> tuple[Context, Subject]:
    """A context with its own store, and a small subject on the dataset handed over."""
    context = Context(Store(folder / "store"), workers=1)
    spec = ModelSpec(name=model, hidden=8, embedding_dim=8, self_heads=2, **settings)  # type: ignore[arg-type]
    return context, Subject(context.adopt(data or planted()), spec, FEW)


def check_finding(finding: Finding) -> None:
    """What every finding owes its reader."""
    assert next(iter(finding.tables)) == "summary"
    summary = finding.tables["summary"]
    assert len(summary)
    assert {"n", "undefined"} <= set(summary.columns)
    assert finding.verdict.endswith(".")
    assert finding.figures
    assert finding.configuration


def finished_runs(context: Context) -> set[str]:
    """The finished runs by name."""
    return {f"{run.kind}/{run.key}" for run in context.store.list() if run.finished}


def fewer(training: TrainingSpec, epochs: int) -> TrainingSpec:
    return replace(training, epochs=epochs)
