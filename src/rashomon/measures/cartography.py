"""Which texts are easy, ambiguous or hard for a model, by how it learned them? (Swayamdipta et al. 2020)

From the class probabilities after every epoch: confidence is the mean probability of the gold class, variability its
spread, closeness to the boundary c (1 - c), correctness how often the class was right, forgetting how often a right
answer became wrong. Paper *hard-to-agree* groups texts by correctness over its five epochs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from rashomon.errors import UserError
from rashomon.measures.base import Floats, Ints, as_floats

Closeness = Literal["of-mean", "mean-of"]
GROUPS = ("easy", "ambiguous", "hard")


@dataclass(frozen=True)
class Cartography:
    """One value a text."""

    confidence: Floats
    variability: Floats
    closeness: Floats
    correctness: Ints  # how many epochs
    forgetting: Ints  # how many times right became wrong; -1 for a text that was never right
    epochs: int

    def groups(self) -> np.ndarray:
        """``easy`` (right in every epoch), ``hard`` (in none), ``ambiguous`` (in the middle 40-60 %), else empty."""
        share = self.correctness / self.epochs
        middle = (share >= 0.4) & (share <= 0.6)
        names = np.full(len(share), "", dtype=object)
        names[middle], names[share == 1], names[share == 0] = "ambiguous", "easy", "hard"
        return names


def cartography(
    probabilities: ArrayLike, labels: ArrayLike, ddof: int = 0, closeness: Closeness = "of-mean"
) -> Cartography:
    """The map of texts from probabilities ``[epochs, N, C]`` and gold labels ``[N]``.

    ``ddof`` is 0 in the original's code and 1 in that of *hard-to-agree*; ``closeness`` is taken of the mean confidence
    (as their code does), or averaged over epochs.
    """
    p, given = as_floats(probabilities, "Probabilities"), as_floats(labels, "Labels")
    if p.ndim != 3 or given.shape != p.shape[1:2]:
        raise UserError("Cartography needs probabilities [epochs, N, C] and one label for each of N.")
    if len(p) <= max(ddof, 0):
        raise UserError(f"Cartography with ddof {ddof} needs more than {max(ddof, 0)} epochs, not {len(p)}.")
    if not np.isin(given, np.arange(p.shape[2])).all():
        raise UserError(f"Cartography of {p.shape[2]} classes needs labels from 0 to {p.shape[2] - 1}.")
    y = given.astype(np.int64)
    gold = p[:, np.arange(len(y)), y]
    right = p.argmax(-1) == y
    lost = (right[:-1] & ~right[1:]).sum(0)
    confidence = gold.mean(0)
    near = confidence * (1 - confidence) if closeness == "of-mean" else (gold * (1 - gold)).mean(0)
    return Cartography(
        confidence=confidence,
        variability=gold.std(0, ddof=ddof),
        closeness=near,
        correctness=right.sum(0),
        forgetting=np.where(right.any(0), lost, -1),
        epochs=len(p),
    )
