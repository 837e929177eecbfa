"""Is it more than chance? Paired tests over texts, over seeds and texts, and Holm-Bonferroni.

Tests over texts come from SciPy; the one over seeds is the interval of `measures.intervals`, inverted.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import ArrayLike
from scipy.special import stdtr

from rashomon.errors import UserError
from rashomon.measures.base import Bools, Floats
from rashomon.measures.intervals import (
    ROUNDING,
    Interval,
    by_seed_and_text,
    standard_errors,
    summarise_seeds,
)

Alternative = Literal["two-sided", "greater", "less"]
HIERARCHICAL = "hierarchical t"  # the name of the test over several seeds
_FEW = 13  # pairs up to which SciPy tests exactly even when some are equal
_BLOCK = 4_000_000  # resampled entries in memory at a time


@dataclass(frozen=True, slots=True)
class Comparison:
    """A paired test of two variants on the same instances; pairs with an undefined side are left out.

    ``difference`` is the mean of first minus second.
    """

    test: str
    alternative: Alternative
    n: int
    undefined: int
    difference: float
    statistic: float
    p: float


def _minus(first: ArrayLike, second: ArrayLike) -> Floats:
    a, b = np.asarray(first, dtype=np.float64).ravel(), np.asarray(second, dtype=np.float64).ravel()
    if a.shape != b.shape:
        raise UserError(f"A paired test needs the same instances on both sides, not {a.size} and {b.size}.")
    return a - b


def _pairs(first: ArrayLike, second: ArrayLike) -> tuple[Floats, int]:
    difference = _minus(first, second)
    kept = difference[np.isfinite(difference)]
    return kept, difference.size - kept.size


def permutation_test(
    first: ArrayLike,
    second: ArrayLike,
    seed: int = 0,
    alternative: Alternative = "two-sided",
    resamples: int = 9999,
) -> Comparison:
    """Paired permutation test of the mean difference: sides are swapped within instances."""
    difference, undefined = _pairs(first, second)
    n = len(difference)
    if n < 2:
        nothing = float(difference.mean()) if n else math.nan
        return Comparison("permutation", alternative, n, undefined, nothing, math.nan, math.nan)
    changed = difference[difference != 0]  # whichever way the others are flipped, the mean is the same
    flipped = changed if len(changed) > 1 else np.append(changed, np.zeros(2))  # SciPy wants two at least
    result = scipy.stats.permutation_test(
        (flipped,),  # one sample: SciPy flips the signs of the differences
        lambda values, axis: values.sum(axis) / n,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BLOCK // len(flipped)),
        alternative=alternative,
        rng=np.random.default_rng(seed),
    )
    mean = float(difference.mean())
    return Comparison(
        "permutation", alternative, n, undefined, mean, float(result.statistic), float(result.pvalue)
    )


def wilcoxon_test(first: ArrayLike, second: ArrayLike, alternative: Alternative = "two-sided") -> Comparison:
    """Wilcoxon's signed-rank test; equal pairs are dropped, and if nothing is left the test is undefined."""
    difference, undefined = _pairs(first, second)
    n = len(difference)
    mean = float(difference.mean()) if n else math.nan
    if not (difference != 0).any():
        return Comparison("wilcoxon", alternative, n, undefined, mean, math.nan, math.nan)
    kept = difference[difference != 0]
    if n <= _FEW and (len(kept) < n or len(np.unique(np.abs(kept))) < n):
        statistic, p = _exact_signed_rank(kept, alternative)
    else:
        result = scipy.stats.wilcoxon(difference, zero_method="wilcox", alternative=alternative)
        statistic, p = float(result.statistic), float(result.pvalue)
    return Comparison("wilcoxon", alternative, n, undefined, mean, statistic, p)


def hierarchical_test(
    groups: Sequence[ArrayLike],
    alternative: Alternative = "two-sided",
    texts: Sequence[Sequence[Hashable]] | None = None,
) -> Comparison:
    """Is the mean of paired differences zero, when they come from several seeds? One group a seed.

    Texts of one seed share that seed's luck, so they are no independent trials, and neither are seeds that share
    their texts (``texts`` names them, as in `summarise_seeds`). The test rejects zero where the interval of
    `summarise_seeds` leaves it out: a true null at .05 in 4 to 6 of 100 cases from three seeds on, of two seeds in up
    to 9.
    """
    table = by_seed_and_text(groups, texts)
    found = standard_errors(table[:, :, None])
    n = int(np.isfinite(table).sum())
    undefined = sum(np.size(group) for group in groups) - n
    mean, error = float(found.mean[0]), float(found.error[0])
    statistic = p = math.nan
    if found.seeds[0] < 2 or found.texts[0] < 2:
        pass  # one seed says nothing about seeds, one text nothing about texts
    elif error <= ROUNDING * abs(mean):
        p = _never_varying(mean, int(found.texts[0]), alternative)
    else:
        statistic = mean / error
        p = _tail(statistic, float(found.freedom[0]), alternative)
    return Comparison(HIERARCHICAL, alternative, n, undefined, mean, statistic, p)


def _never_varying(mean: float, texts: int, alternative: Alternative) -> float:
    """Every seed says the same: as sure as a sign test over the texts."""
    won = mean > 0 if alternative == "greater" else mean < 0 if alternative == "less" else mean != 0
    sides = 2 if alternative == "two-sided" else 1
    return min(1.0, sides * 0.5**texts) if won else 1.0


def _tail(statistic: float, freedom: float, alternative: Alternative) -> float:
    greater, less = float(stdtr(freedom, -statistic)), float(stdtr(freedom, statistic))
    return {"greater": greater, "less": less, "two-sided": min(1.0, 2 * min(greater, less))}[alternative]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Two variants trained from the same seeds and tried on the same texts: first minus second.

    ``p`` and the interval are over seeds and texts. Of one seed they are over texts alone and say nothing of how the
    next training would come out, which needs three seeds at least.
    """

    seeds: int
    n: int
    undefined: int
    difference: float
    low: float
    high: float
    interval: Interval
    test: str
    p: float

    @classmethod
    def columns(cls) -> list[str]:
        """Of a table of comparisons."""
        return [field.name for field in fields(cls)]

    def row(self) -> dict[str, Any]:
        return asdict(self)


def compare_variants(
    first: Sequence[ArrayLike], second: Sequence[ArrayLike], texts: Sequence[Sequence[Hashable]]
) -> PairedDifference:
    """The difference of two variants over seeds and texts; one group of values a seed, on the same texts in both."""
    if len(first) != len(second):
        raise UserError(f"Both variants need the same seeds, not {len(first)} and {len(second)} of them.")
    pairs = [_minus(one, other) for one, other in zip(first, second, strict=True)]
    summary = summarise_seeds(pairs, texts)
    if len(pairs) == 1:
        tested = permutation_test(pairs[0], np.zeros_like(pairs[0]))
    else:
        tested = hierarchical_test(pairs, texts=texts)
    seeds = sum(bool(np.isfinite(pair).any()) for pair in pairs)
    counts = (seeds, summary.n, summary.undefined)
    return PairedDifference(
        *counts, summary.mean, summary.low, summary.high, summary.kind, tested.test, tested.p
    )


def _exact_signed_rank(difference: Floats, alternative: Alternative) -> tuple[float, float]:
    """Wilcoxon's test over all flips of the signs, which with ties SciPy finds by trying them one by one."""
    ranks = np.rint(2 * scipy.stats.rankdata(np.abs(difference))).astype(np.int64)  # halves, made whole
    ways = np.zeros(int(ranks.sum()) + 1)  # how many flips reach each doubled sum of positive ranks
    ways[0] = 1.0
    for rank in ranks:
        ways[rank:] = ways[rank:] + ways[: len(ways) - rank]
    above, below = int(ranks[difference > 0].sum()), int(ranks[difference < 0].sum())
    greater, less = ways[above:].sum() / ways.sum(), ways[: above + 1].sum() / ways.sum()
    if alternative == "two-sided":
        return min(above, below) / 2, float(min(1.0, 2 * min(greater, less)))
    return above / 2, float(greater if alternative == "greater" else less)


def mcnemar_test(first_correct: ArrayLike, second_correct: ArrayLike) -> Comparison:
    """McNemar's exact test of two accuracies on the same instances (1 or True = correct, NaN = undefined)."""
    difference, undefined = _pairs(first_correct, second_correct)
    if not np.isin(difference, (-1.0, 0.0, 1.0)).all():
        raise UserError("McNemar's test compares right and wrong answers; give 0 and 1, not other numbers.")
    n = len(difference)
    if n == 0:
        return Comparison("mcnemar", "two-sided", 0, undefined, math.nan, math.nan, math.nan)
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    # the exact test looks only at the instances on which the two differ: heads and tails of a fair coin
    p = float(scipy.stats.binomtest(wins, wins + losses).pvalue) if wins + losses else 1.0
    mean = float(difference.mean())
    return Comparison("mcnemar", "two-sided", n, undefined, mean, float(min(wins, losses)), p)


@dataclass(frozen=True, slots=True, eq=False)
class Holm:
    """Adjusted p-values of a family of tests; undefined p-values are no part of the family and stay NaN."""

    n: int
    undefined: int
    p: Floats
    rejected: Bools


def holm_bonferroni(p_values: ArrayLike, alpha: float = 0.05) -> Holm:
    """Holm's step-down adjustment: the chance of any false rejection in the family stays under alpha.

    As in statsmodels, which however collects the garbage of the whole process at every call.
    """
    given = np.asarray(p_values, dtype=np.float64).ravel()
    defined = np.isfinite(given)
    adjusted = np.full(given.shape, np.nan)
    order = np.argsort(np.where(defined, given, np.inf), kind="stable")[: int(defined.sum())]
    still_in = len(order) - np.arange(len(order))  # tests that are not yet rejected, this one among them
    adjusted[order] = np.minimum(np.maximum.accumulate(given[order] * still_in), 1.0)
    rejected = defined & (adjusted <= alpha)
    return Holm(len(order), given.size - len(order), adjusted, rejected)
