"""Nearest distances against scikit-learn, whatever the size of the blocks."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors

from rashomon.errors import UserError
from rashomon.measures.curvature import nearest_distance


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
@pytest.mark.parametrize("count", [2, 50])
def test_equal_to_scikit_learn(block: int, count: int) -> None:
    points = np.random.default_rng(count).normal(size=(count, 6))
    expected = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points)[0][:, 1]
    np.testing.assert_allclose(nearest_distance(points, block), expected, atol=1e-12)


def test_equal_points_are_at_distance_zero_and_a_lone_one_has_none() -> None:
    points = np.array([[1e6, 1.0], [1e6, 1.0], [0.0, 0.0]])
    assert nearest_distance(points).tolist()[:2] == [0.0, 0.0]
    assert np.isnan(nearest_distance(points[:1])).all()
    assert len(nearest_distance(np.empty((0, 3)))) == 0


def test_points_are_rows() -> None:
    with pytest.raises(UserError, match=r"\[N, D\]"):
        nearest_distance([1.0, 2.0])
