from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from scipy import stats

from rashomon.measures.base import Ragged
from rashomon.measures.ranks import average_ranks, descending_ranks, in_top, top_count

from .strategies import pairs


@settings(max_examples=40, deadline=None)
@given(pair=pairs(longest=20))
def test_ranks_equal_scipys(pair: tuple[Ragged, Ragged]) -> None:
    scores, _ = pair
    for ranks, method, sign in [
        (average_ranks(scores), "average", 1),
        (descending_ranks(scores), "ordinal", -1),
    ]:
        expected = [stats.rankdata(sign * scores.row(i), method=method) - 1 for i in range(len(scores))]
        np.testing.assert_array_equal(ranks, np.concatenate(expected))


def test_counts_of_a_fraction_are_rounded_up_without_float_noise() -> None:
    lengths = np.array([0, 1, 3, 10, 100])
    assert top_count(lengths, 0.07).tolist() == [0, 1, 1, 1, 7]
    assert top_count(lengths, 0.25).tolist() == [0, 1, 1, 3, 25]
    assert top_count(lengths, 5).tolist() == [0, 1, 3, 5, 5]


def test_top_takes_the_first_of_equals() -> None:
    scores = Ragged.from_list([[2, 3, 2, 2], [1, 1]])
    assert in_top(scores, np.array([2, 1])).tolist() == [True, True, False, False, True, False]


def test_other_scores_decide_between_equals_and_nothing_else() -> None:
    scores, other = Ragged.from_list([[1.0, 3.0, 3.0, 2.0]]), Ragged.from_list([[9.0, 0.0, 5.0, 0.0]])
    assert descending_ranks(scores, other).tolist() == [3, 1, 0, 2]
    assert descending_ranks(scores).tolist() == [3, 0, 1, 2]
