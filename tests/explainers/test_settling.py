"""Does settled mean what it says? Simulated scores with known truth."""

from __future__ import annotations

import numpy as np
import pytest

from rashomon.errors import UserError
from rashomon.explainers.settling import TOLERANCE, TOP, check_samples, doubt, looks, settled, unsettled


def test_settled_tops_are_right_as_often_as_stated() -> None:
    generator = np.random.default_rng(0)
    right = []
    for _ in range(4000):
        truth = generator.exponential(size=12) * generator.choice([-1, 1], 12)
        spread = np.full(12, 0.05)
        seen = truth + generator.normal(size=12) * spread
        if not settled(seen, spread):
            continue
        top = np.argsort(-np.abs(seen))[:TOP]
        rest = np.setdiff1d(np.arange(12), top)
        strength = np.abs(truth)
        right.append(strength[rest].max() - strength[top].min() <= TOLERANCE * strength.max())
    assert len(right) > 400
    assert np.mean(right) >= 0.95


def test_doubt_rises_with_spread_and_falls_with_the_lead() -> None:
    scores = np.array([5.0, -4.0, 3.0, 2.5, 2.0, 0.5, 0.1])
    assert doubt(scores, np.full(7, 0.1)) < 1e-6 < doubt(scores, np.full(7, 1.0))
    close = scores.copy()
    close[5] = 1.99
    assert doubt(close, np.full(7, 0.2)) > 0.2
    assert doubt(close, np.zeros(7)) == 0  # closer than the tolerance is as good
    assert settled(np.array([1.0]), np.array([9.0]))  # one token is always the strongest


def test_looks_end_at_most() -> None:
    assert looks(100, 1000) == [100, 140, 196, 274, 384, 538, 754, 1000]
    assert looks(700, 500) == [500]
    assert looks(51, 55) == [52, 55]


@pytest.mark.parametrize(("samples", "words"), [(1, "at least two"), ("many", "a number or")])
def test_samples_are_a_number_or_auto(samples: object, words: str) -> None:
    with pytest.raises(UserError, match=words):
        check_samples("lime", samples, 1000)  # type: ignore[arg-type]
    check_samples("lime", "auto", 2)


@pytest.mark.parametrize("open_places", range(TOP + 1))
def test_open_places_are_worth_a_word_when_a_repeat_would_fill_them_otherwise(open_places: int) -> None:
    """So many of the top lie as close to the sixth token as to be replaced by it."""
    scores = np.array([9.0] * (TOP - open_places) + [2.0] * open_places + [1.9, 0.1])
    said = unsettled(scores, np.full(len(scores), 0.5), 300)
    assert len(said) == (open_places >= 3)
    if said:
        assert said[0].startswith(
            f"{open_places} of the top 5 tokens are not settled after 300 samples: by their"
        )
    assert unsettled(scores, np.zeros(len(scores)), 300) == ()
