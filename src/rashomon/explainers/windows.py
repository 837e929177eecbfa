"""How is a text explained that is longer than its model? By overlapping windows, as it would be classified by them.

The document's prediction is the mean over its windows (of logits, or of probabilities), so that a token's score is the
sum of its scores in the windows that hold it, divided by their number: what adds up in every window adds up in the
document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

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


@dataclass(frozen=True)
class Window:
    """A stretch of a document that fits into the model, and where it begins."""

    example: Example
    start: int  # characters


def windows_of(model: Model, example: Example, overlap: float = OVERLAP) -> list[Window]:
    """The document's windows, each as much as fits; one, the document itself, where all of it does."""
    if not 0 <= overlap < 1:
        raise UserError(f"Windows overlap by a share from 0 to below 1, not {overlap}.")
    (whole,) = model.encode([example])
    if not whole.cut:
        return [Window(example, 0)]
    if model.task is not CLASSIFICATION or example.is_pair:
        raise UserError(f"Only single texts are read by windows, and {example.id!r} is a pair.")
    found: list[Window] = []
    start = 0
    while True:
        piece = Example(f"{example.id}#{len(found)}", example.text[start:])
        (read,) = model.encode([piece])
        content = read.offsets[read.content]
        end = len(piece.text) if not read.cut else int(content[-1, 1])
        found.append(Window(replace(piece, text=piece.text[:end]), start))
        if not read.cut:
            return found
        start += max(1, _next_start(read, overlap))


def _next_start(read: Encoding, overlap: float) -> int:
    """The first character of the next window: where a word begins, and behind the beginning of this one."""
    places, words = read.offsets[read.content], read.word_ids[read.content]
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
        examples: as ``explain`` takes them; single texts where they are longer than the model.
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
    tokens: dict[tuple[int, int], str] = {}
    scores: dict[tuple[int, int], float] = {}
    for window, item in zip(windows, items, strict=True):
        for place in np.flatnonzero(item.content):
            start, end = (window.start + int(edge) for edge in item.offsets[place])
            tokens.setdefault((start, end), item.tokens[place])
            scores[start, end] = scores.get((start, end), 0.0) + float(item.scores[place]) / len(windows)
    places = sorted(tokens)
    words = words_of(example, 0)
    number = np.searchsorted([word.end for word in words], [start for start, _ in places], side="right")
    gaps = [item.gap for item in items if item.gap is not None]
    note = f"read by {len(windows)} overlapping windows, whose predictions were averaged"
    warnings = dict.fromkeys(warning for item in items for warning in item.warnings)
    return replace(
        items[0],
        example_id=example.id,
        text=example.text,
        tokens=tuple(tokens[place] for place in places),
        offsets=np.array(places, dtype=np.int64),
        word_ids=np.array([words[n].index for n in number.clip(max=len(words) - 1)]),
        segments=np.zeros(len(places), dtype=np.int64),
        special=np.zeros(len(places), dtype=np.bool_),
        scores=np.array([scores[place] for place in places]),
        spread=None,
        configuration=items[0].configuration | {"windows": len(windows)},
        probabilities=tuple(chances),
        gap=max(gaps) if gaps else None,
        warnings=(*warnings, note),
    )
