"""How does a change of the input travel back through one operation? The difference rules themselves.

Every function here sees a *doubled* tensor: along its batch dimension the first half holds the inputs and the
second half their references. The value is the ordinary one; the gradient of the first half is replaced by a
multiplier that, times (input - reference), adds up exactly to the difference of the outputs, and the second
half gets none. This is DeepLIFT's rescale rule (Shrikumar et al., 2017, "Learning Important Features Through
Propagating Activation Differences") carried to products, which pass back averages because
``ab - a0b0 = (a-a0)(b+b0)/2 + (b-b0)(a+a0)/2``, and to what is made of both: softmax and normalisation.

Slopes are written without the subtraction f(x) - f(x0) wherever a closed form exists, because in float32 that
subtraction loses everything exactly where input and reference are close.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

Slope = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # x, x0, f(x), f(x0) -> slope between them


class Axis(NamedTuple):
    """Where a doubled tensor is split: the dimension, counted from the right, seen as [outer, 2, rest].

    ``outer`` is one unless something was put in front of the batch, as when both sides of a text pair become
    rows: [first sides of inputs, of references, second sides of inputs, of references].
    """

    dim: int
    outer: int = 1


def halves(x: Tensor, axis: Axis) -> tuple[Tensor, Tensor]:
    """Inputs and references."""
    dim, outer = axis
    if outer == 1:
        half = x.shape[dim] // 2
        return x.narrow(dim, 0, half), x.narrow(dim, half, half)
    first, second = x.unflatten(dim, (outer, 2, -1)).unbind(dim - 1)
    return first.flatten(dim - 1, dim), second.flatten(dim - 1, dim)


def middle(x: Tensor, axis: Axis) -> Tensor:
    """The average of inputs and references."""
    first, second = halves(x, axis)
    return (first + second) * 0.5


def inputs_only(gradient: Tensor, axis: Axis) -> Tensor:
    """The gradient of a doubled tensor: the references get none."""
    dim, outer = axis
    if outer == 1:
        return torch.cat([gradient, torch.zeros_like(gradient)], dim)
    split = gradient.unflatten(dim, (outer, -1))
    return torch.cat([split, torch.zeros_like(split)], dim).flatten(dim - 1, dim)


def decay_ratio(t: Tensor) -> Tensor:
    """(1 - exp(-t)) / t for t >= 0, one at t = 0 and where t is undefined (-inf minus -inf)."""
    return torch.where(t > 0, -torch.expm1(-t) / t, 1.0)


def tanh_ratio(t: Tensor) -> Tensor:
    """tanh(t) / t, one at t = 0."""
    return torch.where(t == 0, 1.0, torch.tanh(t) / t)


def exp_slope(a: Tensor, b: Tensor, fa: Tensor, fb: Tensor) -> Tensor:
    return torch.maximum(fa, fb) * decay_ratio((a - b).abs())


def log_slope(a: Tensor, b: Tensor, fa: Tensor, fb: Tensor) -> Tensor:
    return 1 / (torch.maximum(a, b) * decay_ratio((fa - fb).abs()))


def tanh_slope(a: Tensor, b: Tensor, fa: Tensor, fb: Tensor) -> Tensor:
    return tanh_ratio(a - b) * (1 - fa * fb)


def sigmoid_slope(a: Tensor, b: Tensor, fa: Tensor, fb: Tensor) -> Tensor:
    return tanh_ratio((a - b) * 0.5) * 0.5 * (fa * (1 - fb) + fb * (1 - fa))


def sqrt_slope(a: Tensor, b: Tensor, fa: Tensor, fb: Tensor) -> Tensor:
    total = fa + fb
    return torch.where(total > 0, 1 / total, 0.0)  # both zero: nothing changed, nothing to pass on


def power_slope(exponent: int) -> Slope:
    """(a^n - b^n) / (a - b) as the polynomial it is."""
    return lambda a, b, fa, fb: torch.stack(
        [a ** (exponent - 1 - i) * b**i for i in range(exponent)],
    ).sum(0)


CLOSED: dict[str, Slope] = {
    "exp": exp_slope,
    "expm1": lambda a, b, fa, fb: exp_slope(a, b, fa + 1, fb + 1),
    "log": log_slope,
    "log1p": lambda a, b, fa, fb: log_slope(a + 1, b + 1, fa, fb),
    "tanh": tanh_slope,
    "sigmoid": sigmoid_slope,
    "sqrt": sqrt_slope,
    "rsqrt": lambda a, b, fa, fb: -((fa * fb) ** 2) / (fa + fb),
    "reciprocal": lambda a, b, fa, fb: -fa * fb,
    "square": lambda a, b, fa, fb: a + b,
    "sin": lambda a, b, fa, fb: torch.cos((a + b) / 2) * torch.sinc((a - b) / (2 * torch.pi)),
    "cos": lambda a, b, fa, fb: -torch.sin((a + b) / 2) * torch.sinc((a - b) / (2 * torch.pi)),
}


def numeric_slope(function: Callable[[Tensor], Tensor], kind: str) -> Slope:
    """The quotient of differences, or the derivative at the midpoint where that would be rounding noise.

    Rounding costs eps/|d| of the slope, the midpoint d^2/24 of it, so a smooth function changes over at
    |d| = eps^(1/3), taken relative to the point for powers ("scaled"). A function with a corner at zero
    ("kinked") takes the midpoint only where both points lie on one side; one with corners elsewhere ("steps":
    its pieces are straight, so quotients are safe) only where rounding has eaten the difference.
    """

    def slope(a: Tensor, b: Tensor, fa: Tensor, fb: Tensor) -> Tensor:
        difference, point = a - b, (a + b) * 0.5
        eps = torch.finfo(a.dtype).eps
        match kind:
            case "straight":  # two straight pieces that meet at zero
                near = a * b > 0
            case "kinked":
                near = (difference.abs() < eps ** (1 / 3)) & (a * b > 0)
            case "steps":
                near = difference.abs() <= 4 * eps * point.abs()
            case "scaled":
                near = difference.abs() < eps ** (1 / 3) * point.abs()
            case _:
                near = difference.abs() < eps ** (1 / 3)
        near |= difference == 0
        result = (fa - fb) / difference
        with torch.enable_grad():
            at = point[near].detach().requires_grad_()
            result[near] = torch.autograd.grad(function(at).sum(), at)[0]
        return result

    return slope


NUMERIC: dict[str, str] = {
    **dict.fromkeys(("gelu", "silu", "mish", "softplus", "erf", "erfc", "log_sigmoid", "softsign"), "smooth"),
    **dict.fromkeys(("atan", "arctan", "sinh", "cosh", "asinh", "logit", "exp2"), "smooth"),
    **dict.fromkeys(("log2", "log10"), "scaled"),
    **dict.fromkeys(("relu", "leaky_relu", "abs", "absolute"), "straight"),
    **dict.fromkeys(("elu", "selu", "celu"), "kinked"),
    **dict.fromkeys(("clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "relu6", "threshold"), "steps"),
    **dict.fromkeys(("hardsigmoid", "hardswish", "softshrink"), "steps"),
}


class Elementwise(Function):
    """f(x), passing back the slope between input and reference."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, function: Callable[[Tensor], Tensor], slope: Slope, axis: Axis
    ) -> Tensor:
        y = function(x)
        ctx.save_for_backward(slope(*halves(x, axis), *halves(y, axis)))
        ctx.axis = axis
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (slope,) = ctx.saved_tensors
        return inputs_only(halves(gradient, ctx.axis)[0] * slope, ctx.axis), None, None, None


class Product(Function):
    """a * b of two activations whose batch dimension is ``axis``."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, axis: Axis) -> Tensor:
        ctx.save_for_backward(middle(a, axis), middle(b, axis))
        ctx.axis = axis
        return a * b

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b = ctx.saved_tensors
        g, axis = halves(gradient, ctx.axis)[0], ctx.axis
        return (
            inputs_only((g * b).sum_to_size(a.shape), axis),
            inputs_only((g * a).sum_to_size(b.shape), axis),
            None,
        )


class MatrixProduct(Function):
    """a @ b of two activations, the batch among their leading dimensions, counted from the right."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, axis: Axis) -> Tensor:
        ctx.save_for_backward(middle(a, axis), middle(b, axis))
        ctx.axis = axis
        return a @ b

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        a, b = ctx.saved_tensors
        g, axis = halves(gradient, ctx.axis)[0], ctx.axis
        to_a, to_b = (g @ b.mT).sum_to_size(a.shape), (a.mT @ g).sum_to_size(b.shape)
        return inputs_only(to_a, axis), inputs_only(to_b, axis), None


class Bilinear(Function):
    """Any function linear in each of two activations, with the batch dimensions of both and of the result."""

    @staticmethod
    def forward(
        ctx: Any,
        a: Tensor,
        b: Tensor,
        function: Callable[[Tensor, Tensor], Tensor],
        axes: tuple[Axis, Axis, Axis],
    ) -> Tensor:
        ctx.save_for_backward(middle(a, axes[0]), middle(b, axes[1]))
        ctx.function, ctx.axes = function, axes
        result = function(a, b)
        return result.clone() if result._is_view() else result  # a view could not be written to afterwards

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        a, b = (saved.detach().requires_grad_() for saved in ctx.saved_tensors)
        with torch.enable_grad():
            result = ctx.function(a, b)
        to_a, to_b = torch.autograd.grad(result, (a, b), halves(gradient, ctx.axes[2])[0])
        return inputs_only(to_a, ctx.axes[0]), inputs_only(to_b, ctx.axes[1]), None, None


class Linear(Function):
    """x @ W.T + b with constant W: the ordinary gradient, but not computed for the references' half."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, axis: Axis) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.axis = axis
        return torch.nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (weight,) = ctx.saved_tensors
        return inputs_only(halves(gradient, ctx.axis)[0] @ weight, ctx.axis), None, None, None


def log_sum_weights(a: Tensor, b: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Of L = log(sum(exp(x))): the difference L - L0 and the weights w with w . (x - x0) = L - L0.

    exp and log each pass back their secant; both are scaled by the larger sum, so nothing overflows.
    """
    total, total0 = a.logsumexp(dim, keepdim=True), b.logsumexp(dim, keepdim=True)
    change = total - total0
    scaled = torch.exp(torch.maximum(a, b) - torch.maximum(total, total0))
    return change, scaled * decay_ratio((a - b).abs()) / decay_ratio(change.abs())


class LogSumExp(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, over: int, batch: Axis) -> Tensor:
        """``over`` keeps its place with size one; ``batch`` is the batch dimension."""
        ctx.save_for_backward(log_sum_weights(*halves(x, batch), over)[1])
        ctx.batch = batch
        return x.logsumexp(over, keepdim=True)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (weights,) = ctx.saved_tensors
        return inputs_only(halves(gradient, ctx.batch)[0] * weights, ctx.batch), None, None


class Softmax(Function):
    """softmax(x) = exp(x - L), L = log(sum(exp(x))).

    The same as exp, sum and division, but with every factor bounded: dividing by two sums that differ by
    orders of magnitude (a peaked row against a flat reference) would cancel badly in float32.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, over: int, batch: Axis) -> Tensor:
        y = x.softmax(over)
        a, b = halves(x, batch)
        change, weights = log_sum_weights(a, b, over)
        slope = torch.maximum(*halves(y, batch)) * decay_ratio((a - b - change).abs())
        ctx.save_for_backward(slope, weights)
        ctx.over, ctx.batch = over, batch
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        slope, weights = ctx.saved_tensors
        to_log = halves(gradient, ctx.batch)[0] * slope
        return inputs_only(to_log - weights * to_log.sum(ctx.over, keepdim=True), ctx.batch), None, None


class Normalise(Function):
    """(x - mean) / sqrt(mean of squares + eps) over the last dimensions; without the mean for RMSNorm.

    Mean and sum are linear, the squares a product, the root has its secant, the quotient is a product.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, over: tuple[int, ...], eps: float, centre: bool, batch: Axis) -> Tensor:
        centred = x - x.mean(over, keepdim=True) if centre else x
        scale = (centred.square().mean(over, keepdim=True) + eps).rsqrt()
        r, r0 = halves(scale, batch)
        ctx.save_for_backward(middle(centred, batch), (r + r0) * 0.5, -((r * r0) ** 2) / (r + r0))
        ctx.over, ctx.centre, ctx.batch = over, centre, batch
        return centred * scale

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        centred, scale, slope = ctx.saved_tensors
        g = halves(gradient, ctx.batch)[0]
        to_square = (g * centred).mean(ctx.over, keepdim=True) * slope
        to_x = g * scale + centred * (2 * to_square)
        if ctx.centre:
            to_x = to_x - to_x.mean(ctx.over, keepdim=True)
        return inputs_only(to_x, ctx.batch), None, None, None, None


class Largest(Function):
    """The values at ``index`` along the last dimension, which are the largest of their row or window.

    The whole change goes to the winner of the half with the larger maximum (the rule of SHAP's and Captum's
    max-pooling). If that half is the input, y - y0 <= x_k - x0_k since x0_k <= y0, and likewise the other way
    round: the slope always exists and lies in [0, 1].
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, batch: Axis) -> Tensor:
        y = x.gather(-1, index)
        (a, b), (i, j), (fa, fb) = halves(x, batch), halves(index, batch), halves(y, batch)
        winner = torch.where(fa >= fb, i, j)
        change = a.gather(-1, winner) - b.gather(-1, winner)
        slope = torch.where(i == j, 1.0, torch.where(change == 0, 0.0, (fa - fb) / change))
        ctx.save_for_backward(winner, slope)
        ctx.batch, ctx.shape = batch, a.shape
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        winner, slope = ctx.saved_tensors
        g = halves(gradient, ctx.batch)[0] * slope
        return inputs_only(g.new_zeros(ctx.shape).scatter_add_(-1, winner, g), ctx.batch), None, None
