"""What `rashomon check` finds is what the models do."""

from __future__ import annotations

import json

import pytest

from rashomon.explainers import check_model, explainers
from tests.explainers.conftest import Families
from tests.models.test_architectures import REFUSED, model_of


def test_a_classifier(families: Families) -> None:
    found = check_model(families("bert"))
    assert set(found.answered) == set(explainers.names())
    assert found.refused == {}
    assert found.attention == "2 layers of 4 heads"
    assert (found.longest_text, found.deeplift_missing) == (64, "")
    assert found.deeplift_gap is not None
    assert found.deeplift_gap < 1e-3
    assert found.milliseconds > 0
    assert json.loads(json.dumps(found.to_dict()))["labels"] == ["LABEL_0", "LABEL_1"]


@pytest.mark.parametrize("name", ["fnet", "bart", "xlnet"])
def test_what_is_refused_is_said(name: str) -> None:
    found = check_model(model_of(name))
    assert set(found.refused) == set(REFUSED[name])
    assert all(found.refused.values())
    rows = dict(found.rows())
    for method in REFUSED[name]:
        assert rows[f"refused: {method}"] == found.refused[method]
    assert ("changes the answer;" in found.padding) == (name in ("fnet", "xlnet"))


def test_operations_without_a_rule_are_named() -> None:
    assert "GeLUFunction" in check_model(model_of("bloom")).deeplift_missing


def test_built_in_models_and_answerers(families: Families) -> None:
    found = check_model(families("bilstm"))
    assert set(found.refused) == {"attention-flow", "attention-rollout"}
    answerer = check_model(families("bert-qa"))
    assert answerer.task == "span"
    assert "masked" in answerer.removal
