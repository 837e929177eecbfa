"""The contract every model keeps: examples in, the answer to its task and its attention out.

Nothing downstream looks at a model's class. It asks for ``capabilities`` and calls the methods below.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from rashomon.data.batches import Batch, Encoding, collate
from rashomon.data.example import Example
from rashomon.models.tasks import CLASSIFICATION, Task


@dataclass(slots=True)
class Output:
    """What a model said about a batch, and what it looked at.

    ``attention`` is what the predicting vector attends to: the pooling attention of the built-in models, the
    last layer's [CLS] row of a transformer. Each row sums to one over real tokens (for the built-in pair
    classifiers: over each segment). ``layers`` are the self-attention maps of a transformer, and ``readout``
    the weights with which its top positions enter the prediction.
    """

    logits: Tensor  # [B, C] of classes; [B, T, 2] of the start and the end of a span
    attention: Tensor | None  # [B, heads, T]
    hidden: Tensor  # [B, T, H]
    pooled: Tensor  # [B, P]
    layers: tuple[Tensor, ...] | None = None  # each [B, heads, T, T]
    readout: Tensor | None = None  # [B, T]

    @property
    def probabilities(self) -> Tensor:
        """Of the classes ``[B, C]``."""
        return self.logits.softmax(-1)


class Model(nn.Module, ABC):
    """A network that reads texts. Subclasses set the attributes and fill in the abstract methods."""

    task: Task = CLASSIFICATION
    labels: tuple[str, ...]  # of the classes; none where the task has no classes
    max_length: int
    pad_id: int
    mask_id: int  # the id that stands for a hidden token
    capabilities: frozenset[str]  # of "attention", "layers", "gradients", "removal", "token-level",
    # "classes", "fresh"
    wants_attention: bool = True  # see without_attention
    equal_lengths: bool = False  # whether padding changes the answer, so that rows of one length go together
    lacks: Mapping[str, str] = MappingProxyType({})  # why it has not a capability, where it can say so

    @property
    def classes(self) -> int:
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @abstractmethod
    def encode(self, examples: Sequence[Example]) -> list[Encoding]:
        """Examples in token ids, with the way back to their text."""

    @abstractmethod
    def embed(self, batch: Batch) -> Tensor:
        """Word embeddings ``[B, T, D]``, before positions, types or norms are added."""

    @abstractmethod
    def forward(self, batch: Batch, embeddings: Tensor | None = None) -> Output:
        """Logits and attention; ``embeddings`` stand in for ``embed(batch)`` when given."""

    @abstractmethod
    def first_layer(self) -> nn.Module:
        """The first encoder layer, whose output ``[B, T, H]`` (or its first item) layer methods look at."""

    @abstractmethod
    def attention_parameters(self) -> list[nn.Parameter]:
        """The parameters of the attention itself."""

    def free_of_decay(self) -> list[nn.Parameter]:
        """What weight decay leaves alone: in the papers the attention."""
        return self.attention_parameters()

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything needed to load the model again into ``folder``."""

    def fresh(self, seed: int) -> Model:
        """A model of the same architecture whose weights come from ``seed`` alone (with the capability "fresh")."""
        raise NotImplementedError(f"Of a {type(self).__name__} nothing but its trained weights is known.")

    def collate(self, encodings: Sequence[Encoding]) -> Batch:
        return collate(encodings, self.pad_id).to(self.device)

    def settings(self) -> dict[str, Any]:
        """What besides the weights decides the outputs, as plain JSON."""
        return {}

    def fingerprint(self) -> str:
        """Changes when any weight or setting does."""
        digest = hashlib.sha256(type(self).__name__.encode())
        digest.update(json.dumps(self.settings(), sort_keys=True).encode())
        for name, tensor in sorted(self.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()[:16]


def best_device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@contextmanager
def without_attention(model: Model) -> Iterator[None]:
    """Inside, the model may leave attention out of its outputs, where that makes it faster."""
    before = model.wants_attention
    model.wants_attention = False
    try:
        yield
    finally:
        model.wants_attention = before
