"""Folders of models whose config.json or weights were hit: a model that answers, or a sentence."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rashomon.explainers import explain
from rashomon.models import Model, ModelSpec, load_model
from rashomon.models.build import build_model
from tests.fuzz.answering import answered, empty_folder, fuzz
from tests.fuzz.inputs import changed, hit
from tests.models.tiny import SINGLES, dataset


@pytest.fixture(scope="module")
def folders(checkpoint: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    own = tmp_path_factory.mktemp("own") / "model"
    build_model(ModelSpec(name="mlp", hidden=4, embedding_dim=4), dataset(), 0).save(own)
    saved = tmp_path_factory.mktemp("saved") / "model"
    load_model(checkpoint("distilbert")).save(saved)  # with a file of ours beside the checkpoint's
    return {"own": own, "bert": checkpoint("bert"), "saved": saved}


def use(model: Model | None) -> None:
    if model is None:
        return
    explanations = answered(lambda: explain(model, SINGLES[:1], ["random"]))
    if explanations is not None:
        assert np.isfinite(explanations[0].probabilities).all()
        assert abs(sum(explanations[0].probabilities) - 1) < 1e-4


FILES = [("own", "config.json"), ("bert", "config.json"), ("saved", "rashomon.json")]


@pytest.mark.parametrize(("kind", "name"), FILES)
@fuzz(40)
@given(st.data())
def test_other_settings(kind: str, name: str, folders: dict[str, Path], data: st.DataObject) -> None:
    with empty_folder() as place:
        folder = Path(shutil.copytree(folders[kind], place / "model"))
        config: Any = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(data.draw(changed(config))), encoding="utf-8")
        use(answered(lambda: load_model(folder)))


@pytest.mark.parametrize("kind", ["own", "saved"])
@fuzz(30)
@given(st.data())
def test_damaged_files(kind: str, folders: dict[str, Path], data: st.DataObject) -> None:
    with empty_folder() as place:
        folder = Path(shutil.copytree(folders[kind], place / "model"))
        name = data.draw(st.sampled_from(sorted(path.name for path in folder.iterdir())))
        (folder / name).write_bytes(data.draw(hit((folder / name).read_bytes())))
        use(answered(lambda: load_model(folder)))
