"""The same tasks on Ray and on Dask, each started once: same answers, same sentences, same numbers of a study."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import torch

from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.registry import Entry
from rashomon.runs.executor import Backend, run_tasks
from rashomon.runs.specifications import from_plain, key
from rashomon.runs.store import Store
from rashomon.studies.necessity import Necessity
from tests.studies.planted import planted, subject_in


@pytest.fixture(scope="module", params=["ray", "dask"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Backend]:
    if request.param == "ray":
        ray = pytest.importorskip("ray")
        yield "ray"  # the first tasks start it
        ray.shutdown()
    else:
        distributed = pytest.importorskip("distributed")
        with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
            yield "dask"


@pytest.fixture(scope="module")
def on_processes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    return necessity(tmp_path_factory.mktemp("processes"), "processes")


def necessity(folder: Path, backend: Backend) -> dict[str, pd.DataFrame]:
    """The study's tables; two seeds with and without learned attention are four trainings."""
    context = Context(Store(folder), workers=2, backend=backend)
    return Necessity(subject_in(context, planted(), seeds=(0, 1))).run(context).tables


def test_results_in_order_with_one_thread_each(cluster: Backend) -> None:
    """With tasks from installed packages, for a cluster's workers cannot import this file."""
    tasks: list[Callable[[], object]] = [torch.get_num_threads, partial(key, {"a": 1}), torch.get_num_threads]
    assert run_tasks(tasks, 2, cluster) == [1, key({"a": 1}), 1]
    assert os.getpid() not in run_tasks([os.getpid] * 2, 2, cluster)


def test_errors_keep_their_words(cluster: Backend) -> None:
    with pytest.raises(UserError, match="must be a table"):
        run_tasks([partial(from_plain, Entry, 3)] * 2, 2, cluster)


def test_a_study_has_the_same_numbers(
    cluster: Backend, on_processes: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    there = necessity(tmp_path, cluster)
    assert there.keys() == on_processes.keys()
    for name, table in there.items():
        pd.testing.assert_frame_equal(table, on_processes[name], check_exact=True)
