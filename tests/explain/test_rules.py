"""Do the multipliers add up, and are they DeepLIFT's? Against Captum, plain gradients and cells written out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.overrides import _get_current_function_mode_stack
from transformers import (
    AutoModelForSequenceClassification,
    BertConfig,
    DistilBertConfig,
    GPT2Config,
    LlamaConfig,
    RobertaConfig,
)

from rashomon.explain.rules import DifferenceRules, difference_rules

B, T, D = 4, 7, 10
Function = Callable[[Tensor], Tensor]


def inputs(seed: int = 0, batch: int = B, length: int = T, size: int = D) -> tuple[Tensor, Tensor]:
    """Inputs and references; equal at the first token, and nearly equal throughout in the second example."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, length, size, generator=generator)
    x0 = torch.randn(batch, length, size, generator=generator) * 0.5
    x0[1] = x[1] + 1e-4 * x0[1]
    x0[:, 0] = x[:, 0]
    return x, x0


def readout(y: Tensor) -> Tensor:
    """A fixed linear function of every example's values, one output each."""
    flat = y.flatten(1)
    weights = torch.randn(flat.shape[1], 1, generator=torch.Generator().manual_seed(1))
    return (flat @ weights).squeeze(1)


def multipliers(function: Function, x: Tensor, x0: Tensor) -> tuple[Tensor, Tensor, DifferenceRules]:
    doubled = torch.cat([x, x0]).requires_grad_()
    with difference_rules() as rules:
        out = function(doubled)
        (gradient,) = torch.autograd.grad(out[: len(x)].sum(), doubled)
    assert not gradient[len(x) :].any()
    assert gradient.isfinite().all()
    return gradient[: len(x)], out.detach(), rules


def gradient_of(function: Function, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(function(x).sum(), x)[0]


def relative_gap(total: Tensor, change: Tensor, floor: float) -> float:
    return float(((total - change).abs() / change.abs().clamp_min(floor)).max())


def assert_adds_up(
    function: Function, x: Tensor, x0: Tensor, tolerance: float = 1e-4, floor: float = 0.02
) -> DifferenceRules:
    """Completeness, the model's own values, and no operation left without a rule."""
    found, out, rules = multipliers(function, x, x0)
    with torch.no_grad():
        torch.testing.assert_close(out, function(torch.cat([x, x0])), rtol=1e-4, atol=1e-5)
    total = (found * (x - x0)).flatten(1).sum(1)
    assert relative_gap(total, out[: len(x)] - out[len(x) :], floor) < tolerance
    assert not rules.missing
    return rules


def on(function: Function) -> Function:
    return lambda d: readout(function(d))


def positive(function: Function) -> Function:
    return lambda d: readout(function(d.abs() + 0.1))


MASK = torch.zeros(2 * B, T, 1, dtype=torch.bool)
MASK[:, 5:] = True
SEEN = (~MASK[:, None, None, :, 0]).expand(2 * B, 1, T, T)
BLIND = SEEN.clone()
BLIND[:, :, 2] = False


def attention(d: Tensor, **options: Any) -> Tensor:
    heads = d.unflatten(-1, (2, D // 2)).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, **options)


def in_place(d: Tensor) -> Tensor:
    y = d * 2
    y *= d
    y /= d.abs() + 1
    y.tanh_()
    return F.elu(y, inplace=True)


OPERATIONS: dict[str, Function] = {
    **{n: on(getattr(torch, n)) for n in "exp expm1 tanh sigmoid square sin cos erf abs".split()},
    **{n: positive(getattr(torch, n)) for n in "log log1p log2 sqrt rsqrt reciprocal".split()},
    **{
        n: on(getattr(F, n))
        for n in """relu gelu silu mish softplus leaky_relu elu selu celu logsigmoid hardtanh relu6 hardsigmoid
        hardswish softsign tanhshrink softshrink""".split()
    },
    "gelu-tanh": on(lambda d: F.gelu(d, approximate="tanh")),
    "relu-in-place": on(lambda d: nn.ReLU(inplace=True)(d * 1)),
    "in-place": on(in_place),
    "pow": on(lambda d: d**3 + 2**d + (d.abs() + 1) ** 1.7 + (d.abs() + 1) ** -0.5 + d**2),
    "quotient": on(lambda d: d / (1 + d.exp()) + 1 / (1 + d * d)),
    "broadcast": on(lambda d: d * d.mean(1, keepdim=True) + d[:, :1] * d + d / d.exp().sum(-1, keepdim=True)),
    "clamp": on(lambda d: d.clamp(-0.5, 0.5) + d.clamp_min(0.1)),
    "softmax": on(lambda d: d.softmax(1) + F.softmax(d, dim=-1, dtype=torch.float32)),
    "softmax-masked": on(lambda d: d.masked_fill(MASK, -torch.inf).softmax(1) * d),
    "softmax-peaked": on(lambda d: (d * 50).softmax(1) * d),
    "softmax-shifted": on(lambda d: (d * d.sum(1, keepdim=True) * 20).softmax(1)),
    "log-softmax": on(lambda d: F.log_softmax(d, -1) + torch.logsumexp(d, 1, keepdim=True)),
    "layer-norm": on(lambda d: F.layer_norm(d, (D,)) + F.layer_norm(d, (T, D))),
    "rms-norm": on(lambda d: F.rms_norm(d, (D,))),
    "normalize": on(lambda d: F.normalize(d, dim=-1) + d.norm(dim=1, keepdim=True) + d.std(1, keepdim=True)),
    "cosine": lambda d: F.cosine_similarity(d[:, 0] + d[:, 1], d[:, 2], dim=-1),
    "max": on(lambda d: d.max(1).values + d.amax(1) + d.min(1)[0]),
    "max-last": on(lambda d: torch.max(d, dim=2)[0] + torch.max(d, d.tanh()).sum(-1)),
    "max-pool": on(lambda d: F.max_pool1d(d.mT, 3)),
    "adaptive-max-pool": on(lambda d: F.adaptive_max_pool1d(d.mT.tanh(), 2)),
    "matmul": on(lambda d: (d @ d.mT).softmax(-1) @ d),
    "bmm": on(lambda d: torch.bmm(torch.bmm(d, d.transpose(1, 2)), d)),
    "einsum": on(lambda d: torch.einsum("bts,b...d->btd", torch.einsum("btd,bsd->bts", d, d), d)),
    "sdpa": on(attention),
    "sdpa-causal": on(lambda d: attention(d, is_causal=True)),
    "sdpa-masked": on(lambda d: attention(d, attn_mask=SEEN)),
    "sdpa-blind-row": on(lambda d: attention(d, attn_mask=BLIND)),
    "pair-features": on(lambda d: torch.cat([(d[:, 1] + d[:, 3] - d[:, 2]).abs(), d[:, 1] * d[:, 2]], 1)),
    "time-first": on(lambda d: (d.transpose(0, 1).tanh() * d.transpose(0, 1)).softmax(0).permute(1, 2, 0)),
    "heads-in-batch": on(lambda d: d.view(2 * B, T, 2, -1).transpose(1, 2).reshape(4 * B, T, -1).tanh().view(2 * B, -1)),
    "time-times-batch": on(lambda d: d.transpose(0, 1).reshape(T * 2 * B, D).tanh().view(T, 2 * B, D).mean(0)),
    "linear-only": on(lambda d: d.cumsum(1) * 3 + d.flip(1)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_add_up(name: str) -> None:
    assert_adds_up(OPERATIONS[name], *inputs())


@pytest.mark.parametrize("name", OPERATIONS)
def test_a_vanishing_difference_gives_the_gradient(name: str) -> None:
    if name == "sdpa-blind-row":
        pytest.skip("torch's own gradient of a row that sees nothing is undefined")
    x = inputs()[0].double()
    function = OPERATIONS[name]
    widened: Function = lambda d: function_in_double(function, d)  # noqa: E731
    found, _, _ = multipliers(widened, x, x.clone())
    expected = gradient_of(widened, torch.cat([x, x]))[:B]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def function_in_double(function: Function, d: Tensor) -> Tensor:
    weights = torch.set_default_dtype
    weights(torch.float64)
    try:
        return function(d)
    finally:
        weights(torch.float32)
