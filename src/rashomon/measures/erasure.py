"""Which tokens to keep or erase, and what the answers mean: sufficiency, comprehensiveness, AOPC.

The pure half of the erasure protocol of ERASER (DeYoung et al. 2020) and paper *teacher-student*: a
probability of the predicted class on the whole text, f(x), against f on the top tokens alone, f(e), and
against f without them, f(x \\ e). Evaluating the model belongs to the explanation engine.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rashomon.errors import UserError
from rashomon.measures.base import Bools, Floats, Ragged, as_floats, measure
from rashomon.measures.ranks import Top, in_top, top_count

ERASER_FRACTIONS = (0.01, 0.05, 0.1, 0.2, 0.5)

PROBABILITIES = "Probabilities before and after erasure"
NO_PROBABILITY = "a probability that is missing (NaN)"


def top_mask(scores: Ragged, k: Top) -> Bools:
    """Marks the top ``k`` of every text (a fraction rounded up, or a number), flat along ``scores.values``.

    At least one token is marked; of equal scores the first in the text is.
    """
    return in_top(scores, top_count(scores.lengths, k))


def top_masks(scores: Ragged, fractions: Sequence[Top] = ERASER_FRACTIONS) -> NDArray[np.bool_]:
    """One row of marks per fraction, [K, total]: what sufficiency keeps and comprehensiveness erases."""
    return np.stack([top_mask(scores, fraction) for fraction in fractions])


def _drop(full: ArrayLike, reduced: ArrayLike) -> Floats:
    whole, part = as_floats(full, PROBABILITIES), as_floats(reduced, PROBABILITIES)
    if part.shape[:1] != whole.shape or whole.ndim != 1 or part.ndim not in (1, 2):
        raise UserError("Erasure needs one full probability per text [N] and reduced ones [N] or [N, K].")
    return np.asarray(whole - part if part.ndim == 1 else whole[:, None] - part)


def aopc(drops: ArrayLike) -> Floats:
    """Area over the perturbation curve: the mean drop over K thresholds, [N, K] to [N]."""
    values = as_floats(drops, "Drops in probability")
    if values.ndim != 2 or values.shape[1] == 0:
        raise UserError(
            "AOPC is a mean over thresholds and needs drops of shape [N, K] with K of at least 1."
        )
    return np.asarray(values.mean(axis=1))


@measure("sufficiency", bounds=(-1, 1), better="lower", family="erasure", undefined=NO_PROBABILITY)
def sufficiency(full: ArrayLike, kept: ArrayLike) -> Floats:
    """f(x) - f(e): what the prediction loses when only the top tokens stay; [N] and [N] or [N, K]."""
    return _drop(full, kept)


@measure("comprehensiveness", bounds=(-1, 1), better="higher", family="erasure", undefined=NO_PROBABILITY)
def comprehensiveness(full: ArrayLike, erased: ArrayLike) -> Floats:
    """f(x) - f(x without e): what the prediction loses when the top tokens go; [N] and [N] or [N, K]."""
    return _drop(full, erased)


@measure("aopc-sufficiency", bounds=(-1, 1), better="lower", family="erasure", undefined=NO_PROBABILITY)
def aopc_sufficiency(full: ArrayLike, kept: ArrayLike) -> Floats:
    """Mean sufficiency over thresholds; [N] and [N, K]."""
    return aopc(sufficiency(full, kept))


@measure(
    "aopc-comprehensiveness", bounds=(-1, 1), better="higher", family="erasure", undefined=NO_PROBABILITY
)
def aopc_comprehensiveness(full: ArrayLike, erased: ArrayLike) -> Floats:
    """Mean comprehensiveness over thresholds; [N] and [N, K]."""
    return aopc(comprehensiveness(full, erased))
