"""How much attention can reach each input token? Rollout and exact attention flow over augmented attention.

Abnar & Zuidema, "Quantifying Attention Flow in Transformers" (2020), as paper *disagreement* uses it: heads
averaged, A = 0.5 A + 0.5 I, rows renormalised. Rollout multiplies the layers. Flow reads them as capacities
of a layered graph and asks, for each input token, for the maximum flow from the top to that token.

The maximum flow is Dinic's algorithm, compiled and cut to this graph. Every edge joins neighbouring
levels, so a residual network is one matrix a level. What makes it fast: labels come from a search
backwards from the target that only looks at nodes not yet labelled, which in a dense graph are soon none;
an amount is passed on by a node as a whole, not path by path; a node that found no way is not asked again
in the same round; and no last search is needed once the source is spent or the target full.
"""

from __future__ import annotations

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import ArrayLike, NDArray

from rashomon.errors import UserError

Floats = NDArray[np.float64]

EMPTY = 1e-12  # a residual capacity below this is none: it bounds the error by 1e-12 per edge of a cut


def _checked(layers: ArrayLike) -> Floats:
    matrices = np.ascontiguousarray(layers, dtype=np.float64)
    if matrices.ndim != 3 or matrices.shape[0] == 0 or matrices.shape[1] != matrices.shape[2]:
        raise UserError("Augmented attention has the shape [layers, tokens, tokens], lowest layer first.")
    if not np.isfinite(matrices).all() or (matrices < 0).any():
        raise UserError("Augmented attention must be finite and not negative.")
    return matrices


def attention_flow(layers: ArrayLike, source: int | ArrayLike) -> Floats:
    """For each input token, the maximum flow that reaches it from the top of the network, [T].

    ``layers`` [L, T, T], lowest first; rows are upper positions, columns lower ones. ``source`` is a top
    position (the classifier's token), or weights [T] of a readout over the top positions, which then are
    the capacities from one source to them.
    """
    matrices = _checked(layers)
    tokens = matrices.shape[1]
    if isinstance(source, int | np.integer):
        if not 0 <= source < tokens:
            raise UserError(f"The source position {source} is outside the text of {tokens} tokens.")
        weights, matrices = matrices[-1][source].copy(), matrices[:-1]
    else:
        weights = np.ascontiguousarray(source, dtype=np.float64)
        if weights.shape != (tokens,) or not np.isfinite(weights).all() or (weights < 0).any():
            raise UserError(f"Readout weights must be {tokens} finite numbers that are not negative.")
    if len(matrices) == 0:
        return np.asarray(weights)
    # from the source down: the levels between, and the lowest matrix, whose columns lead to the targets
    inner = np.ascontiguousarray(matrices[:0:-1])
    flows = np.empty(tokens)
    _flows(inner, weights, np.ascontiguousarray(matrices[0].T), 4 * get_num_threads(), flows)
    return flows


@njit(parallel=True, nogil=True, cache=True)
def _flows(inner, weights, columns, chunks, flows):  # type: ignore[no-untyped-def]  # compiled
    """Targets are dealt out to chunks; a chunk copies the capacities once and repairs what a target used."""
    tokens = len(weights)
    for chunk in prange(chunks):
        levels = inner.shape[0] + 1
        residual = inner.copy()
        touched = np.empty((levels, tokens), dtype=np.bool_)
        for target in range(chunk, tokens, chunks):
            touched[:] = False
            flows[target] = _max_flow(inner, residual, touched, weights, columns[target])
            for level in range(levels - 1):
                for i in range(tokens):
                    if touched[level, i]:
                        residual[level, i] = inner[level, i]


@njit(nogil=True, cache=True)
def _max_flow(inner, residual, touched, weights, column):  # type: ignore[no-untyped-def]  # compiled
    """Dinic: label distances to the target, fill all shortest paths, until none is left or a bound is met."""
    tokens = len(weights)
    levels = inner.shape[0] + 1
    supply, demand = weights.copy(), column.copy()
    bound = min(supply.sum(), demand.sum())
    distance = np.empty((levels, tokens), dtype=np.int64)
    arc = np.empty((levels, tokens), dtype=np.int64)
    path = np.empty((2, levels * tokens + 1), dtype=np.int64)
    amounts = np.empty(path.shape)
    waiting = np.empty((levels, tokens), dtype=np.int64)
    queue = np.empty(levels * tokens, dtype=np.int64)
    for level in range(levels):  # with nothing used yet, the distance is the level: no search needed
        distance[level] = levels - level
    total = 0.0
    while True:
        arc[:] = 0
        for node in range(tokens):
            if supply[node] > EMPTY and distance[0, node] > 0:
                total += _fill(inner, residual, touched, supply, demand, distance, arc, path, amounts, node)
        if total >= bound - EMPTY:
            return min(total, bound)
        if not _label(inner, residual, supply, demand, distance, waiting, queue):
            return total


@njit(nogil=True, cache=True)
def _label(inner, residual, supply, demand, distance, waiting, queue):  # type: ignore[no-untyped-def]  # compiled
    """Distances to the target in the residual network, 0 = out of reach; says whether the source is in reach.

    Nodes farther than the nearest one that the source can still feed are of no use and stay unlabelled.
    """
    levels, tokens = distance.shape
    distance[:] = 0
    counts = np.zeros(levels, dtype=np.int64)
    tail = 0
    for i in range(tokens):
        if demand[i] > EMPTY:
            distance[levels - 1, i] = 1
            queue[tail] = (levels - 1) * tokens + i
            tail += 1
        else:
            waiting[levels - 1, counts[levels - 1]] = i
            counts[levels - 1] += 1
    for level in range(levels - 1):
        for i in range(tokens):
            waiting[level, i] = i
        counts[level] = tokens
    head, nearest = 0, levels * tokens + 1
    while head < tail:
        level, node = queue[head] // tokens, queue[head] % tokens
        head += 1
        here = distance[level, node]
        if here > nearest:
            break
        if level == 0 and supply[node] > EMPTY:
            nearest = min(nearest, here)
        if here >= nearest:
            continue
        for other in (level - 1, level + 1):  # who can send here: above by capacity, below by return
            if other < 0 or other >= levels:
                continue
            left = 0
            for k in range(counts[other]):
                i = waiting[other, k]
                above = other < level
                room = residual[other, i, node] if above else inner[level, node, i] - residual[level, node, i]
                if room > EMPTY:
                    distance[other, i] = here + 1
                    queue[tail] = other * tokens + i
                    tail += 1
                else:
                    waiting[other, left] = i
                    left += 1
            counts[other] = left
    return nearest <= levels * tokens


@njit(nogil=True, cache=True)
def _fill(inner, residual, touched, supply, demand, distance, arc, path, amounts, start):  # type: ignore[no-untyped-def]  # compiled
    """Pushes what one fed node has along shortest paths, until it is spent or has no way left.

    Depth first. A node is handed an amount to pass on (``amounts[0]``) and reports what it could
    (``amounts[1]``), so an edge is updated once for all the paths through it.
    """
    depth = 0
    path[0, 0], path[1, 0] = 0, start
    amounts[0, 0], amounts[1, 0] = supply[start], 0.0
    while True:
        level, node = path[0, depth], path[1, depth]
        left = amounts[0, depth] - amounts[1, depth]
        if left > EMPTY:
            if distance[level, node] == 1:
                given = min(left, demand[node])
                amounts[1, depth] += given
                demand[node] -= given
                if demand[node] <= EMPTY:
                    distance[level, node] = 0
            elif _advance(inner, residual, distance, arc, path, depth):
                amounts[0, depth + 1] = min(left, _room(inner, residual, path, depth))
                amounts[1, depth + 1] = 0.0
                depth += 1
                continue
            else:
                distance[level, node] = 0  # no way left from here in this round: nobody needs to come again
        passed = amounts[1, depth]
        if depth == 0:
            supply[start] -= passed
            return passed
        depth -= 1
        if passed > 0.0:
            _push(residual, touched, path, depth, passed)
            amounts[1, depth] += passed


@njit(nogil=True, cache=True)
def _advance(inner, residual, distance, arc, path, depth):  # type: ignore[no-untyped-def]  # compiled
    """Finds the next node one step nearer to the target, from where this node's search last stopped."""
    levels, tokens = distance.shape
    level, node = path[0, depth], path[1, depth]
    wanted = distance[level, node] - 1
    position = arc[level, node]
    if level + 1 < levels:
        while position < tokens:
            if distance[level + 1, position] == wanted and residual[level, node, position] > EMPTY:
                arc[level, node] = position
                path[0, depth + 1], path[1, depth + 1] = level + 1, position
                return True
            position += 1
    position = max(position, tokens)  # arcs from here on go back up, against flow
    if level > 0:
        while position < 2 * tokens:
            other = position - tokens
            if distance[level - 1, other] == wanted and (
                inner[level - 1, other, node] - residual[level - 1, other, node] > EMPTY
            ):
                arc[level, node] = position
                path[0, depth + 1], path[1, depth + 1] = level - 1, other
                return True
            position += 1
    arc[level, node] = 2 * tokens
    return False


@njit(nogil=True, cache=True)
def _room(inner, residual, path, step):  # type: ignore[no-untyped-def]  # compiled
    """What the edge of a path can still take: capacity on the way down, returned flow on the way up."""
    level, node, other = path[0, step], path[1, step], path[1, step + 1]
    if path[0, step + 1] > level:
        return residual[level, node, other]
    return inner[level - 1, other, node] - residual[level - 1, other, node]


@njit(nogil=True, cache=True)
def _push(residual, touched, path, step, amount):  # type: ignore[no-untyped-def]  # compiled
    level, node, other = path[0, step], path[1, step], path[1, step + 1]
    if path[0, step + 1] > level:
        residual[level, node, other] -= amount
        touched[level, node] = True
    else:
        residual[level - 1, other, node] += amount
        touched[level - 1, other] = True
