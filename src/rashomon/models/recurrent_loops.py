"""The two loops over the steps of a bidirectional LSTM, compiled: forwards, and from its outputs back to scores.

Short loops over one row of one step each, because compilers give up on loops with many arrays; matrix products are
SciPy's BLAS. Calling from one step to the next inside compiled code is what makes single long texts quick: from outside
each step costs a dozen calls, whatever its size.

Arrays: ``flat`` [N, 2, 4H] is what distinct tokens add to the gates of both directions, ``first`` and ``second`` [B, T]
which of them stand at the ends of each token's line, ``shares`` [B, T] where between them it stands. States are those
of ``recurrence.States``. Constants are made in the arrays' own precision.
"""

# Compiled by the types of the arrays that they are given.
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # what np.dot is compiled to; loaded here, so that its threads are limited
from numba import njit

# Closer than this, a slope between two points is a series in their distance; beyond, a quotient of differences.
NEAR = 0.25
# tanh(x) = x P(x^2) / Q(x^2) up to 2e-8 for |x| <= 9 (beyond, it is 1 in single precision): a least-maximum fit.
EDGE = 9.0
P = (
    0.9999999063895423,
    0.1337319347094268,
    0.0034865767517015932,
    2.047174297644079e-05,
    1.318410055593519e-08,
)
Q = (1.0, 0.46706490343769186, 0.02584195992796722, 0.00032713768260644145, 7.702613267267272e-07)
# Sums may be taken in any order, and a division by zero is no exception: only so are loops vectorised.
COMPILED: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
}


@njit(**COMPILED)
def run_ahead(
    flat, first, second, shares, weights, lengths, before, gates, cells, tanhs, hidden, start, stop
):
    """Both directions over all tokens of the rows from ``start`` to ``stop``.

    Buffers of one step serve all where nobody goes back, and ``before`` may be empty. Outputs beyond a text's end are
    zero: the backward direction starts there, and its state stays zero until then.
    """
    rows, length = stop - start, shares.shape[1]
    size = cells.shape[3]
    kind = gates.dtype.type
    half, one, none = kind(0.5), kind(1), kind(0)
    kept = len(gates) == length
    outputs, entered = np.zeros((2, rows, size), gates.dtype), np.zeros((rows, 4 * size), gates.dtype)
    cells[0, :, start:stop] = none
    for t in range(length):
        s, old, new = (t, t, t + 1) if kept else (0, t % 2, (t + 1) % 2)
        for way in range(2):
            place = length - 1 - t if way else t
            np.dot(outputs[way], weights[way], entered)
            for b in range(start, stop):
                of_token = hidden[b, place, size:] if way else hidden[b, place, :size]
                output = outputs[way, b - start]
                if place >= lengths[b]:
                    cells[new, way, b] = none
                    output[:] = none
                    of_token[:] = none
                    continue
                gate, tanh, raw = gates[s, way, b], tanhs[s, way, b], entered[b - start]
                _enter(raw, flat[first[b, place], way], flat[second[b, place], way], shares[b, place])
                if len(before):
                    before[s, way, b] = raw
                _squash(raw, half, gate, half, half)  # a sigmoid
                _remember(gate, cells[old, way, b], cells[new, way, b])
                _squash(cells[new, way, b], one, tanh, one, none)
                _tell(gate[3 * size :], tanh, output, of_token)


@njit(**COMPILED)
def run_back(
    flat, first, second, before, gates, cells, tanhs, at, to, lengths, weights, to_hidden, scores, start, stop
):
    """Lead ``to_hidden`` [B, T, 2H] back to the gates, and add it up there times the difference of the lines' ends.

    ``at`` and ``to`` are each row's two runs among the states. Every function passes back its slope between them, every
    product the average of its other factor: DeepLIFT's rules. Where both are the same run, that is the gradient.
    """
    rows, length = stop - start, scores.shape[1]
    size = cells.shape[3]
    none = gates.dtype.type(0)
    came = np.zeros((rows, size), gates.dtype)
    memories, back = np.zeros((2, rows, size), gates.dtype), np.zeros((2, rows, 4 * size), gates.dtype)
    for t in range(length - 1, -1, -1):
        for way in range(2):
            place = length - 1 - t if way else t
            np.dot(back[way], weights[way], came)
            for b in range(start, stop):
                out, to_output, memory = back[way, b - start], came[b - start], memories[way, b - start]
                if place >= lengths[b]:
                    out[:] = none
                    memory[:] = none
                    continue
                _add(to_output, to_hidden[b, place, size:] if way else to_hidden[b, place, :size])
                m, n = at[b], to[b]
                gate, tanh, old = gates[t, way, m], tanhs[t, way, m], cells[t, way, m]
                if m == n:
                    _gradient(out, to_output, memory, gate, tanh, old)
                else:
                    _difference(
                        out, to_output, memory, before[t, way, m], before[t, way, n], gate, gates[t, way, n],
                        tanh, tanhs[t, way, n], old, cells[t, way, n], cells[t + 1, way, m], cells[t + 1, way, n],
                    )  # fmt: skip
                scores[b, place] += _apart(out, flat[first[b, place], way], flat[second[b, place], way])


# ---- one row of one step forwards


@njit(**COMPILED)
def _enter(entered, end, start, share):
    for k in range(len(entered)):
        entered[k] += start[k] + share * (end[k] - start[k])


@njit(**COMPILED)
def _squash(x, scale, out, times, plus):
    """``plus + times tanh(scale x)``."""
    kind = x.dtype.type
    if x.itemsize > 4:
        for k in range(len(x)):
            out[k] = plus + times * np.tanh(scale * x[k])
        return
    edge = kind(EDGE)
    for k in range(len(x)):
        v = min(max(scale * x[k], -edge), edge)
        y = v * v
        top = kind(P[0]) + y * (kind(P[1]) + y * (kind(P[2]) + y * (kind(P[3]) + y * kind(P[4]))))
        low = kind(Q[0]) + y * (kind(Q[1]) + y * (kind(Q[2]) + y * (kind(Q[3]) + y * kind(Q[4]))))
        out[k] = plus + times * v * top / low


@njit(**COMPILED)
def _remember(gate, old, new):
    """The cells after a step; the third gate is (tanh + 1) / 2."""
    one, two = gate.dtype.type(1), gate.dtype.type(2)
    size = len(new)
    i, f, g = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size]
    for k in range(size):
        new[k] = f[k] * old[k] + i[k] * (two * g[k] - one)


@njit(**COMPILED)
def _tell(gate, tanh, output, of_token):
    for k in range(len(output)):
        output[k] = gate[k] * tanh[k]
    for k in range(len(output)):
        of_token[k] = output[k]


# ---- one row of one step back: ``came`` to its output, ``memory`` to its cells (and on to those before it)


@njit(**COMPILED)
def _add(came, more):
    for k in range(len(came)):
        came[k] += more[k]


@njit(**COMPILED)
def _apart(out, end, start):
    total = out.dtype.type(0)
    for k in range(len(out)):
        total += out[k] * (end[k] - start[k])
    return total


@njit(**COMPILED)
def _gradient(out, came, memory, gate, tanh, old):
    one, two = out.dtype.type(1), out.dtype.type(2)
    size = len(memory)
    i, f, g, o = gate[:size], gate[size : 2 * size], gate[2 * size : 3 * size], gate[3 * size :]
    to_i, to_f, to_g, to_o = out[:size], out[size : 2 * size], out[2 * size : 3 * size], out[3 * size :]
    for k in range(size):
        memory[k] += came[k] * o[k] * (one - tanh[k] * tanh[k])
    for k in range(size):
        to_i[k] = memory[k] * (two * g[k] - one) * i[k] * (one - i[k])
    for k in range(size):
        to_f[k] = memory[k] * old[k] * f[k] * (one - f[k])
    for k in range(size):
        to_g[k] = memory[k] * two * i[k] * g[k] * (one - g[k])
    for k in range(size):
        to_o[k] = came[k] * tanh[k] * o[k] * (one - o[k])
    for k in range(size):
        memory[k] *= f[k]


@njit(**COMPILED)
def _difference(out, came, memory, x, y, p, q, tanh, other_tanh, old, other_old, new, other_new):
    """By DeepLIFT's rules: x and y before the gates' sigmoids, p and q after, cells before the step and after it."""
    kind = out.dtype.type
    half, none, one = kind(0.5), kind(0), kind(1)
    size = len(memory)
    i, f, g, o = slice(0, size), slice(size, 2 * size), slice(2 * size, 3 * size), slice(3 * size, 4 * size)
    _to_memory(memory, came, p[o], q[o], new, other_new, tanh, other_tanh)
    _gate(out[i], memory, p[g], q[g], one, -one, x[i], y[i], p[i], q[i])
    _gate(out[f], memory, old, other_old, half, none, x[f], y[f], p[f], q[f])
    _gate(out[g], memory, p[i], q[i], one, none, x[g], y[g], p[g], q[g])
    _gate(out[o], came, tanh, other_tanh, half, none, x[o], y[o], p[o], q[o])
    _forget(memory, p[f], q[f])


@njit(**COMPILED)
def _slopes(apart, one, other, near):
    """(tanh a - tanh b) / (a - b) from a - b and both tanhs: a series in a - b, or the quotient beyond ``near``."""
    kind = type(near)
    far = abs(apart) > near
    square = apart * apart
    inner = kind(2 / 15) + square * (kind(62 / 2835) * square - kind(17 / 315))
    series = (kind(1) + square * (kind(-1 / 3) + square * inner)) * (kind(1) - one * other)
    return (one - other) / apart if far else series


@njit(**COMPILED)
def _gate(out, came, first, second, scale, shift, x, y, p, q):
    """What comes to a gate: through its product, whose other factor is ``first`` and ``second``, and its sigmoid."""
    kind = out.dtype.type
    near = kind(NEAR)
    for k in range(len(out)):
        one, other = kind(2) * p[k] - kind(1), kind(2) * q[k] - kind(1)  # sigmoid(x) = (tanh(x / 2) + 1) / 2
        slope = kind(0.25) * _slopes(kind(0.5) * (x[k] - y[k]), one, other, near)
        out[k] = came[k] * (scale * (first[k] + second[k]) + shift) * slope


@njit(**COMPILED)
def _to_memory(memory, came, o, other_o, c, d, tanh, other_tanh):
    """Add to what comes to the cells what passes through their output."""
    kind = memory.dtype.type
    near = kind(NEAR)
    for k in range(len(memory)):
        slope = _slopes(c[k] - d[k], tanh[k], other_tanh[k], near)
        memory[k] += came[k] * kind(0.5) * (o[k] + other_o[k]) * slope


@njit(**COMPILED)
def _forget(memory, f, other_f):
    half = memory.dtype.type(0.5)
    for k in range(len(memory)):
        memory[k] *= half * (f[k] + other_f[k])
