"""Kendall over all pairs of methods side by side with a SciPy loop, in one run.

6 methods on 500 texts are 15 pairs a text. Also intervals over seeds and texts against scipy.stats.bootstrap.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import combinations

import numpy as np
from scipy import stats

from rashomon.measures.agreement import kendall_matrix
from rashomon.measures.base import Ragged
from rashomon.measures.intervals import summarise_seed_columns


def timed(call: Callable[[], object], repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def compare_kendall(texts: int, methods: int, tokens: int) -> None:
    rng = np.random.default_rng(tokens)
    scores = rng.normal(size=(methods, texts, tokens))
    scores[::2] = np.round(scores[::2], 1)  # half of the methods have ties
    ragged = [Ragged.from_list(method) for method in scores]
    ours = timed(lambda: kendall_matrix(ragged), repeat=5)
    matrix = kendall_matrix(ragged)
    start = time.perf_counter()
    loop = {
        (a, b): [stats.kendalltau(scores[a, n], scores[b, n]).statistic for n in range(texts)]
        for a, b in combinations(range(methods), 2)
    }
    scipy = time.perf_counter() - start
    worst = max(np.abs(matrix[a, b] - values).max() for (a, b), values in loop.items())
    pairs = methods * (methods - 1) // 2
    print(
        f"kendall  {texts} texts x {pairs} pairs, {tokens:3d} tokens: ours {ours:.4f} s, "
        f"SciPy loop {scipy:.2f} s, {scipy / ours:.0f}x, max difference {worst:.1e}"
    )


def compare_intervals(seeds: int, texts: int, columns: int) -> None:
    values = np.random.default_rng(0).normal(size=(seeds, texts, columns))
    ours = timed(lambda: summarise_seed_columns(values), repeat=3) / columns
    flat = values[:, :, 0].ravel()
    scipy = timed(
        lambda: stats.bootstrap((flat,), np.mean, n_resamples=2000, method="percentile", rng=0), repeat=3
    )
    print(
        f"interval over {seeds} seeds x {texts} texts: ours {ours:.6f} s a column of {columns}, "
        f"SciPy's bootstrap over the values alone {scipy:.4f} s, {scipy / ours:.0f}x"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=500)
    parser.add_argument("--methods", type=int, default=6)
    options = parser.parse_args()
    start = time.perf_counter()
    kendall_matrix([Ragged.from_list([[1, 2, 3]])] * 2)
    print(f"compile or load from cache: {time.perf_counter() - start:.1f} s")
    for tokens in (20, 240):
        compare_kendall(options.texts, options.methods, tokens)
    compare_intervals(3, 500, 100)


if __name__ == "__main__":
    main()
