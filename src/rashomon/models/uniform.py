"""Transformers whose self-attention is frozen to uniform weights, to see whether they need it.

Transformers lets one register an attention function by name, so no model code is copied: every token receives the
same weight from all tokens that the mask lets it see.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask

UNIFORM = "rashomon_uniform"


def uniform_attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **_: Any
) -> tuple[Tensor, Tensor]:
    """The mean of the visible values, in the place of attention; queries and keys are not looked at."""
    shape = (*query.shape[:-1], key.shape[-2])
    logits = query.new_zeros(shape)
    if attention_mask is not None:
        logits = logits + attention_mask[..., : key.shape[-2]]
    weights = torch.softmax(logits, dim=-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


AttentionInterface.register(UNIFORM, uniform_attention)
AttentionMaskInterface.register(UNIFORM, eager_mask)
