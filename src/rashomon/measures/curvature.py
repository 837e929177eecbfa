"""How close do representations lie to each other? The distance to the nearest other one, exactly, in bounded memory."""

from __future__ import annotations

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import ArrayLike

from rashomon.errors import UserError
from rashomon.measures.base import Floats

BLOCK = 1024  # rows and columns of distances that are in memory at once


def nearest_distance(points: ArrayLike, block: int = BLOCK) -> Floats:
    """The Euclidean distance of every point ``[N, D]`` to its nearest other point ``[N]``; NaN where there is none.

    Differences are taken and squared, not expanded into products, so that equal points are at distance 0.
    """
    x = np.asarray(points, dtype=np.float64)
    if x.ndim != 2:
        raise UserError("Nearest distances need points [N, D].")
    nearest = np.full(len(x), np.inf)
    for first in range(0, len(x), block):
        rows = slice(first, first + block)
        for second in range(first, len(x), block):
            columns = slice(second, second + block)
            distances = scipy.spatial.distance.cdist(x[rows], x[columns])
            if first == second:
                np.fill_diagonal(distances, np.inf)
            nearest[rows] = np.minimum(nearest[rows], distances.min(1, initial=np.inf))
            nearest[columns] = np.minimum(nearest[columns], distances.min(0, initial=np.inf))
    return np.where(np.isfinite(nearest), nearest, np.nan)
