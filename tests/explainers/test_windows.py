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
LONG_PAIR = Example("pair", "is the film good", text_pair=LONG.text.strip())
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
    explanations = explain_windows(model, [LONG, SINGLES[0]], METHODS, space=space)
    assert [item.example_id for item in explanations] == ["long", "s0"] * 3
    parts = explain(
        model, [w.example for w in windows], METHODS, space=space, targets=[target] * len(windows)
    )
    for number, item in enumerate(explanations[::2]):
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
    assert "".join(
        explanations[0].surface(place) for place in range(len(explanations[0]))
    ) == LONG.text.replace(" ", "")
    (plain,) = explain(model, SINGLES[:1], ["leave-one-out"], space=space)
    np.testing.assert_allclose(explanations[3].scores, plain.scores, atol=1e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "bilstm"])
@pytest.mark.parametrize("overlap", [0.0, 0.4])
def test_the_second_text_of_a_pair_is_read_by_windows(
    families: Families, family: str, overlap: float
) -> None:
    model = families(family, pair=True)
    windows = windows_of(model, LONG_PAIR, overlap)
    assert len(windows) > 2
    document = LONG_PAIR.text_pair or ""
    seen = np.zeros(len(document), dtype=int)
    for window, following in zip(windows, [*windows[1:], None], strict=True):
        piece = window.example.text_pair or ""
        assert window.example.text == LONG_PAIR.text
        assert document[window.start : window.start + len(piece)] == piece
        assert model.encode([window.example])[0].cut == 0
        seen[window.start : window.start + len(piece)] += 1
        if following is not None:  # as much as fits: another word does not
            more = document[window.start : window.start + len(piece) + 12]
            assert model.encode([Example("more", LONG_PAIR.text, text_pair=more)])[0].cut > 0
    assert (seen[[letter != " " for letter in document]] > 0).all()
    explanation = explain_windows(model, [LONG_PAIR], ["leave-one-out"], overlap=overlap)[0]
    parts = explain(
        model, [w.example for w in windows], ["leave-one-out"], targets=[explanation.target] * len(windows)
    )
    total = sum(part.scores[part.content].sum() for part in parts) / len(windows)
    assert explanation.scores.sum() == pytest.approx(total, rel=1e-4)
    first = [part.scores[part.content & (part.segments == 0)] for part in parts]
    np.testing.assert_allclose(explanation.scores[explanation.segments == 0], np.mean(first, 0), atol=1e-6)
    for segment, text in enumerate((LONG_PAIR.text, document)):
        here = np.flatnonzero(explanation.segments == segment)
        if family != "roberta":  # whose tokens hold the space before them, which a window's first word lacks
            assert "".join(explanation.surface(place) for place in here) == text.replace(" ", "")
        assert (np.diff(explanation.word_ids[here]) >= 0).all()
    assert explanation.unseen == 0
    assert (explanation.text, explanation.text_pair) == (LONG_PAIR.text, document)


def test_a_word_longer_than_the_window_is_read_in_parts(families: Families) -> None:
    model = families("roberta", pair=True)
    windows = windows_of(model, Example("run", "a film", text_pair="x" * 200))
    assert len(windows) > 2
    assert all(model.encode([window.example])[0].cut == 0 for window in windows)
    last = windows[-1]
    assert last.start + len(last.example.text_pair or "") == 200


def test_what_has_no_windows(families: Families) -> None:
    model = families("bert", pair=True)
    assert len(windows_of(model, PAIRS[0])) == 1
    with pytest.raises(
        UserError, match="first text of 'pair' leaves no room for its second in the 64 tokens"
    ):
        windows_of(model, Example("pair", LONG.text, text_pair="a film"))
    with pytest.raises(UserError, match="Only classes are predicted by windows"):
        windows_of(families("bert-qa"), Example("question", "who", text_pair=LONG.text))
    with pytest.raises(UserError, match="overlap by a share"):
        windows_of(model, LONG, 1.0)


def test_a_cut_text_says_how_much_was_not_seen(families: Families) -> None:
    model = families("bert")
    (encoding,) = model.encode([LONG])
    share = encoding.cut / (encoding.cut + encoding.content.sum())
    (item,) = explain(model, [LONG], ["attention"])
    assert any(f"({share:.0%} of the text)" in warning for warning in item.warnings)
    assert item.unseen == pytest.approx(share)
    assert explain(model, SINGLES[:1], ["attention"])[0].unseen == 0
    assert explain_windows(model, [LONG], ["attention"])[0].unseen == 0
