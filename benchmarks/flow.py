"""Attention flow side by side with SciPy's maximum_flow and networkx, in one run.

Seconds are for all targets of one text. The peers get their graph ready-made and are timed on some targets
only, and scaled up; ours is timed on the whole text, best of three, after compilation.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from rashomon.explainers.flow import attention_flow
from rashomon.models.attention import augmented

SCALE = 10**7  # SciPy's capacities are whole numbers of 32 bits


def random_layers(layers: int, heads: int, tokens: int, seed: int) -> NDArray[np.float64]:
    """Attention like a trained encoder's: softmax of noise, with tokens that all others look at."""
    rng = np.random.default_rng(seed)
    logits = 1.5 * rng.normal(size=(layers, heads, tokens, tokens))
    logits += 1.5 * rng.normal(size=(layers, heads, 1, tokens))
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    heads_sum_to_one = torch.from_numpy(weights / weights.sum(-1, keepdims=True))
    return augmented(heads_sum_to_one).numpy()


def scipy_graph(layers: NDArray[np.float64]) -> csr_array:
    count, tokens, _ = layers.shape
    rows, columns, values = [], [], []
    for level, matrix in enumerate(layers[::-1]):
        i, j = np.nonzero(matrix)
        rows.append(level * tokens + i)
        columns.append((level + 1) * tokens + j)
        values.append(np.round(matrix[i, j] * SCALE).astype(np.int32))
    size = (count + 1) * tokens
    parts = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    graph = csr_array(parts, shape=(size, size))
    graph.indices, graph.indptr = graph.indices.astype(np.int32), graph.indptr.astype(np.int32)
    return graph


def networkx_graph(layers: NDArray[np.float64]) -> nx.DiGraph:
    tokens = layers.shape[1]
    graph = nx.DiGraph()
    for level, matrix in enumerate(layers[::-1]):
        for i, j in zip(*np.nonzero(matrix), strict=True):
            graph.add_edge(
                level * tokens + int(i), (level + 1) * tokens + int(j), capacity=float(matrix[i, j])
            )
    return graph


def timed(call: Callable[[], object], repeat: int = 1) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--scipy-targets", type=int, default=8)
    parser.add_argument("--networkx-targets", type=int, default=1)
    options = parser.parse_args()

    start = time.perf_counter()
    attention_flow(random_layers(3, 2, 4, 0), 0)
    print(f"compile or load from cache: {time.perf_counter() - start:.1f} s")

    layers = random_layers(options.layers, 12, options.tokens, 0)
    ours = timed(lambda: attention_flow(layers, 0), repeat=3)
    flows = attention_flow(layers, 0)
    last = options.layers * options.tokens
    graph = scipy_graph(layers)
    targets = np.linspace(0, options.tokens - 1, options.scipy_targets).astype(int)
    found = [maximum_flow(graph, 0, last + int(t)).flow_value / SCALE for t in targets]
    scipy = timed(lambda: [maximum_flow(graph, 0, last + int(t)) for t in targets])
    scipy *= options.tokens / len(targets)
    slow_graph = networkx_graph(layers)
    targets_nx = np.linspace(1, options.tokens - 1, options.networkx_targets).astype(int)
    exact: list[float] = []
    networkx = timed(
        lambda: exact.extend(nx.maximum_flow_value(slow_graph, 0, last + int(t)) for t in targets_nx)
    )
    networkx *= options.tokens / len(targets_nx)

    print(f"{options.tokens} tokens, {options.layers} layers, all targets of one text")
    print(f"  ours      {ours:10.4f} s")
    print(
        f"  SciPy     {scipy:10.2f} s   {scipy / ours:9.0f}x   "
        f"max difference {np.abs(flows[targets] - found).max():.1e}"
    )
    print(
        f"  networkx  {networkx:10.1f} s   {networkx / ours:9.0f}x   "
        f"max difference {np.abs(flows[targets_nx] - exact).max():.1e}"
    )
    long = random_layers(6, 12, 240, 1)
    print(f"240 tokens, 6 layers: ours {timed(lambda: attention_flow(long, 0), repeat=3):.3f} s")


if __name__ == "__main__":
    main()
