"""Documents longer than their model: windows that cover them, and scores that come back to their places."""

from __future__ import annotations

import numpy as np
import pytest

from rashomon.data.example import Example
from rashomon.errors import UserError
from rashomon.explainers import explain, explain_windows
from rashomon.explainers.windows import windows_of
from rashomon.models.evaluator import predict, rows_of
from tests.explainers.conftest import Families
from tests.models.tiny import PAIRS, SINGLES

LONG = Example("long", "A witty film, warm and great; the plot is cold but not awful. " * 12, 1)
METHODS = ["deeplift", "leave-one-out", "attention"]


@pytest.mark.parametrize("family", ["bert", "roberta", "bilstm"])
@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.6])
def test_windows_cover_the_document(families: Families, family: str, overlap: float) -> None:
    model = families(family)
    windows = windows_of(model, LONG, overlap)
    assert len(windows) > 2
    seen = np.zeros(len(LONG.text), dtype=int)
    for window in windows:
        end = window.start + len(window.example.text)
        assert LONG.text[window.start : end] == window.example.text
        assert model.encode([window.example])[0].cut == 0
        seen[window.start : end] += 1
    spaces = np.array([letter == " " for letter in LONG.text])
    assert (seen[~spaces] > 0).all()
    assert (seen > 1).mean() < 0.1 if overlap == 0 else (seen > 1).mean() > overlap / 2  # at most a word
    # A word is not torn by the beginning of a window.
    for window in windows[1:]:
        before, here = LONG.text[window.start - 1 : window.start + 1]
        assert not (before.isalpha() and here.isalpha())


@pytest.mark.parametrize("space", ["logit", "probability", "centred"])
def test_scores_are_those_of_the_mean_over_windows(families: Families, space: str) -> None:
    model = families("bert")
    windows = windows_of(model, LONG)
    predictions = predict(model, rows_of(model, [window.example for window in windows]))
    outputs = predictions.probabilities if space == "probability" else predictions.logits
    target = int(outputs.mean(0).argmax())
    told = explain_windows(model, [LONG, SINGLES[0]], METHODS, space=space)
    assert [item.example_id for item in told] == ["long", "s0"] * 3
    parts = explain(
        model, [w.example for w in windows], METHODS, space=space, targets=[target] * len(windows)
    )
    for number, item in enumerate(told[::2]):
        mine = parts[number * len(windows) : (number + 1) * len(windows)]
        assert item.target == target
        assert item.probabilities == pytest.approx(predictions.probabilities.mean(0))
        total = sum(part.scores[part.content].sum() for part in mine) / len(windows)
        assert item.scores.sum() == pytest.approx(total, rel=1e-4)
        assert any("overlapping windows" in warning for warning in item.warnings)
        assert not any("did not fit" in warning for warning in item.warnings)
        for place in range(len(item)):
            start, end = item.offsets[place]
            by_hand = 0.0
            for window, part in zip(windows, mine, strict=True):
                same = (part.offsets == (start - window.start, end - window.start)).all(1) & part.content
                by_hand += part.scores[same].sum() / len(windows)
            assert item.scores[place] == pytest.approx(by_hand, abs=1e-6)
    assert "".join(told[0].surface(place) for place in range(len(told[0]))) == LONG.text.replace(" ", "")
    (plain,) = explain(model, SINGLES[:1], ["leave-one-out"], space=space)
    np.testing.assert_allclose(told[3].scores, plain.scores, atol=1e-5)


def test_what_has_no_windows(families: Families) -> None:
    model = families("bert", pair=True)
    assert len(windows_of(model, PAIRS[0])) == 1
    with pytest.raises(UserError, match="Only single texts"):
        windows_of(model, Example("pair", LONG.text, text_pair="a film"))
    with pytest.raises(UserError, match="overlap by a share"):
        windows_of(model, LONG, 1.0)


def test_a_cut_text_says_how_much_was_not_seen(families: Families) -> None:
    model = families("bert")
    (encoding,) = model.encode([LONG])
    share = encoding.cut / (encoding.cut + encoding.content.sum())
    (item,) = explain(model, [LONG], ["attention"])
    assert any(f"({share:.0%} of the text)" in warning for warning in item.warnings)
