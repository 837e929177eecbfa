"""How can a student of questions learn which phrases mean the same? By attending from the one to the other.

Paper *teacher-student*, section 3. Referential equalities travel with the training rows as ``equalities``
``[N, K, 2, T]``: of each the tokens of its phrase in the question, and those of its phrase in the passage. A row
without one teaches its answer alone. As with marks, rows that a model is scored on carry none, and no model reads them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from rashomon.data.batches import Batch
from rashomon.errors import DoesNotFit
from rashomon.models.base import Model, Output
from rashomon.training.learning_from_marks import LearningFromMarks, normalised
from rashomon.training.objectives import objectives

EQUALITIES = "equalities"


@objectives.register("attention-alignment")
@dataclass(frozen=True)
class AttentionAlignment(LearningFromMarks):
    """Phrases of a question should attend to what they refer to: -log of their mean attention, a mean over texts."""

    name: ClassVar[str] = "attention-alignment"
    travelling: ClassVar[tuple[str, ...]] = (EQUALITIES,)

    def forward(self, model: Model, batch: Batch) -> Output:
        return cast(Output, model(batch))

    def lesson(self, model: Model, batch: Batch, output: Output, companion: nn.Module | None) -> Tensor:
        if output.layers is None:
            raise DoesNotFit("The student has no attention between tokens that equalities could pull at.")
        return alignment_loss(output.layers[-1], batch.extras[EQUALITIES]).sum() / batch.size


def alignment_loss(attention: Tensor, equalities: Tensor) -> Tensor:
    """-log of the mean over equalities of what a question's phrase attends to its passage's phrase ``[B]``.

    Attention is ``[B, heads, from, to]``. Heads are averaged, and so are the tokens of the question's phrase; what
    goes to the tokens of the passage's phrase is summed up, so that a phrase that attends to nothing else has no loss.
    An equality that has lost one of its phrases (the passage was cut) does not count; 0 where none is left.
    """
    weights = normalised(attention.mean(1))
    question, passage = equalities.to(weights.dtype).unbind(2)
    whole = (question.sum(-1) > 0) & (passage.sum(-1) > 0)
    each = torch.einsum("bkq,bqp,bkp->bk", question, weights, passage) / question.sum(-1).clamp_min(1)
    mean = (each * whole).sum(-1) / whole.sum(-1).clamp_min(1)
    least = torch.finfo(weights.dtype).tiny
    return -torch.where(whole.any(-1), mean, torch.ones_like(mean)).clamp_min(least).log()
