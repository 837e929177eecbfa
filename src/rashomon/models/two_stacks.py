"""How does attention pass through an encoder and a decoder that reads the text once more? As one stack over both.

A token has a place in the encoder and, one further on, a place in the decoder. An attention of either is a map over
both kinds of places, which leaves those of the other stack as they are. At the bottom both places of a token are the
token; what reaches the mark that the decoder starts with belongs to none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from torch import Tensor


def joined_maps(
    encoder: Sequence[Tensor], own: Sequence[Tensor], across: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Maps ``[B, heads, T, T]`` of an encoder, of a decoder to itself and to the encoder, as ``[B, 1, 2T, 2T]`` each.

    Lowest first. Heads are averaged, because the stacks may have different numbers of them.
    """
    below = [_whole(maps, 0, 0) for maps in encoder]
    above = [
        (_whole(to_itself, 1, 1), _whole(over, 1, 0)) for to_itself, over in zip(own, across, strict=True)
    ]
    return (*below, *chain.from_iterable(above))


def places_of(n: int, width: int) -> Tensor:
    """Where the first ``n`` tokens are among both kinds of places of ``width`` tokens."""
    return torch.cat((torch.arange(n), width + torch.arange(n)))


def to_tokens(n: int) -> Tensor:
    """``[2n, 2n]``: the lowest map, from both kinds of places to tokens; only the decoder's start leads to itself."""
    lowest = torch.zeros(2 * n, 2 * n, dtype=torch.double)
    tokens = torch.arange(n)
    lowest[tokens, tokens] = 1
    lowest[n + tokens[1:], tokens[:-1]] = 1
    lowest[n, n] = 1
    return lowest


def _whole(maps: Tensor, row: int, column: int) -> Tensor:
    """Over both kinds of places: the rows of one stack look at the columns of one, the other's at themselves."""
    mean = maps.mean(1, keepdim=True)
    same = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device).expand_as(mean)
    none = torch.zeros_like(mean)
    blocks = [[same, none], [none, same]]
    blocks[row] = [mean if side == column else none for side in (0, 1)]
    return torch.cat([torch.cat(line, -1) for line in blocks], -2)
