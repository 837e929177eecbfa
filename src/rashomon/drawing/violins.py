"""How are the values spread? Violins with median, quartiles and n; two groups may share one violin.

The curve is a Gaussian kernel density (SciPy) between the least and the greatest value; where there are too
few values, or all are equal, the values themselves are shown as dots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from rashomon.drawing.scales import Scale, finite
from rashomon.drawing.svg import NARROW, WIDE, Chart, Table, line, short, svg, swatch_box, text, x_axis
from rashomon.experiments.figures import Distributions
from rashomon.wording import cell, number

PAIR = " | "  # groups "a | left" and "a | right" are drawn as one violin, the first above, the second below
_KDE_FROM = 5  # fewer values than this are shown one by one


@dataclass(frozen=True)
class _Violin:
    """A group, or the upper (1) or lower (-1) half of a pair of groups."""

    label: str
    values: NDArray[np.float64]
    n: int
    side: int = 0


def violins(figure: Distributions, name: str) -> Chart:
    groups = {label: np.array(finite(values)) for label, values in figure.groups.items()}
    rows = _paired(groups)
    every = [float(value) for values in groups.values() for value in values]
    drawings: tuple[tuple[str, Markup], ...] = ()
    if every:
        wide, narrow = (
            _draw_violins(figure, rows, WIDE, f"{name}-w"),
            _draw_violins(figure, rows, NARROW, f"{name}-n"),
        )
        drawings = (("wide", wide), ("narrow", narrow))
    halves = {violin.label: violin.side for row in rows.values() for violin in row if violin.side}
    legend = tuple((swatch_box("s1" if side > 0 else "s2"), label) for label, side in halves.items())
    return Chart(name, figure.title, figure.caption, drawings, legend, _violin_table(figure))


def _paired(groups: Mapping[str, NDArray[np.float64]]) -> dict[str, list[_Violin]]:
    """Rows of the figure: one violin, or two halves where two groups share what stands before the bar."""
    heads: dict[str, list[str]] = {}
    for label in groups:
        heads.setdefault(label.partition(PAIR)[0] if PAIR in label else label, []).append(label)
    tails = list(dict.fromkeys(label.partition(PAIR)[2] for label in groups if PAIR in label))
    rows: dict[str, list[_Violin]] = {}
    for head, labels in heads.items():
        if len(tails) == 2 and all(PAIR in label for label in labels):
            rows[head] = [
                _Violin(tail, groups[label], len(groups[label]), 1 if tail == tails[0] else -1)
                for label in labels
                for tail in [label.partition(PAIR)[2]]
            ]
        else:
            rows |= {label: [_Violin(label, groups[label], len(groups[label]))] for label in labels}
    return rows


def _draw_violins(figure: Distributions, rows: Mapping[str, list[_Violin]], width: int, name: str) -> Markup:
    narrow = width < WIDE
    longest = max(len(label) for label in rows)
    left, right, top = (10, 14, 6) if narrow else (min(230, 24 + 7 * longest), 130, 10)
    step = 64 if narrow else 46
    every = [float(value) for row in rows.values() for violin in row for value in violin.values]
    low, high = figure.x_range or (min(every), max(every))
    x = Scale(low, high, left, width - right) if figure.x_range else Scale.over(every, left, width - right)
    bottom = top + step * len(rows)
    parts = [x_axis(x, top, bottom, figure.x_label, narrow)]
    for index, (label, halves) in enumerate(rows.items()):
        middle = top + step * index + (44 if narrow else step / 2)
        figures = "; ".join(_summary(violin) for violin in halves)
        if narrow:
            parts.append(text(left, middle - 26, f"{label}", "label"))
            parts.append(text(width - right, middle - 26, figures, "note", "end"))
        else:
            parts.append(text(left - 12, middle + 4, short(label, 30), "label", "end"))
            for line, violin in enumerate(halves):
                shift = 4 if len(halves) == 1 else (-4 if line == 0 else 12)
                parts.append(text(width - right + 10, middle + shift, _summary(violin, "median "), "note"))
        parts += [_violin(violin, x, middle, 16 if narrow else 19) for violin in halves]
    described = "; ".join(
        f"{row}: {', '.join(_summary(violin, 'median ') for violin in halves)}"
        for row, halves in rows.items()
    )
    return svg(name, width, bottom + 46, figure.title, f"Violins of {figure.x_label}. {described}.", parts)


def _summary(violin: _Violin, word: str = "") -> str:
    return f"{word}{number(float(np.median(violin.values)))}, n {violin.n}" if violin.n else "no values"


def _violin(violin: _Violin, x: Scale, middle: float, half: float) -> Markup:
    if not violin.n:
        return Markup("")
    colour = "s2" if violin.side < 0 else "s1"
    median = x(float(np.median(violin.values)))
    up, down = (half if violin.side >= 0 else 0), (half if violin.side <= 0 else 0)
    tick = line(median, middle - up, median, middle + down, "median")
    places, height = density(violin.values)
    if not len(places):
        dots = [
            Markup('<circle class="dot fill-{}" cx="{:.1f}" cy="{:.1f}" r="3.5"/>').format(
                colour, x(float(value)), middle - (0.4 * half * violin.side)
            )
            for value in violin.values[:_KDE_FROM]
        ]
        return Markup("").join([*dots, tick])
    across = [x(float(place)) for place in places]
    upper = [f"{a:.1f},{middle - up * h:.1f}" for a, h in zip(across, height, strict=True)]
    lower = [f"{a:.1f},{middle + down * h:.1f}" for a, h in zip(across, height, strict=True)]
    shape = Markup('<path class="violin {}" d="M{}Z"/>').format(colour, "L".join(upper + lower[::-1]))
    first, third = (x(float(value)) for value in np.quantile(violin.values, [0.25, 0.75]))
    level = middle - 0.18 * half * violin.side * 2
    return shape + line(first, level, third, level, "quartiles") + tick


def density(values: NDArray[np.float64], points: int = 81) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Places and heights (the highest is 1) of a violin; nothing where there are too few or equal values."""
    nothing = np.empty(0)
    if len(values) < _KDE_FROM or np.ptp(values) <= 1e-9 * max(1.0, float(np.abs(values).max())):
        return nothing, nothing
    places = np.linspace(values.min(), values.max(), points)
    # A Gaussian on every value, as wide as Scott's rule has it; SciPy's own takes a second to load.
    width = values.std(ddof=1) * len(values) ** -0.2
    height = np.exp(-(((places[:, None] - values) / width) ** 2) / 2).mean(1)
    peak = height.max()
    return (places, height / peak) if np.isfinite(peak) and peak > 0 else (nothing, nothing)


def _violin_table(figure: Distributions) -> Table:
    rows = []
    for label, values in figure.groups.items():
        known = finite(values)
        quantiles = np.quantile(known, [0, 0.25, 0.5, 0.75, 1]).tolist() if known else [None] * 5
        mean = float(np.mean(known)) if known else None
        counts = (cell(len(known)), cell(len(values) - len(known)))
        rows.append((label, *counts, number(mean, 3), *(number(value, 3) for value in quantiles)))
    columns = (
        "group",
        "n",
        "undefined",
        "mean",
        "least",
        "first quartile",
        "median",
        "third quartile",
        "most",
    )
    return Table(columns, tuple(rows), (False, *[True] * 8))
