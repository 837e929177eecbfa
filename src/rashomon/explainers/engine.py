"""The queue of model evaluations behind every explainer and erasure measure.

Perturbation methods ask for logits of an example with some tokens kept. The engine drops duplicates, remembers
what it has evaluated, packs the rest by length across examples into batches under a token budget, and makes
batches smaller when memory runs out. Token ids are perturbed, never decoded; special tokens always stay.

A removed token is really left out of the row: positions are kept, so a transformer says exactly what it would
say with the token masked, and a row costs only what it keeps. Models of which this is not true mask it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from rashomon.data.batches import Bools, Encoding, Ints
from rashomon.errors import unknown_name
from rashomon.explainers.perturbed_rows import Table
from rashomon.models.base import Model, Output, without_attention
from rashomon.models.evaluator import evaluating
from rashomon.progress import Advance, progress

Perturbation = Literal["remove", "mask", "pad"]
Floats = NDArray[np.float64]
T = TypeVar("T")
PADDING_SHARE = 0.1


@dataclass
class Counts:
    """What was asked of the model, and what it was spared."""

    asked: int = 0
    evaluated: int = 0
    tokens: int = 0


@dataclass
class _Known:
    """Logits of one example under the perturbations evaluated so far."""

    place: dict[bytes, int] = field(default_factory=dict)
    values: list[Floats] = field(default_factory=list)  # [k, C] each, in the order of places

    def rows(self, index: Ints) -> Floats:
        if len(self.values) > 1:
            self.values = [np.concatenate(self.values)]
        return self.values[0][index]


@dataclass
class Engine:
    """Evaluations of one model. ``token_budget`` bounds the padded tokens of a batch."""

    model: Model
    token_budget: int = 4096
    counts: Counts = field(default_factory=Counts)
    memory: dict[object, Any] = field(default_factory=dict)  # what methods share, under keys of their own
    _known: dict[tuple[bytes, Perturbation], _Known] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop remembered evaluations, to keep memory flat over many examples."""
        self._known.clear()
        self.memory.clear()

    def outputs(self, encodings: Sequence[Encoding], read: Callable[[Output, int, int], T]) -> list[T]:
        """``read(output, row, length)`` for each example, from full outputs with attention."""

        def work(index: Ints) -> list[T]:
            output = self.model(self.model.collate([encodings[i] for i in index]))
            return [read(output, row, len(encodings[i])) for row, i in enumerate(index)]

        return self.run(np.array([len(encoding) for encoding in encodings]), work, attention=True)

    def logits(
        self, encodings: Sequence[Encoding], kept: Sequence[Bools], how: Perturbation = "remove"
    ) -> list[Floats]:
        """Logits ``[S, C]`` for each example, one row for each row of its ``kept`` matrix ``[S, n]``."""
        if how not in get_args(Perturbation):
            raise unknown_name("perturbation", how, get_args(Perturbation))
        places: list[Ints] = []
        fresh: list[tuple[_Known, int, Bools]] = []  # what is to be evaluated, example by example
        for i, (encoding, matrix) in enumerate(zip(encodings, kept, strict=True)):
            whole = matrix | encoding.special
            known = self._known.setdefault(
                (encoding.ids.tobytes() + encoding.segments.tobytes(), how), _Known()
            )
            place, new = known.place, []
            codes = self._codes(encoding, whole)
            for row, code in enumerate(codes):
                if code not in place:
                    place[code] = len(place)
                    new.append(row)
            places.append(np.fromiter((place[code] for code in codes), dtype=np.int64, count=len(codes)))
            if new:
                fresh.append((known, i, whole[new]))
        self.counts.asked += sum(map(len, places))
        try:
            self._evaluate(Table(encodings, self.model.pad_id), fresh, how)
        except BaseException:
            self.forget()  # places without values must not be taken for known
            raise
        keys = [(encoding.ids.tobytes() + encoding.segments.tobytes(), how) for encoding in encodings]
        return [self._known[key].rows(index) for key, index in zip(keys, places, strict=True)]

    def _codes(self, encoding: Encoding, kept: Bools) -> list[bytes]:
        """Rows of an example that are the same to the model get the same code."""
        if "token-level" in self.model.capabilities:  # only which tokens are left counts, not where
            names = (encoding.ids * 2 + encoding.segments).astype(np.int32)
            rows = np.sort(np.where(kept, names, -1), axis=1)
        else:
            rows = np.packbits(kept, axis=1)
        raw, width = rows.tobytes(), rows.shape[1] * rows.itemsize
        return [raw[start : start + width] for start in range(0, len(raw), width)]

    def _evaluate(self, table: Table, fresh: Sequence[tuple[_Known, int, Bools]], how: Perturbation) -> None:
        if not fresh:
            return
        sizes = [len(rows) for _, _, rows in fresh]
        which = np.repeat([i for _, i, _ in fresh], sizes)
        kept = np.zeros((len(which), table.ids.shape[1]), dtype=np.bool_)
        ends = np.cumsum(sizes)
        for (_, _, rows), end in zip(fresh, ends, strict=True):
            kept[end - len(rows) : end, : rows.shape[1]] = rows
        shortened = how == "remove" and "removal" in self.model.capabilities
        lengths = np.maximum(kept.sum(1), 1) if shortened else table.lengths[which]
        hidden_id = self.model.mask_id if how == "mask" else self.model.pad_id

        def work(index: Ints) -> Floats:
            if how != "remove":
                batch = table.replaced(which[index], kept[index], hidden_id)
            elif shortened:
                batch = table.removed(which[index], kept[index])
            else:
                batch = table.masked(which[index], kept[index])
            return self.model(batch.to(self.model.device)).logits.double().cpu().numpy()  # type: ignore[no-any-return]

        with progress("evaluating the model", len(which)) as advance:
            values = np.array(self.run(lengths, work, advance=advance))
        for (known, _, _), part in zip(fresh, np.split(values, ends[:-1]), strict=True):
            known.values.append(part)

    def run(
        self,
        lengths: Ints,
        work: Callable[[Ints], Sequence[T] | NDArray[Any]],
        *,
        rows: Ints | None = None,
        gradients: bool = False,
        attention: bool = False,
        advance: Advance | None = None,
    ) -> list[T]:
        """``work`` on batches of positions of alike length; its results in the order of the positions.

        A position stands for one row of a batch, or for as many as ``rows`` says. When memory runs out, this
        and all later batches are made smaller.
        """
        order = np.argsort(lengths, kind="stable")
        heights = np.ones_like(order) if rows is None else rows
        results: list[Any] = [None] * len(order)
        start = 0
        with self._ready(gradients, attention):
            while start < len(order):
                index = order[start : start + self._fitting(lengths, heights, order[start:])]
                size = int(lengths[index].max() * heights[index].sum())
                try:
                    told = work(index)
                except (MemoryError, RuntimeError) as error:
                    if len(index) == 1 or not out_of_memory(error):
                        raise
                    self.token_budget = size // 2
                    continue
                for position, result in zip(index.tolist(), told, strict=True):
                    results[position] = result
                start += len(index)
                self.counts.evaluated += int(heights[index].sum())
                self.counts.tokens += int((lengths[index] * heights[index]).sum())
                if advance:
                    advance(len(index))
        return results

    def _fitting(self, lengths: Ints, heights: Ints, order: Ints) -> int:
        """How many of the next positions, whose lengths ascend, make a batch; at least one.

        It stays under the budget and, once it is large enough to be worth a call, mixes lengths only as far as
        padding stays a small share of it.
        """
        order = order[: self.token_budget // max(1, int(lengths[order[0]])) + 1]
        padded = lengths[order] * np.cumsum(heights[order])
        real = np.cumsum(lengths[order] * heights[order])
        dense = (padded <= (1 + PADDING_SHARE) * real) | (padded <= self.token_budget // 8)
        good = np.flatnonzero((padded <= self.token_budget) & dense)
        return int(good[-1]) + 1 if len(good) else 1

    @contextmanager
    def _ready(self, gradients: bool, attention: bool) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(evaluating(self.model))
            if not attention:
                stack.enter_context(without_attention(self.model))
            stack.enter_context(torch.inference_mode(not gradients))
            if gradients:  # with respect to embeddings alone, whatever the caller's own mode is
                stack.enter_context(torch.enable_grad())
                stack.enter_context(_frozen(self.model))
            yield


@contextmanager
def _frozen(model: Model) -> Iterator[None]:
    """Parameters without gradients inside, which spares the graph what only they would need."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in learning:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


def out_of_memory(error: BaseException) -> bool:
    """CPU allocators say it in words only."""
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(w in str(error) for w in words)
