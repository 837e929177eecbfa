"""Encodings padded into arrays once, from which batches with tokens taken out are cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rashomon.data.batches import Batch, Bools, Encoding, Ints, batch_of
from rashomon.models.base import Model

Perturbation = Literal["remove", "mask", "pad"]


class Table:
    """The examples of a queue. ``which`` are row numbers, ``kept`` the tokens that stay: ``[rows, width]``."""

    def __init__(self, encodings: Sequence[Encoding], pad_id: int) -> None:
        self.lengths = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
        shape = (len(encodings), int(self.lengths.max(initial=1)))
        self.pad_id = pad_id
        self.ids = np.full(shape, pad_id, dtype=np.int64)
        self.segments = np.zeros(shape, dtype=np.int64)
        self.positions = np.zeros(shape, dtype=np.int64)
        self.content = np.zeros(shape, dtype=np.bool_)
        for i, encoding in enumerate(encodings):
            n = len(encoding)
            self.ids[i, :n] = encoding.ids
            self.segments[i, :n] = encoding.segments
            self.positions[i, :n] = encoding.positions
            self.content[i, :n] = encoding.content
        self.real = np.arange(shape[1])[None, :] < self.lengths[:, None]

    def removed(self, which: Ints, kept: Bools) -> Batch:
        """Rows compacted to the kept tokens."""
        ids, kept = self._never_empty(which, kept)
        counts = kept.sum(1)
        width = int(counts.max())
        order = np.argsort(~kept, axis=1, kind="stable")[:, :width]
        mask = np.arange(width)[None, :] < counts[:, None]
        whole: tuple[NDArray[Any], ...] = (
            ids,
            self.segments[which],
            self.positions[which],
            self.content[which],
        )
        taken = [np.take_along_axis(a, order, 1) for a in whole]
        for values, nothing in zip(taken, (self.pad_id, 0, 0, False), strict=True):
            values[~mask] = nothing
        return batch_of(taken[0], mask, taken[1], taken[2], taken[3])

    def masked(self, which: Ints, kept: Bools) -> Batch:
        """Rows of full length, with the tokens that are not kept hidden by the mask."""
        ids, kept = self._never_empty(which, kept)
        width = int(self.lengths[which].max())
        return batch_of(ids[:, :width], kept[:, :width], *self._places(which, width))

    def replaced(self, which: Ints, kept: Bools, hidden_id: int) -> Batch:
        """Rows of full length, with another id where a token is hidden."""
        width = int(self.lengths[which].max())
        real = self.real[which, :width]
        ids = np.where(real & ~kept[:, :width], hidden_id, self.ids[which, :width])
        return batch_of(ids, real, *self._places(which, width))

    def _places(self, which: Ints, width: int) -> tuple[Ints, Ints, Bools]:
        return tuple(a[which, :width] for a in (self.segments, self.positions, self.content))  # type: ignore[return-value]

    def _never_empty(self, which: Ints, kept: Bools) -> tuple[Ints, Bools]:
        """Ids and kept tokens where a text that would lose every token keeps one padding token."""
        ids, kept = self.ids[which], kept.copy()
        for segment in (0, 1):
            here = self.real[which] & (self.segments[which] == segment)
            emptied = np.flatnonzero(here.any(1) & ~(here & kept).any(1))
            first = here[emptied].argmax(1)
            kept[emptied, first] = True
            ids[emptied, first] = self.pad_id
        return ids, kept


def perturbed(table: Table, model: Model, which: Ints, kept: Bools, how: Perturbation) -> Batch:
    """Rows as the model reads them without the tokens that are not kept."""
    if how != "remove":
        return table.replaced(which, kept, model.mask_id if how == "mask" else model.pad_id)
    return table.removed(which, kept) if "removal" in model.capabilities else table.masked(which, kept)
