"""Where do texts lie between two numbers of theirs, and what does a third one say? A point a text, coloured by it.

Every point carries its text as a title, so that pointing at it shows the text without any script; the page's script
adds the keyboard, the switch between colours and the way to a text's explanations. Large maps are thinned, and say so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from rashomon.drawing.scales import Scale, finite, shade
from rashomon.drawing.svg import MOST_ROWS, Chart, Table, svg, x_axis, y_axis
from rashomon.experiments.figures import TextMap
from rashomon.wording import number

MOST_POINTS = 1500
WIDTH, HEIGHT = 560, 380  # one drawing for every screen: each point carries a text, which is not said twice


@dataclass(frozen=True)
class MapLayer:
    """One meaning of the colours."""

    name: str
    span: tuple[str, str]
    diverging: bool


@dataclass(frozen=True)
class MapView(Chart):
    """A map ready for the page."""

    layers: tuple[MapLayer, ...] = ()
    kind: str = "map"


def text_map(figure: TextMap, name: str) -> MapView:
    """The figure for the page."""
    places = [i for i, place in enumerate(zip(figure.x, figure.y, strict=True)) if len(finite(place)) == 2]
    kept = _thinned(places)
    caption = figure.caption
    if len(kept) < len(places):
        caption += f" {len(kept):,} of {len(places):,} texts are drawn, chosen at random."
    drawn = (("any", _draw(figure, kept, name)),) if kept else ()
    layers = tuple(
        MapLayer(layer, (number(low), number(high)), low < 0 < high)
        for layer, (low, high) in figure.ranges.items()
    )
    return MapView(name, figure.title, caption.strip(), drawn, (), _table(figure, places), layers=layers)


def _thinned(places: list[int]) -> list[int]:
    if len(places) <= MOST_POINTS:
        return places
    chosen = np.random.default_rng(0).choice(len(places), MOST_POINTS, replace=False)
    return [places[i] for i in np.sort(chosen)]


def _draw(figure: TextMap, kept: list[int], name: str) -> Markup:
    left, top, right = 48, 28, 14
    x = Scale.over([figure.x[i] for i in kept], left, WIDTH - right)
    y = Scale.over([figure.y[i] for i in kept], HEIGHT, top)
    parts = [
        y_axis(y, left, WIDTH - right, figure.y_label),
        x_axis(x, top, HEIGHT, figure.x_label, narrow=False),
    ]
    order = sorted(kept, key=lambda i: (figure.x[i], figure.y[i]))  # the way that the arrow keys go
    points = [_point(figure, i, x, y, first=place == 0) for place, i in enumerate(order)]
    parts.append(Markup('<g class="points">{}</g>').format(Markup("").join(points)))
    colours = ", ".join(figure.layers)
    described = f"{figure.y_label} against {figure.x_label} of {len(kept)} texts, coloured by {colours}."
    return svg(
        name, WIDTH, HEIGHT + 46, figure.title, described, parts, role="group"
    )  # with points to be reached


def _point(figure: TextMap, i: int, x: Scale, y: Scale, first: bool) -> Markup:
    shades = [
        shade(next(iter(finite([of[i]])), None), figure.ranges[layer]) for layer, of in figure.layers.items()
    ]
    layers = ", ".join(f"{layer} {number(of[i])}" for layer, of in figure.layers.items())
    said = (
        f"{figure.ids[i]}: {figure.texts[i]} ({figure.x_label} {number(figure.x[i])}, "
        f"{figure.y_label} {number(figure.y[i])}, {layers})"
    )
    return Markup(
        '<circle class="{}" data-shades="{}" data-id="{}" tabindex="{}" role="img" cx="{:.1f}" cy="{:.1f}" r="4.5">'
        "<title>{}</title></circle>"
    ).format(
        shades[0], " ".join(shades), figure.ids[i], 0 if first else -1, x(figure.x[i]), y(figure.y[i]), said
    )


def _table(figure: TextMap, places: list[int]) -> Table:
    rows = [
        (
            str(figure.ids[i]),
            number(figure.x[i], 3),
            number(figure.y[i], 3),
            *(number(of[i], 3) for of in figure.layers.values()),
        )
        for i in places[:MOST_ROWS]
    ]
    columns = ("text", figure.x_label, figure.y_label, *figure.layers)
    return Table(columns, tuple(rows), (False, *[True] * (len(columns) - 1)), max(0, len(places) - MOST_ROWS))
