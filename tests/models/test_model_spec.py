"""A model's description: checked, frozen, and the same after JSON."""

from __future__ import annotations

import json
import math

import pytest

from rashomon.errors import UserError
from rashomon.models.model_spec import ModelSpec

NAN = float("nan")


def test_json_roundtrip() -> None:
    spec = ModelSpec(name="cnn", widths=(1, 7), steps=("lowercase", "truncate:200"), embeddings="vectors.npz")
    assert ModelSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert hash(spec) == hash(ModelSpec.from_json(spec.to_json()))


@pytest.mark.parametrize(("name", "layers"), [("bilstm", 1), ("transformer", 2)])
def test_depth_has_a_default_for_each_encoder(name: str, layers: int) -> None:
    assert ModelSpec(name=name).layers == layers


@pytest.mark.parametrize("name", ["minilm", "distilbert", "bert", "owner/model", "./folder"])
def test_names_of_pretrained_models(name: str) -> None:
    assert not ModelSpec(name=name).is_builtin


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "bilsm"}, "did you mean 'bilstm'"),
        ({"attention": "aditive"}, "did you mean 'additive'"),
        ({"weights": "sparse-max"}, "did you mean 'sparsemax'"),
        ({"steps": ["lowercas"]}, "did you mean 'lowercase'"),
        ({"hiden": 3}, "did you mean 'hidden'"),
        ({"heads": 0}, "heads must be at least 1"),
        ({"vocabulary_size": 0}, "vocabulary_size"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": NAN}, "temperature"),
        *[({"embedding_scale": wrong}, "standard deviation above 0") for wrong in (0.0, -0.1, NAN, math.inf)],
        ({"dropout": 1.0}, "dropout"),
        ({"name": "cnn", "widths": [2]}, "odd"),
        ({"name": "cnn", "hidden": 2}, "too small"),
        ({"name": "transformer", "hidden": 10}, "cannot be split"),
    ],
)
def test_mistakes_are_told(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        ModelSpec.from_json(settings)
