"""What users write is understood, or refused in a sentence before any work."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rashomon.data.example import Dataset
from rashomon.errors import UserError
from rashomon.explainers import LeaveOneOut, explain, make_explainer
from tests.explainers.conftest import Families
from tests.models.tiny import PAIRS, SINGLES

TEXTS = ["a good film", "a dull plot"]


def test_a_frame_explains_its_texts_and_not_its_column_names(families: Families) -> None:
    model = families("bilstm")
    frame = pd.DataFrame({"text": TEXTS, "stars": [5, 1]}, index=["x", "y"])
    explanations, plain = explain(model, frame, "leave-one-out"), explain(model, TEXTS, "leave-one-out")
    assert explanations.example_ids == ("x", "y")
    for one, other in zip(explanations, plain, strict=True):
        assert one.text == other.text
        np.testing.assert_array_equal(one.scores, other.scores)
    assert explain(model, frame["text"], "leave-one-out") == explanations


def test_pairs_as_tuples(families: Families) -> None:
    model = families("bert", pair=True)
    pairs = [(example.text, example.text_pair) for example in PAIRS]
    for one, other in zip(explain(model, pairs, "random"), explain(model, PAIRS, "random"), strict=True):
        assert (one.tokens, one.target) == (other.tokens, other.target)


def test_methods_by_name_by_class_and_as_they_are(families: Families) -> None:
    model = families("bilstm")
    for methods in ("leave-one-out", LeaveOneOut, LeaveOneOut(), make_explainer("leave-one-out")):
        assert explain(model, TEXTS, methods).methods == ("leave-one-out",)
    assert explain(model, TEXTS, ["random", "random"]).methods == ("random",)
    assert len(explain(model, TEXTS, ["random", "random"])) == 2


def test_targets_by_name_by_number_and_for_all(families: Families) -> None:
    model = families("bilstm")
    assert model.labels == ("bad", "good")
    for targets in (
        "good",
        1,
        np.int64(1),
        ["good", "good"],
        [1, "good"],
        np.array([1, 1]),
        pd.Series([1, 1]),
    ):
        explanations = explain(model, TEXTS, "random", targets=targets)
        assert [item.target_label for item in explanations] == ["good", "good"]
    mixed = explain(model, TEXTS, "random", targets=["good", "bad"])
    assert [item.target for item in mixed] == [1, 0]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"space": "probabilities"}, "output space named 'probabilities'; did you mean 'probability'"),
        ({"space": None}, "output space"),
        ({"targets": "goodd"}, "did you mean 'good'"),
        ({"targets": [2, 0]}, "no class 2"),
        ({"targets": [-1, 0]}, "no class -1"),
        ({"targets": ["good"]}, "1 targets were given for 2"),
        ({"targets": [True, False]}, "not True"),
        ({"targets": 0.5}, "not 0.5"),
        ({"seed": -1}, "seed"),
        ({"seed": "zero"}, "seed"),
        ({"seed": True}, "seed"),
        ({"token_budget": 0}, "token budget"),
        ({"methods": []}, "at least one method"),
        ({"methods": "limee"}, "did you mean 'lime'"),
        ({"methods": 3}, "no name"),
        ({"methods": [None]}, "no name"),
        ({"methods": ["lime(sample=3)"]}, "'sample'"),
        ({"examples": [SINGLES[0], SINGLES[0]]}, "have the id"),
        ({"examples": Dataset("d", {"test": SINGLES}, ())}, "Choose a split"),
        ({"background": 3}, "not an int"),
        ({"model": "bilstm"}, "load_model"),
        ({"model": object()}, "wrap"),
    ],
)
def test_what_is_not_understood_is_said(families: Families, settings: dict[str, object], said: str) -> None:
    asked: dict[str, object] = {
        "model": families("bilstm"),
        "examples": TEXTS,
        "methods": "random",
        **settings,
    }
    with pytest.raises(UserError, match=said):
        explain(**asked)  # type: ignore[arg-type]


def test_an_explanation_shows_itself_shortly_and_inertly(families: Families) -> None:
    hostile = "a <script>alert(1)</script> film \x1b[31m"
    item = explain(families("bilstm"), hostile, "leave-one-out")[0]
    assert repr(item).startswith("Explanation(leave-one-out of '0', ")
    assert len(repr(item)) < 200
    assert "\x1b" not in repr(item)
    assert "<script" not in item._repr_html_()
