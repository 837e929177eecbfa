import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rashomon.drawing.scales import (
    Scale,
    contrast,
    ink_on,
    mixed,
    shade,
    tick_labels,
    ticks,
)
from rashomon.explainers.display import DARK, LIGHT

finite = st.floats(-1e6, 1e6)


@given(finite, st.floats(1e-3, 1e6))
def test_ticks_are_round_inside_and_few(low, width):
    high = low + width
    places = ticks(low, high)
    assert all(low - 1e-6 * width <= place <= high + 1e-6 * width for place in places)
    assert 2 <= len(places) <= 14
    steps = np.diff(places)
    assert np.allclose(steps, steps[0])
    assert len(tick_labels(places)) == len(places)


def test_ticks_of_nothing():
    assert ticks(math.nan, math.nan) == []
    assert ticks(2.0, 2.0) == [2.0]


def test_tick_labels_tell_places_apart():
    assert tick_labels(ticks(0, 1, 5)) == ["0", ".2", ".4", ".6", ".8", "1.0"]
    assert tick_labels(ticks(0, 150, 3)) == ["0", "50", "100", "150"]


@given(st.lists(finite, max_size=8))
def test_a_scale_holds_its_values(values):
    scale = Scale.over(values, 10, 90)
    assert all(10 <= scale(value) <= 90 for value in values)


@pytest.mark.parametrize(
    ("value", "span", "name"),
    [(1, (-1, 1), "p10"), (-1, (-1, 1), "n10"), (0, (-1, 1), "p0"), (-0.01, (-1, 1), "p0"),
     (0.5, (0, 1), "p5"),
     (-3, (0, 1), "p0"), (9, (0, 1), "p10"), (3, (2, 4), "p5"), (1, (1, 1), "p0"), (math.nan, (0, 1), "na")],
)  # fmt: skip
def test_shade(value, span, name):
    assert shade(value, span) == name


def test_contrast_against_known_values():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((118, 118, 118), (255, 255, 255)) == pytest.approx(4.54, abs=0.01)  # WCAG's own example


@given(st.tuples(*[st.integers(0, 255)] * 3))
def test_every_background_has_a_readable_ink(background):
    for palette in (LIGHT, DARK):
        assert contrast(ink_on(background, palette[1]), background) >= 4.5


def test_mixed_ends_are_the_colours_themselves():
    assert mixed((10, 20, 30), (200, 210, 220), 0) == (200, 210, 220)
    assert mixed((10, 20, 30), (200, 210, 220), 1) == (10, 20, 30)
