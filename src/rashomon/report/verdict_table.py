"""What does the first screen show? A row for each method, a column for each aspect, all on the column's one scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from markupsafe import Markup

from rashomon.audits.record import MethodVerdict
from rashomon.drawing.gauges import common_ends, draw_gauges, shape, variants_of
from rashomon.experiments.figures import Gauge
from rashomon.experiments.judging import Rating
from rashomon.studies.base import Judgement
from rashomon.wording import brief, number

RATINGS: tuple[str, ...] = get_args(Rating)
_ASPECTS = {
    "agreement": "Agrees with the others?",
    "stability": "Agrees with itself?",
    "faithfulness": "Faithful under erasure?",
    "truth": "Finds the truth?",
    "exclusiveness": "The only account?",
    "cost": "At what cost?",
}
_UNJUDGED = Judgement("", "", "unknown", "not judged", "")


@dataclass(frozen=True)
class Column:
    """An aspect and, where it has numbers, their common scale."""

    title: str
    measure: str = ""
    ends: tuple[str, str] | None = None  # what stands left and right
    variants: tuple[tuple[Markup, str], ...] = ()  # a sign and its meaning, where there is more than one


@dataclass(frozen=True)
class Cell:
    """A judgement ready for the page."""

    rating: str
    words: str
    figures: str
    drawing: Markup | None


@dataclass(frozen=True)
class VerdictTable:
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]  # method and its cells


def verdict_table(verdicts: Sequence[MethodVerdict]) -> VerdictTable:
    """The known aspects in their order, then any other; a method that was not judged in one is said to be unknown."""
    judged = {v.method: {judgement.aspect: judgement for judgement in v.judgements} for v in verdicts}
    found = dict.fromkeys(aspect for of_method in judged.values() for aspect in of_method)
    aspects = [aspect for aspect in _ASPECTS if aspect in found] + [a for a in found if a not in _ASPECTS]
    drawn = {aspect: _Scale.of(of_method.get(aspect) for of_method in judged.values()) for aspect in aspects}
    rows = tuple(
        (method, tuple(_cell(of_method.get(aspect, _UNJUDGED), drawn[aspect]) for aspect in aspects))
        for method, of_method in judged.items()
    )
    return VerdictTable(tuple(_column(aspect, drawn[aspect]) for aspect in aspects), rows)


def _defined(judgement: Judgement) -> list[Gauge]:
    return [one for one in judgement.gauges if math.isfinite(one.value)]


@dataclass(frozen=True)
class _Scale:
    """What all drawings of a column share."""

    measures: tuple[str, ...]
    ends: tuple[float, float]
    rising: bool  # whether higher is better
    variants: tuple[str, ...]

    @classmethod
    def of(cls, judgements: Iterable[Judgement | None]) -> _Scale | None:
        """None where nothing is drawn."""
        judged = [_defined(judgement) for judgement in judgements if judgement is not None]
        drawn = [one for gauges in judged for one in gauges]
        if not drawn:
            return None
        measures = tuple(dict.fromkeys(one.measure for one in drawn))
        return cls(measures, common_ends(drawn), drawn[0].better == "higher", variants_of(judged))


def _column(aspect: str, scale: _Scale | None) -> Column:
    title = _ASPECTS.get(aspect, aspect.capitalize())
    if scale is None:
        return Column(title)
    low, high = map(brief, scale.ends)
    several = len(scale.variants) > 1
    signs = tuple((shape(lane), said) for lane, said in enumerate(scale.variants)) if several else ()
    measure = scale.measures[0] if len(scale.measures) == 1 else ""
    return Column(title, measure, (low, high) if scale.rising else (high, low), signs)


def _cell(judgement: Judgement, scale: _Scale | None) -> Cell:
    rating = judgement.rating if judgement.rating in RATINGS else "unknown"
    gauges = _defined(judgement)
    if scale is None or not gauges:
        return Cell(rating, judgement.words, judgement.number, None)
    said = judgement.number or "; ".join(f"{one.measure} {number(one.value)}" for one in gauges)
    return Cell(rating, judgement.words, said, draw_gauges(gauges, scale.ends, scale.variants))
