"""When figures carry a rating: rulings from rows made by hand, at and beside every threshold."""

from __future__ import annotations

import math

import pytest

from rashomon.experiments.judging import against_chance, counted, gauge, too_few
from rashomon.measures.significance import HIERARCHICAL

TESTED = {"n": 100, "test": "wilcoxon", "p_against_random": 0.2, "p_holm": 0.4}


def ruled(tests: int = 3, **changes: object) -> tuple[str, str, str] | None:
    return against_chance(TESTED | changes, tests, "0.40", "might be better", "is no better")  # type: ignore[operator]


@pytest.mark.parametrize(
    ("n", "tests", "few"),
    [(4, 1, True), (5, 1, False), (5, 2, True), (6, 3, False), (6, 4, True), (4, 0, True), (5, 0, False)],
)
def test_too_few_is_where_winning_every_text_would_not_do(n: int, tests: int, few: bool) -> None:
    assert too_few({"n": n}, tests) == few == (0.5**n * max(tests, 1) >= 0.05)


def test_rulings_against_chance() -> None:
    assert ruled(p_holm=0.049) is None, "it stands out"
    assert ruled() == ("poor", "is no better", "0.40")
    assert ruled(p_against_random=0.05) == ("poor", "is no better", "0.40")
    assert ruled(p_against_random=0.049, p_holm=0.05) == ("mixed", "might be better", "0.40")
    assert ruled(p_holm=math.nan) == ("unknown", "was not compared with a random order", "0.40")
    assert ruled(n=6, tests=4) == ("unknown", "was tried on too few texts to tell", "0.40, n = 6")
    seeds = ruled(p_against_random=0.01, p_holm=0.06, test=HIERARCHICAL)
    assert seeds == ("unknown", "was tried on too few seeds to tell", "0.40")


def test_a_scale_is_as_long_as_it_must_be() -> None:
    nothing = {"low": math.nan, "high": math.nan}
    plain = gauge("m", {"mean": 0.4, **nothing})
    assert (plain.value, plain.low, plain.high, plain.ends) == (0.4, None, None, (0.0, 1.0))
    long = gauge("m", {"mean": 0.4, "low": -0.19, "high": 1.31}, floor=0.1, ceiling=0.9)
    assert (long.low, long.high, long.floor, long.ceiling) == (-0.19, 1.31, 0.1, 0.9)
    assert long.ends == pytest.approx((-0.2, 1.4))
    assert gauge("m", {"mean": 0.4, **nothing}, floor=-0.52, ceiling=1.58).ends == pytest.approx((-0.5, 1.6))
    assert gauge("m", {"mean": -0.25, **nothing}).ends == pytest.approx((-0.3, 1.0))


def test_a_figure_with_how_many_there_were() -> None:
    row = {"mean": 0.42, "low": 0.38, "high": 0.46, "n": 100, "interval": "95 %"}
    assert counted(row) == "0.42 [0.38, 0.46] (n = 100)"
