"""Attention read as explanation: the weights themselves, rollout and flow through a transformer's layers.

Scores say what the predicting position receives from each token (not what a token pays), and are never
negative. Rollout and flow follow the layers down to the input from the positions that enter the prediction.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from rashomon.errors import UserError
from rashomon.explainers.base import REASONS, Explainer, Floats, Job, Scores, explainers
from rashomon.explainers.flow import attention_flow
from rashomon.measures.threads import torch_threads
from rashomon.models.attention import augmented, rollout
from rashomon.models.base import Model, Output


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
            return REASONS["layers"]
        return Explainer.refusal(self, model)

    def attribute(self, job: Job) -> list[Scores]:
        def read(output: Output, row: int, n: int) -> Scores:
            return Scores(self._weights(output, row)[:n].double().cpu().numpy())

        return job.engine.outputs(job.encodings, read)

    def _weights(self, output: Output, row: int) -> Tensor:
        if self.layer is None:
            assert output.attention is not None
            heads = output.attention[row]
        else:
            if output.layers is None or not -len(output.layers) <= self.layer < len(output.layers):
                have = len(output.layers or ())
                raise UserError(f"There is no attention layer {self.layer}; the model has {have}.")
            assert output.readout is not None
            heads = torch.einsum("t,hts->hs", output.readout[row], output.layers[self.layer][row])
        if self.head is None:
            return heads.mean(0)
        if not -len(heads) <= self.head < len(heads):
            raise UserError(f"There is no attention head {self.head}; the model has {len(heads)}.")
        return heads[self.head]


@dataclass(frozen=True, slots=True)
class _ThroughLayers(Explainer):
    """Shared by rollout and flow: the augmented matrices of each example, and where the prediction reads."""

    needs: ClassVar[frozenset[str]] = frozenset({"attention", "layers"})
    signed: ClassVar[bool] = False

    def attribute(self, job: Job) -> list[Scores]:
        def read(output: Output, row: int, n: int) -> Scores:
            assert output.layers is not None
            assert output.readout is not None
            layers = torch.stack([layer[row, :, :n, :n] for layer in output.layers]).double()
            return Scores(self.trace(layers, output.readout[row, :n].double()))

        return job.engine.outputs(job.encodings, read)

    @abstractmethod
    def trace(self, layers: Tensor, readout: Tensor) -> Floats:
        """Scores ``[n]`` from the attention ``[L, heads, n, n]``, lowest layer first, and the readout ``[n]``."""


@explainers.register("attention-rollout")
@dataclass(frozen=True, slots=True)
class AttentionRollout(_ThroughLayers):
    """Attention multiplied through the layers, half of each layer being the residual."""

    name: ClassVar[str] = "attention-rollout"

    def trace(self, layers: Tensor, readout: Tensor) -> Floats:
        return np.asarray(rollout(tuple(layers), readout).cpu().numpy())


@explainers.register("attention-flow")
@dataclass(frozen=True, slots=True)
class AttentionFlow(_ThroughLayers):
    """The exact maximum flow from where the prediction reads to each input token."""

    name: ClassVar[str] = "attention-flow"

    def trace(self, layers: Tensor, readout: Tensor) -> Floats:
        with torch_threads():
            return attention_flow(augmented(layers).cpu().numpy(), readout.cpu().numpy())
