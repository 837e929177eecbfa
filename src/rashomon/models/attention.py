"""How much does each token count? Attention logits, and the ways to turn them into a distribution.

Scoring: additive (linear to half the size, tanh, linear to one logit a head; no query, as in the papers) or
scaled dot-product with a learned query a head. Weights: softmax, sparsemax (Martins & Astudillo 2016),
1.5-entmax (Peters et al. 2019), uniform, or a preset distribution that comes with the batch.

Every weighting takes logits ``[..., T]`` and a boolean mask that broadcasts to them. Masked positions get
exactly 0, rows with a real token sum to one, rows without any are all 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rashomon.errors import UserError, unknown_name

# Sparse weightings are zero for logits more than 1 under the row's largest, so this stands for "not there".
_OUT_OF_REACH = -2.0


def softmax(logits: Tensor, mask: Tensor) -> Tensor:
    # The smallest number instead of -inf: a row without tokens must not become NaN, forwards or backwards.
    lowest = torch.finfo(logits.dtype).min
    return logits.masked_fill(~mask, lowest).softmax(-1) * mask


def sparsemax(logits: Tensor, mask: Tensor) -> Tensor:
    """The Euclidean projection onto the simplex. The support is found by sorting, exactly."""
    z = _shifted(logits, mask)
    with torch.no_grad():
        ordered = z.sort(dim=-1, descending=True).values
        rank = _ranks(z)
        size = (1 + rank * ordered > ordered.cumsum(-1)).sum(-1, keepdim=True)
        support = z >= ordered.gather(-1, (size - 1).clamp_min(0))
    threshold = ((z * support).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
    return (z - threshold).relu() * mask


def entmax15(logits: Tensor, mask: Tensor) -> Tensor:
    """Between softmax and sparsemax: sparse, yet smooth where it is not zero."""
    z = _shifted(logits / 2, mask)
    with torch.no_grad():
        ordered = z.sort(dim=-1, descending=True).values
        rank = _ranks(z)
        mean = ordered.cumsum(-1) / rank
        spread = (ordered**2).cumsum(-1) / rank - mean**2
        threshold = mean - (1 / rank - spread).clamp_min(0).sqrt()
        size = (threshold <= ordered).sum(-1, keepdim=True)
        support = z >= ordered.gather(-1, (size - 1).clamp_min(0))
    count = support.sum(-1, keepdim=True, dtype=z.dtype)
    mean = (z * support).sum(-1, keepdim=True) / count
    spread = (((z - mean) * support) ** 2).sum(-1, keepdim=True) / count
    # Strictly positive for the true support, since all of it lies above the threshold.
    threshold = mean - (1 / count - spread).clamp_min(torch.finfo(z.dtype).tiny).sqrt()
    return (z - threshold).relu() ** 2 * mask


def uniform(logits: Tensor, mask: Tensor) -> Tensor:
    weights = mask.to(logits.dtype).expand(logits.shape)
    return weights / weights.sum(-1, keepdim=True).clamp_min(1)


def preset(given: Tensor, mask: Tensor) -> Tensor:
    """The given weights, renormalised over the mask; uniform where they leave nothing to normalise."""
    kept = given * mask
    total = kept.sum(-1, keepdim=True)
    smallest = torch.finfo(given.dtype).tiny
    return torch.where(total > smallest, kept / total.clamp_min(smallest), uniform(given, mask))


def augmented(layers: Tensor) -> Tensor:
    """Self-attention ``[..., heads, T, T]`` to ``[..., T, T]``: mean of heads, half residual, rows sum to 1."""
    mixed = layers.mean(-3) + torch.eye(layers.shape[-1], dtype=layers.dtype, device=layers.device)
    return mixed / mixed.sum(-1, keepdim=True)


def rollout(layers: Sequence[Tensor], readout: Tensor) -> Tensor:
    """``[..., T]``: attention multiplied down the layers (lowest first) from the weights with which the top is read."""
    return followed([augmented(layer) for layer in layers], readout)


def followed(matrices: Sequence[Tensor], readout: Tensor) -> Tensor:
    """The same of matrices ``[..., T, T]`` that hold the residual already."""
    traced = readout.unsqueeze(-2)
    for matrix in reversed(matrices):
        traced = traced @ matrix
    return traced.squeeze(-2)


class Attention(nn.Module):
    """Scores tokens and weighs them. Uniform and preset weights need no scoring and have no parameters."""

    def __init__(self, kind: str, size: int, heads: int, weights: str, temperature: float = 1.0) -> None:
        super().__init__()
        self.heads, self.weights, self.temperature = heads, weights, temperature
        self.scorer: nn.Module | None = None
        if weights in _LEARNED:
            self.scorer = _scorer(kind, size, heads)
        elif weights not in ("uniform", "preset"):
            raise unknown_name("attention weighting", weights, [*_LEARNED, "uniform", "preset"])

    def logits(self, hidden: Tensor) -> Tensor | None:
        """``[..., H]`` to ``[..., heads]``: a token's logit depends on its own vector only."""
        return None if self.scorer is None else self.scorer(hidden)

    def forward(self, logits: Tensor | None, mask: Tensor, given: Tensor | None = None) -> Tensor:
        """Weights ``[B, heads, T]`` from logits ``[B, T, heads]`` and a mask ``[B, T]``.

        ``given`` is the preset distribution, ``[B, T]`` or ``[B, heads, T]``.
        """
        shape = (mask.shape[0], self.heads, mask.shape[1])
        mask = mask.unsqueeze(1)
        if logits is not None:
            return _LEARNED[self.weights](logits.transpose(1, 2) / self.temperature, mask)
        if self.weights == "uniform":
            return uniform(torch.empty(shape, device=mask.device), mask)
        if given is None:
            raise UserError("This model's attention is preset, and no distribution came with the examples.")
        return preset((given.unsqueeze(1) if given.dim() == 2 else given).expand(shape), mask)


class DotScorer(nn.Module):
    """The scaled dot-product of each token's vector with a learned query a head."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.empty(heads, size))
        nn.init.normal_(self.query)
        self.scale = 1 / math.sqrt(size)

    def forward(self, hidden: Tensor) -> Tensor:
        return nn.functional.linear(hidden, self.query) * self.scale


def _scorer(kind: str, size: int, heads: int) -> nn.Module:
    if kind == "additive":
        half = max(1, size // 2)
        # A bias on the last logit would shift every token alike, which no weighting notices.
        return nn.Sequential(nn.Linear(size, half), nn.Tanh(), nn.Linear(half, heads, bias=False))
    if kind == "dot":
        return DotScorer(size, heads)
    raise unknown_name("attention", kind, ("additive", "dot"))


def _shifted(logits: Tensor, mask: Tensor) -> Tensor:
    """Logits with their row's largest at 0. Both sparse weightings are blind to such a shift."""
    lowest = torch.finfo(logits.dtype).min
    largest = logits.detach().masked_fill(~mask, lowest).amax(-1, keepdim=True)
    return (logits - largest).masked_fill(~mask, _OUT_OF_REACH)


def _ranks(z: Tensor) -> Tensor:
    return torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)


_LEARNED = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15}
