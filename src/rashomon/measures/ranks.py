"""Ranks and top-k sets of ragged rows, with ties settled the same way every time.

Which tokens are "the top k" when scores are equal is decided here, once, for every measure: the token that
comes first in the text is taken first.
"""

from __future__ import annotations

import numpy as np

from rashomon.errors import UserError
from rashomon.measures.base import Bools, Floats, Ints, Ragged

Top = int | float
"""How many tokens: a whole number of them, or a fraction of the text strictly between 0 and 1."""


def _places(scores: Ragged, order: Ints) -> Ints:
    """The place of every value in its row, when ``order`` lists the values row by row."""
    places = np.empty(scores.values.size, dtype=np.int64)
    places[order] = np.arange(scores.values.size) - np.repeat(scores.starts[:-1], scores.lengths)
    return places


def descending_order(scores: Ragged, then_by: Ragged | None = None) -> Ints:
    """Positions of all values, row by row, highest first; of equals by ``then_by``, then the first."""
    keys = [-scores.values, scores.row_ids]
    if then_by is not None:
        keys.insert(0, -then_by.values)
    return np.lexsort(keys)


def descending_ranks(scores: Ragged, then_by: Ragged | None = None) -> Ints:
    """0 for the highest value of each row, 1 for the next; no two values of a row share a rank."""
    return _places(scores, descending_order(scores, then_by))


def average_ranks(scores: Ragged) -> Floats:
    """Ascending ranks from 0 in each row; equal values share the mean of their ranks."""
    rows = scores.row_ids
    order = np.lexsort((scores.values, rows))
    ordered, ordered_rows = scores.values[order], rows[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (ordered[1:] != ordered[:-1]) | (ordered_rows[1:] != ordered_rows[:-1])
    group = np.cumsum(first) - 1
    places = _places(scores, order)[order]
    means = np.bincount(group, weights=places) / np.bincount(group) if len(order) else np.empty(0)
    ranks = np.empty(len(order))
    ranks[order] = means[group]
    return ranks


def top_count(lengths: Ints, k: Top) -> Ints:
    """How many tokens of each text are its top ``k``: at least one, at most all; fractions are rounded up."""
    if isinstance(k, int) and k >= 1:
        return np.asarray(np.minimum(lengths, k))
    if isinstance(k, float) and 0.0 < k < 1.0:
        share = np.ceil(lengths * k - 1e-9)  # .07 * 100 is 7.000000000000001 and means 7
        counts: Ints = np.minimum(lengths, np.maximum(share, 1)).astype(np.int64)
        return counts
    raise UserError(f"A top-k is a whole number from 1 or a fraction between 0 and 1, not {k!r}.")


def in_top(scores: Ragged, counts: Ints) -> Bools:
    """Whether a value is among the ``counts[row]`` highest of its row; of equals the first wins."""
    return descending_ranks(scores) < np.repeat(counts, scores.lengths)
