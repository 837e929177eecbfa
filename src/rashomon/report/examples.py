"""What does a reader see of each example? The texts and their heat, small enough to travel inside the page.

Which characters a score belongs to is decided by ``explain.display.pieces``; here the pieces are only packed.
All methods of an example mostly cut its text alike, so a cut is stored once, and the heat of a method is one
letter a piece: ``A`` to ``H`` for the class, ``a`` to ``h`` against it, ``.`` for nothing, ``~`` for what the model did
not see. Lengths count UTF-16 units, because that is how the script in the page counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from rashomon.audits.record import Audit
from rashomon.explainers.display import LEVELS, Piece, by_example, pieces, prediction, strongest
from rashomon.explainers.record import Explanation
from rashomon.wording import number

Spans = Sequence[tuple[int, int, int]]  # segment, start, end
UNREAD = "~"
NO_EXAMPLES: Mapping[str, Any] = {"examples": [], "methods": [], "warnings": []}


def example_data(audit: Audit) -> dict[str, Any]:
    """All examples as plain data for the script of the page."""
    warnings: dict[str, int] = {}
    methods = {method: index for index, method in enumerate(audit.explanations.methods)}
    return {
        "examples": [_example(group, audit, methods, warnings) for group in by_example(audit.explanations)],
        "methods": list(methods),
        "warnings": list(warnings),  # filled by the line above
    }


def _example(
    group: Sequence[Explanation], audit: Audit, methods: Mapping[str, int], warnings: dict[str, int]
) -> dict[str, Any]:
    first = group[0]
    agreement = audit.example_agreement.get(first.example_id, math.nan)
    gold = audit.gold_labels.get(first.example_id)
    cuts: list[list[list[Any]]] = []
    rows = [
        _row(item, group, cuts, audit.rationales.get(first.example_id, ()), methods, warnings)
        for item in group
    ]
    return {
        "id": first.example_id,
        "texts": [first.text] if first.text_pair is None else [first.text, first.text_pair],
        "said": prediction(first),
        "gold": gold,
        "right": _right(first, gold),
        "agreement": round(agreement, 4) if math.isfinite(agreement) else None,
        "tokens": int(first.content.sum()),
        "cuts": cuts,
        "rows": rows,
    }


def _right(explanation: Explanation, gold: str | None) -> bool | None:
    """Whether the prediction is the gold label; unknown where another class is explained."""
    target, probabilities = explanation.target, explanation.probabilities
    if gold is None or not 0 <= target < len(probabilities) or probabilities[target] < max(probabilities):
        return None
    return explanation.target_label == gold


def _row(
    item: Explanation,
    group: Sequence[Explanation],
    cuts: list[list[list[Any]]],
    rationale: Spans,
    methods: Mapping[str, int],
    warnings: dict[str, int],
) -> dict[str, Any]:
    cut: list[list[Any]] = []
    heats: list[str] = []
    tops: list[list[int]] = []
    for segment in range(1 if item.text_pair is None else 2):
        parts = _cut_at(pieces(item, segment), [span[1:] for span in rationale if span[0] == segment])
        cut.append(
            [[_units(piece.text) for piece, _ in parts], [i for i, (_, part) in enumerate(parts) if part]]
        )
        heats.append("".join(_letter(piece) for piece, _ in parts))
        tops.append([i for i, (piece, _) in enumerate(parts) if piece.top])
    if cut not in cuts:
        cuts.append(cut)
    row = {
        "method": methods[item.method],
        "cut": cuts.index(cut),
        "heat": heats,
        "top": tops,
        "strongest": [[token, _signed(score)] for token, score in strongest(item)],
        "notes": _notes(item, group),
        "warnings": [warnings.setdefault(warning, len(warnings)) for warning in item.warnings],
    }
    return {name: value for name, value in row.items() if value != []}


def _cut_at(whole: Sequence[Piece], rationale: Sequence[tuple[int, ...]]) -> list[tuple[Piece, bool]]:
    """The pieces cut further at the borders of the rationale, each with whether it lies inside."""
    borders = sorted({place for span in rationale for place in span})
    cut: list[tuple[Piece, bool]] = []
    start = 0
    for piece in whole:
        end = start + len(piece.text)
        edges = [start, *(place for place in borders if start < place < end), end]
        for first, last in pairwise(edges):
            inside = any(span[0] <= first and last <= span[1] for span in rationale)
            cut.append((piece._replace(text=piece.text[first - start : last - start]), inside))
        start = end
    return cut


def _letter(piece: Piece) -> str:
    if not piece.seen:
        return UNREAD
    level = round(abs(piece.strength) * LEVELS)
    return chr(ord("A" if piece.strength > 0 else "a") + level - 1) if level else "."


def _units(text: str) -> int:
    return len(text) + sum(ord(character) > 0xFFFF for character in text)


def _signed(score: float) -> str:
    return ("+" if score > 0 else "") + number(score, 3)


def _notes(item: Explanation, group: Sequence[Explanation]) -> list[str]:
    """What a row must say beside the method's name so that it is not mistaken for another."""
    notes = []
    if item.gap is not None and abs(item.gap) >= 0.01:
        notes.append(f"completeness gap {item.gap:.0%}")
    if (item.target, item.target_label) != (group[0].target, group[0].target_label):
        notes.append(f"explains {item.target_label}")
    if item.seed is not None and sum(other.method == item.method for other in group) > 1:
        notes.append(f"seed {item.seed}")
    return notes
