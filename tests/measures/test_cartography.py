"""Cartography against dynamics made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rashomon.errors import UserError
from rashomon.measures.cartography import cartography

# gold probability of class 1 over four epochs, text by text
GOLD = np.array([[0.9, 0.9, 0.9, 0.9], [0.6, 0.4, 0.7, 0.3], [0.1, 0.2, 0.1, 0.2], [0.2, 0.6, 0.7, 0.8]])
DYNAMICS = np.stack([1 - GOLD.T, GOLD.T], -1)
LABELS = np.ones(4, dtype=int)


@pytest.mark.parametrize("labels", [[2], [-1], [0.5], ["good"], [None]])
def test_labels_count_the_classes(labels: list[object]) -> None:
    with pytest.raises(UserError, match=r"labels from 0 to 1|Labels must be numbers"):
        cartography([[[0.5, 0.5]]], labels)


def test_by_hand() -> None:
    found = cartography(DYNAMICS, LABELS)
    np.testing.assert_allclose(found.confidence, [0.9, 0.5, 0.15, 0.575])
    np.testing.assert_allclose(found.variability, [0.0, np.sqrt(0.025), 0.05, np.std([0.2, 0.6, 0.7, 0.8])])
    np.testing.assert_allclose(found.closeness, [0.09, 0.25, 0.1275, 0.575 * 0.425])
    assert found.correctness.tolist() == [4, 2, 0, 3]
    assert found.forgetting.tolist() == [0, 2, -1, 0]
    assert found.groups().tolist() == ["easy", "ambiguous", "hard", ""]


def test_the_sample_spread_is_larger_by_the_known_factor() -> None:
    five = np.concatenate([DYNAMICS, DYNAMICS[:1]])
    ratio = cartography(five, LABELS, ddof=1).variability[1] / cartography(five, LABELS).variability[1]
    assert ratio == pytest.approx(np.sqrt(5 / 4))  # 1.118


def test_closeness_can_be_averaged_over_epochs() -> None:
    found = cartography(DYNAMICS, LABELS, closeness="mean-of")
    np.testing.assert_allclose(found.closeness, (GOLD * (1 - GOLD)).mean(1))


@pytest.mark.parametrize(
    ("correct", "group"), [(5, "easy"), (3, "ambiguous"), (2, "ambiguous"), (0, "hard"), (4, "")]
)
def test_groups_over_five_epochs_are_the_papers(correct: int, group: str) -> None:
    gold = np.array([0.9] * correct + [0.1] * (5 - correct))
    assert cartography(np.stack([1 - gold, gold], -1)[:, None], [1]).groups().tolist() == [group]


@given(arrays(float, (3, 6), elements=st.floats(0, 1)))
def test_bounds(gold: np.ndarray) -> None:
    found = cartography(np.stack([1 - gold, gold], -1), np.ones(6, dtype=int))
    assert ((found.variability >= 0) & (found.variability <= 0.5 + 1e-9)).all()
    assert ((found.closeness >= -1e-12) & (found.closeness <= 0.25 + 1e-12)).all()


@pytest.mark.parametrize(("shape", "labels"), [((3, 4), 4), ((3, 4, 2), 5)])
def test_wrong_shapes_are_refused(shape: tuple[int, ...], labels: int) -> None:
    with pytest.raises(UserError, match="epochs, N, C"):
        cartography(np.zeros(shape), np.zeros(labels, dtype=int))


def test_one_epoch_has_no_sample_spread() -> None:
    with pytest.raises(UserError, match="more than 1 epochs"):
        cartography(DYNAMICS[:1], LABELS, ddof=1)
