"""From encoded examples to tensors: padded once, cut into batches of similar length.

An ``Encoding`` is one example as a model's tokeniser sees it, with everything needed to lead a score back to
the original text. A ``Batch`` is what a model's ``forward`` reads. ``Rows`` hold a whole split as tensors that
are made once; a batch is then an index into them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rashomon.data.example import Example

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Encoding:
    """One example in token ids. Pairs lie in one sequence, told apart by ``segments``."""

    example_id: str
    tokens: tuple[str, ...]
    ids: Ints
    segments: Ints  # 0 first text, 1 second text
    special: Bools  # [CLS], [SEP] and the like: never perturbed, never ranked
    word_ids: Ints  # position in the words of the token's own segment; -1 for special tokens
    offsets: Ints  # [n, 2], characters in the segment's original text
    positions: Ints  # position ids; they stay when a token is taken out
    cut: int = 0  # tokens that did not fit into the model

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def content(self) -> Bools:
        """The tokens that may be perturbed and ranked."""
        return ~self.special

    @property
    def unseen(self) -> float:
        """The share of the text's tokens that did not fit."""
        return self.cut / (self.cut + int(self.content.sum())) if self.cut else 0.0


@dataclass(slots=True)
class Batch:
    """What ``forward`` reads: ``[batch, tokens]`` tensors, padded on the right."""

    ids: Tensor
    mask: Tensor  # bool, true for real tokens
    segments: Tensor
    positions: Tensor
    content: Tensor  # bool, true for real tokens that are not special
    extras: dict[str, Tensor] = field(default_factory=dict)  # what travels with the examples

    @property
    def size(self) -> int:
        return self.ids.shape[0]

    def to(self, device: torch.device | str) -> Batch:
        return self._each(lambda tensor: tensor.to(device))

    def rows(self, index: Tensor) -> Batch:
        """The rows at ``index``, in that order, perhaps several times."""
        return self._each(lambda tensor: tensor[index])

    def with_extras(self, **extras: Tensor) -> Batch:
        return replace(self, extras={**self.extras, **extras})

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        changed = {name: change(getattr(self, name)) for name in FIELDS}
        return Batch(**changed, extras={name: change(tensor) for name, tensor in self.extras.items()})


FIELDS = ("ids", "mask", "segments", "positions", "content")  # the tensors of a batch, as they are stored


def collate(encodings: Sequence[Encoding], pad_id: int) -> Batch:
    """Pad encodings to the longest of them."""
    width = max(len(encoding) for encoding in encodings)
    shape = (len(encodings), width)
    ids = np.full(shape, pad_id, dtype=np.int64)
    mask, content = np.zeros(shape, dtype=np.bool_), np.zeros(shape, dtype=np.bool_)
    segments, positions = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for row, encoding in enumerate(encodings):
        n = len(encoding)
        ids[row, :n] = encoding.ids
        mask[row, :n] = True
        segments[row, :n] = encoding.segments
        positions[row, :n] = encoding.positions
        content[row, :n] = encoding.content
    return batch_of(ids, mask, segments, positions, content)


def batch_of(ids: Ints, mask: Bools, segments: Ints, positions: Ints, content: Bools) -> Batch:
    """A batch from arrays ``[batch, tokens]``."""
    arrays = (ids, mask, segments, positions, content)
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
    return Batch(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4])


class Rows:
    """A split as tensors on one device, with what travels with its examples.

    ``per_token`` names the extras whose last dimension runs over tokens. ``source`` are the examples and encodings
    behind the rows, where they are known: figures that are taken on texts (of answers) need them.
    """

    def __init__(
        self,
        whole: Batch,
        per_token: Sequence[str] = (),
        source: Sequence[tuple[Example, Encoding]] | None = None,
    ) -> None:
        self.whole, self.lengths = whole, whole.mask.sum(1).cpu()
        self.per_token, self.source = frozenset(per_token), source

    def __len__(self) -> int:
        return len(self.lengths)

    def with_extras(self, per_token: Sequence[str] = (), **extras: Tensor) -> Rows:
        """The same rows with more travelling beside them; ``per_token`` of these run over tokens."""
        on_device = {name: tensor.to(self.whole.ids.device) for name, tensor in extras.items()}
        return Rows(self.whole.with_extras(**on_device), (*self.per_token, *per_token), self.source)

    def batch(self, index: Tensor) -> Batch:
        """The examples at ``index``, padded no further than the longest of them."""
        width = int(self.lengths[index].max())
        index = index.to(self.whole.ids.device)
        extras = {
            name: tensor[index, ..., :width] if name in self.per_token else tensor[index]
            for name, tensor in self.whole.extras.items()
        }
        tensors = {name: getattr(self.whole, name)[index, :width] for name in FIELDS}
        return Batch(**tensors, extras=extras)

    def shuffled(self, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Indices of an epoch's batches: alike in length, random in membership and order."""
        noise = torch.rand(len(self), generator=generator)
        # A tenth of the length as noise mixes neighbours without mixing short with long.
        order = torch.argsort(self.lengths * (1 + 0.1 * noise) + noise)
        batches = order.split(batch_size)
        for position in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[position]
