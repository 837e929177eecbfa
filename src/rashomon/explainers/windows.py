"""How is a text explained that is longer than its model? By overlapping windows, as it would be classified by them.

The document's prediction is the mean over its windows (of logits, or of probabilities), so that a token's score is the
sum of its scores in the windows that hold it, divided by their number: what adds up in every window adds up in the
document. Of a pair the second text is read so, each window beside the whole of the first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rashomon.data.batches import Encoding
from rashomon.data.example import Example
from rashomon.data.texts import Texts, as_examples
from rashomon.data.tokens import words_of
from rashomon.errors import UserError
from rashomon.explainers.collection import Explanations
from rashomon.explainers.explaining import DEFAULT_METHODS, explain
from rashomon.explainers.record import Explanation
from rashomon.explainers.request import Method, Target, chosen_targets
from rashomon.models.base import Model
from rashomon.models.evaluator import predict, rows_of
from rashomon.models.tasks import CLASSIFICATION, Space

OVERLAP = 0.25  # of a window is also in the next
Place = tuple[int, int, int]  # segment, first character, character behind the last


@dataclass(frozen=True)
class Window:
    """A stretch of a document that fits into the model, and where it begins; of a pair, of its second text."""

    example: Example
    start: int  # characters


def windows_of(model: Model, example: Example, overlap: float = OVERLAP) -> list[Window]:
    """The document's windows, each as much as fits; one, the document itself, where all of it does."""
    if not 0 <= overlap < 1:
        raise UserError(f"Windows overlap by a share from 0 to below 1, not {overlap}.")
    (whole,) = model.encode([example])
    if not whole.cut:
        return [Window(example, 0)]
    if model.task is not CLASSIFICATION:
        raise UserError(
            f"Only classes are predicted by windows, whose answers can be averaged; {example.id!r} is a question."
        )
    found: list[Window] = []
    start = 0
    while True:
        name = f"{example.id}#{len(found)}"
        find = _second_window if example.is_pair else _window
        piece, read = find(model, example, name, start)
        found.append(Window(piece, start))
        if start + len(_windowed(piece)) >= len(_windowed(example).rstrip()):
            return found
        start += max(1, _next_start(read, overlap))


def _windowed(example: Example) -> str:
    """The text that is read by windows: of a pair the second, beside all of the first."""
    return example.text if example.text_pair is None else example.text_pair


def _window(model: Model, example: Example, name: str, start: int) -> tuple[Example, Encoding]:
    """As much as fits of a text from a character on, and how it is read."""
    piece = Example(name, example.text[start:])
    (read,) = model.encode([piece])
    end = int(read.offsets[read.content][-1, 1]) if read.cut else len(piece.text)
    return replace(piece, text=piece.text[:end]), read


def _second_window(model: Model, example: Example, name: str, start: int) -> tuple[Example, Encoding]:
    """The same of a pair's second text. Models cut the longer text of a pair, so what fits is found by trying."""
    rest = _windowed(example)[start:]
    words = [word.end for word in words_of(Example(name, rest), 0)]
    reads = {}

    def fits(end: int) -> bool:
        (reads[end],) = model.encode([Example(name, example.text, text_pair=rest[:end])])
        return not reads[end].cut

    for ends in (words, range(1, words[0])):  # of a word that does not fit, a part
        fitting = bisect_left(ends, True, key=lambda end: not fits(end))
        if fitting:
            end = ends[fitting - 1]
            whole = fitting == len(words)
            return Example(name, example.text, text_pair=rest if whole else rest[:end]), reads[end]
    raise UserError(
        f"The first text of {example.id!r} leaves no room for its second in the {model.max_length} tokens that the "
        "model reads, so it cannot be read by windows."
    )


def _next_start(read: Encoding, overlap: float) -> int:
    """The first character of the next window: where a word begins, and behind the beginning of this one."""
    windowed = read.content & (read.segments == read.segments.max())
    places, words = read.offsets[windowed], read.word_ids[windowed]
    number = min(max(1, round(len(places) * (1 - overlap))), len(places) - 1)
    while number > 1 and words[number] == words[number - 1]:
        number -= 1
    return int(places[number, 0])


def explain_windows(
    model: Model,
    examples: Texts,
    methods: Method | Iterable[Method] = DEFAULT_METHODS,
    *,
    overlap: float = OVERLAP,
    space: Space = "logit",
    targets: Target | Sequence[Target] | None = None,
    **settings: Any,
) -> Explanations:
    """Explain texts of any length.

    Args:
        model: a classifier.
        examples: as ``explain`` takes them; of a pair that is longer than the model the second text is read by
            windows, each beside the whole of the first.
        methods: as ``explain`` takes them.
        overlap: the share of a window that is also in the next.
        space: what is averaged over windows and explained: logits, centred logits, or probabilities.
        targets: classes; by default the best of the mean over windows.
        settings: further settings of ``explain``.

    Returns:
        One record for each method and document, its tokens those of the whole document.
    """
    given = as_examples(examples)
    cut = [windows_of(model, example, overlap) for example in given]
    flat = [window.example for windows in cut for window in windows]
    owners = np.repeat(np.arange(len(given)), [len(windows) for windows in cut])
    predictions = predict(model, rows_of(model, flat))
    outputs = predictions.probabilities if space == "probability" else predictions.logits
    means = np.stack([outputs[owners == number].mean(0) for number in range(len(given))])
    chances = [predictions.probabilities[owners == number].mean(0) for number in range(len(given))]
    wanted = chosen_targets(model, targets, len(given)) or means.argmax(1).tolist()
    explanations = explain(model, flat, methods, space=space, targets=[wanted[i] for i in owners], **settings)
    merged = []
    for first in range(0, len(explanations), len(flat)):
        items = explanations[first : first + len(flat)]
        for number, example in enumerate(given):
            mine = [items[int(row)] for row in np.flatnonzero(owners == number)]
            merged.append(_document(example, cut[number], mine, chances[number].tolist()))
    return Explanations(merged)


def _document(
    example: Example, windows: Sequence[Window], items: Sequence[Explanation], chances: Sequence[float]
) -> Explanation:
    """One record of the document from those of its windows."""
    if len(windows) == 1:
        return items[0]
    side = int(example.is_pair)  # which text is read by windows
    tokens: dict[Place, str] = {}
    scores: dict[Place, float] = {}
    for window, item in zip(windows, items, strict=True):
        for token in np.flatnonzero(item.content):
            segment = int(item.segments[token])
            begin = window.start if segment == side else 0
            start, end = (begin + int(edge) for edge in item.offsets[token])
            tokens.setdefault((segment, start, end), item.tokens[token])
            share = float(item.scores[token]) / len(windows)
            scores[segment, start, end] = scores.get((segment, start, end), 0.0) + share
    places = sorted(tokens)
    gaps = [item.gap for item in items if item.gap is not None]
    note = f"read by {len(windows)} overlapping windows, whose predictions were averaged"
    warnings = dict.fromkeys(warning for item in items for warning in item.warnings)
    return replace(
        items[0],
        example_id=example.id,
        text=example.text,
        text_pair=example.text_pair,
        tokens=tuple(tokens[place] for place in places),
        offsets=np.array([place[1:] for place in places], dtype=np.int64),
        word_ids=np.concatenate([_word_ids(example, places, segment) for segment in range(side + 1)]),
        segments=np.array([segment for segment, _, _ in places], dtype=np.int64),
        special=np.zeros(len(places), dtype=np.bool_),
        scores=np.array([scores[place] for place in places]),
        spread=None,
        configuration=items[0].configuration | {"windows": len(windows)},
        probabilities=tuple(chances),
        gap=max(gaps) if gaps else None,
        warnings=(*warnings, note),
        unseen=0.0,
    )


def _word_ids(example: Example, places: Sequence[Place], segment: int) -> NDArray[np.int64]:
    """The word that each place of a text begins in: the first that ends behind it."""
    words = words_of(example, segment)
    starts = [start for side, start, _ in places if side == segment]
    number = np.searchsorted([word.end for word in words], starts, side="right")
    return np.array([words[n].index for n in number.clip(max=len(words) - 1)], dtype=np.int64)
