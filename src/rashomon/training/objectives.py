"""What a training pulls towards: a loss for a batch, and figures on held-out rows to choose the epoch by.

An objective is one registered frozen dataclass; its name and fields are part of the run's specification. What it needs
besides the model's own parameters (a tagger, a projection) is its companion: trained beside the model and left behind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from rashomon.data.batches import Batch, Rows
from rashomon.models.base import Model, without_attention
from rashomon.models.evaluator import scores_of
from rashomon.registry import Registry
from rashomon.runs.by_name import in_one_word, make_by_name
from rashomon.runs.specifications import to_plain

LOWER_IS_BETTER = frozenset({"loss", "train-loss"})


@dataclass(frozen=True)
class Objective(ABC):
    """One kind of training. Subclasses are frozen dataclasses: their fields are its settings."""

    name: ClassVar[str]
    # What must travel with the rows besides the task's own targets. Only a study hands it out, so that an objective
    # with such needs cannot be asked for by name.
    travelling: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def loss(self, model: Model, batch: Batch, companion: nn.Module | None) -> Tensor:
        """The scalar to descend."""

    def scores(self, model: Model, rows: Rows) -> dict[str, float]:
        """Figures on held-out rows by name; ``loss`` is among them."""
        return scores_of(model, rows)

    def companion(self, model: Model, seed: int) -> nn.Module | None:
        """Parameters that are trained beside the model's and are no part of it afterwards."""
        return None

    @property
    def label(self) -> str:
        """In one word, as ``make_objective`` reads it."""
        return in_one_word(self.name, self)

    def key(self) -> dict[str, Any]:
        return {"name": self.name, **to_plain(self)}


objectives: Registry[type[Objective]] = Registry("objective", "objectives", "rashomon.training")


def make_objective(objective: str | Objective) -> Objective:
    """An objective by name, with its settings behind it: ``"tying(weight=5)"``."""
    return objective if isinstance(objective, Objective) else make_by_name(objectives, objective)


@objectives.register("cross-entropy")
@dataclass(frozen=True)
class CrossEntropy(Objective):
    """The task's own loss: of the label, or of an answer's start and end."""

    name: ClassVar[str] = "cross-entropy"

    def loss(self, model: Model, batch: Batch, companion: nn.Module | None = None) -> Tensor:
        with without_attention(model):
            return model.task.loss(model(batch).logits, batch)
