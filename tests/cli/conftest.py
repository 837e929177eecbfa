"""Run commands in this process, as a user would type them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rashomon.cli.main import run


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


Command = Callable[..., Said]


@pytest.fixture
def rashomon(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """``rashomon("train", "--epochs", 1)`` with a store of its own and no datasets around."""
    monkeypatch.setenv("RASHOMON_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("RASHOMON_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def type_in(*words: object) -> Said:
        code = run([str(word) for word in words])
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return type_in


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    """A small CSV with its own column names."""
    path = tmp_path / "reviews.csv"
    good, bad = "a wonderful and moving film", "a dull and tedious film"
    lines = [f"{good} number {i},4" for i in range(20)] + [f"{bad} number {i},1" for i in range(20)]
    path.write_text("body,stars\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path
