"""Optimizers with the papers' weight-decay groups."""

from __future__ import annotations

import torch
from torch import nn

from rashomon.models.base import Model
from rashomon.training.settings import TrainingSpec


def make_optimizer(
    model: Model, spec: TrainingSpec, companion: nn.Module | None = None
) -> torch.optim.Optimizer:
    """Adam, AMSGrad or AdamW; the fused kernels are the fastest on CPU too."""
    free = {id(parameter) for parameter in model.free_of_decay()}
    own = [*model.parameters(), *(companion.parameters() if companion is not None else ())]
    trained = [parameter for parameter in own if parameter.requires_grad]
    groups = [
        {"params": [p for p in trained if id(p) not in free], "weight_decay": spec.weight_decay},
        {"params": [p for p in trained if id(p) in free], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    kind = torch.optim.AdamW if spec.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=spec.learning_rate, amsgrad=spec.optimizer == "amsgrad", fused=True)
