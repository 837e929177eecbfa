"""Where do the texts of a batch lie? From ``[B, T]`` with gaps and two sides to plain right-padded sequences.

A token that is masked is not there: encoders that read neighbours must see the remaining tokens side by side,
and the two texts of a pair each on their own. ``Layout.sequences`` brings every text into a row of its own
and ``restore`` leads the result back: a layer's output is ``[B, T, H]`` whatever the batch looks like.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from rashomon.data.batches import Batch


class Sequences:
    """Texts as rows ``[R, W]``, R = batch x sides, padded on the right. Made by ``Layout``."""

    def __init__(self, sides: Tensor) -> None:
        """``sides`` is ``[S, B, T]``, true for the tokens of each side."""
        self.count, self.batch, self.tokens = sides.shape
        rows = sides.flatten(0, 1)
        lengths = rows.sum(1)
        self.width = max(1, int(lengths.max()))
        self.in_place = self.count == 1 and self.width == self.tokens and _right_padded(rows)
        self.lengths = lengths
        self.equal = bool((lengths == self.width).all())
        if not self.in_place:
            self._from, self._to = self._indices(sides)

    @cached_property
    def mask(self) -> Tensor:
        return self._places < self.lengths[:, None]

    @cached_property
    def reversal(self) -> Tensor:
        """``[R, W, 1]``: each text read from its end, padding left where it is. It is its own inverse."""
        mirrored = self.lengths[:, None] - 1 - self._places
        return torch.where(mirrored >= 0, mirrored, self._places).unsqueeze(-1)

    def extract(self, x: Tensor) -> Tensor:
        """``[B, T, D]`` to ``[R, W, D]``. Padding holds anything."""
        if self.in_place:
            return x
        return x.flatten(0, 1).index_select(0, self._from).view(-1, self.width, x.shape[-1])

    def restore(self, y: Tensor) -> Tensor:
        """``[R, W, H]`` to ``[B, T, H]``. Padding holds anything."""
        if self.in_place:
            return y
        return y.flatten(0, 1).index_select(0, self._to).view(self.batch, self.tokens, y.shape[-1])

    @cached_property
    def _places(self) -> Tensor:
        return torch.arange(self.width, device=self.lengths.device).expand(len(self.lengths), -1)

    def _indices(self, sides: Tensor) -> tuple[Tensor, Tensor]:
        kept_first = (~sides).to(torch.uint8).argsort(dim=-1, stable=True)[..., : self.width]  # [S, B, W]
        examples = torch.arange(self.batch, device=sides.device)
        origin = examples[:, None] * self.tokens + kept_first
        rank = (sides.long().cumsum(-1) - 1).clamp_min(0)  # [S, B, T]
        side = sides.long().argmax(0)  # [B, T]; padding counts to the first side
        row = side * self.batch + examples[:, None]
        place = rank.gather(0, side.unsqueeze(0)).squeeze(0).clamp_max(self.width - 1)
        return origin.flatten(), (row * self.width + place).flatten()


class Layout:
    """What an encoder needs to know about a batch besides its embeddings."""

    def __init__(self, batch: Batch, pair: bool) -> None:
        self.mask, self.segments, self.positions = batch.mask, batch.segments, batch.positions
        self.pair = pair

    @cached_property
    def sides(self) -> Tensor:
        """``[S, B, T]``: the tokens of the one text, or of each text of the pair."""
        if not self.pair:
            return self.mask.unsqueeze(0)
        return torch.stack([self.mask & (self.segments == side) for side in (0, 1)])

    @cached_property
    def sequences(self) -> Sequences:
        return Sequences(self.sides)

    @cached_property
    def visible(self) -> Tensor:
        """``[B, 1, T or 1, T]``: which tokens (last) each token may look at: those of its own text."""
        keys = self.mask[:, None, None, :]
        if not self.pair:
            return keys
        return keys & (self.segments[:, None, :, None] == self.segments[:, None, None, :])


def _right_padded(rows: Tensor) -> bool:
    return bool((rows[:, 1:] <= rows[:, :-1]).all())
