"""What each token adds behind the affine map that a model begins with, computed when the token is first met."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rashomon.data.batches import Batch, Ints
from rashomon.models.base import Model

NOTHING = 0  # the row of a vector of zeros
UNKNOWN = -1


class TokenTable:
    """A growing table of distinct tokens, for models that enter."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._row_of = np.full(1, UNKNOWN)  # by id
        self._values: Tensor | None = None  # with room for more
        self._count = 0

    @property
    def values(self) -> Tensor:
        """``[N, E]``: of a vector of zeros first, then of the tokens met so far."""
        assert self._values is not None
        return self._values[: self._count]

    def rows(self, ids: Ints) -> Ints:
        """Where in the table each of these tokens stands."""
        missing = int(ids.max(initial=0)) + 1 - len(self._row_of)
        if missing > 0:
            self._row_of = np.concatenate([self._row_of, np.full(missing, UNKNOWN)])
        found = self._row_of[ids]
        if (found == UNKNOWN).any():
            self._learn(np.unique(ids[found == UNKNOWN]))
            found = self._row_of[ids]
        return found

    def _learn(self, ids: Ints) -> None:
        embedded = self._model.embed(_one_row(torch.from_numpy(ids)))[0].detach()
        if self._values is None:
            embedded = torch.cat([torch.zeros_like(embedded[:1]), embedded])
        entered = self._model.enter(embedded).detach()
        self._row_of[ids] = self._count + len(entered) - len(ids) + np.arange(len(ids))
        self._append(entered)

    def _append(self, entered: Tensor) -> None:
        """Into the room that is left; where it is too small, into twice as much."""
        count = self._count + len(entered)
        if self._values is None or count > len(self._values):
            grown = entered.new_empty(2 * count, entered.shape[1])
            if self._values is not None:
                grown[: self._count] = self._values[: self._count]
            self._values = grown
        self._values[self._count : count] = entered
        self._count = count


def _one_row(ids: Tensor) -> Batch:
    ids = ids[None]
    there = torch.ones_like(ids, dtype=torch.bool)
    return Batch(ids, there, torch.zeros_like(ids), torch.arange(ids.shape[1])[None], there)
