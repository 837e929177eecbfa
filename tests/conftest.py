from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from rashomon.experiments import explanation_runs
from rashomon.experiments.context import Context
from rashomon.explainers import explainers
from rashomon.runs.store import Store
from rashomon.training.run import NewModel, TrainingRun
from tests.models.tiny import tiny_checkpoint
from tests.studies.planted import Constant, Oracle

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


# What may be skipped where every extra is installed: it makes no sense there, or needs what no package brings.
SKIPPED_RIGHTLY = (
    "refused",  # architectures that are not supported, and say so
    "the end of the text does not decide",
    "a mark behind the word keeps its place",
    "root may write everywhere",
    "the papers' datasets are",
    "needs a GPU",
    *(() if os.geteuid() == 0 else ("chromium",)),  # only root can install it
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _with_reason((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _with_reason((yield))


def _with_reason(report: Report) -> Report:
    """In CI a test that is skipped for want of a package is a failure of CI's."""
    reason = report.longrepr[2] if report.skipped and isinstance(report.longrepr, tuple) else ""
    if (
        reason
        and os.environ.get("RASHOMON_ALL_EXTRAS")
        and not any(map(reason.__contains__, SKIPPED_RIGHTLY))
    ):
        report.outcome = "failed"
        report.longrepr = f"Nothing should be missing here: {reason}"
    return report


@pytest.fixture(scope="session", autouse=True)
def _own_data_alone() -> Iterator[None]:
    """Whoever has a data folder has another lexicon in it, and so other planted texts than these tests know.

    Tests on the papers' datasets have read where they are when they were collected.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RASHOMON_DATA", raising=False)
        yield


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(Store(tmp_path / "store"), workers=1)


@pytest.fixture
def witnesses() -> Iterator[None]:
    """``oracle`` and ``constant`` among the explainers, for this test only."""
    added = {"oracle": Oracle, "constant": Constant}
    for name, kind in added.items():
        explainers.register(name)(kind)
    yield
    for name in added:
        del explainers._entries[name]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """``checkpoint("bert", labels=3)``: a folder, made once."""
    made: dict[tuple[str, int, bool], Path] = {}

    def make(kind: str, labels: int = 2, pair: bool = False) -> Path:
        key = (kind, labels, pair)
        if key not in made:
            made[key] = tiny_checkpoint(kind, tmp_path_factory.mktemp(kind) / "checkpoint", labels, pair)
        return made[key]

    return make


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The methods of every call of ``explain`` by a context."""
    calls: list[tuple[str, ...]] = []
    original = explanation_runs.explain

    def counted(model, examples, methods, **options):  # type: ignore[no-untyped-def]
        calls.append(tuple(method.name for method in methods))
        return original(model, examples, methods, **options)

    monkeypatch.setattr(explanation_runs, "explain", counted)
    return calls


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The attention weights and the seed of every base model that is trained in this process."""
    done: list[tuple[str, int]] = []
    make = TrainingRun.make

    def counted(run: TrainingRun, folder: Path) -> None:
        if isinstance(run.start, NewModel):
            done.append((run.start.spec.weights, run.seed))
        make(run, folder)

    monkeypatch.setattr(TrainingRun, "make", counted)
    return done
