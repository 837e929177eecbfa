"""What do the numbers look like? The figures of a finding, ready for the page or a notebook.

A matrix becomes a table coloured cell by cell, one layer for each measure; distributions and plots become
inline SVG that follows the page's light and dark theme, with a title and a description for screen readers and
the numbers behind it as a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from rashomon.drawing.maps import text_map
from rashomon.drawing.plots import plot
from rashomon.drawing.scales import finite, shade
from rashomon.drawing.svg import Chart
from rashomon.drawing.violins import violins
from rashomon.experiments.figures import Distributions, Figure, Matrix, TextMap
from rashomon.wording import number


@dataclass(frozen=True)
class Cell:
    """One coloured number of a matrix, and what is said when it is pointed at."""

    text: str
    shade: str
    detail: str


@dataclass(frozen=True)
class Layer:
    """A matrix as one measure sees it."""

    id: str
    measure: str
    span: tuple[str, str]
    diverging: bool
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True)
class MatrixView:
    """A matrix ready for the page."""

    id: str
    title: str
    caption: str
    columns: tuple[str, ...]
    layers: tuple[Layer, ...]
    kind: str = "matrix"


def figure_css() -> str:
    """The style sheet that the drawings need."""
    return files("rashomon.drawing").joinpath("figures.css").read_text(encoding="utf-8").strip()


def draw(figure: Figure, name: str) -> Chart | MatrixView:
    """The figure for the page; ``name`` is unique there."""
    if isinstance(figure, Matrix):
        return _matrix(figure, name)
    if isinstance(figure, TextMap):
        return text_map(figure, name)
    return violins(figure, name) if isinstance(figure, Distributions) else plot(figure, name)


def _matrix(figure: Matrix, name: str) -> MatrixView:
    layers = []
    for index, (measure, values) in enumerate(figure.layers.items()):
        given = finite(value for row in values for value in row)
        low, high = figure.ranges.get(measure, (min(given, default=0.0), max(given, default=1.0)))
        details = figure.details.get(measure, ())
        rows = []
        for i, row in enumerate(figure.rows):
            cells = [
                _cell(measure, row, column, _at(values, i, j), (low, high), _at(details, i, j))
                for j, column in enumerate(figure.columns)
            ]
            rows.append((row, tuple(cells)))
        span = (number(low), number(high))
        layers.append(Layer(f"{name}-{index}", measure, span, low < 0 < high, tuple(rows)))
    return MatrixView(name, figure.title, figure.caption, figure.columns, tuple(layers))


def _at(rows: Sequence[Sequence[object]], i: int, j: int) -> object:
    return rows[i][j] if i < len(rows) and j < len(rows[i]) else None


def _cell(
    measure: str, row: str, column: str, value: object, span: tuple[float, float], detail: object
) -> Cell:
    known = finite([value])
    text = number(known[0]) if known else number(None)
    said = f"{row} and {column}: {measure} {text if known else 'undefined'}"
    return Cell(text, shade(known[0] if known else None, span), f"{said}. {detail}" if detail else said)
