"""The papers' datasets where they are, and no influence of the machine's own settings."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("RASHOMON_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RASHOMON_DATA", raising=False)


@pytest.fixture
def shared_data() -> Path:
    if not (SHARED / "sst").is_dir():
        pytest.skip("the papers' datasets are absent: set RASHOMON_DATA or put them at ../shared/data")
    return SHARED
