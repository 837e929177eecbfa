"""A tiny planted dataset on which everything trains in a second."""

from __future__ import annotations

import pytest

from rashomon.data import Dataset, load_dataset


@pytest.fixture(scope="session")
def planted() -> Dataset:
    sizes = {"train_size": 96, "dev_size": 32, "test_size": 32}
    return load_dataset("mock-5", seed=3, **sizes)
