from __future__ import annotations

import numpy as np
import pytest

from rashomon.measures import curves
from rashomon.measures.base import Floats
from rashomon.measures.curves import (
    bootstrap_above,
    bootstrap_area,
    bounded,
    height_at,
    normalised_area,
    points_between,
    shape_of,
)


def test_areas_of_known_curves() -> None:
    x = np.linspace(0.1, 0.6, 101)
    assert normalised_area(x, 3 * x + 1) == pytest.approx(0.5)
    assert normalised_area(x, (x - 0.1) ** 2) == pytest.approx(1 / 3, abs=1e-3)
    assert normalised_area(x[::-1], np.sqrt(x - 0.1)[::-1]) == pytest.approx(2 / 3, abs=1e-2)
    assert normalised_area(np.array([0.0, 0.5, 1.0]), np.array([2.0, 2.0, 3.0])) == pytest.approx(0.25)
    # of two points at one JSD the cheaper one comes first, however they are given
    assert normalised_area(np.array([0.0, 1.0, 0.0]), np.array([2.0, 1.0, 0.0])) == pytest.approx(0.75)


def test_curves_without_an_area() -> None:
    x = np.linspace(0.1, 0.6, 5)
    assert np.isnan(normalised_area(x[:2], x[:2]))
    assert np.isfinite(normalised_area(x[:3], x[:3]))
    assert np.isnan(normalised_area(x, np.ones_like(x)))
    assert np.isnan(normalised_area(np.ones_like(x), x))
    assert normalised_area(1e-8 * x, 1e-8 * x) == pytest.approx(0.5)
    assert np.isnan(normalised_area(1e-10 * x, x))


def _noisy(seed: int, texts: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    line = np.linspace(0, 0.6, 5)[:, None]
    return line + rng.normal(0, 0.05, (5, texts)), line**2 + rng.normal(0, 0.05, (5, texts))


def test_the_interval_of_the_area_is_that_of_resampled_texts() -> None:
    x, y = _noisy(0, 40)
    low, high = bootstrap_area(x, y, resamples=4000)
    rng = np.random.default_rng(1)
    areas = []
    for _ in range(4000):
        chosen = rng.integers(0, 40, 40)
        areas.append(normalised_area(x[:, chosen].mean(1), y[:, chosen].mean(1)))
    assert (low, high) == pytest.approx(tuple(np.quantile(areas, [0.025, 0.975])), abs=0.006)
    assert low < normalised_area(x.mean(1), y.mean(1)) < high
    assert (
        bootstrap_area(x, y) == bootstrap_area(x, y, resamples=1000, seed=0) != bootstrap_area(x, y, seed=1)
    )


def test_the_interval_of_the_area_covers_it() -> None:
    line = np.linspace(0, 0.6, 5)
    truth = normalised_area(line, line**2)
    found = [bootstrap_area(*_noisy(seed, 100), resamples=300) for seed in range(300)]
    assert 0.91 <= np.mean([low <= truth <= high for low, high in found]) <= 0.98


def test_no_area_no_interval() -> None:
    assert np.isnan(bootstrap_area(np.ones((3, 4)), np.ones((3, 4)))).all()
    assert np.isnan(bootstrap_area(np.full((3, 4), np.nan), np.ones((3, 4)))).all()


def test_points_between_the_ends() -> None:
    assert points_between(np.array([0.0, 0.05, 0.5, 0.92, 1.0])) == 1
    assert points_between(np.array([0.2, 0.3, 0.4])) == 1
    assert points_between(np.array([0.0, 0.1, 0.9, 1.0])) == 0
    assert points_between(np.array([0.0, 0.11, 0.89, 1.0])) == 2
    assert points_between(np.array([0.3, 0.3])) == points_between(np.array([])) == 0


@pytest.mark.parametrize(
    ("interval", "jsd", "tvd", "shape"),
    [
        ((0.1, 0.3), (0.0, 0.3, 0.6), (0.0, 0.1, 0.3), "convex"),
        ((0.7, 0.9), (0.0, 0.3, 0.6), (0.0, 0.2, 0.3), "concave"),
        ((0.3, 0.7), (0.0, 0.3, 0.6), (0.0, 0.2, 0.3), "undecided"),
        ((0.4, 0.51), (0.0, 0.3, 0.6), (0.0, 0.2, 0.3), "undecided"),
        ((0.49, 0.6), (0.0, 0.3, 0.6), (0.0, 0.2, 0.3), "undecided"),
        ((0.5002, 0.501), (0.0, 0.3, 0.6), (0.0, 0.2, 0.3), "straight"),  # sure, and nothing
        ((0.1, 0.3), (0.0, 0.3, 0.6), (0.0, 0.005, 0.01), "flat"),
        ((0.1, 0.9), (0.0, 0.0005, 0.001), (0.0, 0.1, 0.3), "undefined"),  # nothing was moved
        ((0.7, 0.9), (0.0, 0.01, 0.59, 0.6), (0.0, 0.2, 0.2, 0.3), "undefined"),  # ends and no middle
        ((np.nan, np.nan), (0.0, 0.3, 0.6), (0.0, 0.2, 0.3), "undefined"),
    ],
)
def test_shapes_in_words(
    interval: tuple[float, float], jsd: tuple[float, ...], tvd: tuple[float, ...], shape: str
) -> None:
    assert shape_of(*interval, np.array(jsd), np.array(tvd)) == shape


def test_shapes_at_their_borders() -> None:
    jsd, tvd = np.array([0.0, 0.3, 0.6]), np.array([0.0, 0.1, 0.3])
    assert shape_of(0.1, 0.5 - curves.ROOM, jsd, tvd) == "undecided"
    assert shape_of(0.5 + curves.ROOM, 0.9, jsd, tvd) == "undecided"
    assert shape_of(0.5 - curves.ROOM, 0.5 + curves.ROOM, jsd, tvd) == "straight"
    assert shape_of(0.1, 0.3, jsd, np.array([0.0, 0.0, curves.CHEAP])) == "convex"
    assert shape_of(0.1, 0.3, np.array([0.0, 0.02, curves.NEAR]), tvd) == "convex"


@pytest.mark.parametrize(
    ("interval", "reach", "cost", "shape"),
    [
        ((0.10, 0.475), 0.60, 0.300, "convex"),
        ((0.10, 0.485), 0.60, 0.300, "undecided"),
        ((0.525, 0.9), 0.60, 0.300, "concave"),
        ((0.515, 0.9), 0.60, 0.300, "undecided"),
        ((0.485, 0.515), 0.60, 0.300, "straight"),
        ((0.10, 0.300), 0.60, 0.025, "convex"),
        ((0.10, 0.300), 0.60, 0.015, "flat"),
        ((0.10, 0.300), 0.06, 0.300, "convex"),
        ((0.10, 0.300), 0.04, 0.300, "undefined"),
    ],
)
def test_where_the_words_change(interval: tuple[float, float], reach: float, cost: float, shape: str) -> None:
    line = np.array([0.0, 0.5, 1.0])
    assert shape_of(*interval, reach * line, cost * line) == shape


def test_the_height_of_a_curve_between_its_points_and_beyond() -> None:
    assert height_at(0.5, np.array([1.0, 0.0]), np.array([0.4, 0.2])) == pytest.approx(0.3)
    assert np.isnan(height_at(2.0, np.array([0.0, 1.0]), np.array([0.2, 0.4])))
    assert np.isnan(height_at(-1.0, np.array([0.0, 1.0]), np.array([0.2, 0.4])))
    assert height_at(0.5, np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.5, 0.0])) == pytest.approx(0.75)


def test_how_far_a_point_lies_above_a_curve() -> None:
    """Texts are drawn jointly: where every text has the same height above the curve, nothing is left to chance."""
    rng = np.random.default_rng(0)
    jsd = np.vstack([np.full(80, 0.1), np.full(80, 0.5)])
    tvd = jsd / 5 + rng.normal(0, 0.05, 80)  # a line, and a text's own level on it
    x = np.full(80, 0.3)
    above, low, high = bootstrap_above((x, x / 5 + (tvd - jsd / 5)[0] + 0.01), (jsd, tvd))
    assert (above, low, high) == pytest.approx((0.01, 0.01, 0.01))
    above, low, high = bootstrap_above((x, np.full(80, 0.05)), (jsd, tvd))
    assert above == pytest.approx(0.05 - tvd.mean(1).mean())
    error = tvd[0].std() / np.sqrt(80)
    assert (high - above, above - low) == pytest.approx((1.96 * error, 1.96 * error), rel=0.15)
    beyond = bootstrap_above((np.full(80, 0.9), x), (jsd, tvd))
    assert np.isnan(beyond).all()


def test_a_curve_is_bounded_by_whatever_goes_further_at_less_cost() -> None:
    jsd, tvd = np.array([0.0, 0.2, 0.4]), np.array([0.05, 0.3, 0.2])
    assert bounded(jsd, tvd).tolist() == [0.05, 0.2, 0.2]  # the second could have been the third
    others = (np.array([0.3, 0.6]), np.array([0.1, 0.15]))
    assert bounded(jsd, tvd, others).tolist() == [0.05, 0.1, 0.15]
    nearer = (np.array([0.1]), np.array([0.0]))
    assert bounded(jsd, tvd, nearer).tolist() == [0.0, 0.2, 0.2]  # it says nothing of greater distances
    many = bounded(np.stack([jsd, jsd], 1), np.stack([tvd, 2 * tvd], 1), others)
    assert many[:, 0].tolist() == [0.05, 0.1, 0.15]
    assert many[:, 1].tolist() == [0.1, 0.1, 0.15]
