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
    assert found.milliseconds is not None
    assert found.milliseconds > 0
    assert "speed" in dict(found.rows())
    untimed = check_model(families("bert"), timed=False)
    assert untimed.rows() == [row for row in found.rows() if row[0] != "speed"]
    assert json.loads(json.dumps(found.to_dict()))["labels"] == ["LABEL_0", "LABEL_1"]


@pytest.mark.parametrize("name", ["fnet", "bart", "xlnet"])
def test_what_is_refused_is_said(name: str) -> None:
    found = check_model(model_of(name))
    assert set(found.refused) == set(REFUSED[name])
    assert all(found.refused.values())
    rows = dict(found.rows())
    assert sorted(method for methods in found.by_reason().values() for method in methods) == sorted(
        REFUSED[name]
    )
    for why, methods in found.by_reason().items():
        assert rows[f"refused: {', '.join(methods)}"] == why == found.refused[methods[0]]
    assert ("changes the answer;" in found.padding) == (name in ("fnet", "xlnet"))


def test_operations_without_a_rule_are_named() -> None:
    assert "GeLUFunction" in check_model(model_of("bloom")).deeplift_missing


def test_built_in_models_and_answerers(families: Families) -> None:
    found = check_model(families("bilstm"))
    assert set(found.refused) == {"attention-flow", "attention-rollout"}
    answerer = check_model(families("bert-qa"))
    assert answerer.task == "span"
    assert "masked" in answerer.removal
