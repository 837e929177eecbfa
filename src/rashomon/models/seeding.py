"""Initial weights that depend on a seed alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """What torch draws on the CPU inside comes from ``seed``; the global state is left as it was."""
    # Only the CPU generator is set: torch.manual_seed would also reach the accelerators' for good.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
