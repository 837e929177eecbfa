"""Do explanations agree more easily when token vectors stay close to their words? Two penalties beside the task's loss.

Paper *hard-to-agree*: ``conicity`` is the mean cosine of a text's hidden states to their mean, ``tying`` the mean
squared distance of hidden state and word embedding. Its public code differs from its text, and the published weights
belong to the code, so both readings are here: ``as-written`` averages over the text's own tokens and squares the norm
of tying; ``as-coded`` averages over padded places too and does not square.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rashomon.data.batches import Batch, Rows
from rashomon.errors import UserError
from rashomon.models.base import Model, Output, without_attention
from rashomon.models.evaluator import collect, scores_of
from rashomon.models.seeding import seeded
from rashomon.training.objectives import Objective, objectives

PenaltyReading = Literal["as-written", "as-coded"]
PENALTY = "penalty"  # the name under which the held-out penalty is recorded


@dataclass(frozen=True)
class Regulariser(Objective):
    """The task's loss plus ``weight`` times a penalty on hidden states."""

    weight: float = 1.0
    reading: PenaltyReading = "as-written"

    def __post_init__(self) -> None:
        if self.weight < 0:
            raise UserError(f"The weight of {self.name} cannot be negative, but is {self.weight}.")

    def loss(self, model: Model, batch: Batch, companion: nn.Module | None = None) -> Tensor:
        with without_attention(model):
            embedded = model.embed(batch)
            output = model(batch, embedded)
        penalty = self.penalty(output.hidden, _projected(embedded, companion), batch.mask).mean()
        return model.task.loss(output.logits, batch) + self.weight * penalty

    def scores(self, model: Model, rows: Rows) -> dict[str, float]:
        """The task's figures, and the mean penalty where no projection stands between."""
        figures = scores_of(model, rows)
        if self.companion(model, 0) is None:
            figures[PENALTY] = mean_penalty(self, model, rows)
        return figures

    @abstractmethod
    def penalty(self, hidden: Tensor, embedded: Tensor, mask: Tensor) -> Tensor:
        """``[B]``, from hidden states and word embeddings ``[B, T, H]`` and the mask of real tokens."""


@objectives.register("conicity")
@dataclass(frozen=True)
class Conicity(Regulariser):
    """Hidden states of a text should not all point one way (Mohankumar et al. 2020; paper *hard-to-agree*)."""

    name: ClassVar[str] = "conicity"

    def penalty(self, hidden: Tensor, embedded: Tensor, mask: Tensor) -> Tensor:
        return conicity(hidden, mask, self.reading)


@objectives.register("tying")
@dataclass(frozen=True)
class Tying(Regulariser):
    """Hidden states should stay near the words they stand for (Tutek & Snajder 2020; paper *hard-to-agree*)."""

    name: ClassVar[str] = "tying"

    def companion(self, model: Model, seed: int) -> nn.Module | None:
        """A learned projection where word embeddings and hidden states differ in width."""
        words, hidden = widths(model)
        if words == hidden:
            return None
        with seeded(seed):
            return nn.Linear(words, hidden, bias=False)

    def penalty(self, hidden: Tensor, embedded: Tensor, mask: Tensor) -> Tensor:
        return tying(hidden, embedded, mask, self.reading)


def conicity(hidden: Tensor, mask: Tensor, reading: PenaltyReading = "as-written") -> Tensor:
    """The mean cosine of a text's hidden states ``[B, T, H]`` to their mean ``[B]``; 1 where all point one way."""
    real = hidden * mask.unsqueeze(-1)
    mean = real.sum(1, keepdim=True) / mask.sum(1)[:, None, None].clamp_min(1)
    cosines = F.cosine_similarity(real, mean, dim=-1) * mask
    return _mean(cosines, mask, reading)


def tying(hidden: Tensor, embedded: Tensor, mask: Tensor, reading: PenaltyReading = "as-written") -> Tensor:
    """The mean squared (as coded: plain) distance of hidden states and embeddings of each text ``[B]``."""
    squares = ((hidden - embedded) ** 2).sum(-1)
    if reading == "as-coded":
        # The root has no slope at zero: an untouched padding place would turn gradients into NaN.
        squares = torch.where(squares > 0, squares, torch.ones_like(squares)).sqrt() * (squares > 0)
    return _mean(squares * mask, mask, reading)


def _mean(values: Tensor, mask: Tensor, reading: PenaltyReading) -> Tensor:
    """Over a text's own tokens, or over every place of the padded row."""
    counted = mask.sum(1).clamp_min(1) if reading == "as-written" else values.shape[1]
    return values.sum(1) / counted


def mean_penalty(regulariser: Regulariser, model: Model, rows: Rows) -> float:
    """The penalty of every row, as written, on average: what the training was to lower."""

    def read(output: Output, batch: Batch, index: Tensor) -> dict[str, Tensor]:
        return {PENALTY: regulariser.penalty(output.hidden, model.embed(batch), batch.mask)}

    return float(collect(model, rows, read)[PENALTY].double().mean())


def widths(model: Model) -> tuple[int, int]:
    """How wide the model's word embeddings and hidden states are."""
    ids = torch.full((1, 2), model.mask_id, device=model.device)
    real, places = torch.ones_like(ids, dtype=torch.bool), torch.arange(2, device=model.device)[None]
    batch = Batch(ids, real, places, places, real)  # one token of either text, in case the model reads pairs
    with torch.no_grad(), without_attention(model):
        return model.embed(batch).shape[-1], model(batch).hidden.shape[-1]


def _projected(embedded: Tensor, companion: nn.Module | None) -> Tensor:
    return embedded if companion is None else companion(embedded)
