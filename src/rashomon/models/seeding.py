"""Initial weights that depend on a seed alone, and which numbers are seeds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from rashomon.errors import UserError


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """What torch draws on the CPU inside comes from ``seed``; the global state is left as it was."""
    # Only the CPU generator is set: torch.manual_seed would also reach the accelerators' for good.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield


def check_seeds(what: str, *seeds: int) -> None:
    for seed in seeds:
        if not 0 <= seed < 2**63:  # what torch's generators take
            raise UserError(f"{what} must be a whole number from 0 to 2^63 - 1, not {seed}.")
