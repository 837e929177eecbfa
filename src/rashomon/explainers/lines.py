"""Paths of models that begin with an affine map of each token: straight lines behind that map.

Texts and references meet in thousands of rows, and there are few different tokens among them: each is led through the
map once for all methods, and a row is the numbers of its tokens at both ends. Only what adds up over the dimensions of
an embedding can be told there, which is a token's score and not its norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rashomon.data.batches import Batch, Ints
from rashomon.explainers.base import Job
from rashomon.explainers.references import Pair, numbered_pairs, reference_ids
from rashomon.explainers.token_table import NOTHING
from rashomon.models.recurrence import Lines


@dataclass(frozen=True, slots=True)
class Ways:
    """The lines of a batch, row by row, and what belongs to their texts."""

    batch: Batch
    table: Tensor  # [N, E]
    inputs: Ints  # [B, T]: rows of the table
    others: Ints  # [B, T]
    targets: Tensor

    def at(self, alphas: Sequence[float]) -> Lines:
        """The points at ``alphas``, ready to be differentiated."""
        given = torch.tensor(alphas, dtype=self.table.dtype)
        share = given[:, None].repeat(1, self.inputs.shape[1]).requires_grad_(True)
        return Lines(self.table, self.inputs, self.others, share)

    def both_ends(self) -> tuple[Batch, Lines]:
        """All inputs, and behind them all references."""
        rows = np.tile(np.arange(len(self.inputs)), 2)
        share = torch.ones(len(rows), self.inputs.shape[1], dtype=self.table.dtype)
        share[len(self.inputs) :] = 0
        lines = Lines(self.table, self.inputs[rows], self.others[rows], share.requires_grad_(True))
        return self.batch.rows(torch.from_numpy(rows)), lines


def ways_of(job: Job, pairs: Sequence[Pair]) -> Ways:
    """Lines for (example, reference) pairs of a model that enters."""
    distinct, rows = numbered_pairs(pairs)
    batch = job.model.collate([job.encodings[i] for i, _ in distinct])
    ids = batch.ids.numpy()
    others, nothing = ids.copy(), np.zeros(ids.shape, dtype=np.bool_)
    for row, (i, end) in enumerate(distinct):
        encoding = job.encodings[i]
        others[row, : len(encoding)] = reference_ids(job.model, encoding, end)
        nothing[row, : len(encoding)] = encoding.content & (end == "zero")
    tokens = job.engine.tokens
    inputs = tokens.rows(ids)
    of_references = np.where(nothing, NOTHING, tokens.rows(others))
    return Ways(
        batch.rows(torch.from_numpy(rows)),
        tokens.values,
        inputs[rows],
        of_references[rows],
        torch.from_numpy(job.targets[[i for i, _ in pairs]]),
    )
