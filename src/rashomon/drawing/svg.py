"""Of what is a figure made? A chart with its key and its numbers, and the pieces of SVG that draw it.

Colours are classes (``s1`` to ``s8``) whose light and dark values stand in the page's style sheet. Every text
goes through ``Markup.format``, which escapes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from rashomon.drawing.scales import Scale, tick_labels, ticks

WIDE, NARROW = 720, 350  # each chart is drawn for both, which keeps its letters readable on a phone
SERIES_COLOURS = 8
CONTROL = "s0"  # grey
MOST_ROWS = 200  # of the table behind a chart
_CORNERS: dict[str, tuple[tuple[float, float], ...]] = {
    "triangle": ((0, -5.5), (5, 4), (-5, 4)),
    "square": ((-4, -4), (4, -4), (4, 4), (-4, 4)),
}


@dataclass(frozen=True)
class Table:
    """Cells as text; ``numeric`` says which columns are set to the right."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Chart:
    """A drawn figure with its key and its numbers. ``drawings`` are (class of screen, SVG)."""

    id: str
    title: str
    caption: str
    drawings: tuple[tuple[str, Markup], ...]  # none where no value is defined
    legend: tuple[tuple[Markup, str], ...]
    table: Table
    direct: bool = False  # the wide drawing names every series itself
    kind: str = "chart"


def colour(index: int) -> str:
    return f"s{index % SERIES_COLOURS + 1}"


def svg(
    name: str,
    width: float,
    height: float,
    title: str,
    description: str,
    parts: Sequence[Markup],
    role: str = "img",
) -> Markup:
    head = Markup(
        '<svg role="{5}" aria-labelledby="{0}-t" aria-describedby="{0}-d" viewBox="0 0 {1:.0f} {2:.0f}">'
        '<title id="{0}-t">{3}</title><desc id="{0}-d">{4}</desc>'
    ).format(name, width, height, title, description, role)
    return head + Markup("").join(parts) + Markup("</svg>")


def x_axis(x: Scale, top: float, bottom: float, label: str, narrow: bool) -> Markup:
    places = ticks(x.low, x.high, 4 if narrow else 7)
    parts = [line(x(place), top, x(place), bottom, "zero" if place == 0 else "grid") for place in places]
    parts += [
        text(x(place), bottom + 17, said, "tick", "middle")
        for place, said in zip(places, tick_labels(places), strict=True)
    ]
    parts.append(text((x.start + x.end) / 2, bottom + 38, label, "axis", "middle"))
    return Markup("").join(parts)


def y_axis(y: Scale, left: float, right: float, label: str) -> Markup:
    places = ticks(y.low, y.high, 5)
    parts = [line(left, y(place), right, y(place), "zero" if place == 0 else "grid") for place in places]
    parts += [
        text(left - 8, y(place) + 4, said, "tick", "end")
        for place, said in zip(places, tick_labels(places), strict=True)
    ]
    parts.append(text(4, 14, label, "axis"))
    return Markup("").join(parts)


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return Markup('<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(
        kind, x1, y1, x2, y2
    )


def text(x: float, y: float, said: str, kind: str, anchor: str = "start") -> Markup:
    return Markup('<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(
        kind, x, y, anchor, said
    )


def marker(kind: str, x: float, y: float, colour: str, figures: str = "") -> Markup:
    said = Markup("<title>{}</title>").format(figures) if figures else Markup("")
    if kind == "plus":
        path = f"M{x - 5:.1f},{y:.1f}H{x + 5:.1f}M{x:.1f},{y - 5:.1f}V{y + 5:.1f}"
        return Markup('<path class="line stroke-{}" d="{}">{}</path>').format(colour, path, said)
    path = "L".join(f"{x + a:.1f},{y + b:.1f}" for a, b in _CORNERS.get(kind, ()))
    if not path:
        circle = '<circle class="dot fill-{}" cx="{:.1f}" cy="{:.1f}" r="4">{}</circle>'
        return Markup(circle).format(colour, x, y, said)
    return Markup('<path class="dot fill-{}" d="M{}Z">{}</path>').format(colour, path, said)


def swatch(body: Markup) -> Markup:
    """A sample for the key of a figure."""
    return Markup('<svg class="swatch" aria-hidden="true" viewBox="0 0 24 16">{}</svg>').format(body)


def swatch_box(colour: str) -> Markup:
    return swatch(Markup('<path class="violin {}" d="M2,3H22V13H2Z"/>').format(colour))


def short(label: str, most: int) -> str:
    """Cut in the middle: methods in several settings differ at their ends."""
    head = most // 2
    return label if len(label) <= most else f"{label[:head]}…{label[len(label) - (most - head - 1) :]}"
