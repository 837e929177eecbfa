"""Is the trade of prediction for attention convex or concave? The area under a normalised TVD-JSD curve.

On a straight line, attention moves in proportion to what it costs: area one half. Under it (convex) attention moves
far before predictions change, so it is easily manipulated; above it (concave) already the first steps are costly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NEAR = 0.05  # a sweep that spans less JSD than this says nothing about distant attention
CHEAP = 0.02  # a whole curve that costs less TVD than this is flat, whatever its normalised shape
NO_RANGE = 1e-9


def normalised_area(jsd: Floats, tvd: Floats) -> float:
    """The area under TVD over JSD, both brought to 0..1; NaN for under three points or no range."""
    if len(jsd) < 3 or np.ptp(jsd) < NO_RANGE or np.ptp(tvd) < NO_RANGE:
        return float("nan")
    order = np.lexsort((tvd, jsd))
    x = (jsd[order] - jsd.min()) / np.ptp(jsd)
    y = (tvd[order] - tvd.min()) / np.ptp(tvd)
    return float(np.trapezoid(y, x))


def bootstrap_area(jsd: Floats, tvd: Floats, resamples: int = 1000, seed: int = 0) -> tuple[float, float]:
    """A 95 % interval of the area over texts; ``jsd`` and ``tvd`` are [points, texts]."""
    generator = np.random.default_rng(seed)
    texts = jsd.shape[1]
    areas = []
    for _ in range(resamples):
        chosen = generator.integers(0, texts, texts)
        areas.append(normalised_area(jsd[:, chosen].mean(1), tvd[:, chosen].mean(1)))
    defined = np.array([area for area in areas if np.isfinite(area)])
    if not len(defined):
        return float("nan"), float("nan")
    low, high = np.quantile(defined, [0.025, 0.975])
    return float(low), float(high)


def shape_of(low: float, high: float, cost: float, reach: float) -> str:
    """In a word, from the area's interval and how much TVD (``cost``) and JSD (``reach``) the curve spans."""
    if np.isnan(low) or reach < NEAR:
        return "undefined"
    if cost < CHEAP:
        return "flat"
    if high < 0.5:
        return "convex"
    return "concave" if low > 0.5 else "undecided"


def height_at(x: float, jsd: Floats, tvd: Floats) -> float:
    """The curve's TVD at a JSD, by interpolation; NaN beyond its ends."""
    order = np.lexsort((tvd, jsd))
    return float(np.interp(x, jsd[order], tvd[order], left=np.nan, right=np.nan))
