"""The queue of model evaluations behind every explainer and erasure measure.

Perturbation methods ask for logits of an example with some tokens kept. The engine drops duplicates, remembers
what it has evaluated, packs the rest by length across examples into batches under a token budget, and halves a
batch that does not fit into memory. Token ids are perturbed, never decoded; special tokens always stay.

A removed token is really left out of the row: positions are kept, so a transformer says exactly what it would
say with the token masked, and a row costs only what it keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rashomon.data.batches import Batch, Bools, Encoding, Ints, pack
from rashomon.models.base import Model, Output, without_attention
from rashomon.models.predict import evaluating
from rashomon.progress import progress

Perturbation = Literal["remove", "mask", "pad"]
Floats = NDArray[np.float64]


@dataclass
class Counts:
    """What was asked of the model, and what it was spared."""

    asked: int = 0
    evaluated: int = 0
    tokens: int = 0


@dataclass
class Engine:
    """Evaluations of one model. ``token_budget`` bounds the padded tokens of a batch."""

    model: Model
    token_budget: int = 4096
    counts: Counts = field(default_factory=Counts)
    memory: dict[object, Any] = field(default_factory=dict)  # what methods share, under keys of their own
    _logits: dict[tuple[bytes, bytes, Perturbation], Floats] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop remembered evaluations, to keep memory flat over many examples."""
        self._logits.clear()
        self.memory.clear()

    def outputs(self, encodings: Sequence[Encoding]) -> Iterator[tuple[list[int], Output]]:
        """Full outputs, attention included, batch by batch with the positions of the examples."""
        lengths = np.array([len(encoding) for encoding in encodings])
        with evaluating(self.model), torch.inference_mode():
            for index in self.batches(lengths):
                chosen = [encodings[i] for i in index]
                yield list(index), self.model(self.model.collate(chosen))

    def logits(
        self, encodings: Sequence[Encoding], kept: Sequence[Bools], how: Perturbation = "remove"
    ) -> list[Floats]:
        """Logits ``[S, C]`` for each example, one row for each row of its ``kept`` matrix ``[S, n]``."""
        table = _Table(encodings, self.model.pad_id)
        rows: list[tuple[int, Bools, tuple[bytes, bytes, Perturbation]]] = []
        keys: list[list[tuple[bytes, bytes, Perturbation]]] = []
        queued: set[tuple[bytes, bytes, Perturbation]] = set()
        for i, (encoding, matrix) in enumerate(zip(encodings, kept, strict=True)):
            whole = matrix | encoding.special
            about = encoding.ids.tobytes() + encoding.segments.tobytes()
            of_example = [(about, packed.tobytes(), how) for packed in np.packbits(whole, axis=1)]
            keys.append(of_example)
            for row, key in zip(whole, of_example, strict=True):
                if key not in self._logits and key not in queued:
                    queued.add(key)
                    rows.append((i, row, key))
        self.counts.asked += sum(len(of_example) for of_example in keys)
        if rows:
            self._evaluate(table, rows, how)
        return [np.stack([self._logits[key] for key in of_example]) for of_example in keys]

    def _evaluate(
        self, table: _Table, rows: list[tuple[int, Bools, tuple[bytes, bytes, Perturbation]]], how: Perturbation
    ) -> None:
        which = np.array([i for i, _, _ in rows])
        kept = np.zeros((len(rows), table.ids.shape[1]), dtype=np.bool_)
        for r, (_, row, _) in enumerate(rows):
            kept[r, : len(row)] = row
        lengths = np.maximum(kept.sum(1), 1) if how == "remove" else table.lengths[which]
        hidden_id = self.model.mask_id if how == "mask" else self.model.pad_id
        self.counts.evaluated += len(rows)
        self.counts.tokens += int(lengths.sum())
        evaluate = self._in_memory(lambda index: self._rows(table, which[index], kept[index], how, hidden_id))
        with (
            evaluating(self.model),
            torch.inference_mode(),
            without_attention(self.model),
            progress("evaluating the model", len(rows)) as advance,
        ):
            for index in self.batches(lengths):
                for r, logits in zip(index, evaluate(index), strict=True):
                    self._logits[rows[r][2]] = logits
                advance(len(index))

    def _rows(self, table: _Table, which: Ints, kept: Bools, how: Perturbation, hidden_id: int) -> Floats:
        batch = table.removed(which, kept) if how == "remove" else table.replaced(which, kept, hidden_id)
        logits: Tensor = self.model(batch.to(self.model.device)).logits
        return logits.double().cpu().numpy()

    def batches(self, lengths: Ints, rows_each: int = 1) -> Iterator[Ints]:
        """Positions sorted by length and cut under the token budget, ``rows_each`` rows to a position."""
        order = np.argsort(lengths, kind="stable")
        budget = max(1, self.token_budget // rows_each)
        for index in pack(lengths[order].tolist(), torch.from_numpy(order), budget):
            yield index.numpy()

    def _in_memory(self, run: Callable[[Ints], Floats]) -> Callable[[Ints], Floats]:
        """``run``, halving the batch as often as it takes when memory runs out."""

        def attempt(index: Ints) -> Floats:
            try:
                return run(index)
            except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
                if len(index) == 1 or not out_of_memory(error):
                    raise
            self.token_budget = max(256, self.token_budget // 2)
            half = len(index) // 2
            return np.concatenate([attempt(index[:half]), attempt(index[half:])])

        return attempt


def out_of_memory(error: BaseException) -> bool:
    """CPU allocators say it in words only."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)


class _Table:
    """Encodings padded into arrays once, from which perturbed batches are cut."""

    def __init__(self, encodings: Sequence[Encoding], pad_id: int) -> None:
        self.lengths = np.array([len(encoding) for encoding in encodings], dtype=np.int64)
        shape = (len(encodings), int(self.lengths.max(initial=1)))
        self.pad_id = pad_id
        self.ids = np.full(shape, pad_id, dtype=np.int64)
        self.segments = np.zeros(shape, dtype=np.int64)
        self.positions = np.zeros(shape, dtype=np.int64)
        for i, encoding in enumerate(encodings):
            n = len(encoding)
            self.ids[i, :n] = encoding.ids
            self.segments[i, :n] = encoding.segments
            self.positions[i, :n] = encoding.positions
        self.real = np.arange(shape[1])[None, :] < self.lengths[:, None]

    def removed(self, which: Ints, kept: Bools) -> Batch:
        """Rows compacted to the kept tokens. A text that loses every token keeps one padding token."""
        ids, segments, real = self.ids[which], self.segments[which], self.real[which]
        for segment in (0, 1):
            of_segment = real & (segments == segment)
            emptied = of_segment.any(1) & ~(of_segment & kept).any(1)
            if emptied.any():
                first = of_segment[emptied].argmax(1)
                kept = kept.copy()
                kept[np.flatnonzero(emptied), first] = True
                ids[np.flatnonzero(emptied), first] = self.pad_id
        counts = kept.sum(1)
        width = int(counts.max())
        order = np.argsort(~kept, axis=1, kind="stable")[:, :width]
        mask = np.arange(width)[None, :] < counts[:, None]
        taken = [np.take_along_axis(a, order, 1) for a in (ids, segments, self.positions[which])]
        taken[0][~mask] = self.pad_id
        taken[1][~mask] = 0
        taken[2][~mask] = 0
        return _batch(taken[0], mask, taken[1], taken[2])

    def replaced(self, which: Ints, kept: Bools, hidden_id: int) -> Batch:
        """Rows of full length, with another id where a token is hidden."""
        width = int(self.lengths[which].max())
        real = self.real[which, :width]
        ids = np.where(real & ~kept[:, :width], hidden_id, self.ids[which, :width])
        return _batch(ids, real, self.segments[which, :width], self.positions[which, :width])


def _batch(ids: Ints, mask: Bools, segments: Ints, positions: Ints) -> Batch:
    arrays = (np.ascontiguousarray(array) for array in (ids, mask, segments, positions))
    return Batch(*(torch.from_numpy(array) for array in arrays))
