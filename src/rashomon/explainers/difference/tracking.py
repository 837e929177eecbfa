"""Where is the batch now? Follows the doubled batch dimension through views, reductions and products.

A rule needs to know which half of a tensor holds the inputs and which the references. Most operations leave
the batch in front; the ones that move it (transposes, recurrent states ``[layers, batch, hidden]``, packed
sequences) are followed here. What cannot be followed is *lost*: the operation still works, but no rule can be
applied to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.utils.weak import WeakTensorKeyDictionary

from rashomon.explainers.difference.secants import Axis, halves


class NoRuleError(Exception):
    """No difference rule fits this call."""


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """The batch dimension (counted from the left), or None when it is lost or packed.

    ``order`` says which row of the doubled batch each row is, when sorting has mixed the halves;
    ``packed`` are the batch sizes of a packed sequence; ``outer`` is the size of what was flattened into
    ``dim`` in front of the batch (time, in [time * batch, ...]).
    """

    dim: int | None
    order: Tensor | None = None
    packed: Tensor | None = None
    outer: int = 1

    @property
    def regular(self) -> bool:
        """Can the batch be cut into inputs and references?"""
        return self.dim is not None and self.order is None


LOST = Place(None)


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SAME_ORDER = names("view reshape flatten unflatten unsqueeze squeeze view_as reshape_as")
VIEWS = names(
    """
    transpose permute movedim moveaxis swapaxes swapdims t T mT select narrow
    unbind split split_with_sizes tensor_split chunk
    """
)
REDUCTIONS = names("sum mean amax amin max min logsumexp any all argmax argmin")
ALONG = names("gather cumsum flip roll softmax log_softmax take_along_dim scatter")


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Every tensor in nested lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)


def _argument(position: int, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for name in names:
        if name in kwargs:
            return kwargs[name]
    return args[position] if len(args) > position else None


def _aligned(dim: int, x: Tensor, out: Tensor) -> int | None:
    """Broadcasting aligns from the right."""
    moved = out.ndim - x.ndim + dim
    return moved if moved >= 0 and out.shape[moved] == x.shape[dim] else None


def _same_order(place: Place, dim: int, x: Tensor, out: Tensor) -> Place:
    """The elements keep their order, so the batch begins where as many blocks lie before it."""
    before = prod(x.shape[:dim]) * place.outer
    merged = LOST
    for moved, size in enumerate(out.shape):
        outer, rest = divmod(before, prod(out.shape[:moved]))
        if rest == 0 and outer and size % (2 * outer) == 0:
            merged = replace(place, dim=moved, outer=outer)
            if outer == 1:
                break
    return merged


def _view(
    place: Place, x: Tensor, call: Callable[[Tensor], Any], result: Any
) -> Iterator[tuple[Tensor, Place]]:
    """Repeat the view on a tensor without data that moves in memory only along the batch."""
    strides = [int(i == place.dim) for i in range(x.ndim)]
    probe = torch.empty_strided(x.shape, strides, device="meta", dtype=x.dtype)
    block = x.shape[strides.index(1)] // place.outer  # inputs and references together
    for out, moved in zip(tensors_in(result), tensors_in(call(probe)), strict=True):
        kept = [i for i, stride in enumerate(moved.stride()) if stride == 1 and moved.shape[i] % block == 0]
        whole = len(kept) == 1 and moved.storage_offset() % block == 0
        yield out, replace(place, dim=kept[0], outer=moved.shape[kept[0]] // block) if whole else LOST


def _reduced(dim: int, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    over = _argument(1, ("dim", "axis"), args, kwargs)
    if over is None or isinstance(over, Tensor):
        return None
    gone = {d % x.ndim for d in ((over,) if isinstance(over, int) else over)}
    if dim in gone or not gone:
        return None
    return dim if _argument(2, ("keepdim",), args, kwargs) else dim - sum(d < dim for d in gone)


def _matmul(dim: int, x: Tensor, args: tuple[Any, ...], out: Tensor) -> int | None:
    first = args[0] is x
    other = args[1] if first else args[0]
    place = dim - x.ndim
    if place == (-1 if first or x.ndim == 1 else -2):
        return None  # summed over
    if first and other.ndim == 1:
        return dim
    return _aligned(dim, x, out)


def original_rows(place: Place, size: int) -> Tensor:
    """Which row of the doubled batch (all inputs, then all references) lies at each position."""
    if place.order is not None:
        return place.order
    return torch.arange(size).view(2, place.outer, -1).transpose(0, 1).flatten()


def _selected(place: Place, size: int, index: Tensor) -> Place:
    """Rows taken from the batch: do inputs and references still lie in equal blocks?"""
    rows = original_rows(place, size).to(index.device)[index]
    half, within = rows >= size // 2, rows % (size // 2)
    outer = int((half[1:] & ~half[:-1]).sum())
    if outer and len(index) % (2 * outer) == 0:
        sides, numbers = half.view(outer, 2, -1), within.view(outer, 2, -1)
        if not sides[:, 0].any() and sides[:, 1].all() and torch.equal(numbers[:, 0], numbers[:, 1]):
            return replace(place, order=None, outer=outer)
    if len(index) == size == len(index.unique()):
        return replace(place, order=rows, outer=1)  # sorted
    return LOST


def _indexed(dim: int, x: Tensor, index: Any, out: Tensor) -> int | None:
    """Indexing with tensors: the batch survives behind a full slice, under a range or under an equal mask."""
    index = index if isinstance(index, tuple) else (index,)
    if dim != 0:
        return None
    if isinstance(index[0], Tensor) and index[0].dtype == torch.bool:
        first, second = index[0].chunk(2)
        return 0 if index[0].shape[0] == x.shape[0] and torch.equal(first, second) else None
    if isinstance(index[0], Tensor):
        rows = index[0]
        in_order = rows.ndim == 1 and torch.equal(rows, torch.arange(len(x), device=rows.device))
        return 0 if in_order and all(isinstance(i, Tensor) and i.ndim <= 1 for i in index[1:]) else None
    advanced = [i for i, item in enumerate(index) if isinstance(item, (Tensor, list))]
    adjacent = advanced == list(range(advanced[0], advanced[-1] + 1))
    kept = index[0] is Ellipsis or index[0] == slice(None)
    return 0 if kept and adjacent and out.shape[0] == x.shape[0] else None


def einsum_terms(equation: str, operands: list[Tensor]) -> tuple[list[str], str]:
    """The letters of every operand and of the result, the ellipsis spelled out in digits."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    for i, (term, operand) in enumerate(zip(terms, operands, strict=True)):
        missing = operand.ndim - len(term.replace("...", ""))
        terms[i] = term.replace("...", "".join(map(str, range(missing - 1, -1, -1))))
    spelled = "".join(sorted({c for term in terms for c in term if c.isdigit()}, reverse=True))
    letters = "".join(terms)
    if not arrow:
        right = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and not c.isdigit()))
    return terms, right.replace("...", spelled)


def _einsum(dim: int, x: Tensor, args: tuple[Any, ...]) -> int | None:
    operands = list(tensors_in(args[1:]))
    terms, result = einsum_terms(args[0], operands)
    place = next(i for i, operand in enumerate(operands) if operand is x)
    found = result.find(terms[place][dim])
    return found if found >= 0 else None


def follow(
    name: str,
    function: Callable[..., Any],
    place: Place,
    x: Tensor,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
) -> Iterator[tuple[Tensor, Place]]:
    """The place of every tensor in ``result = function(*args, **kwargs)``, given that of one argument."""
    outputs = list(tensors_in(result))
    if place.packed is not None:
        yield from _follow_packed(name, place, x, args, outputs)
        return
    dim = place.dim
    if dim is None:
        yield from ((out, LOST) for out in outputs)
        return
    if name == "_pack_padded_sequence":
        yield outputs[0], replace(place, dim=None, packed=outputs[1])
        return
    if name == "index_select" and _argument(1, ("dim",), args, kwargs) % x.ndim == dim:
        yield outputs[0], _selected(place, x.shape[dim], _argument(2, ("index",), args, kwargs))
        return
    if name in SAME_ORDER:
        yield outputs[0], _same_order(place, dim, x, outputs[0])
        return
    index = args[1] if name == "__getitem__" else None
    parts = index if isinstance(index, tuple) else (index,)
    basic = name == "__getitem__" and not any(isinstance(p, (Tensor, list)) for p in parts)
    if name in VIEWS or basic:
        rest = tuple(arg for arg in args if arg is not x)
        yield from _view(place, x, lambda probe: function(probe, *rest, **kwargs), result)
        return
    for out in outputs:
        moved = _moved(name, dim, x, args, kwargs, out)
        yield (
            out,
            LOST if moved is None or out.shape[moved] % (2 * place.outer) else replace(place, dim=moved),
        )


def _moved(
    name: str, dim: int, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any], out: Tensor
) -> int | None:
    if name in REDUCTIONS:
        return _reduced(dim, x, args, kwargs)
    if name in ("matmul", "bmm", "mm"):
        return _matmul(dim, x, args, out)
    if name == "__getitem__":
        return _indexed(dim, x, args[1], out)
    if name == "einsum":
        return _einsum(dim, x, args)
    if name == "unfold":  # windows become a dimension of their own; a batch in front stays there
        return dim if dim == 0 and out.shape[0] == x.shape[0] else None
    if name == "stack":
        at = (_argument(1, ("dim",), args, kwargs) or 0) % out.ndim
        return dim + int(at <= dim)
    if name in ALONG:
        over = _argument(1, ("dim", "dims"), args, kwargs)
        along = {d % x.ndim for d in (over if isinstance(over, (list, tuple)) else (over,)) if d is not None}
        if dim in along:
            return None
    return _aligned(dim, x, out)


def _follow_packed(
    name: str, place: Place, x: Tensor, args: tuple[Any, ...], outputs: list[Tensor]
) -> Iterator[tuple[Tensor, Place]]:
    if name == "_pad_packed_sequence":
        yield outputs[0], replace(place, dim=0 if args[2] else 1, packed=None)
        return
    for out in outputs:
        yield out, place if out.shape[:1] == x.shape[:1] else LOST


class Tracker:
    """Which tensors depend on the doubled input, and where their batch is.

    The doubled input is any tensor that requires grad, is no parameter and was not computed under the rules.
    The results of a model's own autograd functions look the same, as torch does not show their calls: they are
    taken to have the batch in front, and ``strangers`` counts them.
    """

    def __init__(self) -> None:
        self._places: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
        self.strangers: Counter[str] = Counter()

    def place_of(self, value: Any) -> Place | None:
        """None for constants: parameters, masks, and whatever was computed from them alone."""
        if not isinstance(value, Tensor) or isinstance(value, torch.nn.Parameter):
            return None
        place, carried = self._places.get(value, (None, False))
        if value in self._places and (carried or not value.requires_grad):
            return cast(Place | None, place)
        if not (value.requires_grad and value.is_floating_point()):
            return None
        made_by: object = value.grad_fn
        if isinstance(made_by, BackwardCFunction):
            self.strangers[type(made_by).__name__.removesuffix("Backward")] += 1
        source = place or (Place(0) if value.ndim and value.shape[0] % 2 == 0 else LOST)
        self.note(value, source)
        return source

    def known(self, tensor: Tensor) -> bool:
        return tensor in self._places

    def note(self, tensor: Tensor, place: Place | None) -> None:
        self._places[tensor] = (place, tensor.requires_grad)

    def active(self, value: Any) -> bool:
        """Does this argument carry a change of the input, and a gradient back to it?"""
        return isinstance(value, Tensor) and value.requires_grad and self.place_of(value) is not None

    def axis(self, tensor: Tensor) -> Axis:
        """Where to cut an active tensor into inputs and references."""
        place = self.place_of(tensor)
        if place is None or place.dim is None or not place.regular:
            raise NoRuleError
        return Axis(place.dim - tensor.ndim, place.outer)

    def switches(self, tensor: Tensor) -> bool:
        """Constant to autograd (a comparison, an index, a detached value) yet changed by the input?"""
        place = self.place_of(tensor)
        if place is None or place.dim is None or not place.regular or tensor.requires_grad:
            return False
        return not torch.equal(*halves(tensor, Axis(place.dim - tensor.ndim, place.outer)))
