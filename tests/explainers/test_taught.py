"""An explainer that was taught: the weighted mean by hand, kept in a folder, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rashomon.errors import DoesNotFit, UserError
from rashomon.explainers import explain, make_explainer
from rashomon.explainers.taught import CONFIG, read_weights, save_weights, shares
from tests.explainers.conftest import Families
from tests.models.tiny import SINGLES

WEIGHTS = {"gradient-x-input": 0.75, "leave-one-out": 0.25, "random": 0.0}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_weights(tmp_path / "kept", WEIGHTS, {"learner": "mlp"})
    return tmp_path / "kept"


def test_it_is_the_weighted_mean_of_shares(families: Families, folder: Path) -> None:
    model = families("bilstm", False)
    taught = make_explainer(f"taught(path={folder})")
    explanations = explain(model, SINGLES, [taught, "gradient-x-input", "leave-one-out"])
    for example in SINGLES:
        mixed, first, second = (item for item in explanations if item.example_id == example.id)
        wanted = 0.75 * _by_hand(first.scores) + 0.25 * _by_hand(second.scores)
        np.testing.assert_allclose(mixed.scores, wanted, atol=1e-6)
        assert mixed.scores.sum() == pytest.approx(1.0)
        assert mixed.method == taught.label
        assert mixed.configuration["methods"] == ["gradient-x-input", "leave-one-out"]
        assert mixed.configuration["weights"] == [0.75, 0.25]


def _by_hand(scores: np.ndarray) -> np.ndarray:
    total = sum(score for score in scores if score > 0)
    return np.array([max(score, 0) / total if total else 1 / len(scores) for score in scores])


def test_what_speaks_against_the_class_and_special_tokens_have_no_share() -> None:
    content = np.array([False, True, True, True, False])
    assert shares(np.array([9.0, 3.0, -5.0, 1.0, 9.0]), content).tolist() == [0, 0.75, 0, 0.25, 0]
    assert shares(np.array([9.0, -3.0, 0.0, np.nan, 9.0]), content) == pytest.approx(
        [0, 1 / 3, 1 / 3, 1 / 3, 0]
    )


def test_it_is_kept_and_read_again(folder: Path) -> None:
    assert read_weights(folder) == {"gradient-x-input": 0.75, "leave-one-out": 0.25}
    assert json.loads((folder / CONFIG).read_text(encoding="utf-8"))["about"] == {"learner": "mlp"}
    label = make_explainer("taught", path=str(folder)).label
    assert label == f"taught(path={folder})"
    assert make_explainer(label).label == label


def test_weights_may_be_written_down() -> None:
    asked = make_explainer("taught", methods=("attention", "lime(samples=9)"), weights=(0.9, 0.1))
    assert asked.label == 'taught(methods=["attention", "lime(samples=9)"], weights=[0.9, 0.1])'
    assert make_explainer(asked.label) == asked
    assert make_explainer("taught").label == "taught"


@pytest.mark.parametrize(
    "config",
    [
        "",
        "[]",
        "{}",
        '{"format": "other"}',
        '{"format": "rashomon-taught-explainer", "weights": {"lime": "x"}}',
    ],
)
def test_damaged_folders_are_told_at_once(tmp_path: Path, config: str) -> None:
    (tmp_path / CONFIG).write_text(config, encoding="utf-8")
    with pytest.raises(UserError, match="no explainer that was taught"):
        make_explainer("taught", path=str(tmp_path))
    with pytest.raises(UserError, match="no explainer that was taught"):
        make_explainer("taught", path=str(tmp_path / "nowhere"))


def test_weights_and_names_are_checked(tmp_path: Path) -> None:
    for name, weights in (("none", {}), ("odd", {"lime": 2.0})):
        save_weights(tmp_path / name, weights, {})
        with pytest.raises(UserError, match="weight"):
            make_explainer("taught", path=str(tmp_path / name))
    with pytest.raises(UserError, match="needs a weight"):
        make_explainer("taught", methods=("lime", "attention"), weights=(1.0,))
    save_weights(tmp_path / "unknown", {"limee": 1.0}, {})
    with pytest.raises(UserError, match="did you mean"):
        make_explainer("taught", path=str(tmp_path / "unknown"))


def test_a_model_that_cannot_answer_a_part_is_told_why(families: Families, tmp_path: Path) -> None:
    save_weights(tmp_path / "kept", {"attention-rollout": 1.0}, {})
    with pytest.raises(DoesNotFit, match="it asks attention-rollout, and the model has no layers"):
        explain(families("bilstm", False), SINGLES, [f"taught(path={tmp_path / 'kept'})"])


def test_all_weight_on_one_head_is_that_head(families: Families, tmp_path: Path) -> None:
    """Up to what goes to special tokens, which no student is shown."""
    model, head = families("bert", False), "attention(layer=1, head=2)"
    save_weights(tmp_path / "kept", {"attention(layer=0, head=3)": 0.0, head: 1.0}, {})
    explanations = explain(model, SINGLES, [f"taught(path={tmp_path / 'kept'})", head])
    for example in SINGLES:
        taught, alone = (item for item in explanations if item.example_id == example.id)
        seen = np.where(alone.content, alone.scores, 0.0)
        np.testing.assert_allclose(taught.scores, seen / seen.sum(), atol=1e-9)
