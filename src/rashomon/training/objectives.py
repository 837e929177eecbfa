"""What a training pulls towards: a loss for a batch, and figures on held-out rows to choose the epoch by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from rashomon.data.batches import Batch, Rows
from rashomon.measures.classification import accuracy, f1, roc_auc
from rashomon.models.base import Model, without_attention
from rashomon.models.evaluator import predict

LOWER_IS_BETTER = frozenset({"loss", "train-loss"})


class Objective(Protocol):
    """One small object per kind of training. ``name`` and its fields enter the run's specification."""

    @property
    def name(self) -> str: ...

    def loss(self, model: Model, batch: Batch) -> Tensor:
        """The scalar to descend."""
        ...

    def scores(self, model: Model, rows: Rows) -> dict[str, float]:
        """Figures on held-out rows by name; ``loss`` is among them."""
        ...


@dataclass(frozen=True)
class CrossEntropy:
    """Ordinary classification."""

    name: str = "cross-entropy"

    def loss(self, model: Model, batch: Batch) -> Tensor:
        with without_attention(model):
            return F.cross_entropy(model(batch).logits, batch.extras["label"])

    def scores(self, model: Model, rows: Rows) -> dict[str, float]:
        probabilities = predict(model, rows).probabilities
        labels = rows.whole.extras["label"].cpu().numpy()
        return classification_scores(probabilities, labels)


def classification_scores(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The figures that every classification is reported with."""
    gold = probabilities[np.arange(len(labels)), labels]
    return {
        "loss": float(-np.log(np.maximum(gold, 1e-12)).mean()),
        "accuracy": accuracy(probabilities, labels),
        "f1": f1(probabilities, labels),
        "roc-auc": roc_auc(probabilities, labels),
    }
