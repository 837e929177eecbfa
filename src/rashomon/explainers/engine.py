"""The queue of model evaluations behind every explainer and erasure measure.

Perturbation methods ask for logits of an example with some tokens kept. The engine drops duplicates, remembers
what it has evaluated, packs the rest by length across examples into batches under a token budget, and makes
batches smaller when memory runs out. Token ids are perturbed, never decoded; special tokens always stay.

A removed token is really left out of the row: positions are kept, so a transformer says exactly what it would
say with the token masked, and a row costs only what it keeps. Models of which this is not true mask it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from rashomon.data.batches import Bools, Encoding, Ints
from rashomon.errors import unknown_name
from rashomon.explainers.perturbed_rows import Perturbation, Table, perturbed
from rashomon.explainers.token_table import TokenTable
from rashomon.models.base import Output
from rashomon.models.evaluator import Evaluator
from rashomon.progress import progress

Floats = NDArray[np.float64]
T = TypeVar("T")


@dataclass
class _Known:
    """Logits of one example under the perturbations evaluated so far."""

    place: dict[bytes, int] = field(default_factory=dict)
    values: list[Floats] = field(default_factory=list)  # [k, ...] each, in the order of places

    def rows(self, index: Ints) -> Floats:
        if len(self.values) > 1:
            self.values = [np.concatenate(self.values)]
        return self.values[0][index]


@dataclass
class Engine(Evaluator):
    """Evaluations of one model, remembered. ``token_budget`` bounds the padded tokens of a batch."""

    token_budget: int = 4096
    lent: float = 0.0  # seconds that making what was asked for again had taken
    _tokens: TokenTable | None = None
    _shared: dict[object, tuple[Any, float]] = field(default_factory=dict)
    _known: dict[tuple[bytes, Perturbation], _Known] = field(default_factory=dict)

    def forget(self) -> None:
        """Drop remembered evaluations, to keep memory flat over many examples."""
        self._known.clear()
        self._shared.clear()
        self._tokens = None

    @property
    def tokens(self) -> TokenTable:
        """What tokens add behind the first map of a model that enters, each computed once."""
        if self._tokens is None:
            self._tokens = TokenTable(self.model)
        return self._tokens

    def share(self, key: object, value: T, seconds: float) -> T:
        """Keep what other methods can use, with the time that it took."""
        self._shared[key] = value, seconds
        return value

    def shared(self, key: object) -> Any:
        """What was shared under a key, or None; who takes it owes the time, since alone it would have spent it."""
        value, seconds = self._shared.get(key, (None, 0.0))
        self.lent += seconds
        return value

    def outputs(self, encodings: Sequence[Encoding], read: Callable[[Output, int, int], T]) -> list[T]:
        """``read(output, row, length)`` for each example, from full outputs with attention."""

        def work(index: Ints) -> list[T]:
            output = self.model(self.model.collate([encodings[i] for i in index]))
            return [read(output, row, len(encodings[i])) for row, i in enumerate(index)]

        return self.run(np.array([len(encoding) for encoding in encodings]), work, attention=True)

    def logits(
        self, encodings: Sequence[Encoding], kept: Sequence[Bools], how: Perturbation = "remove"
    ) -> list[Floats]:
        """Logits ``[S, C]`` (of spans ``[S, n, 2]``) of each example, one row a row of its ``kept`` ``[S, n]``."""
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

        def work(index: Ints) -> Sequence[Floats]:
            batch = perturbed(table, self.model, which[index], kept[index], how)
            logits = self.model(batch.to(self.model.device)).logits.double().cpu().numpy()
            if not self.model.task.per_token:
                return list(logits)
            return [row[:n] for row, n in zip(logits, lengths[index], strict=True)]

        with progress("evaluating the model", len(which)) as advance:
            values = self.run(lengths, work, advance=advance)
        for (known, _, rows), end in zip(fresh, ends, strict=True):
            known.values.append(np.array(values[end - len(rows) : end]))
