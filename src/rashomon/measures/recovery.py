"""Does a method rank the tokens that matter first? Scores against a 0/1 rationale, planted or human.

Every function takes scores and rationale as `Ragged` and gives one value per text, NaN where the rationale is
empty or marks every token. Average precision and AUPRC treat equal scores as one threshold, as scikit-learn
does. The others cut at k tokens, of equal scores the first in the text; a constant vector has no top k and
is undefined there. "At the rationale's size" means k = number of marked tokens (ERASER's discrete cut
without a tuned threshold).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rashomon.errors import UserError
from rashomon.measures.base import Bools, Floats, Ints, Ragged, check_same_rows, measure, speechless
from rashomon.measures.ranks import Top, descending_order, in_top, top_count

NO_TRUTH = "a rationale that is empty or covers the text, or a score that is not finite"
NO_TOP = f"{NO_TRUTH}, or constant scores"


def _checked(scores: Ragged, rationale: Ragged) -> tuple[Bools, Floats, Bools]:
    """The marks, the number of them per row, and the rows where recovery is undefined."""
    check_same_rows(scores, rationale)
    marks = rationale.values != 0
    if not np.isin(rationale.values, (0.0, 1.0)).all():
        raise UserError("A rationale marks tokens with 0 or 1; turn other weights into marks first.")
    sizes = rationale.sum(marks)
    finite = scores.reduce(np.minimum, np.isfinite(scores.values), empty=0.0) == 1.0
    return marks, sizes, (sizes == 0) | (sizes == scores.lengths) | ~finite


def _curve(scores: Ragged, marks: Bools) -> tuple[Ints, Floats, Floats]:
    """Precision-recall points from the highest score down: their rows, precision and count of hits.

    A point stands after each group of equal scores.
    """
    order = descending_order(scores)
    rows, ordered = scores.row_ids[order], scores.values[order]
    before = np.concatenate([[0], np.cumsum(marks[order])])
    hits = (before[1:] - before[scores.starts[rows]]).astype(np.float64)
    taken = np.arange(len(order)) - scores.starts[rows] + 1
    last = np.ones(len(order), dtype=bool)
    last[:-1] = (ordered[1:] != ordered[:-1]) | (rows[1:] != rows[:-1])
    return rows[last], (hits / taken)[last], hits[last]


def _previous(rows: Ints, values: Floats, at_start: float) -> Floats:
    """The value of the point before, or ``at_start`` for the first point of a row."""
    shifted = np.concatenate([[at_start], values[:-1]])
    shifted[1:][rows[1:] != rows[:-1]] = at_start
    return shifted[: len(values)]


def _area(scores: Ragged, rationale: Ragged, trapezoid: bool) -> Floats:
    marks, sizes, wrong = _checked(scores, rationale)
    rows, precision, hits = _curve(scores, marks)
    gained = hits - _previous(rows, hits, 0.0)
    height = (precision + _previous(rows, precision, 1.0)) / 2 if trapezoid else precision
    area = np.bincount(rows, weights=gained * height, minlength=len(scores))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(wrong, np.nan, area / sizes)


@measure("average-precision", bounds=(0, 1), better="higher", family="recovery", undefined=NO_TRUTH)
def average_precision(scores: Ragged, rationale: Ragged) -> Floats:
    """Mean precision at the marked tokens when tokens are taken from the highest score down."""
    return _area(scores, rationale, trapezoid=False)


@measure("auprc", bounds=(0, 1), better="higher", family="recovery", undefined=NO_TRUTH)
def auprc(scores: Ragged, rationale: Ragged) -> Floats:
    """Area under the precision-recall curve by the trapezoid rule, as ERASER computes it."""
    return _area(scores, rationale, trapezoid=True)


def _cut(scores: Ragged, rationale: Ragged, k: Top | None) -> tuple[Bools, Bools, Floats, Bools]:
    """The top k, the marks, their number, and the undefined rows; without k, the rationale's own size."""
    marks, sizes, wrong = _checked(scores, rationale)
    counts = sizes.astype(np.int64) if k is None else top_count(scores.lengths, k)
    return in_top(scores, counts), marks, sizes, wrong | speechless(scores)


def precision_at(scores: Ragged, rationale: Ragged, k: Top) -> Floats:
    """Share of the top k tokens that are marked; k is at most the text's length."""
    top, marks, _, wrong = _cut(scores, rationale, k)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(wrong, np.nan, scores.sum(top & marks) / scores.sum(top))


@measure("perfect-top-k", bounds=(0, 1), better="higher", family="recovery", undefined=NO_TOP)
def perfect_top(scores: Ragged, rationale: Ragged) -> Floats:
    """1 where the marked tokens are exactly the top tokens at the rationale's size, else 0."""
    top, marks, sizes, wrong = _cut(scores, rationale, None)
    return np.where(wrong, np.nan, (scores.sum(top & marks) == sizes).astype(np.float64))


@measure("token-f1", bounds=(0, 1), better="higher", family="recovery", undefined=NO_TOP)
def token_f1(scores: Ragged, rationale: Ragged, k: Top | None = None) -> Floats:
    """F1 of the top tokens against the marked ones, by default at the rationale's size."""
    top, marks, sizes, wrong = _cut(scores, rationale, k)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(wrong, np.nan, 2 * scores.sum(top & marks) / (scores.sum(top) + sizes))


def _spans(rows: Ints, marks: Bools) -> tuple[Ints, Ints]:
    """Runs of neighbouring marked tokens in one row: the run of every marked token, the row of every run."""
    opens = marks.copy()
    opens[1:] &= ~marks[:-1] | (rows[1:] != rows[:-1])
    return np.cumsum(opens) - 1, rows[opens]


@measure("iou-f1", bounds=(0, 1), better="higher", family="recovery", undefined=NO_TOP)
def iou_f1(scores: Ragged, rationale: Ragged, k: Top | None = None, overlap: float = 0.5) -> Floats:
    """F1 of spans (ERASER): a run of top tokens counts when it overlaps a marked run by half of their union.

    By default at the rationale's size. With ``overlap`` of .5 or more a run can match only one other.
    """
    top, marks, _, wrong = _cut(scores, rationale, k)
    rows = scores.row_ids
    guess_of, guess_rows = _spans(rows, top)
    truth_of, truth_rows = _spans(rows, marks)
    guess_sizes = np.bincount(guess_of[top], minlength=len(guess_rows))
    truth_sizes = np.bincount(truth_of[marks], minlength=len(truth_rows))
    both = top & marks
    pairs, common = np.unique(np.stack([guess_of[both], truth_of[both]]), axis=1, return_counts=True)
    union = guess_sizes[pairs[0]] + truth_sizes[pairs[1]] - common
    matched = pairs[0][common >= overlap * union]
    hits = np.bincount(guess_rows[np.unique(matched)], minlength=len(scores))
    spans = np.bincount(guess_rows, minlength=len(scores)) + np.bincount(truth_rows, minlength=len(scores))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(wrong, np.nan, 2 * hits / spans)


def _precision(k: Top) -> Callable[[Ragged, Ragged], Floats]:
    def at_k(scores: Ragged, rationale: Ragged) -> Floats:
        return precision_at(scores, rationale, k)

    return at_k


for _k in (1, 5, 10):
    measure(
        f"precision-at-{_k}",
        bounds=(0, 1),
        better="higher",
        family="recovery",
        undefined=NO_TOP,
        summary=f"Share of the top {_k} tokens that are marked.",
    )(_precision(_k))
