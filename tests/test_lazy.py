"""Packages whose names are imported when first used: all of them are there, and looking at a setting loads no torch."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest


@pytest.mark.parametrize("package", ["rashomon.models", "rashomon.training"])
def test_every_name_is_found(package: str) -> None:
    module = import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_settings_are_read_without_torch() -> None:
    script = (
        "import sys; from rashomon.models import ModelSpec; from rashomon.training import TrainingSpec;"
        "TrainingSpec(); sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'pandas')))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
