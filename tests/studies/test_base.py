"""How a study trains the model that it is about."""

from __future__ import annotations

from typing import Any

import pytest

from rashomon.experiments.subject import Subject
from rashomon.models.model_spec import ModelSpec
from rashomon.studies import studies
from rashomon.studies.base import AttentionStudy, configuration_of
from rashomon.training.settings import FINE_TUNING, TrainingSpec

OF_ATTENTION: list[Any] = [kind.value for kind in studies if issubclass(kind.value, AttentionStudy)]


@pytest.mark.parametrize("kind", OF_ATTENTION, ids=lambda kind: kind.name)
def test_studies_of_attention_keep_the_epoch_with_the_best_roc_auc(kind: Any) -> None:
    assert kind().base.training.select == "roc-auc"
    assert kind(Subject(model=ModelSpec(name="minilm"))).base.training == FINE_TUNING
    asked = TrainingSpec(epochs=2, select="f1")
    assert kind(Subject(training=asked)).base.training == asked
    assert kind(Subject(checkpoint="given")).base.training is None
    assert configuration_of(kind())["subject"]["training"]["select"] == "roc-auc"


def test_there_are_seven_of_them() -> None:
    names = {kind.name for kind in OF_ATTENTION}
    assert names == {
        "adversary",
        "attefa",
        "guided-mlp",
        "instance-adversary",
        "necessity",
        "permutation",
        "seed-variance",
    }
