"""Correlations against SciPy, their intervals against simulated truth, and lines that follow a known curve."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr
from scipy.stats import t as students_t
from statsmodels.nonparametric.smoothers_lowess import lowess

from rashomon.measures.relations import BANDS, RESAMPLES, _weighted, correlation, smooth_line


def test_one_seed_equals_scipy_and_nearly_its_interval() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    y = 0.5 * x + rng.normal(size=300)
    found, known = correlation([x], [y]), pearsonr(x, y)
    assert found.mean == pytest.approx(known.statistic)
    expected = known.confidence_interval()
    assert (found.low, found.high) == (
        pytest.approx(expected.low, abs=0.03),
        pytest.approx(expected.high, abs=0.03),
    )
    assert (found.n, found.undefined, found.kind) == (300, 0, "95 %")


def test_undefined_values_are_left_out_and_counted() -> None:
    x, y = np.arange(6.0), np.array([0.0, 1.0, np.nan, 3.0, 4.0, 5.0])
    found = correlation([x], [y])
    assert (found.mean, found.n, found.undefined) == (pytest.approx(1.0), 5, 1)
    assert np.isnan(correlation([x], [np.ones(6)]).mean)


def test_two_seeds_have_a_range_and_the_mean_lies_between() -> None:
    x = np.arange(10.0)
    found = correlation([x, x], [x, -x + np.arange(10) % 2 * 8], [list(range(10))] * 2)
    assert found.kind == "range"
    assert found.low < found.mean < found.high == pytest.approx(1.0)


def test_intervals_cover_the_truth_over_seeds_that_differ() -> None:
    """Texts are shared, every seed has a correlation of its own around 0.4."""
    rng, covered, draws = np.random.default_rng(1), 0, 60
    for _ in range(draws):
        x = rng.normal(size=120)
        groups = []
        for _ in range(5):
            slope = 0.4 + rng.normal(0, 0.1)
            groups.append(slope * x + np.sqrt(1 - min(slope**2, 0.99)) * rng.normal(size=120))
        found = correlation([x] * 5, groups, [list(range(120))] * 5)
        covered += found.low <= 0.4 <= found.high
    assert covered >= 0.9 * draws


def test_a_line_follows_a_curve_inside_its_band() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 1, 400)
    line = smooth_line(x, np.sin(3 * x) + rng.normal(0, 0.2, 400), share=0.3)
    inner = slice(3, -3)
    assert np.abs(line.y - np.sin(3 * line.x))[inner].max() < 0.1
    assert (line.low <= line.y + 1e-9).mean() > 0.9
    assert (line.low < line.high).all()


@pytest.mark.parametrize("x", [np.ones(50), np.arange(5.0)])
def test_no_line_where_there_is_nothing_to_follow(x: np.ndarray) -> None:
    assert len(smooth_line(x, x).x) == 0


def test_a_band_of_few_texts_stays_where_texts_are() -> None:
    """Ten texts, most at one end: drawn again, some lines rest on two neighbours and would shoot off at the other."""
    x = np.array([1, 1.01, 1.02, 1.03, 1.04, 1.05, 1.06, 1.07, 5, 9])
    y = np.array([-0.9, 0.9, -0.8, 0.8, -0.7, 0.7, -0.6, 0.6, 0.1, 0.2])
    line = smooth_line(x, y)
    for values in (line.y, line.low, line.high):
        known = values[np.isfinite(values)]
        assert len(known)
        assert (np.abs(known) <= 0.9).all()


def _counted(x: np.ndarray, y: np.ndarray, defined: np.ndarray, times: np.ndarray) -> float:
    """The same by writing every text down as often as it counts."""
    rows = np.repeat(np.flatnonzero(defined), times[defined].astype(int))
    return float(np.corrcoef(x[rows], y[rows])[0, 1])


def test_texts_that_count_several_times() -> None:
    rng = np.random.default_rng(3)
    x, y = 5 + rng.normal(size=40), 100 - rng.normal(size=40) ** 2
    defined = rng.random(40) < 0.8
    times = rng.multinomial(40, np.full(40, 1 / 40), size=20).astype(np.float64)
    expected = [_counted(x, y, defined, row) for row in times]
    np.testing.assert_allclose(_weighted(x, y, defined, times), expected, rtol=1e-9)


@pytest.mark.parametrize("constant", ["first", "second", "both"])
def test_what_does_not_vary_goes_with_nothing(constant: str) -> None:
    x, same, once = np.arange(5.0), np.full(5, 3.0), np.ones((1, 5))
    first = x if constant == "second" else same
    second = x if constant == "first" else same
    assert np.isnan(_weighted(first, second, np.full(5, True), once)).all()
    alone = np.array([[0.0, 0.0, 5.0, 0.0, 0.0]])  # one text drawn five times
    assert np.isnan(_weighted(x, x, np.full(5, True), alone)).all()


def test_the_interval_is_that_of_texts_drawn_again_and_seeds_apart() -> None:
    rng = np.random.default_rng(4)
    x = [rng.normal(size=30) for _ in range(3)]
    y = [0.6 * one + rng.normal(size=30) for one in x]
    found = correlation(x, y, [list(range(30))] * 3, seed=9)
    times = np.random.default_rng(9).multinomial(30, np.full(30, 1 / 30), size=RESAMPLES)
    all_defined = np.full(30, True)
    drawn = [[_counted(a, b, all_defined, row) for row in times] for a, b in zip(x, y, strict=True)]
    each = np.arctanh([np.corrcoef(a, b)[0, 1] for a, b in zip(x, y, strict=True)])
    over_texts, over_seeds = np.arctanh(drawn).mean(0).var(), each.var(ddof=1) / 3
    total = over_texts + over_seeds
    reach = students_t.ppf(0.975, 2 * (total / over_seeds) ** 2) * np.sqrt(total)
    ends = np.tanh([each.mean() - reach, each.mean(), each.mean() + reach])
    assert (found.low, found.mean, found.high) == pytest.approx(tuple(ends), rel=1e-9)
    assert found.std == pytest.approx(np.tanh(each).std(ddof=1))


@pytest.mark.parametrize(("texts", "kind"), [(3, "none"), (4, "95 %")])
def test_few_texts_have_no_interval(texts: int, kind: str) -> None:
    values = np.array([0.0, 2.0, 1.0, 3.0])[:texts]
    assert correlation([np.arange(float(texts))], [values]).kind == kind


def test_a_line_and_its_band_are_lowess_of_texts_drawn_again() -> None:
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 1, 60)
    y = x**2 + rng.normal(0, 0.1, 60)
    line = smooth_line(x, y, places=7, share=0.6, seed=3)
    at = np.linspace(*np.quantile(x, [0.01, 0.99]), 7)
    np.testing.assert_allclose(line.x, at)
    np.testing.assert_allclose(line.y, lowess(y, x, frac=0.6, it=0, xvals=at))
    again = np.random.default_rng(3)
    index = [again.integers(0, 60, 60) for _ in range(BANDS)]
    lines = np.clip([lowess(y[i], x[i], frac=0.6, it=0, xvals=at) for i in index], y.min(), y.max())
    np.testing.assert_allclose([line.low, line.high], np.nanquantile(lines, [0.025, 0.975], axis=0))


@pytest.mark.parametrize(("texts", "drawn"), [(9, 0), (10, 30)])
def test_a_line_needs_ten_texts(texts: int, drawn: int) -> None:
    assert len(smooth_line(np.arange(float(texts)), np.arange(float(texts))).x) == drawn
