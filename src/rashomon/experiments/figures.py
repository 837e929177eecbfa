"""Figures as data, so that the report draws them to its own taste and ``findings.json`` holds what they show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Matrix:
    """A square or oblong table of numbers to colour, one layer per measure with a switch between them."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    layers: Mapping[str, Sequence[Sequence[float]]]  # measure -> rows of values, NaN where undefined
    ranges: Mapping[str, tuple[float, float]]  # measure -> what the colours span
    details: Mapping[str, Sequence[Sequence[str]]] = field(
        default_factory=dict
    )  # shown with a cell: n, interval
    caption: str = ""


@dataclass(frozen=True)
class Distributions:
    """Values by group, drawn as violins with their median; groups may be paired (class 0 above, class 1 below)."""

    title: str
    groups: Mapping[str, Sequence[float]]
    x_label: str
    caption: str = ""
    x_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Series:
    """Points of one kind. ``low`` and ``high`` are an interval around y; ``line`` joins the points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    line: bool = True
    marker: str = "circle"  # circle, triangle, square, plus
    control: bool = False  # something to beat rather than something to judge: grey, whatever its place


@dataclass(frozen=True)
class Plot:
    """Series on common axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    caption: str = ""


@dataclass(frozen=True)
class TextMap:
    """A point a text, in colours to switch between; pointing at one shows the text, and leads to its explanations."""

    title: str
    x_label: str
    y_label: str
    ids: Sequence[str]
    texts: Sequence[str]
    x: Sequence[float]
    y: Sequence[float]
    layers: Mapping[str, Sequence[float]]  # what the colours tell -> a value a text, NaN where undefined
    ranges: Mapping[str, tuple[float, float]]  # what the colours span
    caption: str = ""


@dataclass(frozen=True)
class Gauge:
    """One number on its scale, small enough to stand beside the words that it carries. What is unknown is None."""

    measure: str  # "average precision"
    value: float
    low: float | None = None  # of its interval
    high: float | None = None
    floor: float | None = None  # what chance or a control reaches
    ceiling: float | None = None  # the best within reach
    ends: tuple[float, float] = (0.0, 1.0)  # of the scale, the lower one first
    better: Literal["higher", "lower"] = "higher"
    variant: str = ""  # which of several numbers it is, where a judgement rests on more than one
    logarithmic: bool = False


Figure = Matrix | Distributions | Plot | TextMap
