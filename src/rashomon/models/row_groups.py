"""What if padding changes a model's answer? Then rows of different lengths are asked about apart, without any.

Some networks read the padding beside a text (convolutions, tokens mixed with their neighbours, no mask at all). For
these a token that is masked is one that is not there: it is taken out of its row, and what is said is led back to its
place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from rashomon.data.batches import FIELDS, Batch
from rashomon.models.base import Output

T = TypeVar("T")
Run = Callable[[Batch, Tensor | None], Output]


def is_whole(batch: Batch) -> bool:
    """No padding and nothing masked."""
    return bool(batch.mask.all())


def by_length(run: Run, batch: Batch, embeddings: Tensor | None, outside: float = 0.0) -> Output:
    """What ``run`` says of each row without its masked tokens, as one output of the batch's own shape.

    ``outside`` is the logit of a place that was not there, where logits have places.
    """
    parts = [(rows, places, run(*taken)) for rows, places, taken in _groups(batch, embeddings)]
    width = batch.ids.shape[1]
    first = parts[0][2]
    per_token = first.logits.dim() == 3
    joined = Output(
        logits=_joined([(r, p, o.logits) for r, p, o in parts], batch, (1,) if per_token else (), outside),
        attention=None,
        hidden=_joined([(r, p, o.hidden) for r, p, o in parts], batch, (1,)),
        pooled=_joined([(r, p, o.pooled) for r, p, o in parts], batch, ()),
    )
    if first.attention is not None:
        joined.attention = _joined([(r, p, _given(o.attention)) for r, p, o in parts], batch, (2,))
    if first.readout is not None:
        joined.readout = _joined([(r, p, _given(o.readout)) for r, p, o in parts], batch, (1,))
    if first.layers is not None:
        joined.layers = tuple(
            _joined([(r, p, _given(o.layers)[depth]) for r, p, o in parts], batch, (2, 3))
            for depth in range(len(first.layers))
        )
    assert joined.hidden.shape[1] == width
    return joined


def _groups(
    batch: Batch, embeddings: Tensor | None
) -> Iterator[tuple[Tensor, Tensor, tuple[Batch, Tensor | None]]]:
    """Rows of one length, the places of their tokens, and both taken out of the batch."""
    counts = batch.mask.sum(1).clamp_min(1)
    order = (~batch.mask).to(torch.uint8).argsort(dim=1, stable=True)  # real tokens first
    for count in counts.unique().tolist():
        rows = (counts == count).nonzero().flatten()
        places = order[rows, :count]
        fields = {name: getattr(batch, name)[rows].gather(1, places) for name in FIELDS}
        fields["mask"] = torch.ones_like(fields["mask"])
        taken = None
        if embeddings is not None:
            kept = embeddings.index_select(0, rows)
            taken = kept.gather(1, places.unsqueeze(-1).expand(-1, -1, kept.shape[-1]))
        yield rows, places, (Batch(**fields), taken)


def _joined(
    parts: list[tuple[Tensor, Tensor, Tensor]], batch: Batch, over: tuple[int, ...], fill: float = 0.0
) -> Tensor:
    """Values of the groups in one tensor; the dimensions ``over`` run over tokens."""
    _, _, first = parts[0]
    shape = list(first.shape)
    shape[0] = len(batch.ids)
    for dim in over:
        shape[dim] = batch.ids.shape[1]
    whole = first.new_full(shape, fill)
    for rows, places, values in parts:
        spread = values
        for dim in over:
            spread = _spread(spread, places, dim, batch.ids.shape[1], fill)
        whole = whole.index_copy(0, rows, spread)
    return whole


def _spread(values: Tensor, places: Tensor, dim: int, width: int, fill: float) -> Tensor:
    """Values at the first places of a dimension to where ``places [B, n]`` says, ``fill`` between."""
    shape = [1] * values.dim()
    shape[0], shape[dim] = places.shape
    index = places.view(shape).expand_as(values)
    target = values.new_full((*values.shape[:dim], width, *values.shape[dim + 1 :]), fill)
    return target.scatter(dim, index, values)


def _given(value: T | None) -> T:
    assert value is not None
    return value
