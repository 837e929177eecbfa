"""How does one number go with another? Lines, bands, points and intervals on common axes.

An undefined point breaks its line. Series are told apart by colour, by marker, by the key and, where there is
room, by their names at the ends of the lines.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from rashomon.drawing.scales import Scale, finite
from rashomon.drawing.svg import (
    CONTROL,
    MOST_ROWS,
    NARROW,
    SERIES_COLOURS,
    WIDE,
    Chart,
    Table,
    colour,
    line,
    marker,
    short,
    svg,
    swatch,
    text,
    x_axis,
    y_axis,
)
from rashomon.experiments.figures import Plot, Series
from rashomon.wording import number


def plot(figure: Plot, name: str) -> Chart:
    points = [_points(series) for series in figure.series]
    drawings: tuple[tuple[str, Markup], ...] = ()
    if any(points):
        drawings = (
            ("wide", _draw_plot(figure, WIDE, f"{name}-w")),
            ("narrow", _draw_plot(figure, NARROW, f"{name}-n")),
        )
    legend = tuple((_swatch(series, index), series.name) for index, series in enumerate(figure.series))
    rows = [
        (series.name, *(number(value, 3) for value in (x, y, low, high)))
        for series in figure.series
        for x, y, low, high in _rows(series)
    ]
    table = Table(
        ("series", figure.x_label, figure.y_label, "low", "high"),
        tuple(rows[:MOST_ROWS]),
        (False, True, True, True, True),
        max(0, len(rows) - MOST_ROWS),
    )
    direct = _names_lines(figure) and all(series.line and _points(series) for series in figure.series)
    return Chart(name, figure.title, figure.caption, drawings, legend, table, direct)


Point = tuple[float | None, float | None, float | None, float | None]


def _rows(series: Series) -> list[Point]:
    count = len(series.x)
    low = series.low if series.low is not None else [None] * count
    high = series.high if series.high is not None else [None] * count

    def known(value: float | None) -> float | None:
        return next(iter(finite([value])), None)

    together = zip(series.x, series.y, low, high, strict=False)
    return [(known(a), known(b), known(c), known(d)) for a, b, c, d in together]


def _points(series: Series) -> list[tuple[float, float]]:
    return [(x, y) for x, y, _, _ in _rows(series) if x is not None and y is not None]


def _names_lines(figure: Plot) -> bool:
    return 1 < len(figure.series) <= SERIES_COLOURS and any(series.line for series in figure.series)


def _draw_plot(figure: Plot, width: int, name: str) -> Markup:
    narrow = width < WIDE
    named = not narrow and _names_lines(figure)
    longest = max((len(series.name) for series in figure.series if series.line), default=0)
    left, top, height = (44, 26, 250) if narrow else (56, 28, 300)
    right = min(190, 20 + 7 * longest) if named else 14
    rows = [
        row for series in figure.series for row in _rows(series) if row[0] is not None and row[1] is not None
    ]
    x = Scale.over([row[0] for row in rows if row[0] is not None], left, width - right)
    y = Scale.over([value for row in rows for value in row[1:] if value is not None], height, top)
    parts = [y_axis(y, left, width - right, figure.y_label), x_axis(x, top, height, figure.x_label, narrow)]
    for index, series in enumerate(figure.series):
        parts.append(_band(series, index, x, y))
        parts.append(_marks(series, index, x, y))
    if named:
        parts += _direct_labels(figure.series, x, y, width - right + 10)
    described = f"{figure.y_label} against {figure.x_label}. {_described(figure.series)}"
    return svg(name, width, height + 46, figure.title, described, parts)


def _described(series: Sequence[Series]) -> str:
    said = []
    for one in series:
        points = sorted(_points(one))
        if not points:
            said.append(f"{one.name}: no values.")
        elif len(points) == 1:
            said.append(f"{one.name}: {number(points[0][1])} at {number(points[0][0])}.")
        else:
            (x0, y0), (x1, y1) = points[0], points[-1]
            ends = f"{number(y0)} at {number(x0)} to {number(y1)} at {number(x1)}"
            said.append(f"{one.name}: {ends}, {len(points)} points.")
    return " ".join(said)


def _runs(rows: Sequence[Point]) -> list[list[Point]]:
    """Stretches without a gap: an undefined point breaks the line."""
    runs: list[list[Point]] = [[]]
    for row in rows:
        if row[0] is None or row[1] is None:
            runs.append([])
        else:
            runs[-1].append(row)
    return [run for run in runs if run]


def _hue(series: Series, index: int) -> str:
    return CONTROL if series.control else colour(index)


def _band(series: Series, index: int, x: Scale, y: Scale) -> Markup:
    hue = _hue(series, index)
    rows = [row for run in _runs(_rows(series)) for row in run]
    intervals = [(a, c, d) for a, _, c, d in rows if a is not None and c is not None and d is not None]
    if not intervals:
        return Markup("")
    if not series.line or len(intervals) == 1:
        bars = [line(x(a), y(c), x(a), y(d), f"bar stroke-{hue}") for a, c, d in intervals]
        return Markup("").join(bars)
    shapes = []
    for run in _runs(_rows(series)):
        edge = [(a, c, d) for a, _, c, d in run if a is not None and c is not None and d is not None]
        if len(edge) > 1:
            upper = [f"{x(a):.1f},{y(d):.1f}" for a, _, d in edge]
            lower = [f"{x(a):.1f},{y(c):.1f}" for a, c, _ in reversed(edge)]
            shapes.append(Markup('<path class="band {}" d="M{}Z"/>').format(hue, "L".join(upper + lower)))
    return Markup("").join(shapes)


def _marks(series: Series, index: int, x: Scale, y: Scale) -> Markup:
    hue, points = _hue(series, index), _points(series)
    parts = []
    if series.line:
        for run in _runs(_rows(series)):
            path = "L".join(f"{x(a):.1f},{y(b):.1f}" for a, b, _, _ in run if a is not None and b is not None)
            dash = " dashed" if index >= SERIES_COLOURS and not series.control else ""
            parts.append(Markup('<path class="line stroke-{}{}" d="M{}"/>').format(hue, dash, path))
    for a, b in points:
        figures = f"{series.name}: {number(b, 3)} at {number(a, 3)}" if len(points) <= MOST_ROWS else ""
        parts.append(marker(series.marker, x(a), y(b), hue, figures))
    return Markup("").join(parts)


def _direct_labels(series: Sequence[Series], x: Scale, y: Scale, right: float) -> list[Markup]:
    """Names at the ends of the lines, pushed apart where they would touch."""
    ends = [
        (y(max(_points(one))[1]), i, one.name) for i, one in enumerate(series) if one.line and _points(one)
    ]
    ends.sort()
    heights = [height for height, _, _ in ends]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + 15)
    limit = y.start
    for i in reversed(range(len(heights))):
        heights[i] = min(heights[i], limit)
        limit = heights[i] - 15
    return [
        text(right, height + 4, short(label, 24), f"label ink-{_hue(series[index], index)}")
        for height, (_, index, label) in zip(heights, ends, strict=True)
    ]


def _swatch(series: Series, index: int) -> Markup:
    hue = _hue(series, index)
    stroke = line(0, 8, 24, 8, f"line stroke-{hue}") if series.line else Markup("")
    return swatch(stroke + marker(series.marker, 12, 8, hue))
