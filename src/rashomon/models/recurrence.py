"""A bidirectional LSTM as it is explained on a processor: from what inputs add to its gates.

Explaining asks for the same few tokens in thousands of rows: on straight lines between a text and its reference, or
with some of them taken out. What an input adds to the gates is an affine map of that token alone, so it is computed
once for every distinct token (``entering``), lines stay straight under it, and a score, which is a gradient times a
difference, is the same on either side of it. torch's LSTM multiplies every row by the input weights again, which is
most of its work where embeddings are wide, and goes back to all weights.

Gates stand in the order i, f, g, o. The g of ``entering`` is doubled, because tanh(g) = 2 sigmoid(2g) - 1: one call of
the fast sigmoid serves all four. Matrix products and sigmoids are torch's, the rest is compiled.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd import Function
from torch.overrides import handle_torch_function, has_torch_function

# Closer than this, a slope between two points is a series in their distance; beyond, a quotient of differences.
NEAR = 0.25
MOST_SPARE = 2**27  # bytes that are kept for the next run
# Sums may be taken in any order, and a division by zero is no exception: only so are loops vectorised.
COMPILED: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


@dataclass(frozen=True, slots=True)
class Lines:
    """Straight lines from references to inputs, in the space that ``entering`` leads to.

    Token t of row b stands at ``others + share (inputs - others)``. The gradient of an output with respect to ``share``
    is a score: that of the token times the difference of the line's ends.
    """

    values: Tensor  # [U, T, E]: the distinct ends
    inputs: Tensor  # [B]: which row of them is a line's input
    others: Tensor  # [B]: which is its reference
    share: Tensor  # [B, T]


@dataclass(frozen=True, slots=True)
class Tabled:
    """Tokens as rows of a table: what each distinct one adds to the gates."""

    table: Tensor  # [V, E]
    index: Tensor  # [B, T]


def entering(ahead: nn.LSTM, back: nn.LSTM, embeddings: Tensor) -> Tensor:
    """What embeddings ``[..., D]`` add to the gates of both directions, ``[..., 8H]``."""
    # to the gates from inputs and from outputs, and both biases
    ways = [rnn.all_weights[0] for rnn in (ahead, back)]
    weights = torch.cat([way[0] for way in ways])
    biases = torch.cat([way[2] + way[3] for way in ways])
    scale = _doubled(weights)
    return nn.functional.linear(embeddings, weights * scale[:, None], biases * scale)


def recurring(ahead: nn.LSTM, back: nn.LSTM) -> Tensor:
    """What the last output adds to the gates: ``[2, 4H, H]``."""
    weights = torch.stack([rnn.all_weights[0][1] for rnn in (ahead, back)])
    return weights * _doubled(weights.flatten(0, 1)).view(2, -1, 1)


def _doubled(weights: Tensor) -> Tensor:
    scale = weights.new_ones(2, 4, len(weights) // 8)
    scale[:, 2] = 2
    return scale.flatten()


def suits(rnn: nn.Module) -> bool:
    """Whether this is the way to run it: a plain LSTM on a processor, in single or double precision, not learning."""
    if not isinstance(rnn, nn.LSTM) or rnn.training:
        return False
    if not rnn.bias or rnn.num_layers > 1 or rnn.bidirectional or rnn.proj_size:
        return False
    weight = rnn.all_weights[0][1]
    known = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)
    return known and not (torch.is_grad_enabled() and any(part.requires_grad for part in rnn.parameters()))


def along(share: Tensor, lines: Lines, weights: Tensor, lengths: Tensor) -> Tensor:
    """Hidden states ``[B, T, 2H]`` at points of lines; differentiable with respect to their shares."""
    if has_torch_function((share,)):  # difference rules put a rule of their own in its place
        return handle_torch_function(along, (share,), share, lines, weights, lengths)
    return cast(Tensor, _Along.apply(share, lines, weights, lengths))


def from_table(tokens: Tabled, weights: Tensor, lengths: Tensor) -> Tensor:
    """Hidden states ``[B, T, 2H]``, without a gradient."""
    ways = [part.contiguous() for part in tokens.table.chunk(2, -1)]

    def fill(way: int, t: int, out: Tensor) -> None:
        torch.index_select(ways[way], 0, tokens.index[:, t], out=out)

    return run(fill, tokens.index.shape, weights, lengths, kept=False)[0]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class States:
    """What a run leaves behind: of every step what going back through it needs. (Never its outputs: they hold it.)"""

    before: Tensor  # [T, 2, B, 4H]: gates before their sigmoid, or after, where only slopes at one point are asked for
    gates: Tensor  # [T, 2, B, 4H]: after it; the third is (tanh + 1) / 2
    cells: Tensor  # [T + 1, 2, B, H]
    tanhs: Tensor  # [T, 2, B, H]: of the cells after each step


def run(
    fill: Callable[[int, int, Tensor], None],
    shape: Sequence[int],
    weights: Tensor,
    lengths: Tensor,
    *,
    kept: bool = True,
    before: bool = False,
) -> tuple[Tensor, States]:
    """Both directions of so many rows and tokens at once: hidden states ``[B, T, 2H]``, and what going back needs.

    ``fill(way, t, out)`` writes what the inputs at t add to the gates of a direction. The backward direction starts at
    the end of the padding, and its state stays zero until its text begins.
    """
    rows, length = shape
    size = weights.shape[-1]
    steps = length if kept else 1  # without going back, one step's buffers serve all
    sizes = [(steps, 4), (steps if before else 0, 4), (steps + 1, 1), (steps, 1)]
    whole = _borrowed(sum(times * wide for times, wide in sizes) * 2 * rows * size, weights.dtype)
    parts = torch.from_numpy(whole).split([times * wide * 2 * rows * size for times, wide in sizes])
    after, raw, cells, tanhs = (
        part.view(-1, 2, rows, wide * size) for part, (_, wide) in zip(parts, sizes, strict=True)
    )
    raw = raw if before else after
    cells[0].zero_()
    hidden, h = weights.new_empty(rows, length, 2 * size), weights.new_zeros(2, rows, size)
    arrays = after.numpy(), cells.numpy(), tanhs.numpy(), h.numpy(), hidden.numpy(), lengths.numpy()
    turned = weights.transpose(1, 2)
    for t in range(length):
        s = t if kept else 0
        fill(0, t, raw[s, 0])
        fill(1, length - 1 - t, raw[s, 1])
        if t:
            raw[s].baddbmm_(h, turned)
        torch.sigmoid(raw[s], out=after[s])
        _remember(*arrays[:3], arrays[5], s, length - 1 - t)
        tanhs[s].sigmoid_()
        _tell(arrays[0], *arrays[2:5], s, t)
        if not kept:
            cells[0].copy_(cells[1])
    states = States(raw, after, cells, tanhs)
    weakref.finalize(states, _given_back, whole)
    return hidden, states


class _Spare(threading.local):
    """One buffer that outlives its run: touching new memory for the first time costs more than the arithmetic."""

    buffer: NDArray[Any] | None = None


_SPARE = _Spare()


def _borrowed(count: int, dtype: torch.dtype) -> NDArray[Any]:
    # A second run before the first is gone back through gets its own.
    spare, _SPARE.buffer = _SPARE.buffer, None
    kind = np.dtype(str(dtype).removeprefix("torch."))
    if spare is None or spare.dtype != kind or len(spare) < count:
        spare = np.empty(count, dtype=kind)
    return spare[:count]


def _given_back(part: NDArray[Any]) -> None:
    whole, known = cast(NDArray[Any], part.base), _SPARE.buffer
    if whole.nbytes <= MOST_SPARE and (known is None or len(known) < len(whole)):
        _SPARE.buffer = whole


class _Along(Function):
    @staticmethod
    def forward(ctx: Any, share: Tensor, lines: Lines, weights: Tensor, lengths: Tensor) -> Tensor:
        ends = line_ends(lines)
        shares = np.ascontiguousarray(share.detach().numpy())

        def fill(way: int, t: int, out: Tensor) -> None:
            _place(*ends, shares, way, t, out.numpy())

        wanted = ctx.needs_input_grad[0]
        hidden, states = run(fill, share.shape, weights, lengths, kept=wanted)
        ctx.states, ctx.ends, ctx.weights, ctx.lengths = (states if wanted else None), ends, weights, lengths
        return hidden

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (to_hidden,) = gradients
        rows = np.arange(len(to_hidden))
        scores = scores_back(ctx.states, ctx.ends, ctx.weights, ctx.lengths, rows, rows, to_hidden)
        return scores, None, None, None


Ends = tuple[Any, Any, Any]  # values [U, T, 2, 4H], which of them are inputs, which references


def line_ends(lines: Lines) -> Ends:
    """The lines as the compiled loops read them."""
    values = lines.values.detach().contiguous().numpy()
    return values.reshape(*values.shape[:2], 2, -1), lines.inputs.numpy(), lines.others.numpy()


def scores_back(
    states: States, ends: Ends, weights: Tensor, lengths: Tensor, at: Any, to: Any, to_hidden: Tensor
) -> Tensor:
    """Of each line, what comes back to its tokens times the difference of its ends: ``[B, T]``."""
    scores = weights.new_zeros(to_hidden.shape[:2])

    def take(way: int, t: int, part: Tensor) -> None:
        _score(*ends, way, t, part.numpy(), scores.numpy())

    go_back(states, weights, lengths, at, to, to_hidden, take)
    return scores


def go_back(
    states: States,
    weights: Tensor,
    lengths: Tensor,
    at: Any,
    to: Any,
    to_hidden: Tensor,
    take: Callable[[int, int, Tensor], None],
) -> None:
    """Lead ``to_hidden`` ``[B, T, 2H]`` back to the gates; ``take(way, t, part)`` is given what arrives ``[B, 4H]``.

    ``at`` and ``to`` are each row's two runs among the states. Every function passes back its slope between them, every
    product the average of its other factor: DeepLIFT's rules. Where both are the same run, that is the gradient.
    """
    (rows, length), size = to_hidden.shape[:2], weights.shape[-1]
    dh, dc = weights.new_empty(2, rows, size), weights.new_zeros(2, rows, size)
    back = weights.new_zeros(2, rows, 4 * size)
    kept = [part.numpy() for part in (states.before, states.gates, states.cells, states.tanhs)]
    arrays = dh.numpy(), dc.numpy(), back.numpy()
    for t in range(length - 1, -1, -1):
        dh[0].copy_(to_hidden[:, t, :size])
        dh[1].copy_(to_hidden[:, length - 1 - t, size:])
        if t < length - 1:
            dh.baddbmm_(back, weights)
        _step_back(*kept, at, to, lengths.numpy(), t, *arrays)
        take(0, t, back[0])
        take(1, length - 1 - t, back[1])


# ---- compiled loops; arrays as in ``States``, time t of the forward direction, constants in the arrays' own precision


@njit(**COMPILED)
def _place(values, inputs, others, shares, way, t, out):  # type: ignore[no-untyped-def]  # compiled
    """Points of lines."""
    for b in range(len(out)):
        share = shares[b, t]
        end, start, point = values[inputs[b], t, way], values[others[b], t, way], out[b]
        for k in range(len(point)):
            point[k] = start[k] + share * (end[k] - start[k])


@njit(**COMPILED)
def _score(values, inputs, others, way, t, part, scores):  # type: ignore[no-untyped-def]  # compiled
    """What came back to gates, times the difference of the lines' ends there."""
    for b in range(len(part)):
        end, start, came = values[inputs[b], t, way], values[others[b], t, way], part[b]
        total = scores.dtype.type(0)
        for k in range(len(came)):
            total += came[k] * (end[k] - start[k])
        scores[b, t] += total


@njit(**COMPILED)
def _remember(gates, cells, tanhs, lengths, s, place):  # type: ignore[no-untyped-def]  # compiled
    """The cells after a step, and twice as much for the sigmoid of their tanh; ``place`` is the backward one's."""
    two = gates.dtype.type(2)
    one = gates.dtype.type(1)
    size = cells.shape[3]
    for way in range(2):
        for b in range(cells.shape[2]):
            gate, old, new, twice = gates[s, way, b], cells[s, way, b], cells[s + 1, way, b], tanhs[s, way, b]
            if way == 1 and place >= lengths[b]:
                new[:] = 0
                twice[:] = 0
                continue
            for k in range(size):
                new[k] = gate[size + k] * old[k] + gate[k] * (two * gate[2 * size + k] - one)
                twice[k] = two * new[k]


@njit(**COMPILED)
def _tell(gates, tanhs, h, hidden, s, t):  # type: ignore[no-untyped-def]  # compiled
    """Tanh of the cells from its sigmoid, and the outputs."""
    two = gates.dtype.type(2)
    one = gates.dtype.type(1)
    size, last = h.shape[2], hidden.shape[1] - 1
    for way in range(2):
        for b in range(h.shape[1]):
            gate, tanh, out = gates[s, way, b], tanhs[s, way, b], h[way, b]
            told = hidden[b, last - t, size:] if way else hidden[b, t, :size]
            for k in range(size):
                tanh[k] = two * tanh[k] - one
                out[k] = gate[3 * size + k] * tanh[k]
                told[k] = out[k]


@njit(**COMPILED)
def _slopes(apart, one, other, near):  # type: ignore[no-untyped-def]  # compiled
    """(tanh a - tanh b) / (a - b) from a - b and both tanhs: a series in a - b, or the quotient beyond ``near``."""
    kind = type(near)
    far = abs(apart) > near
    square = apart * apart
    inner = kind(2 / 15) + square * (kind(62 / 2835) * square - kind(17 / 315))
    series = (kind(1) + square * (kind(-1 / 3) + square * inner)) * (kind(1) - one * other)
    return (one - other) / apart if far else series


@njit(**COMPILED)
def _gate(out, came, first, second, scale, shift, x, y, p, q):  # type: ignore[no-untyped-def]  # compiled
    """What comes to a gate: through its product, whose other factor is ``first`` and ``second``, and its sigmoid."""
    kind = out.dtype.type
    near = kind(NEAR)
    for k in range(len(out)):
        one, other = kind(2) * p[k] - kind(1), kind(2) * q[k] - kind(1)  # sigmoid(x) = (tanh(x / 2) + 1) / 2
        slope = kind(0.25) * _slopes(kind(0.5) * (x[k] - y[k]), one, other, near)
        out[k] = came[k] * (scale * (first[k] + second[k]) + shift) * slope


@njit(**COMPILED)
def _to_memory(memory, came, o, other_o, c, d, tanh, other_tanh):  # type: ignore[no-untyped-def]  # compiled
    """Add to what comes to the cells what passes through their output."""
    kind = memory.dtype.type
    near = kind(NEAR)
    for k in range(len(memory)):
        slope = _slopes(c[k] - d[k], tanh[k], other_tanh[k], near)
        memory[k] += came[k] * kind(0.5) * (o[k] + other_o[k]) * slope


@njit(**COMPILED)
def _forget(memory, f, other_f):  # type: ignore[no-untyped-def]  # compiled
    half = memory.dtype.type(0.5)
    for k in range(len(memory)):
        memory[k] *= half * (f[k] + other_f[k])


@njit(**COMPILED)
def _step_back(before, gates, cells, tanhs, at, to, lengths, t, dh, dc, back):  # type: ignore[no-untyped-def]  # compiled
    """One step of ``go_back``: from dh and dc after the step to the gates, and to dc before it.

    One loop for each thing that is written, because compilers give up on loops with many arrays.
    """
    kind = gates.dtype.type
    half, none, one = kind(0.5), kind(0), kind(1)
    size = dh.shape[2]
    i, f, g, o = slice(0, size), slice(size, 2 * size), slice(2 * size, 3 * size), slice(3 * size, 4 * size)
    place = len(gates) - 1 - t  # of the backward direction
    for way in range(2):
        for b in range(dh.shape[1]):
            out, came, memory = back[way, b], dh[way, b], dc[way, b]
            if way == 1 and place >= lengths[b]:
                out[:] = none
                memory[:] = none
                continue
            m, n = at[b], to[b]
            x, y, p, q = before[t, way, m], before[t, way, n], gates[t, way, m], gates[t, way, n]
            tanh, other = tanhs[t, way, m], tanhs[t, way, n]
            _to_memory(memory, came, p[o], q[o], cells[t + 1, way, m], cells[t + 1, way, n], tanh, other)
            _gate(out[i], memory, p[g], q[g], one, -one, x[i], y[i], p[i], q[i])
            _gate(out[f], memory, cells[t, way, m], cells[t, way, n], half, none, x[f], y[f], p[f], q[f])
            _gate(out[g], memory, p[i], q[i], one, none, x[g], y[g], p[g], q[g])
            _gate(out[o], came, tanh, other, half, none, x[o], y[o], p[o], q[o])
            _forget(memory, p[f], q[f])
