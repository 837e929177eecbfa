"""How can a student learn from the words that a teacher marks? By looking there, or by learning to mark them itself.

Paper *teacher-student*, section 3. Marks travel with the training rows as ``marks`` ``[N, T]``: 1 on marked tokens, 0
elsewhere, or a weight for each token. A row of zeros was not marked by anyone and teaches its label alone. Rows that a
model is scored on carry no marks, and no model reads them: they reach a student through these losses and no other way.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from rashomon.data.batches import Batch
from rashomon.errors import DoesNotFit, UserError
from rashomon.measures.divergence import kl
from rashomon.models.base import Model, Output, without_attention
from rashomon.models.seeding import seeded
from rashomon.training.crf import LinearChainCrf
from rashomon.training.objectives import Objective, objectives
from rashomon.training.regularisers import widths

MARKS = "marks"
ELSEWHERE = 1e-9  # of a text's attention, for each token that is not marked


@dataclass(frozen=True)
class LearningFromMarks(Objective):
    """The task's loss plus ``weight`` times what the marks teach."""

    travelling: ClassVar[tuple[str, ...]] = (MARKS,)
    weight: float = 1.0  # lambda

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise UserError(f"The weight of {self.name} cannot be negative, but is {self.weight}.")

    def loss(self, model: Model, batch: Batch, companion: nn.Module | None) -> Tensor:
        output = self.forward(model, batch)
        return model.task.loss(output.logits, batch) + self.weight * self.lesson(
            model, batch, output, companion
        )

    @abstractmethod
    def forward(self, model: Model, batch: Batch) -> Output:
        """One pass of the model, from which both losses are taken."""

    @abstractmethod
    def lesson(self, model: Model, batch: Batch, output: Output, companion: nn.Module | None) -> Tensor:
        """What the marks teach, as a scalar to descend."""


@objectives.register("attention-regularisation")
@dataclass(frozen=True)
class AttentionRegularisation(LearningFromMarks):
    """The student's attention should be spread over the marked tokens: KL(marks || attention), a mean over texts."""

    name: ClassVar[str] = "attention-regularisation"

    def forward(self, model: Model, batch: Batch) -> Output:
        return cast(Output, model(batch))

    def lesson(self, model: Model, batch: Batch, output: Output, companion: nn.Module | None) -> Tensor:
        attention = pulled_attention(model, output)
        return attention_loss(attention, batch.extras[MARKS], attended(model, batch)).sum() / batch.size


@objectives.register("multitask")
@dataclass(frozen=True)
class Multitask(LearningFromMarks):
    """The student should mark the tokens itself: a linear-chain CRF on its hidden states, its loss per token."""

    name: ClassVar[str] = "multitask"

    def companion(self, model: Model, seed: int) -> nn.Module | None:
        with seeded(seed):
            return Tagger(widths(model)[1])

    def forward(self, model: Model, batch: Batch) -> Output:
        with without_attention(model):
            return cast(Output, model(batch))

    def lesson(self, model: Model, batch: Batch, output: Output, companion: nn.Module | None) -> Tensor:
        assert isinstance(companion, Tagger)
        return tagging_loss(companion(output.hidden), batch.extras[MARKS], batch.content, companion.crf)


class Tagger(nn.Module):
    """From hidden states to the scores of the two tags, marked and not; what reads these is the field."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.scores = nn.Linear(hidden, 2)
        self.crf = LinearChainCrf(2)

    def forward(self, hidden: Tensor) -> Tensor:
        return cast(Tensor, self.scores(hidden))


def pulled_attention(model: Model, output: Output) -> Tensor:
    """What marks pull at ``[B, heads, T]``: what a prediction attends to, of transformers the last layer's [CLS].

    An answer is predicted at its own places, which move while a student learns, so that of span models it is that row
    that is pulled at, too: the first.
    """
    if model.task.per_token and output.layers is not None:
        return output.layers[-1][:, :, 0]
    if output.attention is None:
        raise DoesNotFit("The student has no attention that marks could pull at.")
    return output.attention


def attended(model: Model, batch: Batch) -> Tensor:
    """``[S, B, T]``: the tokens that share one distribution; of the built-in models each text of a pair has its own."""
    return model.sides(batch) if "reweighting" in model.capabilities else batch.mask.unsqueeze(0)


def attention_loss(attention: Tensor, marks: Tensor, sides: Tensor) -> Tensor:
    """KL(marks || attention) of each text ``[B]``, from attention ``[B, heads, T]``; 0 of what nobody marked.

    Heads are averaged. In training some of a transformer's weights are dropped, so that they are made to add up to one
    again; the built-in models' do so anyway.
    """
    weights = attention.mean(1)
    return torch.stack([_of_side(weights, marks, side) for side in sides]).sum(0)


def _of_side(weights: Tensor, marks: Tensor, side: Tensor) -> Tensor:
    own, marked = weights * side, marks * side
    wanted = normalised((normalised(marked) + ELSEWHERE) * side)
    return kl(wanted, normalised(own), side) * (marked.sum(-1) > 0)


def normalised(weights: Tensor) -> Tensor:
    """The same weights, adding up to one over the last dimension."""
    return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def tagging_loss(scores: Tensor, marks: Tensor, tokens: Tensor, crf: LinearChainCrf) -> Tensor:
    """The negative log-likelihood of the marks for each token of the texts that have any; 0 where none has."""
    tokens = tokens & (marks > 0).any(-1, keepdim=True)
    likelihood = crf.log_likelihood(scores, (marks > 0).long(), tokens)
    return -likelihood.sum() / tokens.sum().clamp_min(1)
