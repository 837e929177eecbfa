"""Does a paper's conclusion hold on figures of ours? The interval decides, never the mean.

Every kind of rule comes down to figures with intervals that have to lie within bounds: a threshold or a sign bounds
the figure itself, a difference and an order bound differences of figures, a correlation bounds the correlation of
figures with a key. A rule holds when every interval lies within its bounds. It does not hold when some interval lies
outside, widened for the number of figures looked at (one in forty would lie outside by chance). Otherwise one cannot
tell; without figures it was not run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd
from scipy.stats import norm

from rashomon.papers.published import Bounds, Claim, Key, Paper, Rule, figures_frame
from rashomon.papers.quantities import NORMAL, Quantity, averaged_by, has_every_link, quantities_of, rows_of

Outcome = Literal["holds", "does not hold", "cannot tell", "not run"]
HOLDS: Outcome = "holds"
FAILS: Outcome = "does not hold"
OPEN: Outcome = "cannot tell"
NOT_RUN: Outcome = "not run"

LEAST_SHARE = 0.5  # of the figures that a paper averages: a mean of fewer is another one
ROUNDING = 1e-9  # a published .93 - .90 is a little less than .03


@dataclass(frozen=True)
class Decision:
    """What became of a claim. The figure told is the one that decides: nearest to its bound, or furthest beyond."""

    claim: str
    outcome: Outcome
    figures: int = 0  # that were looked at
    n: float = math.nan
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    why: str = ""


def decide(claim: Claim, ours: pd.DataFrame, published: Sequence[Quantity] = ()) -> Decision:
    """``ours`` is tidy: table, figure, a column a key, value, low, high, n (``beside.claims_input``).

    ``published`` are the figures that the paper's own means are made of.
    """
    rows = rows_of(ours)
    parts = [_decide_rule(rule, rows, published) for rule in claim.rules]
    if all(part.outcome == NOT_RUN for part in parts):
        return Decision(claim.id, NOT_RUN, why="no study has given its figures yet")
    against = [part for outcome in (FAILS, OPEN) for part in parts if part.outcome == outcome]
    missing = [str(number) for number, part in enumerate(parts, 1) if part.outcome == NOT_RUN]
    count = sum(part.figures for part in parts)
    deciding = next(iter(against), None) or next(part for part in parts if part.outcome == HOLDS)
    if not against and missing:
        why = f"what ran holds ({deciding.why}), but part {', '.join(missing)} of {len(parts)} was not run"
        deciding = replace(deciding, outcome=OPEN, why=why)
    return replace(deciding, claim=claim.id, figures=count)


def decide_all(paper: Paper, ours: pd.DataFrame) -> pd.DataFrame:
    """Every claim of a paper: outcome, how many of the published comparisons ran, the deciding figure, the reason."""
    of_paper = ours[ours["paper"] == paper.name] if "paper" in ours else ours
    published = rows_of(as_measured(paper))
    rows = []
    for claim in paper.claims.values():
        decision = decide(claim, of_paper, published)
        expected = sum(len(quantities_of(rule, published)) for rule in claim.rules)
        rows.append(
            {"claim": claim.id, "says": claim.says, "where": claim.where, "outcome": decision.outcome}
            | {"figures": decision.figures, "published_figures": expected, "n": decision.n}
            | {"value": decision.value, "low": decision.low, "high": decision.high}
            | {"why": _with_coverage(decision, expected)}
        )
    return pd.DataFrame(rows)


def outcomes_in_words(claims: pd.DataFrame, whose: str = "its") -> str:
    """How many of ``whose`` conclusions came out how."""
    words = {
        HOLDS: ("holds", "hold"),
        FAILS: ("does not hold", "do not hold"),
        OPEN: ("cannot be told", "cannot be told"),
        NOT_RUN: ("was not run", "were not run"),
    }
    counts = claims["outcome"].value_counts()
    parts = [
        f"{counts[outcome]} {one if counts[outcome] == 1 else several}"
        for outcome, (one, several) in words.items()
        if counts.get(outcome)
    ]
    return f"Of {whose} {len(claims)} conclusions {', '.join(parts)}."


def _with_coverage(decision: Decision, expected: int) -> str:
    """The reason, and how many of the comparisons that the paper's figures allow were run."""
    if decision.outcome == NOT_RUN or decision.figures >= expected:
        return decision.why
    return f"{decision.why} ({decision.figures} of {expected} comparisons were run)"


def as_measured(paper: Paper) -> pd.DataFrame:
    """The published figures as if they were ours and exact: what the paper's own numbers say of its conclusions."""
    frame = figures_frame(paper)
    return frame.assign(low=frame["value"], high=frame["value"])


def _decide_rule(rule: Rule, rows: Sequence[Quantity], published: Sequence[Quantity]) -> Decision:
    found = quantities_of(rule, rows)
    if not found:
        return Decision("", NOT_RUN)
    family = float(norm.ppf(1 - 0.025 / len(found))) / NORMAL
    thin = _thin_means(rule, rows, published)
    judged = [
        (
            OPEN if tuple(quantity.keys.values()) in thin else _judge(quantity, bounds, family),
            quantity,
            bounds,
        )
        for quantity, bounds in found
    ]
    outcomes = [outcome for outcome, _, _ in judged]
    outcome = FAILS if FAILS in outcomes else OPEN if OPEN in outcomes else HOLDS
    _, worst, bounds = min(
        (one for one in judged if one[0] == outcome), key=lambda one: (_slack(one[1], one[2]), str(one[1]))
    )
    why = f"{worst}, wanted {_words(bounds)}"
    if outcome == HOLDS and not has_every_link(rule, rows):
        outcome, why = OPEN, f"{why}, but not every link of the order was run"
    if outcome == OPEN:
        why = ", but ".join((why, *thin.values()))
    return Decision("", outcome, len(found), worst.n, worst.value, worst.low, worst.high, why)


def _thin_means(
    rule: Rule, rows: Sequence[Quantity], published: Sequence[Quantity]
) -> dict[tuple[Key, ...], str]:
    """Means of which too little was run to decide anything, with a word about each."""
    expected = averaged_by(rule, published)
    return {
        keys: f"only {averaged} of the {expected[keys]} figures of {_mean_of(keys)} were run"
        for keys, averaged in averaged_by(rule, rows).items()
        if averaged < LEAST_SHARE * expected.get(keys, 0)
    }


def _mean_of(keys: Sequence[Key]) -> str:
    return f"the mean of {', '.join(map(str, keys))}" if keys else "this mean"


def _judge(quantity: Quantity, bounds: Bounds, family: float) -> Outcome:
    if math.isnan(quantity.low) or math.isnan(quantity.high):
        return OPEN
    if _slack(quantity, bounds) > 0:
        return HOLDS
    return FAILS if _beyond(quantity.widened(family), bounds) else OPEN


def _slack(quantity: Quantity, bounds: Bounds) -> float:
    """By how much the nearer end of the interval keeps the bounds; not above 0: it does not. No interval: least."""
    if math.isnan(quantity.low) or math.isnan(quantity.high):
        return -math.inf
    slacks = []
    if bounds.above is not None:
        slacks.append(quantity.low - bounds.above)
    if bounds.below is not None:
        slacks.append(bounds.below - quantity.high)
    if bounds.at_least is not None:
        slacks.append(quantity.low - bounds.at_least + ROUNDING)
    if bounds.at_most is not None:
        slacks.append(bounds.at_most - quantity.high + ROUNDING)
    return min(slacks)


def _beyond(quantity: Quantity, bounds: Bounds) -> bool:
    """Whether the whole interval breaks a bound."""
    low, high = quantity.low, quantity.high
    return (
        (bounds.above is not None and high <= bounds.above)
        or (bounds.below is not None and low >= bounds.below)
        or (bounds.at_least is not None and high < bounds.at_least - ROUNDING)
        or (bounds.at_most is not None and low > bounds.at_most + ROUNDING)
    )


def _words(bounds: Bounds) -> str:
    given = {
        "above": bounds.above,
        "below": bounds.below,
        "at least": bounds.at_least,
        "at most": bounds.at_most,
    }
    return " and ".join(f"{word} {bound:g}" for word, bound in given.items() if bound is not None)
