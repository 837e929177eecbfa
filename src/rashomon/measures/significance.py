"""Is it more than chance? Summaries with bootstrap intervals, paired tests, and Holm-Bonferroni.

Every figure over instances is given with n, the number of undefined (NaN) values, mean, standard deviation
and a bootstrap interval. Tests come from SciPy and statsmodels. The bootstrap of the mean is our own, with
the percentile interval of `scipy.stats.bootstrap`: means of resamples are one matrix product of resampling
counts and values, which for one column takes as long as SciPy and for a table of a hundred a thirtieth.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from rashomon.errors import UserError
from rashomon.measures.base import Bools, Floats

Alternative = Literal["two-sided", "greater", "less"]
HIERARCHICAL = "hierarchical t"  # the name of the test over several seeds
_FEW = 13  # pairs up to which SciPy tests exactly even when some are equal
_BLOCK = 4_000_000  # resampled entries in memory at a time


@dataclass(frozen=True, slots=True)
class Summary:
    """A figure over instances. ``n`` counts the defined values; the interval is that of the mean."""

    n: int
    undefined: int
    mean: float
    std: float
    low: float
    high: float


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


def _resampled_means(values: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Means of bootstrap resamples of the rows of ``values`` [N, K]: [resamples, K]; NaN entries left out."""
    n = len(values)
    defined = np.isfinite(values)
    filled = np.where(defined, values, 0.0)
    means = np.empty((resamples, values.shape[1]))
    step = max(1, _BLOCK // n)
    for lo in range(0, resamples, step):
        rows = min(step, resamples - lo)
        drawn = rng.integers(0, n, size=(rows, n)) + n * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)
        present = counts.sum(axis=1, keepdims=True) if defined.all() else counts @ defined
        with np.errstate(invalid="ignore", divide="ignore"):
            means[lo : lo + rows] = counts @ filled / present
    return means


def _interval(means: Floats, confidence: float) -> Floats:
    tail = (1.0 - confidence) / 2
    return np.asarray(np.quantile(means, [tail, 1.0 - tail], axis=0))


def _spread(values: Floats) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def summarise(values: ArrayLike, seed: int = 0, confidence: float = 0.95, resamples: int = 2000) -> Summary:
    """n, undefined, mean, standard deviation (of a sample) and the bootstrap interval over instances.

    Of one value only the mean is known; of none, nothing.
    """
    given = np.asarray(values, dtype=np.float64).ravel()
    kept = given[np.isfinite(given)]
    undefined = given.size - kept.size
    if kept.size == 0:
        return Summary(0, undefined, math.nan, math.nan, math.nan, math.nan)
    low = high = math.nan
    if kept.size > 1:
        means = _resampled_means(kept[:, None], resamples, np.random.default_rng(seed))[:, 0]
        low, high = _interval(means, confidence).tolist()
    return Summary(kept.size, undefined, float(kept.mean()), _spread(kept), low, high)


def summarise_columns(
    values: ArrayLike, seed: int = 0, confidence: float = 0.95, resamples: int = 2000
) -> list[Summary]:
    """`summarise` for many columns [N, K] over the same instances at once, with the same resamples for all.

    An instance that is undefined in a column is drawn like the others and left out of that column's mean.
    """
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise UserError("Columns to summarise come as a table [instances, columns].")
    table = np.where(np.isfinite(table), table, np.nan)
    bounds = np.full((2, table.shape[1]), np.nan)
    counts = np.isfinite(table).sum(axis=0)
    several = counts > 1
    if several.any():
        means = _resampled_means(table[:, several], resamples, np.random.default_rng(seed))
        tail = (1.0 - confidence) / 2
        bounds[:, several] = np.nanquantile(means, [tail, 1.0 - tail], axis=0)
    summaries = []
    for column, n, (low, high) in zip(table.T, counts.tolist(), bounds.T.tolist(), strict=True):
        kept = column[np.isfinite(column)]
        mean = float(kept.mean()) if n else math.nan
        summaries.append(Summary(n, len(table) - n, mean, _spread(kept), low, high))
    return summaries


def summarise_seeds(
    groups: Sequence[ArrayLike], seed: int = 0, confidence: float = 0.95, resamples: int = 2000
) -> Summary:
    """A figure over seeds and, within each seed, over instances: the hierarchical bootstrap.

    Seeds are drawn first, then instances within each drawn seed, so the interval covers both kinds of chance.
    ``mean`` is the mean of the seeds' means, ``std`` their standard deviation, ``n`` counts all values.
    Seeds may have different instances.
    """
    arrays = [np.asarray(group, dtype=np.float64).ravel() for group in groups]
    kept = [group[np.isfinite(group)] for group in arrays]
    undefined = sum(map(len, arrays)) - sum(map(len, kept))
    kept = [group for group in kept if len(group)]
    if not kept:
        return Summary(0, undefined, math.nan, math.nan, math.nan, math.nan)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(kept), size=(resamples, len(kept)))
    means = np.empty(drawn.shape)
    for number, group in enumerate(kept):
        chosen = drawn == number
        means[chosen] = _resampled_means(group[:, None], int(chosen.sum()), rng)[:, 0]
    low, high = math.nan, math.nan
    if sum(map(len, kept)) > 1:
        low, high = _interval(means.mean(axis=1), confidence).tolist()
    centres = np.array([group.mean() for group in kept])
    return Summary(sum(map(len, kept)), undefined, float(centres.mean()), _spread(centres), low, high)


def summarise_seed_columns(
    tables: Sequence[ArrayLike], seed: int = 0, confidence: float = 0.95, resamples: int = 2000
) -> list[Summary]:
    """`summarise_seeds` for many columns at once: one table [instances, columns] a seed, the same resamples for all.

    An instance that is undefined in a column is drawn like the others and left out of that column's mean.
    """
    values = [np.asarray(table, dtype=np.float64) for table in tables]
    if not values or any(table.ndim != 2 or table.shape[1] != values[0].shape[1] for table in values):
        raise UserError("Columns over seeds come as tables [instances, columns] with the same columns.")
    values = [np.where(np.isfinite(table), table, np.nan) for table in values]
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(values), size=(resamples, len(values)))
    means = np.full((*drawn.shape, values[0].shape[1]), np.nan)
    for number, table in enumerate(values):
        if len(table):
            means[drawn == number] = _resampled_means(table, int((drawn == number).sum()), rng)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any value stays NaN
        over_seeds = np.nanmean(means, axis=1)
        tail = (1.0 - confidence) / 2
        low, high = np.nanquantile(over_seeds, [tail, 1.0 - tail], axis=0)
        centres = np.array([np.nanmean(table, axis=0) for table in values])
        centre = np.nanmean(centres, axis=0)
    counts = sum(np.isfinite(table).sum(axis=0) for table in values)
    total = sum(len(table) for table in values)
    summaries = []
    for column, n in enumerate(np.asarray(counts).tolist()):
        bounds = (float(low[column]), float(high[column])) if n > 1 else (math.nan, math.nan)
        spread = _spread(centres[np.isfinite(centres[:, column]), column])
        summaries.append(Summary(n, total - n, float(centre[column]), spread, *bounds))
    return summaries


def _pairs(first: ArrayLike, second: ArrayLike) -> tuple[Floats, int]:
    a, b = np.asarray(first, dtype=np.float64).ravel(), np.asarray(second, dtype=np.float64).ravel()
    if a.shape != b.shape:
        raise UserError(f"A paired test needs the same instances on both sides, not {a.size} and {b.size}.")
    difference = a - b
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
    result = stats.permutation_test(
        (difference,),  # one sample: SciPy flips the signs of the differences
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BLOCK // n),
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
        result = stats.wilcoxon(difference, zero_method="wilcox", alternative=alternative)
        statistic, p = float(result.statistic), float(result.pvalue)
    return Comparison("wilcoxon", alternative, n, undefined, mean, statistic, p)


def hierarchical_test(groups: Sequence[ArrayLike], alternative: Alternative = "two-sided") -> Comparison:
    """Is the mean of paired differences zero, when they come from several seeds? One group a seed.

    Texts of one seed share that seed's luck, so they are no independent trials. The standard error is that of the
    hierarchical bootstrap (`summarise_seeds`), in closed form and without the bootstrap's bias: the spread of the
    seeds' means and the spread of texts within a seed. Few seeds tell little about their own spread, so the ratio
    is read from Student's t with Satterthwaite's degrees of freedom; counting resampled means beyond zero instead
    would reject a true null at .05 in a fifth (two seeds) to a seventh (three) of all cases.
    """
    arrays = [np.asarray(group, dtype=np.float64).ravel() for group in groups]
    kept = [group[np.isfinite(group)] for group in arrays]
    n = sum(map(len, kept))
    undefined = sum(map(len, arrays)) - n
    kept = [group for group in kept if len(group)]
    mean = float(np.mean([group.mean() for group in kept])) if kept else math.nan
    statistic = p = math.nan
    if len(kept) > 1:
        statistic, p = _over_seeds(kept, mean, alternative)
    return Comparison(HIERARCHICAL, alternative, n, undefined, mean, statistic, p)


def _over_seeds(groups: Sequence[Floats], mean: float, alternative: Alternative) -> tuple[float, float]:
    seeds, n = len(groups), sum(map(len, groups))
    between = float(np.var([group.mean() for group in groups], ddof=1)) / seeds
    spreads = [float(np.var(group, ddof=1)) / len(group) for group in groups if len(group) > 1]
    within = float(np.mean(spreads)) / seeds if spreads else 0.0
    if between + within <= np.finfo(np.float64).eps * mean**2:
        # Every difference is the same, in every seed: as sure as a sign test over all of them.
        won = mean > 0 if alternative == "greater" else mean < 0 if alternative == "less" else mean != 0
        sides = 2 if alternative == "two-sided" else 1
        return math.nan, min(1.0, sides * 0.5**n) if won else 1.0
    shares = between**2 / (seeds - 1) + (within**2 / (n - seeds) if within else 0.0)
    statistic = mean / math.sqrt(between + within)
    t = stats.t((between + within) ** 2 / shares)
    greater, less = float(t.sf(statistic)), float(t.cdf(statistic))
    two_sided = min(1.0, 2 * min(greater, less))
    return statistic, {"greater": greater, "less": less, "two-sided": two_sided}[alternative]


def _exact_signed_rank(difference: Floats, alternative: Alternative) -> tuple[float, float]:
    """Wilcoxon's test over all flips of the signs, which with ties SciPy finds by trying them one by one."""
    ranks = np.rint(2 * stats.rankdata(np.abs(difference))).astype(np.int64)  # halves, made whole
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
    from statsmodels.stats.contingency_tables import mcnemar  # slow to import, and rarely needed

    difference, undefined = _pairs(first_correct, second_correct)
    if not np.isin(difference, (-1.0, 0.0, 1.0)).all():
        raise UserError("McNemar's test compares right and wrong answers; give 0 and 1, not other numbers.")
    n = len(difference)
    if n == 0:
        return Comparison("mcnemar", "two-sided", 0, undefined, math.nan, math.nan, math.nan)
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    # the exact test looks only at the instances on which the two differ
    result = mcnemar([[0, wins], [losses, 0]], exact=True)
    mean = float(difference.mean())
    p = min(1.0, float(result.pvalue))
    return Comparison("mcnemar", "two-sided", n, undefined, mean, float(result.statistic), p)


@dataclass(frozen=True, slots=True, eq=False)
class Holm:
    """Adjusted p-values of a family of tests; undefined p-values are no part of the family and stay NaN."""

    n: int
    undefined: int
    p: Floats
    rejected: Bools


def holm_bonferroni(p_values: ArrayLike, alpha: float = 0.05) -> Holm:
    """Holm's step-down adjustment: the chance of any false rejection in the family stays under alpha."""
    from statsmodels.stats.multitest import multipletests  # slow to import, and rarely needed

    given = np.asarray(p_values, dtype=np.float64).ravel()
    defined = np.isfinite(given)
    adjusted = np.full(given.shape, np.nan)
    rejected = np.zeros(given.shape, dtype=bool)
    if defined.any():
        rejected[defined], adjusted[defined], _, _ = multipletests(given[defined], alpha, method="holm")
    return Holm(int(defined.sum()), int((~defined).sum()), adjusted, rejected)
