"""A dot stands where its number says, and right is better."""

from __future__ import annotations

import re

import pytest

from rashomon.drawing.gauges import common_ends, draw_gauges, gauge_key, shape, variants_of
from rashomon.experiments.figures import Gauge


def _places(drawing: str, kind: str) -> list[float]:
    """Of a kind of line its first end, of dots (nested drawings) their place."""
    pattern = r'<svg x="([\d.]+)%"' if kind == "dot" else rf'class="gauge-{kind}" x1="([\d.]+)%"'
    return [float(found) for found in re.findall(pattern, drawing)]


def test_everything_stands_on_the_scale() -> None:
    one = Gauge("tau", 0.5, 0.4, 0.7, floor=0.1, ceiling=0.9)
    drawing = draw_gauges([one], (0.0, 1.0), ("",))
    assert [_places(drawing, kind) for kind in ("dot", "interval", "floor", "ceiling")] == [
        [50.0],
        [40.0],
        [10.0],
        [90.0],
    ]
    assert 'x2="70.0%"' in drawing
    assert 'aria-hidden="true"' in drawing


def test_what_is_unknown_is_not_drawn() -> None:
    bare = draw_gauges([Gauge("AtteFa", 0.25)], (0.0, 1.0), ("",))
    assert _places(bare, "dot") == [25.0]
    assert not re.search("interval|floor|ceiling", bare)


@pytest.mark.parametrize(("seconds", "place"), [(10.0, 0.0), (0.1, 50.0), (0.001, 100.0), (0.0, 100.0)])
def test_less_is_better_on_a_scale_of_powers(seconds: float, place: float) -> None:
    cost = Gauge("seconds", seconds, ends=(0.001, 10.0), better="lower", logarithmic=True)
    assert _places(draw_gauges([cost], cost.ends, ("",)), "dot") == [place]


def test_lanes_keep_their_place_where_one_is_missing() -> None:
    again = Gauge("kappa", 0.8, variant="again")
    retrained = Gauge("kappa", 0.5, ends=(-0.2, 1.0), variant="retrained")
    judged = [[retrained], [again, retrained]]
    assert variants_of(judged) == ("again", "retrained")
    assert common_ends([again, retrained]) == (-0.2, 1.0)
    alone, both = (draw_gauges(gauges, (0.0, 1.0), variants_of(judged)) for gauges in judged)
    assert alone.count("<path") == both.count("<path") == 1, "a diamond is always the second"
    assert (alone.count("<circle"), both.count("<circle")) == (0, 1)
    heights = [re.search(r'height="(\d+)"', drawing) for drawing in (alone, both)]
    assert len({found[1] for found in heights if found}) == 1


def test_the_key_shows_every_sign() -> None:
    signs = "".join(sign for sign, _ in gauge_key())
    assert all(f"gauge-{kind}" in signs for kind in ("dot", "interval", "floor", "ceiling"))
    assert shape(0) != shape(1) != shape(2)
