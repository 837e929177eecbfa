"""Compiled loops beside torch, which may share one OpenMP with them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numba
import torch


@contextmanager
def torch_threads() -> Iterator[None]:
    """Compiled loops take as many threads as torch, and torch has as many after as before.

    Where both share one OpenMP, numba sets its number of threads to its own; on a busy machine torch's small
    operations then take a thousand times as long, and its sums change in their last digits.
    """
    for_torch, for_numba = torch.get_num_threads(), numba.get_num_threads()
    numba.set_num_threads(min(for_torch, for_numba))
    try:
        yield
    finally:
        numba.set_num_threads(for_numba)
        torch.set_num_threads(for_torch)
