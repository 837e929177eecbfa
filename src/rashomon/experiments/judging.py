"""When do figures carry a rating of a method? What the studies that judge methods have in common."""

from __future__ import annotations

from typing import Literal, NamedTuple

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


def counted(row: Row) -> str:
    """``0.42 [0.38, 0.46] (n = 100)``."""
    return f"{with_interval(row)} ({sample(row['n'])})"


def too_few(row: Row, tests: int) -> bool:
    """Whether a method that won on every text would still not stand out among so many tests."""
    return 0.5 ** int(row["n"]) * max(tests, 1) >= LEVEL


def against_chance(row: Row, tests: int, told: str, perhaps: str, no_better: str) -> Ruling | None:
    """The ruling where a method does not beat the random order, or where that could not be found out.

    ``row`` is one of ``against_floor``, and one of ``tests``. ``perhaps`` are the words where more texts would tell.
    """
    if row["p_holm"] < LEVEL:
        return None
    if row["p_holm"] != row["p_holm"]:
        return Ruling("unknown", "was not compared with a random order", told)
    if too_few(row, tests):
        return Ruling("unknown", "was tried on too few texts to tell", f"{told}, {sample(row['n'])}")
    if row["p_against_random"] >= LEVEL:
        return Ruling("poor", no_better, told)
    # It wins on its own and not among so many tests, which few texts or seeds can hardly bring about.
    if row["test"] == HIERARCHICAL:
        return Ruling("unknown", "was tried on too few seeds to tell", told)
    return Ruling("mixed", perhaps, told)
