"""Distances to the nearest known point against scikit-learn, and which of them are unusual."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from rashomon.errors import UserError
from rashomon.measures.familiarity import distance_to_nearest, farther_than_usual


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_equal_to_scikit_learn(block: int) -> None:
    rng = np.random.default_rng(0)
    points, known = rng.normal(size=(20, 5)), rng.normal(size=(9, 5))
    expected = NearestNeighbors(n_neighbors=1).fit(known).kneighbors(points)[0][:, 0]
    np.testing.assert_allclose(distance_to_nearest(points, known, block), expected)
    assert distance_to_nearest(known, known).tolist() == [0.0] * 9
    assert len(distance_to_nearest(np.empty((0, 5)), known)) == 0


@pytest.mark.parametrize("known", [np.empty((0, 2)), np.ones((3, 4)), np.ones(2)])
def test_there_must_be_known_points_of_the_same_kind(known: np.ndarray) -> None:
    with pytest.raises(UserError, match="at least one known point"):
        distance_to_nearest(np.ones((2, 2)), known)


def test_one_in_twenty_real_texts_is_unusual() -> None:
    real = np.arange(1.0, 101.0)
    assert farther_than_usual(real, real).sum() == 5
    assert farther_than_usual([95.0, 95.2, 1000.0], real).tolist() == [False, True, True]


def test_as_far_as_usual_is_not_farther() -> None:
    real = np.arange(101.0)  # 95 of a hundred steps
    assert farther_than_usual([94.9, 95.0, 95.1], real).tolist() == [False, False, True]
