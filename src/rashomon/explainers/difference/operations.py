"""Which rule does a torch operation get? The table from operation names to difference rules.

A rule is called like the operation, with the tracker and the plain operation in front. It returns the value
with the rule's gradient behind it, ``None`` where the call is linear in what depends on the input (a product
with a weight), or raises ``NoRuleError``. Operations that are neither here nor in ``LINEAR`` nor in
``decompositions`` count as missing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rashomon.explainers.difference.recurrent_rules import (
    along_rule,
    cell_rule,
    gru_direction,
    lstm_direction,
    sequence_rule,
)
from rashomon.explainers.difference.secants import (
    CLOSED,
    NUMERIC,
    Axis,
    Bilinear,
    Elementwise,
    Largest,
    Linear,
    LogSumExp,
    MatrixProduct,
    Normalise,
    Product,
    Softmax,
    numeric_slope,
    power_slope,
)
from rashomon.explainers.difference.tracking import NoRuleError, Tracker, einsum_terms, names

Plain = Callable[..., Any]
Rule = Callable[..., Any]


def _elementwise(name: str, seen: Tracker, plain: Plain, input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    if any(isinstance(arg, Tensor) for arg in (*args, *kwargs.values())):
        raise NoRuleError  # bounds that are tensors

    def function(values: Tensor) -> Tensor:
        return plain(values, *args, **kwargs)  # type: ignore[no-any-return]

    slope = CLOSED.get(name) or numeric_slope(function, NUMERIC[name])
    return Elementwise.apply(input, function, slope, seen.axis(input))  # type: ignore[no-any-return]


def _common_axis(seen: Tracker, a: Tensor, b: Tensor) -> Axis:
    axis = seen.axis(a)
    if seen.axis(b) != axis:
        raise NoRuleError
    return axis


def _product(seen: Tracker, plain: Plain, input: Any, other: Any) -> Any:
    if not (seen.active(input) and seen.active(other)):
        return None
    return Product.apply(input, other, _common_axis(seen, input, other))


def _quotient(
    seen: Tracker, plain: Plain, input: Any, other: Any, *, rounding_mode: str | None = None
) -> Any:
    if rounding_mode is not None:
        raise NoRuleError
    if not seen.active(other):
        return None
    inverse = Elementwise.apply(other, torch.reciprocal, CLOSED["reciprocal"], seen.axis(other))
    return (
        Product.apply(input, inverse, _common_axis(seen, input, other))
        if seen.active(input)
        else input * inverse
    )


def _power(seen: Tracker, plain: Plain, input: Any, exponent: Any) -> Any:
    if seen.active(exponent):
        if isinstance(input, Tensor) and (input.numel() > 1 or seen.active(input)):
            raise NoRuleError
        scale = math.log(float(input)) if input > 0 else math.nan
        return Elementwise.apply(exponent * scale, torch.exp, CLOSED["exp"], seen.axis(exponent))
    if isinstance(exponent, Tensor):
        if exponent.numel() > 1:
            raise NoRuleError
        exponent = exponent.item()
    if exponent in (0, 1):
        return None
    named = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}.get(exponent)
    if named:
        slope = CLOSED[named]
    elif exponent == int(exponent) and 2 <= exponent <= 8:
        slope = power_slope(int(exponent))
    else:
        slope = numeric_slope(lambda x: x**exponent, "scaled")
    return Elementwise.apply(input, lambda x: x**exponent, slope, seen.axis(input))


def _matmul(seen: Tracker, plain: Plain, a: Tensor, b: Tensor) -> Any:
    if not (seen.active(a) and seen.active(b)):
        return None
    axis = _common_axis(seen, a, b)
    if axis.dim > -3:
        raise NoRuleError  # rows of the batch meet one another
    return MatrixProduct.apply(a, b, axis)


def _einsum(seen: Tracker, plain: Plain, equation: str, *operands: Any) -> Any:
    flat = list(operands[0]) if isinstance(operands[0], (list, tuple)) else list(operands)
    active = [i for i, operand in enumerate(flat) if seen.active(operand)]
    if len(active) == 1:
        return None
    if len(active) > 2:
        raise NoRuleError
    terms, result = einsum_terms(equation, flat)
    axes = [seen.axis(flat[i]) for i in active]
    letters = {terms[i][axis.dim] for i, axis in zip(active, axes, strict=True)}
    if len(letters) != 1 or axes[0].outer != axes[1].outer or not letters <= set(result):
        raise NoRuleError
    place = Axis(result.index(letters.pop()) - len(result), axes[0].outer)

    def function(a: Tensor, b: Tensor) -> Tensor:
        filled = [{active[0]: a, active[1]: b}.get(i, operand) for i, operand in enumerate(flat)]
        return torch.einsum(equation, *filled)

    return Bilinear.apply(flat[active[0]], flat[active[1]], function, (*axes, place))


def _linear(seen: Tracker, plain: Plain, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    if seen.active(weight):
        raise NoRuleError
    place = seen.place_of(input)
    if (
        not seen.active(input)
        or seen.active(bias)
        or place is None
        or not place.regular
        or seen.axis(input).dim == -1
    ):
        return None
    return Linear.apply(input, weight, bias, seen.axis(input))


def _constant_weights(seen: Tracker, plain: Plain, input: Tensor, *weights: Any, **options: Any) -> None:
    """Convolutions, and batch norm with stored statistics."""
    if any(seen.active(weight) for weight in (*weights, *options.values())):
        raise NoRuleError


def _batch_norm(seen: Tracker, plain: Plain, input: Tensor, *args: Any) -> None:
    if args[4] or args[2] is None:  # training, or no stored mean
        raise NoRuleError


def _dropout(seen: Tracker, plain: Plain, input: Tensor, p: float = 0.5, train: bool = True) -> None:
    if train and p > 0:
        raise NoRuleError


def _over(x: Tensor, dim: int) -> int:
    return dim % x.ndim - x.ndim


def _softmax(
    seen: Tracker, plain: Plain, input: Tensor, dim: int, dtype: torch.dtype | None = None
) -> Tensor:
    batch = seen.axis(input)
    if _over(input, dim) == batch.dim:
        raise NoRuleError
    return Softmax.apply(input if dtype is None else input.to(dtype), _over(input, dim), batch)  # type: ignore[no-any-return]


def _logsumexp(seen: Tracker, plain: Plain, input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 1 or _over(input, dims[0]) == seen.axis(input).dim:
        raise NoRuleError
    result: Tensor = LogSumExp.apply(input, _over(input, dims[0]), seen.axis(input))
    return result if keepdim else result.squeeze(dims[0])


def _normalise(
    centre: bool,
    seen: Tracker,
    plain: Plain,
    input: Tensor,
    shape: Any,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> Tensor:
    over = tuple(range(-len(shape), 0))
    if seen.axis(input).dim in over or seen.active(weight) or seen.active(bias):
        raise NoRuleError
    y: Tensor = Normalise.apply(input, over, eps, centre, seen.axis(input))
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _layer_norm(
    seen: Tracker,
    plain: Plain,
    input: Tensor,
    shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Tensor:
    return _normalise(True, seen, plain, input, shape, weight, bias, eps)


def _rms_norm(
    seen: Tracker,
    plain: Plain,
    input: Tensor,
    shape: Any,
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    return _normalise(
        False, seen, plain, input, shape, weight, None, torch.finfo(input.dtype).eps if eps is None else eps
    )


def _extreme(
    sign: int, pair: Any, seen: Tracker, plain: Plain, input: Tensor, dim: Any = None, keepdim: bool = False
) -> Any:
    """max and min over one dimension; ``pair`` is the type that returns the index too."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim or ())
    batch = seen.axis(input)
    if len(dims) != 1 or _over(input, dims[0]) == batch.dim:
        raise NoRuleError
    over = _over(input, dims[0])
    rows = (input * sign).movedim(over, -1)
    index = rows.argmax(-1, keepdim=True)
    moved = (
        batch if batch.dim < over else batch._replace(dim=batch.dim - 1)
    )  # the reduced dimension has gone to the end
    values = (Largest.apply(rows, index, moved) * sign).movedim(-1, over)
    index = index.movedim(-1, over)
    if not keepdim:
        values, index = values.squeeze(over), index.squeeze(over)
    return values if pair is None else pair((values, index))


def _max_pool(spatial: int, seen: Tracker, plain: Plain, input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """Max pooling, also adaptive: the winners' indices count over the flattened spatial dimensions."""
    if (
        kwargs.pop("return_indices", False)
        or input.ndim != spatial + 2
        or seen.axis(input).dim != -input.ndim
    ):
        raise NoRuleError
    _, index = plain(input, *args, **kwargs, return_indices=True)
    flat = Largest.apply(input.flatten(2), index.flatten(2), seen.axis(input)._replace(dim=-3))
    return flat.view(index.shape)


RULES: dict[str, Rule] = {
    **{name: partial(_elementwise, name) for name in (*CLOSED, *NUMERIC)},
    **dict.fromkeys(("mul", "multiply"), _product),
    **dict.fromkeys(("div", "divide", "true_divide"), _quotient),
    "pow": _power,
    **dict.fromkeys(("matmul", "bmm", "mm"), _matmul),
    "einsum": _einsum,
    "linear": _linear,
    **dict.fromkeys(
        ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d"), _constant_weights
    ),
    "batch_norm": _batch_norm,
    **dict.fromkeys(("dropout", "alpha_dropout", "feature_dropout"), _dropout),
    "softmax": _softmax,
    "logsumexp": _logsumexp,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "max": partial(_extreme, 1, torch.return_types.max),
    "amax": partial(_extreme, 1, None),
    "min": partial(_extreme, -1, torch.return_types.min),
    "amin": partial(_extreme, -1, None),
    **{f"{kind}max_pool{n}d": partial(_max_pool, n) for kind in ("", "adaptive_") for n in (1, 2)},
    "along": along_rule,
    "lstm": lambda seen, plain, *args: sequence_rule(lstm_direction, seen, *args),
    "gru": lambda seen, plain, *args: sequence_rule(gru_direction, seen, *args),
    "lstm_cell": lambda seen, plain, *args: cell_rule(lstm_direction, seen, *args),
    "gru_cell": lambda seen, plain, *args: cell_rule(gru_direction, seen, *args),
}

LINEAR = names(
    """
    add sub subtract rsub neg negative positive sum mean cumsum cat concat concatenate stack hstack vstack
    view reshape flatten unflatten unsqueeze squeeze view_as reshape_as contiguous clone detach to type
    type_as float double half bfloat16 cpu cuda transpose permute movedim moveaxis swapaxes swapdims t T mT
    select narrow unbind split split_with_sizes tensor_split chunk expand expand_as broadcast_to repeat tile
    repeat_interleave __getitem__ __setitem__ index_select gather take_along_dim masked_select index_add
    index_copy index_put scatter scatter_add masked_fill fill where copy zero flip roll pad constant_pad_nd
    tril triu diagonal unfold avg_pool1d avg_pool2d adaptive_avg_pool1d embedding requires_grad_ retain_grad
    data _pack_padded_sequence _pad_packed_sequence fft_fft fft_fft2 fft_fftn real
    """
)
