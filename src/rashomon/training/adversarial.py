"""Can another attention give the same predictions? Objectives that train a model to show it.

An adversary imitates a base model's predictions while moving its attention away. The base model's
probabilities and attention are computed once (``outputs_of``) and travel with the batches as ``base-probabilities``
and ``base-attention``. Only content tokens count.

``ModelConsistentAdversary`` is paper *not-not*'s, with a weight lambda on KL; ``AttefaAdversary`` is paper
*attefa*'s, which needs none. Distances of several heads are taken over the best matching of heads.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor, nn

from rashomon.data.batches import Batch, Rows
from rashomon.errors import DoesNotFit
from rashomon.measures.classification import accuracy, f1
from rashomon.measures.divergence import attefa_loss, jsd, kl, matched_heads_jsd, matched_heads_kl, tvd
from rashomon.models.attention import preset, rollout
from rashomon.models.base import Model, Output
from rashomon.models.evaluator import collect, evaluating
from rashomon.models.tasks import LABEL
from rashomon.training.objectives import Objective, objectives

Reading = Literal["heads", "mean", "rollout"]

PROBABILITIES, ATTENTION = "base-probabilities", "base-attention"
PER_TOKEN = (ATTENTION,)

# The papers sum over one sigmoid output, so their TVD is at most 0.5. Lambda keeps its published meaning, for
# any number of classes, when it is weighed against a TVD on that scale.
PUBLISHED_SCALE = 0.5


@dataclass(frozen=True)
class Adversary(Objective):
    """What both adversaries share: predictions stay, attention moves. Texts need no labels."""

    travelling: ClassVar[tuple[str, ...]] = (PROBABILITIES, ATTENTION)

    reading: Reading = "heads"

    def loss(self, model: Model, batch: Batch, companion: nn.Module | None = None) -> Tensor:
        with undisturbed(model):
            output: Output = model(batch)
        changed = tvd(output.probabilities, batch.extras[PROBABILITIES])
        return self.trade(changed, read_attention(output, batch, self.reading), batch)

    def scores(self, model: Model, rows: Rows) -> dict[str, float]:
        found = distances(model, rows, self.reading)
        return {"loss": float(self.trade_of_means(found)), **found.means(rows)}

    @abstractmethod
    def trade(self, changed: Tensor, attention: Tensor, batch: Batch) -> Tensor:
        """The loss of a batch from each row's TVD and attention."""

    @abstractmethod
    def trade_of_means(self, found: Distances) -> Tensor:
        """The same trade from means over all rows."""


@objectives.register("model-consistent-adversary")
@dataclass(frozen=True)
class ModelConsistentAdversary(Adversary):
    """TVD - lambda KL(adversary || base), summed over the batch (paper *not-not*, section 4)."""

    name: ClassVar[str] = "model-consistent-adversary"
    weight: float = 1e-3  # lambda

    def trade(self, changed: Tensor, attention: Tensor, batch: Batch) -> Tensor:
        return (PUBLISHED_SCALE * changed - self.weight * kl_from_base(attention, batch)).sum()

    def trade_of_means(self, found: Distances) -> Tensor:
        return PUBLISHED_SCALE * found.tvd.mean() - self.weight * found.kl.mean()


@objectives.register("attefa-adversary")
@dataclass(frozen=True)
class AttefaAdversary(Adversary):
    """The mean over the batch of sTVD - sJSD (paper *attefa*, equation 4)."""

    name: ClassVar[str] = "attefa-adversary"

    def trade(self, changed: Tensor, attention: Tensor, batch: Batch) -> Tensor:
        return attefa_loss(changed, jsd_from_base(attention, batch)).mean()

    def trade_of_means(self, found: Distances) -> Tensor:
        return attefa_loss(found.tvd.mean(), found.jsd.mean())


@dataclass(frozen=True)
class Distances:
    """How far each row's prediction and attention are from the base model's, in the order of the rows."""

    probabilities: Tensor  # [N, C]
    tvd: Tensor  # [N], 0..1
    jsd: Tensor  # [N], 0..ln 2
    kl: Tensor  # [N], of the adversary's attention from the base's

    def means(self, rows: Rows) -> dict[str, float]:
        figures = {"tvd": float(self.tvd.mean()), "jsd": float(self.jsd.mean()), "kl": float(self.kl.mean())}
        if LABEL in rows.whole.extras:
            labels = rows.whole.extras[LABEL].cpu().numpy()
            probabilities = self.probabilities.numpy()
            figures |= {"f1": f1(probabilities, labels), "accuracy": accuracy(probabilities, labels)}
        return figures


@dataclass(frozen=True)
class ModelOutputs:
    """What a model says about rows: probabilities ``[N, C]`` and attention as read, ``[N, heads, T]``."""

    probabilities: Tensor
    attention: Tensor


def natural_reading(model: Model) -> Reading:
    """Each head where attention is a part of its own; the mean of heads of a transformer's last layer."""
    return "heads" if model.attention_parameters() else "mean"


def read_attention(output: Output, batch: Batch, reading: Reading) -> Tensor:
    """``[B, heads, T]``: distributions over the content tokens (of both sides of a pair together)."""
    if reading == "rollout":
        if output.layers is None or output.readout is None:
            raise DoesNotFit(
                "Rollout needs the self-attention of a transformer's layers, which this model does not have."
            )
        weights = rollout(output.layers, output.readout).unsqueeze(1)
    elif output.attention is None:
        raise DoesNotFit("This model does not tell its attention, so there is nothing to put on trial.")
    else:
        weights = output.attention if reading == "heads" else output.attention.mean(1, keepdim=True)
    return preset(weights, batch.content.unsqueeze(1))


def attention_distance(a: Tensor, b: Tensor) -> Tensor:
    """JSD of attentions ``[..., heads, T]`` that are 0 on padding; several heads over their best matching."""
    return jsd(a, b).squeeze(-1) if a.shape[-2] == 1 else matched_heads_jsd(a, b)


def jsd_from_base(attention: Tensor, batch: Batch) -> Tensor:
    return attention_distance(attention, batch.extras[ATTENTION])


def kl_from_base(attention: Tensor, batch: Batch) -> Tensor:
    base = batch.extras[ATTENTION]
    return kl(attention, base).squeeze(-1) if attention.shape[-2] == 1 else matched_heads_kl(attention, base)


def outputs_of(model: Model, rows: Rows, reading: Reading) -> ModelOutputs:
    """Probabilities and attention of every row, computed once, to travel with the batches."""

    def read(output: Output, batch: Batch, index: Tensor) -> dict[str, Tensor]:
        attention = read_attention(output, batch, reading)
        return {"probabilities": output.probabilities.float(), "attention": attention.float()}

    if not len(rows):
        raise DoesNotFit("There are no texts to ask the model about.")
    return ModelOutputs(**collect(model, rows, read, per_token=("attention",), attention=True))


def distances(model: Model, rows: Rows, reading: Reading) -> Distances:
    """Every row's distance from the base model whose outputs travel with the rows."""

    def read(output: Output, batch: Batch, index: Tensor) -> dict[str, Tensor]:
        attention = read_attention(output, batch, reading)
        return {
            "probabilities": output.probabilities.double(),
            "tvd": tvd(output.probabilities, batch.extras[PROBABILITIES]).double(),
            "jsd": jsd_from_base(attention, batch).double(),
            "kl": kl_from_base(attention, batch).double(),
        }

    return Distances(**collect(model, rows, read, attention=True))


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
