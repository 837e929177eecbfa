"""How does one number of a text go with another? A correlation with its interval, and a smooth line with its band."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from rashomon.measures.base import Floats
from rashomon.measures.intervals import CONFIDENCE, ENOUGH, Interval, Summary, by_seed_and_text

RESAMPLES = 1000
BANDS = 200  # lines behind a band; each is a whole fit
FEWEST = 4  # texts, below which a correlation has no interval
_EDGE = 1 - 1e-12  # the correlation of a straight line, which has no end on Fisher's scale


def correlation(
    first: Sequence[ArrayLike],
    second: Sequence[ArrayLike],
    texts: Sequence[Sequence[Hashable]] | None = None,
    seed: int = 0,
) -> Summary:
    """Pearson's r of two numbers a text, in the mean over seeds; one group of values a seed.

    The interval is taken on Fisher's scale. Texts are drawn again (the same for all seeds, which share them), and how
    far the seeds lie apart is added, so that it is on the careful side. ``std`` is the spread over seeds.
    """
    x, y = by_seed_and_text(first, texts), by_seed_and_text(second, texts)
    both = np.isfinite(x) & np.isfinite(y)
    n, undefined = int(both.sum()), sum(map(np.size, first)) - int(both.sum())
    whole = np.ones((1, x.shape[1]))
    each = np.array([_weighted(x[s], y[s], both[s], whole)[0] for s in range(len(x))])
    each = each[np.isfinite(each)]
    if not len(each):
        return Summary(n, undefined, math.nan, math.nan, math.nan, math.nan, "none")
    scaled = np.arctanh(np.clip(each, -_EDGE, _EDGE))
    mean = float(np.tanh(scaled.mean()))
    spread = float(each.std(ddof=1)) if len(each) > 1 else math.nan
    kind: Interval = "none"
    low = high = math.nan
    if len(each) == 2:
        low, high, kind = float(each.min()), float(each.max()), "range"
    elif both.any(0).sum() >= FEWEST and (len(each) == 1 or len(each) >= ENOUGH):
        kind = "95 %"
        reach = _reach(x, y, both, scaled, seed)
        low, high = (float(np.tanh(scaled.mean() + side * reach)) for side in (-1, 1))
    return Summary(n, undefined, mean, spread, low, high, kind)


def _reach(x: Floats, y: Floats, both: np.ndarray, scaled: Floats, seed: int) -> float:
    """Half of the interval, on Fisher's scale."""
    there = both.any(0)
    rng, count = np.random.default_rng(seed), int(there.sum())
    times = rng.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(np.float64)
    rows = [_weighted(x[s][there], y[s][there], both[s][there], times) for s in range(len(x))]
    on_scale = np.arctanh(np.clip(np.array(rows), -_EDGE, _EDGE))
    drawn = on_scale[:, np.isfinite(on_scale).any(0)]  # a draw of one text many times over has no correlation
    over_texts = float(np.nanmean(drawn, 0).var()) if drawn.size else 0.0
    seeds = len(scaled)
    over_seeds = float(scaled.var(ddof=1)) / seeds if seeds > 1 else 0.0
    total = over_texts + over_seeds
    freedom = (seeds - 1) * (total / over_seeds) ** 2 if over_seeds > 0 else 1e9
    return float(stdtrit(min(freedom, 1e9), (1 + CONFIDENCE) / 2)) * math.sqrt(total)


def _weighted(x: Floats, y: Floats, defined: np.ndarray, times: Floats) -> Floats:
    """Pearson's r with every text counted so many times, once for each row of ``times`` ``[B, N]``."""
    a, b = np.where(defined, x, 0.0), np.where(defined, y, 0.0)
    count = times @ defined
    with np.errstate(invalid="ignore", divide="ignore"):
        a = np.where(defined, a - a.sum() / defined.sum(), 0.0)
        b = np.where(defined, b - b.sum() / defined.sum(), 0.0)
        mean_a, mean_b = times @ a / count, times @ b / count
        spread_a = times @ a**2 / count - mean_a**2
        spread_b = times @ b**2 / count - mean_b**2
        tiny_a, tiny_b = (1e-12 * np.mean(v**2) + 1e-300 for v in (a, b))
        r = (times @ (a * b) / count - mean_a * mean_b) / np.sqrt(spread_a * spread_b)
    return np.where((spread_a > tiny_a) & (spread_b > tiny_b), r, np.nan)


@dataclass(frozen=True, eq=False)
class Line:
    """A smooth line with its band."""

    x: Floats
    y: Floats
    low: Floats
    high: Floats


def smooth_line(x: ArrayLike, y: ArrayLike, places: int = 30, share: float = 0.5, seed: int = 0) -> Line:
    """A locally weighted regression (lowess) through one point a text; the band is from texts drawn again.

    It runs where the middle 98 % of the texts lie. Of fewer than ten texts, or of one single x, there is no line.
    """
    from statsmodels.nonparametric.smoothers_lowess import lowess  # takes a second to load

    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    nothing = np.empty(0)
    if len(a) < 10 or np.ptp(a) <= 1e-9:
        return Line(nothing, nothing, nothing, nothing)
    low, high = np.quantile(a, [0.01, 0.99])
    at = np.linspace(low, high, places)

    def fit(index: np.ndarray) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            line = lowess(b[index], a[index], frac=share, it=0, xvals=at)
        return np.asarray(
            np.clip(line, b.min(), b.max())
        )  # few texts drawn again leave gaps, and lines shoot off

    rng = np.random.default_rng(seed)
    drawn = np.array([fit(rng.integers(0, len(a), len(a))) for _ in range(BANDS)])
    known_at = np.isfinite(drawn).mean(0) > 0.5
    band = np.full((2, places), np.nan)
    band[:, known_at] = np.nanquantile(
        drawn[:, known_at], [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0
    )
    return Line(at, fit(np.arange(len(a))), band[0], band[1])
