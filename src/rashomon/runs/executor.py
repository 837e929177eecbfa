"""Many independent tasks (seeds, lambdas, datasets) at once, with the results of doing them one by one.

joblib does the work: processes on this machine by default, a Ray or Dask cluster by name. Every task computes
with one thread wherever it runs, also in this process, so that no sum is taken in another order when the
number of workers changes.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar, get_args

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from rashomon.errors import UserError, unknown_name
from rashomon.lazy import load_quickly
from rashomon.progress import show_progress

T = TypeVar("T")
Backend = Literal["processes", "ray", "dask", "serial"]

_inside_task: ContextVar[bool] = ContextVar("inside_task", default=False)


def run_tasks(
    tasks: Sequence[Callable[[], T]],
    workers: int | None = None,
    backend: Backend = "processes",
    on_done: Callable[[int], None] | None = None,
) -> list[T]:
    """The results of all tasks, in their order; the first error of a task ends the rest and is raised here.

    ``workers`` defaults to the usable cores (of the cluster, for Ray and Dask). ``on_done`` is told the index
    of each task as it ends (with Ray: when all have ended). Tasks inside tasks run one after the other.
    """
    check_backend(backend)
    if workers is not None and workers < 1:
        raise UserError(f"The number of workers must be at least 1, not {workers}.")
    if not tasks:
        return []
    here = backend == "serial" or _inside_task.get()
    if backend == "processes" and not here:
        workers = min(workers or joblib.cpu_count(), len(tasks))
        here = workers == 1
    outcomes = _in_this_process(tasks) if here else _in_workers(tasks, workers, backend)
    if _starting is not None:
        _starting.join()
    results: dict[int, T] = {}
    with closing(outcomes):  # on an error or Ctrl-C here, joblib stops its workers when the generator closes
        for index, result in outcomes:
            results[index] = result
            if on_done is not None:
                on_done(index)
    return [results[index] for index in range(len(tasks))]


def start_workers(workers: int | None, modules: Sequence[str]) -> None:
    """Let processes load what they will need while this one still loads its own; the next tasks find them ready."""
    global _starting
    count = workers or joblib.cpu_count()
    if count < 2 or _starting is not None or _inside_task.get():
        return
    _starting = threading.Thread(target=_start, args=(count, tuple(modules)), daemon=True)
    _starting.start()


def _start(count: int, modules: Sequence[str]) -> None:
    with suppress(Exception):  # whatever is wrong with a module or a worker, the tasks themselves will say
        list(_in_workers([partial(_load, modules)] * count, count, "processes"))


def _load(modules: Sequence[str]) -> None:
    load_quickly()
    for module in modules:
        importlib.import_module(module)


_starting: threading.Thread | None = None


def end_workers() -> None:
    """Processes that wait for more work are ended at once: asked politely, they take seconds to leave."""
    # Ended while they still load, they hold a folder that joblib then cannot delete; its tracker does so later.
    warnings.filterwarnings("ignore", "Failed to delete temporary folder")
    loky = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = getattr(loky, "_executor", None)
    if executor is not None:
        executor.shutdown(wait=True, kill_workers=True)


def check_backend(name: str) -> None:
    if name not in get_args(Backend):
        raise unknown_name("executor backend", name, get_args(Backend))


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch, BLAS and OpenMP use one thread inside, and what they used before afterwards."""
    import torch

    before = torch.get_num_threads()
    with _thread_pools(len(sys.modules)).limit(limits=1):
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _thread_pools(loaded: int) -> ThreadpoolController:
    """The libraries with threads of their own, looked for again when more is loaded: a look costs as much as a task."""
    return ThreadpoolController()


def _perform(index: int, task: Callable[[], T]) -> tuple[int, T]:
    token = _inside_task.set(True)
    try:
        with one_thread():
            return index, task()
    finally:
        _inside_task.reset(token)


def _perform_in_worker(index: int, task: Callable[[], T]) -> tuple[int, T]:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads would compete with the other workers
    show_progress(False)  # bars of several workers would write over each other
    return _perform(index, task)


def _in_this_process(tasks: Sequence[Callable[[], T]]) -> Generator[tuple[int, T], None, None]:
    for index, task in enumerate(tasks):
        yield _perform(index, task)


def _in_workers(
    tasks: Sequence[Callable[[], T]], workers: int | None, backend: Backend
) -> Generator[tuple[int, T], None, None]:
    with _BACKENDS[backend](workers):
        parallel = joblib.Parallel(
            n_jobs=workers or -1,
            batch_size=1,
            return_as="list"
            if backend == "ray"
            else "generator_unordered",  # Ray's joblib cannot do the latter
            mmap_mode="c",  # tasks may write to arrays they were given, as they may in this process
        )
        calls = (joblib.delayed(_perform_in_worker)(index, task) for index, task in enumerate(tasks))
        try:
            yield from parallel(calls)
        except TerminatedWorkerError as error:
            raise UserError("A worker process died, often for want of memory; use fewer workers.") from error


def _processes(workers: int | None) -> AbstractContextManager[Any]:
    config: AbstractContextManager[Any] = joblib.parallel_config(backend="loky", inner_max_num_threads=1)
    return config


def _ray(workers: int | None) -> AbstractContextManager[Any]:
    """The cluster of ``$RAY_ADDRESS`` or of an earlier ``ray.init``, else one on this machine."""
    _optional("ray.util.joblib", "ray").register_ray()
    config: AbstractContextManager[Any] = joblib.parallel_config(backend="ray")
    return config


@contextmanager
def _dask(workers: int | None) -> Iterator[None]:
    """The client in use, else the cluster of ``$DASK_SCHEDULER_ADDRESS``, else one on this machine."""
    distributed = _optional("distributed", "dask")
    try:
        client = nullcontext(distributed.default_client())  # stays open: it is not ours
    except ValueError:
        elsewhere = importlib.import_module("dask.config").get("scheduler-address", None)
        local = {"n_workers": workers, "threads_per_worker": 1}
        client = distributed.Client(**({} if elsewhere else local))
    with client, joblib.parallel_config(backend="dask"):
        yield


_BACKENDS: dict[str, Callable[[int | None], AbstractContextManager[Any]]] = {
    "processes": _processes,
    "ray": _ray,
    "dask": _dask,
}


def _optional(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        sentence = f'The backend {extra!r} is not installed; run: pip install "rashomon[{extra}]"'
        raise UserError(sentence) from error
