"""Compiled kernels for Kendall's tau-b between all pairs of methods, and for the weighted tau.

A text of T tokens has T(T-1)/2 pairs of tokens, and a method orders each pair or ties it. Those answers are
kept as bits, 64 at a time: bit j of ``above[m, i]`` says that method m scores token i above token j. Two
methods agree on as many pairs as `above & above` has bits set. Each method is sorted once per text, however
many others it is compared with, and only one column of 64 tokens is in memory at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, prange, types
from numba.extending import intrinsic

from rashomon.measures.base import Floats, Ints
from rashomon.measures.threads import torch_threads


@intrinsic
def _popcount(_typing: Any, _word: Any) -> Any:
    """The processor's count of set bits, which numba has no name for."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@njit(nogil=True, cache=True)
def _fill_block(order, fresh, block, words):  # type: ignore[no-untyped-def]  # compiled
    """``words[i]``: tokens of the block that come strictly before token i in an order with ties."""
    seen = np.uint64(0)
    before = np.uint64(0)
    for place in range(len(order)):
        token = order[place]
        if fresh[place]:
            before = seen
        words[token] = before
        if token >> 6 == block:
            seen |= np.uint64(1) << np.uint64(token & 63)


@njit(nogil=True, cache=True)
def _common_bits(left, right):  # type: ignore[no-untyped-def]  # compiled
    total = np.uint64(0)
    for i in range(len(left)):
        total += _popcount(left[i] & right[i])  # type: ignore[call-arg]  # numba passes the context
    return np.int64(total)


@njit(nogil=True, cache=True)
def _sort_text(values, order, fresh):  # type: ignore[no-untyped-def]  # compiled
    """Sorts each method's scores; ``fresh`` marks where a new value begins. Returns untied pairs a method."""
    methods, tokens = values.shape
    untied = np.empty(methods, dtype=np.int64)
    for m in range(methods):
        order[m] = np.argsort(values[m])
        untied[m] = tokens * (tokens - 1) // 2
        run = 0
        for place in range(tokens):
            new = place == 0 or values[m, order[m, place]] != values[m, order[m, place - 1]]
            fresh[m, place] = new
            run = 0 if new else run + 1
            untied[m] -= run
    return untied


@njit(nogil=True, cache=True)
def _tau_text(values, out):  # type: ignore[no-untyped-def]  # compiled
    methods, tokens = values.shape
    order = np.empty((methods, tokens), dtype=np.int64)
    fresh = np.empty((methods, tokens), dtype=np.bool_)
    untied = _sort_text(values, order, fresh)
    pairs = tokens * (tokens - 1) // 2

    # the same order read from the other end; a group of ties begins where the forward group ended
    fresh_back = np.ones((methods, tokens), dtype=np.bool_)
    for m in range(methods):
        for place in range(1, tokens):
            fresh_back[m, place] = fresh[m, tokens - place]

    concordant = np.zeros((methods, methods), dtype=np.int64)
    discordant = np.zeros((methods, methods), dtype=np.int64)
    above = np.empty((methods, tokens), dtype=np.uint64)
    below = np.empty((methods, tokens), dtype=np.uint64)
    for block in range((tokens + 63) // 64):
        for m in range(methods):
            _fill_block(order[m], fresh[m], block, above[m])
            if untied[m] < pairs:
                _fill_block(order[m, ::-1], fresh_back[m], block, below[m])
        for a in range(methods):
            for b in range(a):
                concordant[a, b] += _common_bits(above[a], above[b])
                if untied[a] < pairs and untied[b] < pairs:
                    discordant[a, b] += _common_bits(above[a], below[b])

    for a in range(methods):
        out[a, a] = 1.0 if untied[a] > 0 else np.nan
        for b in range(a):
            against = discordant[a, b]
            if untied[a] == pairs:  # a pair untied in one method that ties nothing is for or against
                against = untied[b] - concordant[a, b]
            elif untied[b] == pairs:
                against = untied[a] - concordant[a, b]
            tau = np.nan
            if untied[a] > 0 and untied[b] > 0:
                tau = (concordant[a, b] - against) / np.sqrt(untied[a]) / np.sqrt(untied[b])
                tau = min(1.0, max(-1.0, tau))
            out[a, b] = tau
            out[b, a] = tau


@njit(parallel=True, nogil=True, cache=True)
def _tau_texts(values, starts, out):  # type: ignore[no-untyped-def]  # compiled
    for n in prange(len(starts) - 1):
        _tau_text(values[:, starts[n] : starts[n + 1]], out[:, :, n])


@njit(nogil=True, cache=True, fastmath={"reassoc"})
def _weighted_text(x, y, weight):  # type: ignore[no-untyped-def]  # compiled
    both, left, right = 0.0, 0.0, 0.0
    for i in range(len(x)):
        for j in range(i):
            w = weight[i] + weight[j]
            dx = 1.0 * (x[i] > x[j]) - 1.0 * (x[i] < x[j])
            dy = 1.0 * (y[i] > y[j]) - 1.0 * (y[i] < y[j])
            both += w * dx * dy
            left += w * dx * dx
            right += w * dy * dy
    if left == 0.0 or right == 0.0:
        return np.nan
    return min(1.0, max(-1.0, both / np.sqrt(left) / np.sqrt(right)))


@njit(parallel=True, nogil=True, cache=True)
def _weighted_texts(x, y, weight_x, weight_y, starts, out):  # type: ignore[no-untyped-def]  # compiled
    for n in prange(len(starts) - 1):
        lo, hi = starts[n], starts[n + 1]
        by_x = _weighted_text(x[lo:hi], y[lo:hi], weight_x[lo:hi])
        by_y = _weighted_text(x[lo:hi], y[lo:hi], weight_y[lo:hi])
        out[n] = (by_x + by_y) / 2


def tau_b(values: Floats, starts: Ints) -> Floats:
    """Tau-b of every pair of methods on every text: values [M, total] to [M, M, N]; NaN for constant rows."""
    methods = len(values)
    out = np.empty((methods, methods, len(starts) - 1))
    if out.size:
        with torch_threads():
            _tau_texts(np.ascontiguousarray(values), starts, out)
    return out


def weighted_tau(x: Floats, y: Floats, weight_x: Floats, weight_y: Floats, starts: Ints) -> Floats:
    """Tau with a pair weighted by the sum of its tokens' weights; the mean over the two weightings."""
    out = np.empty(len(starts) - 1)
    if out.size:
        with torch_threads():
            _weighted_texts(x, y, weight_x, weight_y, starts, out)
    return out
