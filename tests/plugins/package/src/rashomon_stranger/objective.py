"""The task's loss, and a price on being sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from rashomon.data import Batch, Rows
from rashomon.models import Model
from rashomon.models.evaluator import predict
from rashomon.training import Objective
from rashomon.training.objectives import objectives


@objectives.register("small-logits")
@dataclass(frozen=True)
class SmallLogits(Objective):
    """The task's loss plus the mean square of the logits."""

    name: ClassVar[str] = "small-logits"
    weight: float = 1.0

    def loss(self, model: Model, batch: Batch, companion: nn.Module | None) -> Tensor:
        logits = model(batch).logits
        return model.task.loss(logits, batch) + self.weight * logits.square().mean()

    def scores(self, model: Model, rows: Rows) -> dict[str, float]:
        logits = predict(model, rows).logits
        return {**super().scores(model, rows), "size": float((logits**2).mean())}
