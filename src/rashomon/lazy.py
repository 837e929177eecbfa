"""What makes the command start quickly: packages whose names are imported when first used, so that reading a setting's
default does not load torch, and a collector of garbage that keeps out of the way of what is loaded.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def load_quickly() -> None:
    """Look for garbage seldom: loading makes little of it and many objects, and looking takes a tenth of the time."""
    gc.set_threshold(50_000)


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """``__getattr__`` and ``__all__`` of a package whose names live in the modules that ``homes`` gives."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find, sorted(homes)
