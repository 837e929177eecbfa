from __future__ import annotations

import math

import numpy as np
import pytest

from rashomon.errors import UserError
from rashomon.measures import Ragged, measures
from rashomon.measures.base import check_same_rows, family_of, speechless


def test_ragged_keeps_rows_of_any_length() -> None:
    rows = Ragged.from_list([[1, 2, 3], [], [4]])
    assert len(rows) == 3
    assert [rows.row(i).tolist() for i in range(3)] == [[1, 2, 3], [], [4]]
    assert rows.lengths.tolist() == [3, 0, 1]
    assert rows.row_ids.tolist() == [0, 0, 0, 2]
    assert rows.sum(rows.values).tolist() == [6, 0, 4]
    assert rows.reduce(np.maximum, rows.values, empty=-1).tolist() == [3, -1, 4]
    assert [part.tolist() for part in rows.split(rows.values > 1)] == [[False, True, True], [], [True]]


def test_ragged_of_nothing() -> None:
    nothing = Ragged.from_list([])
    assert len(nothing) == 0
    assert nothing.sum(nothing.values).shape == (0,)


def test_select_can_empty_a_row() -> None:
    rows = Ragged.from_list([[1, 2, 3], [4], [5, 6]])
    kept = rows.select(np.array([True, False, True, False, False, True]))
    assert [kept.row(i).tolist() for i in range(3)] == [[1, 3], [], [6]]


@pytest.mark.parametrize("starts", [[0, 2], [1, 3], [0, 2, 1, 3], []])
def test_wrong_starts_are_refused(starts: list[int]) -> None:
    with pytest.raises(ValueError, match="starts"):
        Ragged(np.arange(3.0), np.array(starts, dtype=np.int64))


def test_different_tokens_are_refused_in_one_sentence() -> None:
    with pytest.raises(UserError, match="different tokens"):
        check_same_rows(Ragged.from_list([[1, 2]]), Ragged.from_list([[1], [2]]))


def test_speechless_rows() -> None:
    rows = Ragged.from_list([[], [1], [2, 2], [1, 2], [1, math.nan], [1, math.inf]])
    assert speechless(rows).tolist() == [True, True, True, False, True, True]


def test_every_measure_says_what_it_is() -> None:
    assert len(measures.names()) > 30
    for entry in measures:
        measure = entry.value
        assert measure.name == entry.name
        assert measure.summary
        assert measure.undefined
        assert measure.low < measure.high
    assert {m.name for m in family_of("divergence")} == {"tvd", "kl", "jsd"}


@pytest.mark.parametrize("measure", [*family_of("agreement"), *family_of("recovery")], ids=lambda m: m.name)
def test_every_pair_measure_stays_in_its_range_and_alone_equals_in_batch(measure) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    lengths = [0, 1, 2, 3, 7, 30, 65, 130]
    first = [rng.normal(size=n) for n in lengths]
    recovery = measure.family == "recovery"
    second = [rng.integers(0, 2, size=n).astype(float) if recovery else rng.normal(size=n) for n in lengths]
    values = measure(Ragged.from_list(first), Ragged.from_list(second))
    assert values.shape == (len(lengths),)
    assert values.dtype == np.float64
    assert np.isnan(values[:2]).all()
    assert np.isfinite(values[-3:]).all()
    defined = values[np.isfinite(values)]
    assert ((defined >= measure.low) & (defined <= measure.high)).all()
    alone = [
        measure(Ragged.from_list([a]), Ragged.from_list([b]))[0] for a, b in zip(first, second, strict=True)
    ]
    np.testing.assert_array_equal(values, alone)


@pytest.mark.parametrize("measure", family_of("agreement"), ids=lambda m: m.name)
def test_constant_and_broken_rows_are_undefined(measure) -> None:  # type: ignore[no-untyped-def]
    a = Ragged.from_list([[0.25] * 12, np.arange(12), [math.nan, *range(11)], np.arange(12)])
    b = Ragged.from_list([np.arange(12), [1.0] * 12, np.arange(12), [math.inf, *range(11)]])
    assert np.isnan(measure(a, b)).all()


@pytest.mark.parametrize("measure", family_of("agreement"), ids=lambda m: m.name)
def test_a_method_agrees_with_itself(measure) -> None:  # type: ignore[no-untyped-def]
    a = Ragged.from_list([np.random.default_rng(1).permutation(40) - 20.5])
    np.testing.assert_allclose(measure(a, a), 1.0, atol=1e-12)
