"""Are texts like those that are known? Distances of their representations to the nearest known ones."""

from __future__ import annotations

import numpy as np
import scipy  # its parts load when they are first used
from numpy.typing import ArrayLike

from rashomon.errors import UserError
from rashomon.measures.base import Bools, Floats

BLOCK = 1024  # points whose distances are in memory at once
USUAL = 0.95  # the share of real texts that lie no farther away than is usual


def distance_to_nearest(points: ArrayLike, known: ArrayLike, block: int = BLOCK) -> Floats:
    """The Euclidean distance of every point ``[N, D]`` to the nearest of the known ones ``[M, D]``, ``[N]``."""
    x, y = (np.asarray(values, dtype=np.float64) for values in (points, known))
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1] or not len(y):
        raise UserError("Distances to the nearest need points [N, D] and at least one known point [M, D].")
    parts = [
        scipy.spatial.distance.cdist(x[start : start + block], y).min(1) for start in range(0, len(x), block)
    ]
    return np.concatenate(parts) if parts else np.empty(0)


def farther_than_usual(distances: ArrayLike, real: ArrayLike, usual: float = USUAL) -> Bools:
    """Which distances ``[N]`` exceed those that the share ``usual`` of real texts keep to."""
    return np.asarray(np.asarray(distances, dtype=np.float64) > np.quantile(np.asarray(real), usual))
