"""Benchmarks are not run by the suite, but they must still find what they measure."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", BENCHMARKS, ids=lambda script: script.stem)
def test_a_benchmark_can_be_imported(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(script.parent))
    runpy.run_path(str(script), run_name="imported")
