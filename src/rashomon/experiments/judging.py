"""When do figures carry a rating of a method? What the studies that judge methods have in common."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from rashomon.experiments.figures import Gauge
from rashomon.experiments.summaries import Row
from rashomon.measures.significance import HIERARCHICAL
from rashomon.wording import sample, with_interval

Rating = Literal["good", "mixed", "poor", "unknown"]
LEVEL = 0.05  # of significance


class Ruling(NamedTuple):
    """A rating with its words and the number that it stands on."""

    rating: Rating
    words: str
    number: str


def gauge(
    measure: str, row: Row, floor: float | None = None, ceiling: float | None = None, variant: str = ""
) -> Gauge:
    """A mean with its interval, where it has one, on a scale from 0 to 1 that is as much longer as it must be."""
    value = float(row["mean"])
    low, high = (None if math.isnan(row[end]) else float(row[end]) for end in ("low", "high"))
    inside = [place for place in (value, low, high) if place is not None]
    marks = [round(place, 1) for place in (floor, ceiling) if place is not None]
    ends = (
        min(0.0, math.floor(10 * min(inside)) / 10, *marks),
        max(1.0, math.ceil(10 * max(inside)) / 10, *marks),
    )
    return Gauge(measure, value, low, high, floor, ceiling, ends, variant=variant)


def counted(row: Row) -> str:
    """``0.42 [0.38, 0.46] (n = 100)``."""
    return f"{with_interval(row)} ({sample(row['n'])})"


def too_few(row: Row, tests: int) -> bool:
    """Whether a method that won on every text would still not stand out among so many tests."""
    return 0.5 ** int(row["n"]) * max(tests, 1) >= LEVEL


def against_chance(row: Row, tests: int, figures: str, perhaps: str, no_better: str) -> Ruling | None:
    """The ruling where a method does not beat the random order, or where that could not be found out.

    ``row`` is one of ``against_floor``, and one of ``tests``. ``perhaps`` are the words where more texts would tell.
    """
    if row["p_holm"] < LEVEL:
        return None
    if row["p_holm"] != row["p_holm"]:
        return Ruling("unknown", "was not compared with a random order", figures)
    if too_few(row, tests):
        return Ruling("unknown", "was tried on too few texts to tell", f"{figures}, {sample(row['n'])}")
    if row["p_against_random"] >= LEVEL:
        return Ruling("poor", no_better, figures)
    # It wins on its own and not among so many tests, which few texts or seeds can hardly bring about.
    if row["test"] == HIERARCHICAL:
        return Ruling("unknown", "was tried on too few seeds to tell", figures)
    return Ruling("mixed", perhaps, figures)
