from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of small files are written, and no power fails here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
