"""Paths of models that begin with an affine map of each token: straight lines behind that map.

Texts and references meet in thousands of rows, and there are few of either: each is led through the map once, and a
row is the numbers of its two ends. Only what adds up over the dimensions of an embedding can be told there, which is a
token's score and not its norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from rashomon.data.batches import Batch, Encoding, Ints
from rashomon.explainers.base import Job
from rashomon.explainers.references import Reference, reference_ids
from rashomon.models.recurrence import Lines


@dataclass(frozen=True, slots=True)
class Ways:
    """The lines of a batch, row by row, and what belongs to their texts."""

    batch: Batch
    values: Tensor  # [U, T, E]
    inputs: Tensor  # [B]
    others: Tensor  # [B]
    targets: Tensor

    def at(self, alphas: Sequence[float]) -> Lines:
        """The points at ``alphas``, ready to be differentiated."""
        given = torch.tensor(alphas, dtype=self.values.dtype)
        share = given[:, None].repeat(1, self.values.shape[1]).requires_grad_(True)
        return Lines(self.values, self.inputs, self.others, share)

    def both_ends(self) -> tuple[Batch, Lines]:
        """All inputs, and behind them all references."""
        rows = torch.arange(len(self.inputs)).repeat(2)
        share = torch.ones(len(rows), self.values.shape[1], dtype=self.values.dtype)
        share[len(self.inputs) :] = 0
        lines = Lines(self.values, self.inputs[rows], self.others[rows], share.requires_grad_(True))
        return self.batch.rows(rows), lines


def ways_of(job: Job, pairs: Sequence[tuple[int, Encoding | Reference]]) -> Ways:
    """Lines for (example, reference) pairs of a model that enters."""
    examples = list(dict.fromkeys(i for i, _ in pairs))
    texts = job.model.collate([job.encodings[i] for i in examples])
    place = {i: row for row, i in enumerate(examples)}
    rows, others = _distinct_references(job, pairs, texts.ids.shape[1])
    ids = torch.cat([texts.ids, torch.from_numpy(rows)])
    embedded = job.model.embed(replace(texts, ids=ids)).detach()
    zeros = [number for number, (_, end) in enumerate(pairs) if end == "zero"]
    embedded[len(examples) + others[zeros]] = 0
    at = torch.tensor([place[i] for i, _ in pairs])
    return Ways(
        texts.rows(at),
        job.model.enter(embedded).detach(),
        at,
        torch.from_numpy(len(examples) + others),
        torch.from_numpy(job.targets[[i for i, _ in pairs]]),
    )


def _distinct_references(
    job: Job, pairs: Sequence[tuple[int, Encoding | Reference]], width: int
) -> tuple[Ints, Ints]:
    """The ids of references that are different ``[R, width]``, and which of them each pair has."""
    seen: dict[tuple[int, int | str], int] = {}
    known: dict[bytes, int] = {}
    rows: list[Ints] = []
    which = np.empty(len(pairs), dtype=np.int64)
    for number, (i, end) in enumerate(pairs):
        pair = i, end if isinstance(end, str) else id(end)
        if pair not in seen:
            ids = np.full(width, job.model.pad_id)
            if end != "zero":  # one row serves all, and is overwritten
                ids[: len(job.encodings[i])] = reference_ids(job.model, job.encodings[i], end)
            key = b"zero" if end == "zero" else ids.tobytes()
            if key not in known:
                known[key] = len(rows)
                rows.append(ids)
            seen[pair] = known[key]
        which[number] = seen[pair]
    return np.stack(rows), which
