"""How good is a number, at a glance? A dot with its interval on a short scale, between a floor and a ceiling.

Right is always better. Places are shares of the width, so that a drawing is as wide as the cell it stands in while its
dots stay round. Where a judgement rests on several numbers they lie one above the other, told apart by their shape.
The numbers themselves are for the page to say; the drawing is hidden from screen readers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from rashomon.drawing.svg import swatch
from rashomon.experiments.figures import Gauge

TINY = 1e-9  # has a logarithm
LANE = 12  # pixels of height for each number
_SHAPES = (
    Markup('<circle class="gauge-dot" r="4"/>'),
    Markup('<path class="gauge-dot" d="M0,-5.2L5.2,0L0,5.2L-5.2,0Z"/>'),
    Markup('<rect class="gauge-dot" x="-3.7" y="-3.7" width="7.4" height="7.4"/>'),
)


def common_ends(gauges: Sequence[Gauge]) -> tuple[float, float]:
    """One scale for all that is to be compared."""
    return min(each.ends[0] for each in gauges), max(each.ends[1] for each in gauges)


def variants_of(judged: Iterable[Sequence[Gauge]]) -> tuple[str, ...]:
    """The lanes of drawings that stand below each other, in the order of the one with the most."""
    fullest_first = sorted(judged, key=len, reverse=True)
    return tuple(dict.fromkeys(each.variant for gauges in fullest_first for each in gauges))


def draw_gauges(gauges: Sequence[Gauge], ends: tuple[float, float], variants: Sequence[str]) -> Markup:
    """Each number in the lane of its variant, on a scale with these ends."""
    lanes = {variant: lane for lane, variant in enumerate(variants)}
    parts = [_drawn(each, ends, lanes[each.variant]) for each in gauges]
    return Markup('<svg class="gauge-drawing" aria-hidden="true" height="{}">{}</svg>').format(
        LANE * len(lanes), Markup("").join(parts)
    )


def shape(lane: int) -> Markup:
    """The sign of a variant, for the key."""
    return _sign(_SHAPES[lane % len(_SHAPES)])


def gauge_key() -> tuple[tuple[Markup, str], ...]:
    """What the signs of a drawing mean."""
    dot = Markup('{}<g transform="translate(12 8)">{}</g>').format(
        _span("gauge-interval", "3", "21", 8), _SHAPES[0]
    )
    return (
        (swatch(dot), "value, interval"),
        (_sign(_tick("gauge-floor", "0", 0)), "floor: chance"),
        (_sign(_tick("gauge-ceiling", "0", 0)), "ceiling: best within reach"),
    )


def _sign(body: Markup) -> Markup:
    return Markup('<svg class="gauge-key" aria-hidden="true" viewBox="-6 -6 12 12">{}</svg>').format(body)


def _drawn(one: Gauge, ends: tuple[float, float], lane: int) -> Markup:
    y = (lane + 0.5) * LANE
    parts = [_span("gauge-scale", "0%", "100%", y)]
    if one.floor is not None:
        parts.append(_tick("gauge-floor", _percent(one, one.floor, ends), y))
    if one.ceiling is not None:
        parts.append(_tick("gauge-ceiling", _percent(one, one.ceiling, ends), y))
    if one.low is not None and one.high is not None:
        parts.append(_span("gauge-interval", _percent(one, one.low, ends), _percent(one, one.high, ends), y))
    sign = _SHAPES[lane % len(_SHAPES)]
    parts.append(Markup('<svg x="{}" y="{:g}">{}</svg>').format(_percent(one, one.value, ends), y, sign))
    return Markup("").join(parts)


def _span(kind: str, start: str, end: str, y: float) -> Markup:
    line = '<line class="{0}" x1="{1}" x2="{2}" y1="{3:g}" y2="{3:g}"/>'
    return Markup(line).format(kind, start, end, y)


def _tick(kind: str, x: str, y: float) -> Markup:
    reach = LANE / 2
    return Markup('<line class="{0}" x1="{1}" x2="{1}" y1="{2:g}" y2="{3:g}"/>').format(
        kind, x, y - reach, y + reach
    )


def _percent(one: Gauge, value: float, ends: tuple[float, float]) -> str:
    """Where a value stands, never beyond the ends; better is right."""
    low, high, place = (*ends, value)
    if one.logarithmic:
        low, high, place = (math.log(max(number, TINY)) for number in (low, high, place))
    share = (place - low) / (high - low) if high > low else 0.5
    share = min(max(share, 0.0), 1.0)
    return f"{100 * (share if one.better == 'higher' else 1 - share):.1f}%"
