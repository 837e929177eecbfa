"""Any study in one call: of a model in memory, of a name to train, of a checkpoint; wrong settings are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import rashomon as ra
from rashomon.errors import UserError
from rashomon.models.base import Model
from rashomon.studies import studies
from tests.studies.planted import planted

METHODS = ("attention", "leave-one-out")


@pytest.fixture(scope="module")
def model() -> Model:
    return ra.train("mlp", planted(), embedding_dim=8, hidden=8, epochs=2, learning_rate=0.03)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RASHOMON_STORE", str(tmp_path / "store"))
    return tmp_path / "store"


def test_a_model_in_memory(model: Model, store: Path) -> None:
    finding = ra.study("agreement", model, planted(), methods=METHODS, instances=5, measures="pearson")
    expected = ra.agreement(ra.explain(model, planted()["test"], METHODS), ["pearson"])
    assert finding.study == "agreement"
    assert set(finding.summary["measure"]) == {"pearson"}
    pair = finding.summary.query("first == 'attention' and second == 'leave-one-out'")
    assert pair["n"].tolist() == [5]
    whole = ra.study("agreement", model, planted(), methods=METHODS, measures=["pearson"])
    pair = whole.summary.query("first == 'attention' and second == 'leave-one-out'")
    assert pair["mean"].tolist() == pytest.approx(expected["mean"].tolist())


def test_plain_texts_and_explainers_with_settings(model: Model, store: Path) -> None:
    lime = ra.make_explainer("lime", samples=20)
    finding = ra.study("erasure", model, ["a good film", "a bad film"], methods=[lime, "attention"])
    assert {"lime(samples=20)", "attention"} <= set(finding.summary["method"])


def test_a_name_is_trained_for_each_seed(store: Path) -> None:
    small = {"hidden": 8, "embedding_dim": 8}
    finding = ra.study(
        "necessity", "mlp", planted(), seeds=(0, 1), training={"epochs": 2}, subject={"model": small}
    )
    subject = finding.configuration["subject"]
    assert (subject["seeds"], subject["model"]["name"], subject["model"]["hidden"]) == ([0, 1], "mlp", 8)
    assert subject["training"]["epochs"] == 2
    assert subject["training"]["select"] == "roc-auc"  # the rest is as the study would have it
    assert len(list((store / "models").glob("*/model"))) == 4  # two seeds, learned and uniform attention


def test_a_checkpoint_is_used_as_it_is(checkpoint: Callable[..., Path], store: Path) -> None:
    data = ra.Dataset.from_list(["a good film", "a bad film", "a dull plot"])
    folder = checkpoint("bert")
    finding = ra.study("agreement", str(folder), data, methods=METHODS, measures=["kendall"])
    assert finding.configuration["subject"]["checkpoint"] == str(folder)


def test_every_study_takes_its_settings_by_name() -> None:
    """What the documentation promises of all studies: each can be asked, and names what it does not know."""
    for entry in studies:
        with pytest.raises(UserError, match=f"setting of {entry.name} named 'sedes'; did you mean 'seeds'"):
            ra.study(entry.name, "mlp", planted(), sedes=3)


@pytest.mark.parametrize(
    ("arguments", "settings", "said"),
    [
        (("agreemnt",), {}, "did you mean 'agreement'"),
        (("agreement",), {"instnces": 3}, "did you mean 'instances'"),
        (("agreement",), {"instances": "three"}, "whole number"),
        (("agreement",), {"methods": [3]}, "must be a text"),
        (("agreement",), {"methods": object()}, "methods cannot be"),
        (("agreement",), {"checkpoint": "x"}, "setting of agreement named 'checkpoint'"),
        (("agreement", object()), {}, "wrap"),
        (("agreement", "mlp", ["a text"]), {}, "dataset with labels"),
        (("agreement", "mlp", 3), {}, "not an int"),
    ],
)
def test_mistakes_are_named(arguments: tuple[object, ...], settings: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        ra.study(*arguments, **settings)  # type: ignore[arg-type]


def test_the_history_of_a_training_stays_with_the_model(model: Model) -> None:
    table = model.history.to_pandas()
    assert table["epoch"].tolist() == [1, 2]
    assert table["kept"].sum() == 1
    assert table.loc[table["kept"], "epoch"].item() == model.history.best
    assert "<table" in model.history._repr_html_()
    with pytest.raises(UserError, match="did you mean 'epochs'"):
        ra.train("mlp", planted(), epoch=3)
