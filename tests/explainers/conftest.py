"""Every family of models, as small as it gets, built once a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from rashomon.data.example import Example
from rashomon.explainers import Engine, Job
from rashomon.explainers.explaining import predicted, whole_logits
from rashomon.models import Model, ModelSpec, build_model, load_model
from tests.models.tiny import PAIRS, SINGLES, dataset, tiny_checkpoint

BUILT_IN = ("bilstm", "gru", "cnn", "mlp", "transformer")
CHECKPOINTS = ("bert", "distilbert", "roberta")
ANSWERERS = ("bert-qa", "distilbert-qa", "roberta-qa")
FAMILIES = (*BUILT_IN, *CHECKPOINTS)
Families = Callable[..., Model]
Jobs = Callable[..., Job]


@pytest.fixture(scope="session")
def families(tmp_path_factory: pytest.TempPathFactory) -> Families:
    """``families("bert", pair=True)`` and the like. Whoever changes a model puts it back."""
    folder: Path = tmp_path_factory.mktemp("families")

    @cache
    def get(name: str, pair: bool = False) -> Model:
        if name == "one-logit":
            return load_model(tiny_checkpoint("bert", folder / name, labels=1))
        if name in ANSWERERS:
            return load_model(tiny_checkpoint(name.removesuffix("-qa"), folder / name, answers=True))
        if name in CHECKPOINTS:
            path = folder / f"{name}-{pair}"
            return load_model(tiny_checkpoint(name, path, labels=3 if pair else 2, pair=pair))
        spec = ModelSpec(name=name, embedding_dim=10, hidden=12, heads=2, max_length=30)
        return build_model(spec, dataset(pair), seed=3).eval()

    return get


@pytest.fixture(scope="session")
def jobs(families: Families) -> Jobs:
    """A job over examples of one family, about the predicted classes."""

    def make(name: str, pair: bool = False, examples: tuple[Example, ...] = (), **settings: object) -> Job:
        model = families(name, pair)
        engine = Engine(model, int(str(settings.pop("token_budget", 4096))))
        encodings = model.encode(examples or (PAIRS if pair else SINGLES))
        targets = predicted(model, whole_logits(engine, encodings))
        values: dict[str, object] = {"targets": targets, "space": "logit", "seed": 0, **settings}
        return Job(engine=engine, encodings=encodings, **values)  # type: ignore[arg-type]

    return make


def rows_of(*rows: list[int]) -> np.ndarray:
    return np.array(rows, dtype=np.bool_)
