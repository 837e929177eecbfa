"""Which operations are made of others that have difference rules? They are said here in those others.

Run under the rules in place of the operation, so that every part is given its own rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    if enable_gqa:
        groups = query.shape[-3] // key.shape[-3]
        key, value = key.repeat_interleave(groups, -3), value.repeat_interleave(groups, -3)
    scores = query @ key.transpose(-2, -1) * (scale if scale is not None else query.shape[-1] ** -0.5)
    hidden = None
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    elif attn_mask is not None and attn_mask.dtype == torch.bool:
        hidden = ~attn_mask
    elif attn_mask is not None:
        scores, hidden = scores + attn_mask, attn_mask == -torch.inf
    if hidden is None:
        weights = scores.softmax(-1)
    else:  # a row with nothing to look at is zero, as in torch
        blind = hidden.all(-1, keepdim=True)
        scores = scores.masked_fill(hidden & ~blind, -torch.inf)
        weights = scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)
    return F.dropout(weights, dropout_p, dropout_p > 0) @ value


def _vector_norm(
    x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    x = x if dtype is None else x.to(dtype)
    over = tuple(range(x.ndim)) if dim is None else dim
    match ord:
        case 1:
            return x.abs().sum(over, keepdim=keepdim)
        case 2:
            return x.square().sum(over, keepdim=keepdim).sqrt()
        case math.inf:
            return x.abs().amax(over, keepdim=keepdim)
    return x.abs().pow(ord).sum(over, keepdim=keepdim).pow(1 / ord)


def _cosine(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    lengths = x1.square().sum(dim).sqrt().clamp_min(eps) * x2.square().sum(dim).sqrt().clamp_min(eps)
    return (x1 * x2).sum(dim) / lengths


def _variance(
    x: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: int = 1
) -> Tensor:
    over = tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    count = math.prod(x.shape[d] for d in over)
    squares = (x - x.mean(over, keepdim=True)).square().sum(over, keepdim=keepdim)
    return squares / (count - (correction if unbiased else 0))


def _log_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    x = x if dtype is None else x.to(dtype)
    return x - x.logsumexp(dim, keepdim=True)


def _prelu(x: Tensor, weight: Tensor) -> Tensor:
    shaped = weight.view(-1, *[1] * (x.ndim - 2)) if x.ndim > 1 else weight
    return x.relu() - shaped * (-x).relu()


DECOMPOSED: dict[str, Callable[..., Any]] = {
    "scaled_dot_product_attention": _attention,
    "log_softmax": _log_softmax,
    "linalg_vector_norm": _vector_norm,
    "cosine_similarity": _cosine,
    "var": _variance,
    "std": lambda *args, **kwargs: _variance(*args, **kwargs).sqrt(),
    "prelu": _prelu,
    "glu": lambda x, dim=-1: x.chunk(2, dim)[0] * x.chunk(2, dim)[1].sigmoid(),
    "tanhshrink": lambda x: x - x.tanh(),
    "maximum": lambda a, b: b + (a - b).relu(),
    "minimum": lambda a, b: b - (b - a).relu(),
    "addmm": lambda input, mat1, mat2, *, beta=1, alpha=1: beta * input + alpha * (mat1 @ mat2),
    "baddbmm": lambda input, batch1, batch2, *, beta=1, alpha=1: beta * input + alpha * (batch1 @ batch2),
    "addcmul": lambda c, a, b, *, value=1: c + value * (a * b),
    "addcdiv": lambda c, a, b, *, value=1: c + value * (a / b),
    "lerp": lambda a, b, weight: a + weight * (b - a),
}
