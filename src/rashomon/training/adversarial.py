"""Can another attention give the same predictions? Objectives that train a model to show it.

An adversary imitates a base model's predictions while moving its attention away. The base model's
probabilities and attention are computed once (``tell``) and travel with the batches as ``base-probabilities``
and ``base-attention``, beside ``content``, the tokens that count (special tokens do not).

``ModelConsistentAdversary`` is paper *not-not*'s, with a weight lambda on KL; ``AttefaAdversary`` is paper
*attefa*'s, which needs none. Distances of several heads are taken over the best matching of heads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from rashomon.data.batches import Batch, Rows
from rashomon.errors import UserError
from rashomon.measures.classification import accuracy, f1
from rashomon.measures.divergence import attefa_loss, jsd, kl, matched_heads_jsd, matched_heads_kl, tvd
from rashomon.models.attention import preset
from rashomon.models.base import Model, Output
from rashomon.models.evaluator import evaluating

Reading = Literal["heads", "mean", "rollout"]

PROBABILITIES, ATTENTION, CONTENT = "base-probabilities", "base-attention", "content"
PER_TOKEN = (ATTENTION, CONTENT)

# The papers sum over one sigmoid output, so their TVD is at most 0.5. Lambda keeps its published meaning, for
# any number of classes, when it is weighed against a TVD on that scale.
PUBLISHED_SCALE = 0.5


class Adversary(Protocol):
    """What is common to both adversaries; see ``Objective``."""

    @property
    def name(self) -> str: ...

    @property
    def reading(self) -> Reading: ...

    def loss(self, model: Model, batch: Batch) -> Tensor: ...

    def scores(self, model: Model, rows: Rows) -> dict[str, float]: ...


@dataclass(frozen=True)
class ModelConsistentAdversary:
    """TVD - lambda KL(adversary || base), summed over the batch (paper *not-not*, section 4)."""

    weight: float = 1e-3  # lambda
    reading: Reading = "heads"
    name: str = "model-consistent-adversary"

    def loss(self, model: Model, batch: Batch) -> Tensor:
        with undisturbed(model):
            output: Output = model(batch)
        changed = tvd(output.probabilities, batch.extras[PROBABILITIES])
        attention = read_attention(output, batch, self.reading)
        moved = kl_from_base(attention, batch)
        return (PUBLISHED_SCALE * changed - self.weight * moved).sum()

    def scores(self, model: Model, rows: Rows) -> dict[str, float]:
        told = distances(model, rows, self.reading)
        loss = PUBLISHED_SCALE * told.tvd.mean() - self.weight * told.kl.mean()
        return {"loss": float(loss), **told.means(rows)}


@dataclass(frozen=True)
class AttefaAdversary:
    """The mean over the batch of sTVD - sJSD (paper *attefa*, equation 4)."""

    reading: Reading = "heads"
    name: str = "attefa-adversary"

    def loss(self, model: Model, batch: Batch) -> Tensor:
        with undisturbed(model):
            output: Output = model(batch)
        changed = tvd(output.probabilities, batch.extras[PROBABILITIES])
        moved = jsd_from_base(read_attention(output, batch, self.reading), batch)
        return attefa_loss(changed, moved).mean()

    def scores(self, model: Model, rows: Rows) -> dict[str, float]:
        told = distances(model, rows, self.reading)
        loss = attefa_loss(told.tvd.mean(), told.jsd.mean())
        return {"loss": float(loss), **told.means(rows)}


@dataclass(frozen=True)
class Distances:
    """How far each row's prediction and attention are from the base model's, in the order of the rows."""

    probabilities: Tensor  # [N, C]
    tvd: Tensor  # [N], 0..1
    jsd: Tensor  # [N], 0..ln 2
    kl: Tensor  # [N], of the adversary's attention from the base's

    def means(self, rows: Rows) -> dict[str, float]:
        figures = {"tvd": float(self.tvd.mean()), "jsd": float(self.jsd.mean()), "kl": float(self.kl.mean())}
        if "label" in rows.whole.extras:
            labels = rows.whole.extras["label"].cpu().numpy()
            probabilities = self.probabilities.numpy()
            figures |= {"f1": f1(probabilities, labels), "accuracy": accuracy(probabilities, labels)}
        return figures


@dataclass(frozen=True)
class Told:
    """What a model says about rows: probabilities ``[N, C]`` and attention as read, ``[N, heads, T]``."""

    probabilities: Tensor
    attention: Tensor


def natural_reading(model: Model) -> Reading:
    """Each head where attention is a part of its own; the mean of heads of a transformer's last layer."""
    return "heads" if model.attention_parameters() else "mean"


def read_attention(output: Output, batch: Batch, reading: Reading) -> Tensor:
    """``[B, heads, T]``: distributions over the content tokens (of both sides of a pair together)."""
    if reading == "rollout":
        weights = _rollout(output)
    elif output.attention is None:
        raise UserError("This model does not tell its attention, so there is nothing to put on trial.")
    else:
        weights = output.attention if reading == "heads" else output.attention.mean(1, keepdim=True)
    content = batch.extras.get(CONTENT)
    return preset(weights, (batch.mask if content is None else content).unsqueeze(1))


def _rollout(output: Output) -> Tensor:
    """Attention multiplied down the layers, half of each the residual, from where the prediction reads."""
    if output.layers is None or output.readout is None:
        raise UserError(
            "Rollout needs the self-attention of a transformer's layers, which this model does not have."
        )
    traced = output.readout.unsqueeze(1)  # [B, 1, T]
    for layer in reversed(output.layers):
        mixed = layer.mean(1) + torch.eye(layer.shape[-1], device=layer.device)
        traced = traced @ (mixed / mixed.sum(-1, keepdim=True))
    return traced


def attention_distance(a: Tensor, b: Tensor) -> Tensor:
    """JSD of attentions ``[..., heads, T]`` that are 0 on padding; several heads over their best matching."""
    return jsd(a, b).squeeze(-1) if a.shape[-2] == 1 else matched_heads_jsd(a, b)


def jsd_from_base(attention: Tensor, batch: Batch) -> Tensor:
    return attention_distance(attention, batch.extras[ATTENTION])


def kl_from_base(attention: Tensor, batch: Batch) -> Tensor:
    base = batch.extras[ATTENTION]
    return kl(attention, base).squeeze(-1) if attention.shape[-2] == 1 else matched_heads_kl(attention, base)


def tell(model: Model, rows: Rows, reading: Reading, token_budget: int = 8192) -> Told:
    """Probabilities and attention of every row, computed once, to travel with the batches."""
    count, width = rows.whole.ids.shape
    probabilities = torch.zeros(count, model.classes)
    attention: Tensor | None = None
    with evaluating(model), torch.no_grad():  # not inference mode: losses are built on these tensors
        for index in rows.in_order(token_budget):
            batch = rows.batch(index)
            output = model(batch)
            weights = read_attention(output, batch, reading)
            if attention is None:
                attention = torch.zeros(count, weights.shape[1], width)
            probabilities[index] = output.probabilities.float().cpu()
            attention[index, :, : weights.shape[2]] = weights.float().cpu()
    if attention is None:
        raise UserError("There are no texts to ask the model about.")
    return Told(probabilities, attention)


def distances(model: Model, rows: Rows, reading: Reading, token_budget: int = 8192) -> Distances:
    """Every row's distance from the base model whose outputs travel with the rows."""
    count = len(rows)
    probabilities = torch.zeros(count, model.classes, dtype=torch.float64)
    changed, moved, spent = (torch.zeros(count, dtype=torch.float64) for _ in range(3))
    with evaluating(model), torch.inference_mode():
        for index in rows.in_order(token_budget):
            batch = rows.batch(index)
            output = model(batch)
            attention = read_attention(output, batch, reading)
            probabilities[index] = output.probabilities.double().cpu()
            changed[index] = tvd(output.probabilities, batch.extras[PROBABILITIES]).double().cpu()
            moved[index] = jsd_from_base(attention, batch).double().cpu()
            spent[index] = kl_from_base(attention, batch).double().cpu()
    return Distances(probabilities, changed, moved, spent)


@contextmanager
def undisturbed(model: Model) -> Iterator[None]:
    """Transformers tell their attention after dropout; what is moved must be what is read, so dropout rests.

    Recurrent models keep training mode (their attention has no dropout, and cuDNN insists on it).
    """
    if "layers" in model.capabilities:
        with evaluating(model):
            yield
    else:
        yield
