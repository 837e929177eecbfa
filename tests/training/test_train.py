"""Training by name, and what a user may get wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

import rashomon as ra
from rashomon.data import Dataset
from rashomon.errors import UserError
from rashomon.training import TrainingSpec


def test_training_by_name_learns_planted_evidence(planted: Dataset) -> None:
    model = ra.train(
        "mlp", planted, seed=0, epochs=12, patience=None, embedding_dim=16, hidden=16, learning_rate=0.02
    )
    assert ra.evaluate(model, planted)["accuracy"] > 0.8
    assert not model.training


def test_unknown_setting_is_told(planted: Dataset) -> None:
    with pytest.raises(UserError, match="'epoch'"):
        ra.train("mlp", planted, epoch=3)


def test_labels_are_needed(planted: Dataset) -> None:
    bare = tuple(replace(example, label=None) for example in planted["train"])
    with pytest.raises(UserError, match="needs labels"):
        ra.train("mlp", Dataset("bare", {"train": bare, "dev": bare}, planted.labels))


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"batch_size": 0}, {"learning_rate": -1.0}, {"warmup": 1.5}], ids=str
)
def test_senseless_settings_are_refused(wrong: dict) -> None:
    with pytest.raises(UserError):
        TrainingSpec(**wrong)
