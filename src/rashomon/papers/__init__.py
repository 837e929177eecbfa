"""What the papers published: one TOML a paper, to be set beside what is measured here."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from rashomon.errors import unknown_name


def papers() -> list[str]:
    """The papers whose figures are kept."""
    folder = files("rashomon.papers")
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


@cache
def published(paper: str) -> dict[str, Any]:
    """The figures of a paper by its short name (``attefa``, ``not_not``)."""
    if paper not in papers():
        raise unknown_name("paper", paper, papers())
    return tomllib.loads((files("rashomon.papers") / f"{paper}.toml").read_text(encoding="utf-8"))
