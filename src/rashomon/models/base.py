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
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rashomon.data.batches import Batch, Encoding, collate
from rashomon.data.example import Example
from rashomon.data.texts import Texts
from rashomon.models.tasks import CLASSIFICATION, Task

if TYPE_CHECKING:
    import pandas as pd


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
    readout: Tensor | None = None  # [B, T]; [B, 2T] beside ``stacks``
    stacks: tuple[Tensor, ...] | None = (
        None  # each [B, 1, 2T, 2T]: an encoder's and its decoder's maps as one stack
    )

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
    # "classes", "fresh", "reweighting", "both-stacks"
    wants_attention: bool = True  # see without_attention
    equal_lengths: bool = False  # whether padding changes the answer, so that rows of one length go together
    lacks: Mapping[str, str] = MappingProxyType({})  # why it has not a capability, where it can say so
    _fingerprinted: tuple[object, str] | None = None  # what was seen of the weights, and their hash
    history: Any = None  # the record of every epoch, where the model was trained in this process

    @property
    def classes(self) -> int:
        return len(self.labels)

    @property
    def gives_a_number(self) -> bool:
        """Whether the one output is a number (a regression head) rather than a choice between classes."""
        return self.classes == 1

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

    @property
    def enters(self) -> bool:
        """Whether the network begins with an affine map of each token alone and can now go on from there.

        Then ``forward`` takes ``Lines`` in the space of ``enter`` in place of embeddings.
        """
        return False

    def enter(self, embeddings: Tensor) -> Tensor:
        """That map, ``[..., D]`` to ``[..., E]``. Of models that enter so."""
        raise NotImplementedError

    def free_of_decay(self) -> list[nn.Parameter]:
        """What weight decay leaves alone: in the papers the attention."""
        return self.attention_parameters()

    def word_vectors(self) -> Tensor | None:
        """The embeddings of the words it knows ``[V, D]``, where words are what it reads; else None."""
        return None

    def sides(self, batch: Batch) -> Tensor:
        """``[S, B, T]``: the tokens that share one distribution of attention. Of models with ``"reweighting"``."""
        raise NotImplementedError

    def decode_with(self, hidden: Tensor, weights: Tensor, batch: Batch) -> Tensor:
        """Class logits ``[B, K, C]`` of the same token vectors ``[B, T, H]`` under other attentions.

        ``weights`` are K alternatives ``[B, K, heads, T]``, each a distribution over the tokens of each side.
        Of models with ``"reweighting"``.
        """
        raise NotImplementedError

    @abstractmethod
    def save(self, folder: Path) -> None:
        """Write everything needed to load the model again into ``folder``."""

    def fresh(self, seed: int) -> Model:
        """A model of the same architecture whose weights come from ``seed`` alone (with the capability "fresh")."""
        raise NotImplementedError(f"Of a {type(self).__name__} nothing but its trained weights is known.")

    def predict(self, texts: Texts) -> pd.DataFrame:
        """What the model says of texts.

        Args:
            texts: a text, a list of texts, pairs or examples, a pandas Series, or a frame with a column ``text``.

        Returns:
            A frame with a row a text: the prediction (a label, or the answer to a question), its probability,
            and the probability of every class.
        """
        from rashomon.models.predicting import predictions_table

        return predictions_table(self, texts)

    def collate(self, encodings: Sequence[Encoding]) -> Batch:
        return collate(encodings, self.pad_id).to(self.device)

    def settings(self) -> dict[str, Any]:
        """What besides the weights decides the outputs, as plain JSON."""
        return {}

    def fingerprint(self) -> str:
        """Changes when any weight or setting does.

        Hashing all weights takes longer than a backward pass, so the last hash is kept as long as torch counts no
        change of any of them; a few values of each are looked at, too, for changes behind torch's back.
        """
        weights = sorted(_tensors_in(self.state_dict()))
        settings = json.dumps(self.settings(), sort_keys=True)
        seen = (settings, *(_trace(name, tensor) for name, tensor in weights))
        if self._fingerprinted is None or self._fingerprinted[0] != seen:
            digest = hashlib.sha256(type(self).__name__.encode())
            digest.update(settings.encode())
            for name, tensor in weights:
                digest.update(name.encode())
                digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().data)
            self._fingerprinted = seen, digest.hexdigest()[:16]
        return self._fingerprinted[1]


def _tensors_in(state: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """The weights by name; those that torch packs when it quantises a layer are taken out of their packages."""
    for name, value in state.items():
        packed = value if isinstance(value, tuple) else (value,)
        for number, tensor in enumerate(packed):
            if isinstance(tensor, Tensor):
                yield (f"{name}.{number}", tensor.dequantize()) if len(packed) > 1 else (name, tensor)


def _trace(name: str, tensor: Tensor) -> tuple[object, ...]:
    """What is different after a change: torch's count of changes, the place in memory, some of the values."""
    flat = tensor.detach().reshape(-1) if tensor.is_contiguous() else tensor.detach()[:1].reshape(-1)
    some = flat[:: max(1, len(flat) // 64)].tolist()
    count = None if tensor.is_inference() else tensor._version
    return name, count, tensor.data_ptr(), tensor.shape, tuple(some)


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
