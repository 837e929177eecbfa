"""Attention read as explanation: the weights themselves, rollout and flow through a transformer's layers.

Scores say what the predicting position receives from each token (not what a token pays), and are never
negative. Rollout and flow follow the layers down to the input from the positions that enter the prediction; of an
encoder-decoder through both stacks.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rashomon.data.example import Example
from rashomon.errors import UserError
from rashomon.explainers.base import REASONS, Explainer, Floats, Job, Scores, explainers
from rashomon.explainers.engine import Engine
from rashomon.explainers.flow import attention_flow
from rashomon.measures.threads import torch_threads
from rashomon.models.attention import augmented, followed
from rashomon.models.base import Model, Output
from rashomon.models.two_stacks import places_of, to_tokens


@explainers.register("attention")
@dataclass(frozen=True, slots=True)
class Attention(Explainer):
    """The attention distribution; for transformers the [CLS] row of the last layer, mean of heads, or as chosen."""

    name: ClassVar[str] = "attention"
    needs: ClassVar[frozenset[str]] = frozenset({"attention"})
    signed: ClassVar[bool] = False
    layer: int | None = None  # counts from 0, negative from the top; None is what the prediction reads
    head: int | None = None  # None is the mean of all heads

    def refusal(self, model: Model) -> str | None:
        if self.layer is not None and "layers" not in model.capabilities:
            return {**REASONS, **model.lacks}["layers"]
        return Explainer.refusal(self, model)

    def attribute(self, job: Job) -> list[Scores]:
        if self.layer is not None:
            return [Scores(self._of_head(self._of_layer(layers))) for layers in _read_everywhere(job)]

        def read(output: Output, row: int, n: int) -> Scores:
            assert output.attention is not None
            return Scores(self._of_head(_array(output.attention[row, :, :n])))

        return job.engine.outputs(job.encodings, read)

    def _of_layer(self, layers: Sequence[Floats]) -> Floats:
        assert self.layer is not None
        if not -len(layers) <= self.layer < len(layers):
            raise UserError(f"There is no attention layer {self.layer}; the model has {len(layers)}.")
        return layers[self.layer]

    def _of_head(self, heads: Floats) -> Floats:
        if self.head is None:
            return np.asarray(heads.mean(0))
        if not -len(heads) <= self.head < len(heads):
            raise UserError(f"There is no attention head {self.head}; the model has {len(heads)}.")
        return np.asarray(heads[self.head])


def heads_of(model: Model, example: Example) -> tuple[str, ...]:
    """Every head of every layer as a method of its own, the lowest layer first; an example is read to count them."""

    def read(output: Output, row: int, n: int) -> list[int]:
        return [layer.shape[1] for layer in output.layers or ()]

    (counts,) = Engine(model).outputs(model.encode([example]), read)
    return tuple(Attention(layer, head).label for layer, count in enumerate(counts) for head in range(count))


def _read_everywhere(job: Job) -> list[list[Floats]]:
    """Of each example and layer ``[heads, n]``: what the predicting position receives. One pass serves all heads."""
    texts = tuple(encoding.ids.tobytes() + encoding.segments.tobytes() for encoding in job.encodings)
    key = "attention", texts

    def read(output: Output, row: int, n: int) -> list[Floats]:
        assert output.layers is not None
        assert output.readout is not None
        place = output.readout[row]
        return [_array(torch.einsum("t,hts->hs", place, layer[row])[:, :n]) for layer in output.layers]

    known: list[list[Floats]] | None = job.engine.shared(key)
    if known is not None:
        return known
    started = time.perf_counter()
    found = job.engine.outputs(job.encodings, read)
    return job.engine.share(key, found, time.perf_counter() - started)


def _array(weights: Tensor) -> Floats:
    return weights.double().cpu().numpy()


@dataclass(frozen=True, slots=True)
class _ThroughLayers(Explainer):
    """Shared by rollout and flow: the augmented matrices of each example, and where the prediction reads."""

    needs: ClassVar[frozenset[str]] = frozenset({"attention", "layers"})
    signed: ClassVar[bool] = False

    def refusal(self, model: Model) -> str | None:
        return None if "both-stacks" in model.capabilities else Explainer.refusal(self, model)

    def attribute(self, job: Job) -> list[Scores]:
        def read(output: Output, row: int, n: int) -> Scores:
            maps = _one_stack if output.stacks is None else _both_stacks
            return Scores(self.trace(*maps(output, row, n))[:n])

        return job.engine.outputs(job.encodings, read)

    @abstractmethod
    def trace(self, matrices: Tensor, readout: Tensor) -> Floats:
        """Scores ``[n]`` from augmented attention ``[L, n, n]``, lowest layer first, and the readout ``[n]``."""


def _one_stack(output: Output, row: int, n: int) -> tuple[Tensor, Tensor]:
    assert output.layers is not None
    assert output.readout is not None
    layers = torch.stack([layer[row, :, :n, :n] for layer in output.layers]).double()
    return augmented(layers), output.readout[row, :n].double()


def _both_stacks(output: Output, row: int, n: int) -> tuple[Tensor, Tensor]:
    """The first ``n`` places at the bottom are the tokens."""
    assert output.stacks is not None
    assert output.readout is not None
    places = places_of(n, output.readout.shape[1] // 2).to(output.readout.device)
    layers = torch.stack([layer[row][:, places][:, :, places] for layer in output.stacks]).double()
    lowest = to_tokens(n).to(layers.device)
    return torch.cat((lowest[None], augmented(layers))), output.readout[row, places].double()


@explainers.register("attention-rollout")
@dataclass(frozen=True, slots=True)
class AttentionRollout(_ThroughLayers):
    """Attention multiplied through the layers, half of each layer being the residual."""

    name: ClassVar[str] = "attention-rollout"

    def trace(self, matrices: Tensor, readout: Tensor) -> Floats:
        return np.asarray(followed(tuple(matrices), readout).cpu().numpy())


@explainers.register("attention-flow")
@dataclass(frozen=True, slots=True)
class AttentionFlow(_ThroughLayers):
    """The exact maximum flow from where the prediction reads to each input token."""

    name: ClassVar[str] = "attention-flow"

    def trace(self, matrices: Tensor, readout: Tensor) -> Floats:
        with torch_threads():
            return attention_flow(matrices.cpu().numpy(), readout.cpu().numpy())
