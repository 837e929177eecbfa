"""Training by name, and what a user may get wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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


def test_evaluation_matches_labels_by_name(planted: Dataset) -> None:
    model = ra.train("mlp", planted, seed=0, epochs=3, embedding_dim=8, hidden=8, learning_rate=0.02)
    turned = {
        split: tuple(replace(e, label=1 - e.label) for e in planted[split] if e.label is not None)
        for split in planted
    }
    assert ra.evaluate(model, replace(planted, splits=turned, labels=planted.labels[::-1])) == ra.evaluate(
        model, planted
    )
    with pytest.warns(UserWarning, match="matched in order"):
        ra.evaluate(model, replace(planted, labels=("left", "right")))
    with (
        pytest.warns(UserWarning, match="nothing that needs labels"),
        pytest.raises(UserError, match="needs labels"),
    ):
        ra.evaluate(model, replace(planted, labels=("left", "right", "up")))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"optimizer": "sgd"}, "'sgd'"),
        ({"select": "foo"}, "'foo'"),
        ({"patience": 0}, "patience"),
        ({"clip": 0.0}, "gradient norm"),
        ({"weight_decay": -1.0}, "weight decay"),
        ({"least_gain": -1.0}, "least gain"),
        ({"learning_rate": 0.0}, "learning rate"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        TrainingSpec(**settings)
