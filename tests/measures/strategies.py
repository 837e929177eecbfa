"""Inputs for the tests of measures: pairs of scores, with ties, constants and short rows among them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from rashomon.measures.base import Ragged


@st.composite
def pairs(draw: st.DrawFn, smallest: int = 0, longest: int = 90) -> tuple[Ragged, Ragged]:
    """Two methods' scores on the same texts."""
    lengths = draw(st.lists(st.integers(smallest, longest), min_size=1, max_size=4))
    seed = draw(st.integers(0, 2**32 - 1))
    kinds = draw(st.tuples(*[st.sampled_from(["smooth", "tied", "sparse", "constant"])] * 2))
    rng = np.random.default_rng(seed)
    a, b = (Ragged.from_list([_row(rng, kind, n) for n in lengths]) for kind in kinds)
    return a, b


def _row(rng: np.random.Generator, kind: str, n: int) -> np.ndarray:
    if kind == "smooth":
        return rng.normal(size=n)
    if kind == "tied":
        return rng.integers(-2, 3, size=n).astype(float)
    if kind == "sparse":
        return rng.normal(size=n) * (rng.random(n) < 0.3)
    return np.full(n, rng.normal())
