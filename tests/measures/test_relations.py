"""Correlations against SciPy, their intervals against simulated truth, and lines that follow a known curve."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr

from rashomon.measures.relations import correlation, smooth_line


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
