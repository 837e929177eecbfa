"""From encoded examples to tensors: padded once, cut into batches of similar length.

An ``Encoding`` is one example as a model's tokeniser sees it, with everything needed to lead a score back to
the original text. A ``Batch`` is what a model's ``forward`` reads. ``Rows`` hold a whole split as tensors that
are made once; a batch is then an index into them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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


@dataclass(slots=True)
class Batch:
    """What ``forward`` reads: ``[batch, tokens]`` tensors, padded on the right."""

    ids: Tensor
    mask: Tensor  # bool, true for real tokens
    segments: Tensor
    positions: Tensor
    extras: dict[str, Tensor] = field(default_factory=dict)  # what travels with the examples

    @property
    def size(self) -> int:
        return self.ids.shape[0]

    def to(self, device: torch.device | str) -> Batch:
        return Batch(
            self.ids.to(device),
            self.mask.to(device),
            self.segments.to(device),
            self.positions.to(device),
            {name: tensor.to(device) for name, tensor in self.extras.items()},
        )

    def with_extras(self, **extras: Tensor) -> Batch:
        return replace(self, extras={**self.extras, **extras})


def collate(encodings: Sequence[Encoding], pad_id: int) -> Batch:
    """Pad encodings to the longest of them."""
    width = max(len(encoding) for encoding in encodings)
    shape = (len(encodings), width)
    ids = np.full(shape, pad_id, dtype=np.int64)
    mask = np.zeros(shape, dtype=np.bool_)
    segments = np.zeros(shape, dtype=np.int64)
    positions = np.zeros(shape, dtype=np.int64)
    for row, encoding in enumerate(encodings):
        n = len(encoding)
        ids[row, :n] = encoding.ids
        mask[row, :n] = True
        segments[row, :n] = encoding.segments
        positions[row, :n] = encoding.positions
    ids_, mask_, segments_, positions_ = map(torch.from_numpy, (ids, mask, segments, positions))
    return Batch(ids_, mask_, segments_, positions_)


class Rows:
    """A split as tensors on one device. ``extras`` are per example, or per token when 2-D and as wide as ids."""

    def __init__(
        self,
        encodings: Sequence[Encoding],
        pad_id: int,
        labels: Sequence[int] | None = None,
        extras: Mapping[str, Tensor] | None = None,
        per_token: Sequence[str] = (),
        device: torch.device | str = "cpu",
    ) -> None:
        self.whole = collate(encodings, pad_id).to(device)
        self.lengths = self.whole.mask.sum(1).cpu()
        if labels is not None:
            self.whole.extras["label"] = torch.tensor(list(labels), dtype=torch.long, device=device)
        for name, tensor in (extras or {}).items():
            self.whole.extras[name] = tensor.to(device)
        self._per_token = frozenset(per_token)

    @classmethod
    def of(cls, whole: Batch, per_token: Sequence[str] = ()) -> Rows:
        """Rows of tensors that were made earlier, such as those a worker reads from a run."""
        rows = cls.__new__(cls)
        rows.whole, rows.lengths = whole, whole.mask.sum(1).cpu()
        rows._per_token = frozenset(per_token)
        return rows

    def __len__(self) -> int:
        return len(self.lengths)

    def batch(self, index: Tensor) -> Batch:
        """The examples at ``index``, padded no further than the longest of them."""
        width = int(self.lengths[index].max())
        index = index.to(self.whole.ids.device)
        whole = self.whole
        extras = {
            name: tensor[index, ..., :width] if name in self._per_token else tensor[index]
            for name, tensor in whole.extras.items()
        }
        return Batch(
            whole.ids[index, :width],
            whole.mask[index, :width],
            whole.segments[index, :width],
            whole.positions[index, :width],
            extras,
        )

    def shuffled(self, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Indices of an epoch's batches: alike in length, random in membership and order."""
        noise = torch.rand(len(self), generator=generator)
        # A tenth of the length as noise mixes neighbours without mixing short with long.
        order = torch.argsort(self.lengths * (1 + 0.1 * noise) + noise)
        batches = order.split(batch_size)
        for position in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[position]

    def in_order(self, token_budget: int = 8192) -> Iterator[Tensor]:
        """Indices of batches for evaluation: sorted by length, at most ``token_budget`` padded tokens each."""
        order = torch.argsort(self.lengths, stable=True)
        yield from pack(self.lengths[order].tolist(), order, token_budget)


def pack(sorted_lengths: Sequence[int], order: Tensor, token_budget: int) -> Iterator[Tensor]:
    """Cut ``order`` (whose lengths ascend) into runs whose padded size stays within the budget."""
    start = 0
    for end, length in enumerate(sorted_lengths, start=1):
        if end - start > 1 and (end - start) * length > token_budget:
            yield order[start : end - 1]
            start = end - 1
    if start < len(sorted_lengths):
        yield order[start:]
