"""Transformers whose self-attention is frozen to uniform weights, to see whether they need it.

Transformers lets one register an attention function by name, so no model code is copied: every token receives the
same weight from all tokens that the mask lets it see.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

UNIFORM = "rashomon_uniform"


def uniform_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """The mean of the visible values, in the place of attention; queries and keys are not looked at.

    Dropout stays where the network has it, so that uniform weights are the only difference.
    """
    logits = query.new_zeros((*query.shape[:-1], key.shape[-2]))
    if attention_mask is not None:
        logits = logits + attention_mask[..., : key.shape[-2]]
    weights = torch.softmax(logits, dim=-1)
    value = value.repeat_interleave(query.shape[1] // value.shape[1], dim=1)  # heads may share their values
    mixed = nn.functional.dropout(weights, dropout, module.training) @ value
    return mixed.transpose(1, 2).contiguous(), weights


def is_uniform(weights: Tensor, tolerance: float = 1e-5) -> bool:
    """Whether every row gives the same weight to all it gives any to."""
    visible = (weights > 0).sum(-1)
    return bool(((weights.amax(-1) * visible - 1).abs() < tolerance * visible).all())


AttentionInterface.register(UNIFORM, uniform_attention)
AttentionMaskInterface.register(UNIFORM, eager_mask)
