"""How much of the output's change does every part of the input explain? DeepLIFT that adds up, on any model.

Inside ``difference_rules()`` a model runs unchanged on a doubled batch (inputs, then references). Every
nonlinear operation it calls, in modules or in functions, is given its difference rule (``operations``,
``secants``, ``recurrent_rules``), so that gradient x (input - reference) sums to the difference of outputs.
Captum's DeepLift knows registered modules only and has no rule for gates, softmax, GELU or LayerNorm: on
LSTMs and transformers it is gradient x difference and does not add up.

    with difference_rules() as rules:
        logits = model(doubled_batch, embeddings=doubled).logits
        multipliers = torch.autograd.grad(logits[:B, target].sum(), doubled)[0][:B]
    attribution = (multipliers * (x - x0)).sum(-1)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from rashomon.explainers.difference.decompositions import DECOMPOSED
from rashomon.explainers.difference.operations import LINEAR, RULES
from rashomon.explainers.difference.tracking import (
    LOST,
    NoRuleError,
    Place,
    Tracker,
    follow,
    names,
    tensors_in,
)

PAIRWISE = {"max": "maximum", "min": "minimum"}  # torch.max(a, b)

# Neither values nor gradients pass through these.
ASIDE = names(
    """
    size dim ndimension numel stride storage_offset is_floating_point is_complex is_contiguous element_size
    data_ptr get_device item tolist numpy __len__ __bool__ __float__ __int__ __index__ __contains__ __repr__
    __format__ __hash__ __set__ __deepcopy__ __reduce_ex__ register_hook backward grad equal allclose
    zeros_like ones_like full_like empty_like rand_like randn_like
    new_zeros new_ones new_full new_empty new_tensor
    """
)
# Layers of Python over the operations that do the work: rules belong to the latter.
PYTHON_LAYERS = frozenset(("torch.nn.functional", "torch.functional", "torch._tensor"))


def _never(*_: Any) -> bool:
    return False


@cache
def _opened(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """A Python-level torch function without its own dispatch, so that the operations inside it are seen."""
    if not isinstance(function, FunctionType) or function.__module__ not in PYTHON_LAYERS:
        return None
    if "handle_torch_function" not in function.__code__.co_names:
        return None
    checks = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
    scope = {**function.__globals__, **dict.fromkeys(checks, _never)}
    inner = FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, function.__closure__
    )
    inner.__kwdefaults__ = function.__kwdefaults__
    return inner


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a torch operation, whichever way it was reached."""

    name: str
    function: Callable[..., Any]  # as called
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    in_place: bool = False

    @property
    def plain(self) -> Callable[..., Any]:
        """The operation under its own name: never in place."""
        if getattr(self.function, "__name__", "") == self.name:
            return self.function
        found: Callable[..., Any] = getattr(torch, self.name, None) or getattr(F, self.name)
        return found

    def run(self) -> Any:
        return self.function(*self.args, **self.kwargs)


def _read(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    name = getattr(function, "__name__", type(function).__name__)
    if name == "__get__":  # a property such as .T
        name = getattr(function.__self__, "__name__", name)
    in_place = name.endswith("_") and not name.endswith("__") and name != "requires_grad_"
    name = name.removesuffix("_") if in_place else name
    if name in PAIRWISE and any(isinstance(arg, Tensor) for arg in (*args[1:], *kwargs.values())):
        name = PAIRWISE[name]
    return Call(name, function, args, kwargs, in_place)


class DifferenceRules(TorchFunctionMode):
    """The mode behind ``difference_rules``.

    ``applied`` counts, by operation, the rules used; ``missing`` the nonlinear operations without one, which
    pass back their ordinary gradient: where it is not empty, attributions need not add up.
    """

    def __init__(self) -> None:
        super().__init__()
        self.applied: Counter[str] = Counter()
        self._seen = Tracker()
        self.missing: Counter[str] = self._seen.strangers
        self._inside: list[Any] = []  # functions being run operation by operation

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        call = _read(func, args, kwargs or {})
        if call.name in ASIDE:
            return call.run()
        tracked = [t for t in tensors_in((args, call.kwargs)) if self._seen.place_of(t) is not None]
        if not tracked:
            return self._constant(call.run())
        inner = self._inner(call) if torch.is_grad_enabled() else None
        if inner is not None:
            self._inside.append(func)
            try:
                with self:
                    return inner(*args, **call.kwargs)
            finally:
                self._inside.pop()
        result = self._evaluate(call, tracked)
        self._follow(call, tracked, result)
        return result

    def _inner(self, call: Call) -> Callable[..., Any] | None:
        """What the operation is made of, to be run under the rules in its place."""
        if call.in_place or call.name in LINEAR or call.function in self._inside:
            return None
        return _opened(call.function) or DECOMPOSED.get(call.name)

    def _constant(self, result: Any) -> Any:
        """Computed from parameters alone: not to be taken for the doubled input, though it requires grad."""
        for out in tensors_in(result):
            if out.grad_fn is not None:
                self._seen.note(out, None)
        return result

    def _evaluate(self, call: Call, tracked: list[Tensor]) -> Any:
        if not torch.is_grad_enabled():
            return call.run()
        if call.name not in LINEAR and call.name not in RULES:
            result = call.run()
            self.missing.update([call.name] if any(out.requires_grad for out in tensors_in(result)) else [])
            return result
        try:
            result = self._by_rule(call, tracked)
        except NoRuleError:
            self.missing[call.name] += 1
            return call.run()
        if result is None:  # linear in the input, or without gradient
            return call.run()
        if call.name != "linear":
            self.applied[call.name] += 1
        if call.in_place:
            call.args[0].copy_(result)
            return call.args[0]
        return result

    def _by_rule(self, call: Call, tracked: list[Tensor]) -> Any:
        if not any(t.requires_grad for t in tracked):
            return None
        if any(self._seen.switches(t) for t in tracked):
            raise NoRuleError
        rule = RULES.get(call.name)
        return rule(self._seen, call.plain, *call.args, **call.kwargs) if rule else None

    def _follow(self, call: Call, tracked: list[Tensor], result: Any) -> None:
        """Note where the batch is in every result; the arguments must agree on it."""
        carriers = [t for t in tracked if t.requires_grad] or tracked
        found: dict[int, tuple[Tensor, Place]] = {}
        for x in carriers:
            place = self._seen.place_of(x) or LOST
            for out, at in follow(call.name, call.function, place, x, call.args, call.kwargs, result):
                earlier = found.get(id(out))
                agree = earlier is None or (earlier[1].dim == at.dim and earlier[1].order is at.order)
                found[id(out)] = (out, at if agree else LOST)
        for out, at in found.values():
            if not self._seen.known(out) or self._seen.place_of(out) is None:
                self._seen.note(out, at)


def difference_rules() -> DifferenceRules:
    """A context in which gradients are DeepLIFT multipliers; see the module's docstring."""
    return DifferenceRules()
