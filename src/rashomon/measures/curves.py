"""Is the trade of prediction for attention convex or concave? The area under a normalised TVD-JSD curve.

On a straight line, attention moves in proportion to what it costs: area one half. Under it (convex) attention moves
far before predictions change, so it is easily manipulated; above it (concave) already the first steps are costly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Others = tuple[Floats, Floats]

ENDS = 0.1  # of the range of JSD on either side: points there are the curve's ends and not its middle
ROOM = 0.02  # an area this close to a half is that of a straight line, however sure one is of it
NEAR = 0.05  # a sweep that spans less JSD than this says nothing about distant attention
CHEAP = 0.02  # a whole curve that costs less TVD than this is flat, whatever its normalised shape
NO_RANGE = 1e-9
NOTHING: Others = (np.empty(0), np.empty(0))


def normalised_area(jsd: Floats, tvd: Floats) -> float:
    """The area under TVD over JSD, both brought to 0..1; NaN for under three points or no range."""
    return float(_areas(jsd[:, None], tvd[:, None])[0])


def _areas(jsd: Floats, tvd: Floats) -> Floats:
    """`normalised_area` of many curves [points, curves]."""
    if len(jsd) < 3:
        return np.full(jsd.shape[1], np.nan)
    order = np.lexsort((tvd, jsd), axis=0)
    x, y = np.take_along_axis(jsd, order, 0), np.take_along_axis(tvd, order, 0)
    wide, tall = np.ptp(x, axis=0), np.ptp(y, axis=0)
    defined = (wide >= NO_RANGE) & (tall >= NO_RANGE)
    x, y = ((part - part.min(0)) / np.where(defined, span, 1.0) for part, span in ((x, wide), (y, tall)))
    return np.where(defined, np.trapezoid(y, x, axis=0), np.nan)


def bounded(jsd: Floats, tvd: Floats, others: Others = NOTHING) -> Floats:
    """The curve's TVD [points, ...] as far as anything found: the least of all points that attend at least as far away.

    ``others`` are (JSD, TVD) [m] of what was found beside the curve. Who goes further at less cost can stop before.
    """
    far = np.concatenate([jsd, _beside(others[0], jsd)])
    cost = np.concatenate([tvd, _beside(others[1], tvd)])
    return np.stack([np.where(far >= place, cost, np.inf).min(0) for place in jsd])


def _beside(values: Floats, like: Floats) -> Floats:
    """Constants as further points of many curves."""
    column = np.asarray(values, dtype=np.float64).reshape(-1, *[1] * (like.ndim - 1))
    return np.broadcast_to(column, (len(column), *like.shape[1:]))


def bootstrap_area(
    jsd: Floats, tvd: Floats, others: Others = NOTHING, resamples: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """A 95 % interval of the bounded curve's area over texts; ``jsd`` and ``tvd`` are [points, texts]."""
    shares = _resampled(jsd.shape[1], resamples, seed)
    places = jsd @ shares
    areas = _areas(places, bounded(places, tvd @ shares, others))
    defined = areas[np.isfinite(areas)]
    if not len(defined):
        return float("nan"), float("nan")
    low, high = np.quantile(defined, [0.025, 0.975])
    return float(low), float(high)


def bootstrap_above(
    point: tuple[Floats, Floats], curve: tuple[Floats, Floats], resamples: int = 1000, seed: int = 0
) -> tuple[float, float, float]:
    """How far a point lies above a curve, with a 95 % interval over texts, which both share.

    Both are given as JSD and TVD by text: the point's ``[texts]``, the curve's ``[points, texts]``.
    """
    (x, y), (jsd, tvd) = point, curve
    whole = np.full((len(x), 1), 1 / len(x))
    shares = np.hstack([whole, _resampled(len(x), resamples, seed)])  # all texts first
    heights = [height_at(float(x @ of), jsd @ of, tvd @ of) for of in shares.T]
    above = y @ shares - np.array(heights)
    defined = above[1:][np.isfinite(above[1:])]
    if not len(defined):
        return float(above[0]), float("nan"), float("nan")
    low, high = np.quantile(defined, [0.025, 0.975])
    return float(above[0]), float(low), float(high)


def _resampled(texts: int, resamples: int, seed: int) -> Floats:
    """[texts, resamples]: which share of a resample each text is."""
    drawn = np.random.default_rng(seed).multinomial(texts, np.full(texts, 1 / texts), size=resamples)
    return np.asarray(drawn.T / texts)


def points_between(jsd: Floats) -> int:
    """How many points lie between the ends of the curve, where alone it can bend."""
    if not len(jsd) or np.ptp(jsd) < NO_RANGE:
        return 0
    share = (jsd - jsd.min()) / np.ptp(jsd)
    return int(((share > ENDS) & (share < 1 - ENDS)).sum())


def shape_of(low: float, high: float, jsd: Floats, tvd: Floats) -> str:
    """In a word, from the area's interval and the curve's points.

    Without a point between its ends a curve has no shape, and one whose area is a half up to ``ROOM`` is straight.
    """
    if np.isnan(low) or np.ptp(jsd) < NEAR or not points_between(jsd):
        return "undefined"
    if np.ptp(tvd) < CHEAP:
        return "flat"
    if high < 0.5 - ROOM:
        return "convex"
    if low > 0.5 + ROOM:
        return "concave"
    return "straight" if low >= 0.5 - ROOM and high <= 0.5 + ROOM else "undecided"


def height_at(x: float, jsd: Floats, tvd: Floats) -> float:
    """The curve's TVD at a JSD, by interpolation; NaN beyond its ends."""
    order = np.lexsort((tvd, jsd))
    return float(np.interp(x, jsd[order], tvd[order], left=np.nan, right=np.nan))
