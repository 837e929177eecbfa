from __future__ import annotations

import numpy as np
import pytest

from rashomon.errors import UserError
from rashomon.measures import erasure
from rashomon.measures.base import Ragged


def test_top_masks_grow_and_mark_at_least_one() -> None:
    rng = np.random.default_rng(0)
    scores = Ragged.from_list([rng.normal(size=n) for n in (1, 7, 50, 200)])
    masks = erasure.top_masks(scores)
    assert masks.shape == (5, 258)
    assert (masks[1:] >= masks[:-1]).all()  # what 1 % holds, 5 % holds
    counts = np.stack([scores.sum(mask) for mask in masks])
    assert counts[:, 0].tolist() == [1, 1, 1, 1, 1]
    assert counts[:, 3].tolist() == [2, 10, 20, 40, 100]
    for mask in masks:
        for values, kept in zip(scores.split(scores.values), scores.split(mask), strict=True):
            assert kept.all() or values[kept].min() >= values[~kept].max()


def test_ties_go_to_the_first_token() -> None:
    scores = Ragged.from_list([[0.0] * 10])
    assert np.flatnonzero(erasure.top_mask(scores, 0.3)).tolist() == [0, 1, 2]


def test_drops_by_hand() -> None:
    full = [0.9, 0.8]
    reduced = [[0.9, 0.5, 0.1], [0.8, 0.9, np.nan]]
    np.testing.assert_allclose(erasure.sufficiency(full, reduced), [[0, 0.4, 0.8], [0, -0.1, np.nan]])
    np.testing.assert_allclose(erasure.comprehensiveness(full, [0.4, 0.8]), [0.5, 0.0])
    np.testing.assert_allclose(erasure.aopc_comprehensiveness(full, reduced), [0.4, np.nan])
    np.testing.assert_allclose(erasure.aopc_sufficiency(full, reduced), [0.4, np.nan])


@pytest.mark.parametrize("reduced", [[0.1], [[0.1, 0.2]], [[[0.1]], [[0.1]]]])
def test_wrong_shapes_are_refused(reduced: object) -> None:
    with pytest.raises(UserError, match="Erasure"):
        erasure.sufficiency([0.5, 0.5], reduced)  # type: ignore[arg-type]


def test_aopc_needs_thresholds() -> None:
    with pytest.raises(UserError, match="AOPC"):
        erasure.aopc([0.1, 0.2])
    with pytest.raises(UserError, match="AOPC"):
        erasure.aopc(np.empty((2, 0)))
    assert erasure.aopc([[0.1], [0.2]]).tolist() == [0.1, 0.2], "one threshold is a mean, too"
