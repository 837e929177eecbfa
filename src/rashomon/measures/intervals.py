"""How sure is a figure? Means with n, spread and an interval, over texts, over seeds, and over both at once.

A value belongs to a seed (a training) and to a text, and owes something to each and something to the two together.
The variance of the mean over seeds therefore has two parts that can be seen: how far the seeds' means lie apart, and
how much two seeds have in common on the texts that they share, which more seeds do not average out. Seeds may have the
same texts, others, or some in common. Few seeds tell little about their own spread, so the interval is read from
Student's t with Satterthwaite's degrees of freedom; under three seeds nobody can tell, and the range is given instead.
Resampling (a bootstrap over seeds, then texts) would cover the truth in 50 to 85 of 100 cases where this covers 94 to
96, and over the texts of one seed it is not better either.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from rashomon.errors import UserError
from rashomon.measures.base import Floats, Ints

Interval = Literal["95 %", "range", "none"]
CONFIDENCE = 0.95
ENOUGH = 3  # seeds, or texts of one seed, from which on an interval can be told from their spread
ROUNDING = 1e-12  # of the largest value: what is spread less is spread by arithmetic


@dataclass(frozen=True, slots=True)
class Summary:
    """A figure. ``n`` counts the defined values, ``std`` is their spread, ``kind`` says what ``low`` and ``high`` are.

    "95 %": the interval of the mean. "range": the lowest and the highest of two seeds (or of the two values of one).
    "none": one value, or no value at all, has no interval.
    """

    n: int
    undefined: int
    mean: float
    std: float
    low: float
    high: float
    kind: Interval

    def within(self, least: float, most: float) -> Summary:
        """The same where nothing can lie beyond these ends, so that no interval needs to."""
        if self.kind == "none":
            return self
        return replace(self, low=max(self.low, least), high=min(self.high, most))


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """The mean over seeds of each column [C], its standard error, and the degrees of freedom behind that."""

    mean: Floats
    error: Floats
    freedom: Floats
    seeds: Ints
    texts: Ints
    lowest: Floats  # of the seeds' means; of the values where there is one seed
    highest: Floats


def standard_errors(values: Floats) -> Errors:
    """Of values [seeds, texts, columns], NaN where a seed has no value for a text.

    Satterthwaite's degrees of freedom put estimates where the true variances belong. Of few seeds the one between
    seeds is often too low by chance, and then the texts' share seems too large and the degrees of freedom with it;
    (K - 1) / (K + 1) of that share sets it right, down to three seeds (tests/measures/test_coverage.py).
    """
    defined = np.isfinite(values)
    sizes = defined.sum(1)  # [K, C]
    means = np.where(sizes > 0, np.where(defined, values, 0.0).sum(1) / np.maximum(sizes, 1), np.nan)
    present = sizes > 0
    seeds, texts = present.sum(0), defined.any(0).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(present, means, 0.0).sum(0) / seeds
        other_seeds, other_texts = np.maximum(seeds - 1, 1), np.maximum(texts - 1, 1)  # one has no spread
        between = np.where(present, (means - mean) ** 2, 0.0).sum(0) / other_seeds / seeds
        shared = _shared(values, means, defined)
        damped = np.where(seeds > 1, (seeds - 1) / (seeds + 1), 1.0) * shared
        freedom = (between + damped) ** 2 / (between**2 / other_seeds + damped**2 / other_texts)
    inner = np.where(seeds > 1, means[:, None], values)
    known = np.isfinite(inner)
    lowest = inner.min((0, 1), initial=np.inf, where=known)
    highest = inner.max((0, 1), initial=-np.inf, where=known)
    return Errors(mean, np.sqrt(between + shared), freedom, seeds, texts, lowest, highest)


def _shared(values: Floats, means: Floats, defined: np.ndarray) -> Floats:
    """The covariance of two seeds' means that comes from their common texts, over all pairs; of one seed its variance.

    Under n1 and n2 texts of which n12 are shared, products of deviations over the shared ones add up to the
    covariance of single values times n12 (1 - 1/n1 - 1/n2 + n12/(n1 n2)), and means covary n12/(n1 n2) times as much.
    """
    apart = np.where(defined, values - means[:, None], 0.0).transpose(2, 0, 1)  # [C, K, N]
    common = defined.astype(np.float64).transpose(2, 0, 1)
    products = apart @ apart.transpose(0, 2, 1)  # [C, K, K]
    both = common @ common.transpose(0, 2, 1)
    sizes = both.diagonal(axis1=1, axis2=2)
    first, second = sizes[:, :, None], sizes[:, None, :]
    weight = first * second - first - second + both
    covariances = np.divide(products, weight, out=np.zeros_like(products), where=weight > 0)
    counted = (first > 0) & (second > 0)
    several = (sizes > 0).sum(1) > 1
    own = np.eye(sizes.shape[1], dtype=bool)
    counted &= np.where(several[:, None, None], ~own, own)
    pairs = np.maximum(counted.sum((1, 2)), 1)
    return np.asarray(np.maximum(np.where(counted, covariances, 0.0).sum((1, 2)) / pairs, 0.0))


def summarise_seed_columns(values: ArrayLike) -> list[Summary]:
    """A summary for each column of values [seeds, texts, columns]; NaN is undefined."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 3:
        raise UserError("Figures over seeds come as a table [seeds, texts, columns].")
    table = np.where(np.isfinite(table), table, np.nan)
    found = standard_errors(table)
    with np.errstate(invalid="ignore"):
        reach = stdtrit(np.where(found.error > 0, found.freedom, 1.0), (1 + CONFIDENCE) / 2) * found.error
    summaries = []
    for column, (seeds, texts) in enumerate(zip(found.seeds.tolist(), found.texts.tolist(), strict=True)):
        kept = table[:, :, column][np.isfinite(table[:, :, column])]
        mean, kind = float(found.mean[column]), _kind(seeds, texts)
        low = high = math.nan
        if kind == "range":
            low, high = float(found.lowest[column]), float(found.highest[column])
        elif kind == "95 %":
            low, high = mean - float(reach[column]), mean + float(reach[column])
        undefined = table[:, :, column].size - kept.size
        summaries.append(Summary(kept.size, undefined, mean, _spread(kept), low, high, kind))
    return summaries


def _kind(seeds: int, texts: int) -> Interval:
    units = seeds if seeds > 1 else texts
    return "95 %" if min(units, texts) >= ENOUGH else "range" if units > 1 else "none"


def _spread(values: Floats) -> float:
    if len(values) < 2:
        return math.nan
    spread = float(np.std(values, ddof=1))
    return spread if spread > ROUNDING * float(np.abs(values).max()) else 0.0


def summarise(values: ArrayLike) -> Summary:
    """A figure over values that are independent of each other: the texts of one seed, or one number a seed."""
    return summarise_seed_columns(np.asarray(values, dtype=np.float64).reshape(1, -1, 1))[0]


def summarise_share(hits: ArrayLike) -> Summary:
    """The share of independent yes (1) and no (0), NaN where undefined, with Wilson's interval.

    That does not shrink to a point where all are the same, as an interval from their spread would.
    """
    values = np.asarray(hits, dtype=np.float64)
    known, plain = values[np.isfinite(values)], summarise(values)
    if not known.size:
        return plain
    found = scipy.stats.binomtest(int(known.sum()), known.size).proportion_ci(CONFIDENCE, method="wilson")
    return replace(plain, low=float(found.low), high=float(found.high), kind="95 %")


def summarise_seeds(
    groups: Sequence[ArrayLike], texts: Sequence[Sequence[Hashable]] | None = None
) -> Summary:
    """A figure over seeds, one group of values a seed; ``mean`` is the mean of the seeds' means.

    ``texts`` names the text of every value, group by group; without it no two values are of the same text.
    """
    values = by_seed_and_text(groups, texts)
    summary = summarise_seed_columns(values[:, :, None])[0]
    return replace(summary, undefined=sum(map(np.size, groups)) - summary.n)


def by_seed_and_text(groups: Sequence[ArrayLike], texts: Sequence[Sequence[Hashable]] | None) -> Floats:
    """Groups of values as a table [seeds, texts], NaN where a seed does not have a text."""
    arrays = [np.asarray(group, dtype=np.float64).ravel() for group in groups]
    named = _apart(arrays) if texts is None else [list(of_seed) for of_seed in texts]
    if [len(array) for array in arrays] != [len(of_seed) for of_seed in named]:
        raise UserError("Every value of a seed needs the text that it is of.")
    places: dict[Hashable, int] = {}
    table = np.full((len(arrays), sum(map(len, arrays))), np.nan)
    for seed, (array, of_seed) in enumerate(zip(arrays, named, strict=True)):
        columns = [places.setdefault(text, len(places)) for text in of_seed]
        if len(set(columns)) < len(columns):
            raise UserError("A seed has two values for one text; give one of them, or their mean.")
        table[seed, columns] = array
    return table[:, : len(places)]


def _apart(arrays: Sequence[Floats]) -> list[list[Hashable]]:
    return [[(seed, place) for place in range(len(array))] for seed, array in enumerate(arrays)]
