"""Claims are decided by intervals: every kind of rule with planted figures, in all four outcomes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rashomon.papers import decide, decide_all, load
from rashomon.papers.claims import as_measured
from rashomon.papers.published import Bounds, Claim, Rule, Term
from rashomon.papers.quantities import Quantity, difference, rows_of

Figure = tuple[float, float]  # a value and half the width of its interval


def ours(figures: dict[str, Figure], key: str = "name", **more: Any) -> pd.DataFrame:
    """A tidy table with one figure under each value of a key."""
    rows = [
        {
            "table": "1",
            "figure": "f1",
            key: name,
            "value": value,
            "low": value - half,
            "high": value + half,
            "n": 50,
        }
        for name, (value, half) in figures.items()
    ]
    return pd.DataFrame([row | more for row in rows], columns=None if rows else ["table", "value"])


def claim(*rules: Rule) -> Claim:
    return Claim("K", "It is so.", "section 1", rules)


def term(*names: str, **more: Any) -> Term:
    return Term("1", {"name": names} if names else {}, **more)


def single(kind: Any, read: Term, **more: Any) -> Claim:
    bounds = Bounds(
        **{name: more.pop(name) for name in ("above", "below", "at_least", "at_most") if name in more}
    )
    return claim(Rule(kind, ((read,),), bounds, **more))


def order(*links: Sequence[str], **more: Any) -> Claim:
    return claim(Rule("order", tuple((term(*names),) for names in links), **more))


THRESHOLD = single("threshold", term(), below=0.35)
BAND = single("threshold", term(), at_least=-0.1, at_most=0.1)
SIGN = single("sign", term(), above=0.0)
DIFFERENCE = single("difference", term("a", less={"name": ("b",)}), at_most=0.02)
ORDER = order(["a"], ["b"], ["c"], margins=(0.0, 0.05))
TREND = single("correlation", term(), below=0.0, against="name", at={"a": 1, "b": 2, "c": 3, "d": 9})

CASES: list[tuple[str, Claim, dict[str, Figure], str]] = [
    ("threshold", THRESHOLD, {"a": (0.2, 0.1), "b": (0.3, 0.04)}, "holds"),
    ("threshold", THRESHOLD, {"a": (0.2, 0.1), "b": (0.3, 0.06)}, "cannot tell"),
    ("threshold", THRESHOLD, {"a": (0.2, 0.1), "b": (0.5, 0.06)}, "does not hold"),
    ("threshold", THRESHOLD, {}, "not run"),
    ("band", BAND, {"a": (0.02, 0.07)}, "holds"),
    ("band", BAND, {"a": (0.02, 0.09)}, "cannot tell"),
    ("band", BAND, {"a": (-0.3, 0.1)}, "does not hold"),
    ("band", BAND, {}, "not run"),
    ("sign", SIGN, {"a": (0.2, 0.19)}, "holds"),
    ("sign", SIGN, {"a": (0.2, 0.2)}, "cannot tell"),
    ("sign", SIGN, {"a": (-0.2, 0.1)}, "does not hold"),
    ("sign", SIGN, {}, "not run"),
    ("difference", DIFFERENCE, {"a": (0.85, 0.003), "b": (0.84, 0.004)}, "holds"),
    ("difference", DIFFERENCE, {"a": (0.85, 0.03), "b": (0.84, 0.04)}, "cannot tell"),
    ("difference", DIFFERENCE, {"a": (0.85, 0.003), "b": (0.8, 0.004)}, "does not hold"),
    ("difference", DIFFERENCE, {"a": (0.85, 0.003)}, "not run"),
    ("order", ORDER, {"a": (0.9, 0.01), "b": (0.8, 0.01), "c": (0.6, 0.01)}, "holds"),
    (
        "order, within the margin",
        ORDER,
        {"a": (0.9, 0.01), "b": (0.8, 0.01), "c": (0.76, 0.01)},
        "cannot tell",
    ),
    ("order", ORDER, {"a": (0.9, 0.01), "b": (0.8, 0.01), "c": (0.85, 0.01)}, "does not hold"),
    ("order, a link missing", ORDER, {"a": (0.9, 0.01), "b": (0.8, 0.01)}, "cannot tell"),
    ("order", ORDER, {"a": (0.9, 0.01)}, "not run"),
    ("correlation", TREND, {"a": (0.9, 0.02), "b": (0.5, 0.02), "c": (0.1, 0.02), "d": (0.0, 0.02)}, "holds"),
    (
        "correlation",
        TREND,
        {"a": (0.5, 0.4), "b": (0.5, 0.4), "c": (0.4, 0.4), "d": (0.4, 0.4)},
        "cannot tell",
    ),
    ("correlation", TREND, {"a": (0.1, 0.02), "b": (0.5, 0.02), "c": (0.7, 0.02)}, "does not hold"),
    ("correlation of two points", TREND, {"a": (0.1, 0.02), "b": (0.5, 0.02)}, "not run"),
]


@pytest.mark.parametrize(("what", "asked", "figures", "outcome"), CASES)
def test_each_kind_of_rule_in_each_outcome(
    what: str, asked: Claim, figures: dict[str, Figure], outcome: str
) -> None:
    assert decide(asked, ours(figures)).outcome == outcome, what


def test_the_deciding_figure_comes_with_n_interval_and_words() -> None:
    decision = decide(THRESHOLD, ours({"a": (0.2, 0.1), "b": (0.3, 0.06)}))
    assert (decision.claim, decision.figures, decision.n) == ("K", 2, 50)
    assert (decision.value, decision.low, decision.high) == pytest.approx((0.3, 0.24, 0.36))
    assert decision.why == "f1, b: 0.300 [0.240, 0.360], wanted below 0.35"


def test_a_figure_without_an_interval_decides_nothing() -> None:
    assert decide(THRESHOLD, ours({"a": (0.1, math.nan)})).outcome == "cannot tell"
    assert decide(TREND, ours(dict.fromkeys("abc", (0.1, math.nan)))).outcome == "cannot tell"
    constant = ours(dict.fromkeys("abc", (0.1, 0.0)))  # has no correlation at all
    assert decide(TREND, constant).outcome == "cannot tell"
    assert decide(THRESHOLD, ours({"a": (math.nan, 0.1)})).outcome == "not run"


def test_one_of_many_must_be_further_out_to_refute() -> None:
    """With forty figures one interval lies outside by chance, which refutes nothing."""
    fine = {f"x{number}": (0.2, 0.1) for number in range(39)}
    stray: dict[str, Figure] = {"stray": (0.46, 0.1)}
    assert decide(THRESHOLD, ours(stray)).outcome == "does not hold"
    assert decide(THRESHOLD, ours(fine | stray)).outcome == "cannot tell"
    assert decide(THRESHOLD, ours(fine | {"far": (0.9, 0.1)})).outcome == "does not hold"


def test_every_part_of_a_claim_counts() -> None:
    high, low = (
        Rule("threshold", ((term("a"),),), Bounds(above=0.5)),
        Rule("sign", ((term("b"),),), Bounds(below=0.0)),
    )
    both = claim(high, low)
    assert decide(both, ours({"a": (0.9, 0.1), "b": (-0.5, 0.1)})).outcome == "holds"
    assert decide(both, ours({"a": (0.9, 0.1), "b": (0.5, 0.1)})).outcome == "does not hold"
    assert decide(both, ours({"a": (0.1, 0.1), "b": (-0.05, 0.1)})).outcome == "does not hold"
    partly = decide(both, ours({"a": (0.9, 0.1)}))
    assert partly.outcome == "cannot tell"
    assert "part 2 of 2 was not run" in partly.why
    assert decide(both, ours({})).outcome == "not run"


def test_figures_are_compared_within_equal_keys() -> None:
    """On each dataset the order holds, though a figure of one lies above one of the other."""
    first = ours({"a": (0.9, 0.01), "b": (0.8, 0.01)}, dataset="sst")
    second = ours({"a": (0.6, 0.01), "b": (0.5, 0.01)}, dataset="imdb")
    together = pd.concat([first, second])
    assert decide(order(["a"], ["b"], by=("dataset",)), together).outcome == "holds"
    assert decide(order(["a"], ["b"]), together).outcome == "does not hold"


def test_differences_pair_what_is_the_same_otherwise() -> None:
    together = pd.concat(
        [
            ours({"a": (0.9, 0.0), "b": (0.8, 0.0)}, dataset=name, seed=seed)
            for name in "xy"
            for seed in (1, 2)
        ]
    )
    decision = decide(single("difference", term("a", less={"name": ("b",)}), above=0.0), together)
    assert (decision.outcome, decision.figures) == ("holds", 4)


def test_rest_is_what_no_other_term_reads() -> None:
    asked = claim(Rule("order", ((term("a"), term("b")), (Term("1", rest=True),))))
    figures: dict[str, Figure] = {"a": (0.9, 0.0), "b": (0.8, 0.0), "c": (0.7, 0.0), "d": (0.1, 0.0)}
    assert decide(asked, ours(figures)).figures == 4
    assert decide(asked, ours(figures)).outcome == "holds"
    assert decide(asked, ours(figures | {"d": (0.85, 0.0)})).outcome == "does not hold"


def test_pooled_means_keep_the_width_of_their_intervals() -> None:
    asked = single("threshold", term(), above=0.0, pooled=True)
    decision = decide(asked, ours({"a": (0.3, 0.2), "b": (-0.1, 0.1), "c": (0.4, 0.3)}))
    assert (decision.value, decision.low, decision.high) == pytest.approx((0.2, 0.0, 0.4))
    assert decision.figures == 1


@pytest.mark.parametrize(
    ("run", "outcome"), [("a", "cannot tell"), ("ab", "does not hold"), ("abcd", "does not hold")]
)
def test_a_mean_of_few_of_its_figures_decides_nothing(run: str, outcome: str) -> None:
    asked = single("threshold", term(), above=0.9, pooled=True)
    published = rows_of(ours(dict.fromkeys("abcd", (0.95, 0.0))))
    decision = decide(asked, ours(dict.fromkeys(run, (0.5, 0.1))), published)
    assert decision.outcome == outcome
    assert ("only 1 of the 4 figures of this mean were run" in decision.why) == (run == "a")


@pytest.mark.parametrize(("run", "outcome"), [("ab", "does not hold"), ("a", "cannot tell")])
def test_each_mean_is_held_against_its_own_figures(run: str, outcome: str) -> None:
    """One dataset's mean is whole although no other dataset was run."""
    asked = single("threshold", term(), above=0.9, pooled=True, by=("dataset",))
    everything = [ours(dict.fromkeys("abcd", (0.95, 0.0)), dataset=name) for name in "xyz"]
    decision = decide(
        asked,
        ours(dict.fromkeys(run, (0.5, 0.1)), dataset="x"),
        rows_of(pd.concat(everything, ignore_index=True)),
    )
    assert decision.outcome == outcome
    assert ("only 1 of the 4 figures of the mean of x were run" in decision.why) == (run == "a")


@pytest.mark.parametrize(("whole", "outcome"), [(0.5, "does not hold"), (0.95, "cannot tell")])
def test_a_mean_that_was_run_decides_beside_one_that_was_not(whole: float, outcome: str) -> None:
    """A claim about every mean fails with one of them, however little was run of the others."""
    asked = single("threshold", term(), above=0.9, pooled=True, by=("dataset",))
    published = pd.concat([ours(dict.fromkeys("abcd", (0.95, 0.0)), dataset=name) for name in "xy"])
    run = [ours(dict.fromkeys("abcd", (whole, 0.01)), dataset="x"), ours({"a": (0.2, 0.1)}, dataset="y")]
    decision = decide(asked, pd.concat(run, ignore_index=True), rows_of(published))
    assert decision.outcome == outcome
    assert ("only 1 of the 4 figures of the mean of y" in decision.why) == (outcome == "cannot tell")


@pytest.mark.parametrize("kind", ["difference", "order"])
def test_a_study_that_compared_the_two_itself_is_believed(kind: Literal["difference", "order"]) -> None:
    """What two figures share cancels in their difference, which their own intervals cannot know."""
    apart = ((term("a", less={"name": ("b",)}),),) if kind == "difference" else ((term("a"),), (term("b"),))
    rule = Rule(kind, apart, Bounds(above=0.0), paired=Term("1", {"figure": ("gain",)}))
    two = ours({"a": (0.8, 0.2), "b": (0.7, 0.2)})
    gain = ours({"a": (0.1, 0.02)}).assign(figure="gain")
    assert decide(claim(rule), two).outcome == "cannot tell"
    decision = decide(claim(rule), pd.concat([two, gain], ignore_index=True))
    assert (decision.outcome, decision.value, decision.figures) == ("holds", 0.1, 1)
    worse = ours({"a": (-0.1, 0.02)}).assign(figure="gain")
    assert decide(claim(rule), pd.concat([two, worse], ignore_index=True)).outcome == "does not hold"


def test_a_quantity_is_named_by_its_keys() -> None:
    one = Quantity({"learning": "none", "size": 250.0, "seed": 3}, 0.5, 0.4, 0.6, 9)
    assert str(one) == "none, 250, 3: 0.500 [0.400, 0.600]"
    assert str(replace(one, keys={})).startswith("all: ")


def test_counting_reads_n() -> None:
    asked = single("threshold", term(count=True), at_least=50)
    assert decide(asked, ours({"a": (0.0, math.nan)})).outcome == "holds"


def test_a_correlation_is_that_of_the_means_and_moves_with_their_intervals() -> None:
    asked = single(
        "correlation", term(), below=0.0, against="name", at={"a": 1, "b": 2, "c": 4}, statistic="pearson"
    )
    values = (0.9, 0.5, 0.4)
    exact = decide(asked, ours({name: (value, 0.0) for name, value in zip("abc", values, strict=True)}))
    expected = np.corrcoef((1, 2, 4), values)[0, 1]
    assert (exact.value, exact.low, exact.high) == pytest.approx((expected,) * 3)
    assert exact.n == 3
    vague = decide(asked, ours({name: (value, 0.3) for name, value in zip("abc", values, strict=True)}))
    assert vague.value == pytest.approx(expected)
    draws = np.random.default_rng(7).normal(values, 0.3 / stats.norm.ppf(0.975), (20000, 3))
    again = [np.corrcoef((1, 2, 4), draw)[0, 1] for draw in draws]
    assert (vague.low, vague.high) == pytest.approx(tuple(np.quantile(again, [0.025, 0.975])), abs=0.06)


NUMBERS = st.floats(-10, 10, allow_nan=False)
HALVES = st.floats(0, 5, allow_nan=False)


@given(NUMBERS, NUMBERS, HALVES, HALVES, HALVES, HALVES)
def test_the_interval_of_a_difference(
    first: float, second: float, down: float, up: float, other_down: float, other_up: float
) -> None:
    """At least as wide as each alone and at most as both together; turned round, the difference changes its sign."""
    one = Quantity({}, first, first - down, first + up, 5)
    other = Quantity({}, second, second - other_down, second + other_up, 9)
    made, turned = difference(one, other), difference(other, one)
    assert made.low <= made.value <= made.high
    assert max(up, other_down) - 1e-9 <= made.high - made.value <= up + other_down + 1e-9
    assert made.low == pytest.approx(-turned.high)
    assert made.n == 5


@given(st.lists(st.tuples(NUMBERS, HALVES), min_size=1, max_size=6), NUMBERS, HALVES)
def test_wider_intervals_never_turn_a_claim_round(figures: list[Figure], bound: float, wider: float) -> None:
    asked = single("threshold", term(), above=bound)
    named = {f"x{number}": figure for number, figure in enumerate(figures)}
    narrow = decide(asked, ours(named)).outcome
    wide = decide(asked, ours({name: (value, half + wider) for name, (value, half) in named.items()})).outcome
    assert wide in (narrow, "cannot tell")
    if narrow == "holds":
        assert all(value - half > bound for value, half in figures)


@pytest.mark.parametrize("paper", ["attefa", "disagreement", "not_not", "hard_to_agree", "teacher_student"])
def test_all_claims_of_a_paper(paper: str) -> None:
    """Nothing has run; or the published figures have, with intervals too wide to tell anything."""
    known = load(paper)
    nothing = decide_all(known, pd.DataFrame(columns=["paper", "table", "value"]))
    assert nothing["claim"].tolist() == list(known.claims)
    assert set(nothing["outcome"]) == {"not run"}
    vague = as_measured(known)
    vague = vague.assign(low=vague["value"] - 1e3, high=vague["value"] + 1e3)
    assert set(decide_all(known, vague)["outcome"]) <= {"cannot tell", "not run"}
    elsewhere = decide_all(known, vague.assign(paper="another"))
    assert set(elsewhere["outcome"]) == {"not run"}


def test_turning_a_papers_figures_round_refutes_its_claims() -> None:
    """Were the published signs the opposite, no conclusion about differences, orders and signs would stand."""
    for paper in ("attefa", "disagreement", "not_not", "hard_to_agree", "teacher_student"):
        known = load(paper)
        frame = as_measured(known)
        turned = decide_all(
            known, frame.assign(value=-frame["value"], low=-frame["low"], high=-frame["high"])
        )
        for row in turned.itertuples():
            kinds = {rule.kind for rule in known.claim(str(row.claim)).rules}
            if kinds & {"order", "sign", "correlation"} and row.outcome != "not run":
                assert row.outcome == "does not hold", row.claim
