"""How far apart are two distributions, and how even is one? TVD, KL, JSD, distances of several heads, AtteFa's score.

TVD is the C-class one, 0..1 (papers with a single sigmoid output sum over that output, which is half of it).
KL and JSD use natural logarithms with 1e-10 inside, so JSD <= ln 2. Padding is zeroed before any logarithm.
`tvd`, `kl` and `jsd` work over the last axis of NumPy arrays and of torch tensors (where they can be
differentiated); the measures of the same names work over ragged rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
import scipy  # its parts load when they are first used
import torch
from numpy.typing import NDArray

from rashomon.errors import UserError
from rashomon.measures.base import Bools, Floats, Ragged, check_same_rows, measure

EPS = 1e-10
LN2 = math.log(2.0)

Array = TypeVar("Array", NDArray[np.float64], torch.Tensor)


def _log(x: Array) -> Array:
    return torch.log(x) if isinstance(x, torch.Tensor) else np.log(x)


def _masked(x: Array, mask: Any) -> Array:
    """Zero where the mask is false; `where`, not a product, so that a NaN in the padding stays there."""
    if mask is None:
        return x
    if isinstance(x, torch.Tensor):
        return torch.where(mask.bool(), x, torch.zeros((), dtype=x.dtype, device=x.device))
    return np.where(np.asarray(mask, dtype=bool), x, 0.0)


def _kl_terms(p: Array, q: Array) -> Array:
    return p * (_log(p + EPS) - _log(q + EPS))


def _jsd_terms(p: Array, q: Array) -> Array:
    middle = (p + q) / 2
    return (_kl_terms(p, middle) + _kl_terms(q, middle)) / 2


def tvd(p: Array, q: Array, mask: Any = None) -> Array:
    """Total variation distance over the last axis: half the sum of absolute differences, 0..1."""
    distance: Array = abs(_masked(p, mask) - _masked(q, mask)).sum(-1) / 2
    return distance


def kl(p: Array, q: Array, mask: Any = None) -> Array:
    """Kullback-Leibler divergence KL(p || q) over the last axis, in nats."""
    divergence: Array = _kl_terms(_masked(p, mask), _masked(q, mask)).sum(-1)
    return divergence


def jsd(p: Array, q: Array, mask: Any = None) -> Array:
    """Jensen-Shannon divergence over the last axis, in nats, 0..ln 2."""
    divergence: Array = _jsd_terms(_masked(p, mask), _masked(q, mask)).sum(-1)
    return divergence


def _not_distributions(*rows: Ragged) -> Bools:
    wrong = np.zeros(len(rows[0]), dtype=bool)
    for row in rows:
        total, lowest = row.sum(row.values), row.reduce(np.minimum, row.values, empty=-1.0)
        wrong |= ~(np.abs(total - 1.0) < 1e-3) | ~(lowest >= -1e-6)
    return wrong


NOT_DISTRIBUTIONS = "a row that is not a distribution (negative, not finite, or not summing to 1)"


@measure("tvd", bounds=(0, 1), better=None, family="divergence", undefined=NOT_DISTRIBUTIONS)
def tvd_rows(a: Ragged, b: Ragged) -> Floats:
    """Total variation distance of two distributions, 0 (same) to 1 (disjoint)."""
    check_same_rows(a, b)
    distance = a.sum(np.abs(a.values - b.values)) / 2
    return np.where(_not_distributions(a, b), np.nan, np.minimum(distance, 1.0))


@measure("kl", bounds=(0, math.inf), better=None, family="divergence", undefined=NOT_DISTRIBUTIONS)
def kl_rows(a: Ragged, b: Ragged) -> Floats:
    """Kullback-Leibler divergence of the second distribution from the first, in nats."""
    check_same_rows(a, b)
    wrong = _not_distributions(a, b)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(wrong, np.nan, np.maximum(a.sum(_kl_terms(a.values, b.values)), 0.0))


@measure("jsd", bounds=(0, LN2), better=None, family="divergence", undefined=NOT_DISTRIBUTIONS)
def jsd_rows(a: Ragged, b: Ragged) -> Floats:
    """Jensen-Shannon divergence of two distributions in nats, 0 (same) to ln 2 (disjoint)."""
    check_same_rows(a, b)
    wrong = _not_distributions(a, b)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(wrong, np.nan, np.clip(a.sum(_jsd_terms(a.values, b.values)), 0.0, LN2))


def normalised_entropy(rows: Ragged) -> Floats:
    """How even each distribution is, entropy / ln n: 0 where all weight is on one entry, 1 where it is uniform.

    Undefined for a row of fewer than two entries and for one that is no distribution.
    """
    weights = np.where(rows.values > 0, rows.values, 1.0)  # 0 ln 0 is 0
    entropy = -rows.sum(weights * np.log(weights))
    undefined = _not_distributions(rows) | (rows.lengths < 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(undefined, np.nan, np.clip(entropy / np.log(rows.lengths), 0.0, 1.0))


def matched_heads_jsd(a: Array, b: Array, mask: Any = None) -> Array:
    """Mean JSD between the heads of two attentions [..., H, T] under the best matching of heads: [...].

    Heads have no order, so a model whose heads are permuted is the same model and has distance 0. The mask
    [..., T] hides padding. Differentiable for tensors: the matching is found on the values.
    """
    cost = _between_heads(jsd, a, b, mask)
    return _chosen(cost, _matching(cost))


def matched_heads_kl(a: Array, b: Array, mask: Any = None) -> Array:
    """Mean KL(a || b) of the pairs of heads that `matched_heads_jsd` finds."""
    return _chosen(_between_heads(kl, a, b, mask), _matching(_between_heads(jsd, a, b, mask)))


def mean_pairwise_jsd(attentions: Sequence[Array], mask: Any = None) -> tuple[Array, int]:
    """How far K models' attentions [N, H, T] lie apart on each text: the mean over all pairs, and their number.

    Unlike the largest distance from one of them, it does not grow with the number of models.
    """
    pairs = list(combinations(attentions, 2))
    if not pairs:
        raise UserError("The distance between models needs at least two of them.")
    total = matched_heads_jsd(*pairs[0], mask)
    for one, other in pairs[1:]:
        total = total + matched_heads_jsd(one, other, mask)
    return total / len(pairs), len(pairs)


def _between_heads(distance: Callable[..., Array], a: Array, b: Array, mask: Any) -> Array:
    """Every head of one attention against every head of the other: [..., H, H]."""
    if a.shape != b.shape or a.ndim < 2:
        raise UserError("Attentions to match need the same shape [..., heads, tokens].")
    if mask is not None:
        mask = mask[..., None, None, :]
    return distance(a[..., :, None, :], b[..., None, :, :], mask)


def _matching(cost: Array) -> Floats:
    """The best one-to-one matching as weights [..., H, H]: 1/H for matched pairs, 0 for the others."""
    values = cost.detach().cpu().numpy() if isinstance(cost, torch.Tensor) else cost
    heads = values.shape[-1]
    if heads == 1:
        return np.ones(values.shape)
    chosen = np.zeros((values.size // heads**2, heads, heads))
    for one, choice in zip(values.reshape(-1, heads, heads), chosen, strict=True):
        choice[scipy.optimize.linear_sum_assignment(one)] = 1.0 / heads
    return chosen.reshape(values.shape)


def _chosen(cost: Array, weights: Floats) -> Array:
    if isinstance(cost, torch.Tensor):
        return (cost * torch.as_tensor(weights, dtype=cost.dtype, device=cost.device)).sum((-2, -1))
    return np.asarray((cost * weights).sum((-2, -1)))


def scaled_tvd(value: Array, largest: float = 1.0) -> Array:
    """TVD over its largest possible value: 1 for the C-class form, 0.5 in the papers' halved reading."""
    return value / largest


def scaled_jsd(value: Array) -> Array:
    """JSD over its largest possible value, ln 2."""
    return value / LN2


def attefa_loss(tvd_value: Array, jsd_value: Array) -> Array:
    """The adversary's loss per instance: same predictions (sTVD low) from another attention (sJSD high)."""
    return scaled_tvd(tvd_value) - scaled_jsd(jsd_value)


def attefa_score(tvd_mean: float, jsd_mean: float) -> float:
    """AtteFa (paper *attefa*): min(sTVD / sJSD, 1) of the means over held-out data.

    Near 0: another attention gives the same predictions. 1: moving attention moves predictions as much.
    Undefined when neither moved, or when a mean is undefined.
    """
    changed, moved = tvd_mean, max(jsd_mean, 0.0) / LN2  # rounding may leave equals a little below 0
    if math.isnan(changed) or math.isnan(moved) or (changed == 0.0 and moved == 0.0):
        return math.nan
    return 1.0 if moved == 0.0 else min(changed / moved, 1.0)
