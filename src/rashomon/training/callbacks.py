"""What may listen to a training. Each hears of every epoch; what it remembers is checkpointed with the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from rashomon.data.batches import Rows
from rashomon.models.base import Model
from rashomon.models.evaluator import predict
from rashomon.progress import Advance

EpochRecord = Mapping[str, float]


class Callback(Protocol):
    """``state`` and ``restore`` let a killed training go on as if nothing had happened."""

    def on_epoch_end(self, model: Model, record: EpochRecord) -> None: ...

    def state(self) -> dict[str, Tensor]: ...

    def restore(self, state: Mapping[str, Tensor]) -> None: ...


@dataclass
class ShowProgress:
    """Moves a progress bar and notes the figure that picks the epoch."""

    advance: Advance
    figure: str

    def on_epoch_end(self, model: Model, record: EpochRecord) -> None:
        value = record.get(self.figure, float("nan"))
        self.advance(1, f"epoch {int(record['epoch'])}: {self.figure} {value:.3f}")

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        return None


@dataclass
class EpochPredictions:
    """Class probabilities of some rows after every epoch: what cartography is drawn from."""

    rows: Rows
    probabilities: list[Tensor] = field(default_factory=list)  # each [N, C]

    def on_epoch_end(self, model: Model, record: EpochRecord) -> None:
        self.probabilities.append(torch.from_numpy(predict(model, self.rows).probabilities))

    def state(self) -> dict[str, Tensor]:
        return {"probabilities": torch.stack(self.probabilities)} if self.probabilities else {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.probabilities = list(state["probabilities"]) if "probabilities" in state else []

    def stacked(self) -> np.ndarray:
        """``[epochs, N, C]``."""
        return torch.stack(self.probabilities).numpy()
