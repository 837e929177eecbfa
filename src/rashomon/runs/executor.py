"""Many independent tasks (seeds, lambdas, datasets) at once, with the results of doing them one by one.

By default this process works, and others beside it (loky, which joblib brings); joblib takes the tasks to a Ray or
Dask cluster by name. Every task computes with one thread wherever it runs, also in this process, so that no sum is
taken in another order when the number of workers changes.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, Literal, TypeVar, get_args

import joblib
from joblib.externals.loky import get_reusable_executor
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from rashomon.errors import UserError, unknown_name
from rashomon.lazy import load_quickly
from rashomon.progress import show_progress, silence

T = TypeVar("T")
Backend = Literal["processes", "ray", "dask", "serial"]

# A worker has one core, and what reads these when it is loaded would start a thread for every core.
ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "BLIS", "NUMBA", "NUMEXPR")
} | {"VECLIB_MAXIMUM_THREADS": "1"}
IDLE_SECONDS = 300  # after which a process that waits for more work leaves
TOKENIZERS = "TOKENIZERS_PARALLELISM"  # their threads would compete with the other workers

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
    if backend == "serial" or _inside_task.get():
        outcomes = _in_this_process(tasks)
    elif backend == "processes":
        outcomes = _in_processes(tasks, min(usual_workers(workers), len(tasks)))
    else:
        outcomes = _in_cluster(tasks, workers, backend)
    results: dict[int, T] = {}
    with closing(outcomes):  # on an error or Ctrl-C here, the workers are stopped when the generator closes
        for index, result in outcomes:
            results[index] = result
            if on_done is not None:
                on_done(index)
    return [results[index] for index in range(len(tasks))]


def usual_workers(workers: int | None = None) -> int:
    """As many as were asked for, or as there are usable cores."""
    return workers or joblib.cpu_count()


def start_workers(workers: int | None, modules: Sequence[str]) -> None:
    """Let processes load what they will need while this one still loads its own; the next tasks find them ready."""
    others = usual_workers(workers) - 1
    if others and not _inside_task.get():
        for _ in range(others):
            _other_processes(others).submit(_load, modules)  # what is wrong with a module the tasks will say


def _load(modules: Sequence[str]) -> None:
    load_quickly()
    for module in modules:
        importlib.import_module(module)


def _other_processes(count: int) -> Executor:
    """At least so many processes beside this one, kept from one round of tasks to the next.

    There are never fewer than before: to end some that have loaded everything, and to wait for their tasks first, costs
    more than it saves. One that waited too long or has grown by some hundred megabytes leaves between two tasks and is
    replaced, which is no news to a user.
    """
    global _started
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor")
    _started = max(_started, count)
    others: Executor = get_reusable_executor(max_workers=_started, timeout=IDLE_SECONDS, env=ONE_THREAD)
    return others


_started = 0  # processes beside this one, since the last ones were ended


def end_workers() -> None:
    """Processes that wait for more work are ended at once: asked politely, they take seconds to leave."""
    global _started
    _started = 0
    loky = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = getattr(loky, "_executor", None)
    if executor is not None:
        patience = time.monotonic() + 1.0
        while not executor._work_ids.empty() and time.monotonic() < patience:
            time.sleep(0.01)  # a task on its way to a worker: its thread would stumble over one that is gone
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
    os.environ[TOKENIZERS] = "false"
    show_progress(False)  # bars of several workers would write over each other
    return _perform(index, task)


def _perform_beside_workers(index: int, task: Callable[[], T]) -> tuple[int, T]:
    """As in a worker, but only for as long as the task takes."""
    before = os.environ.get(TOKENIZERS)
    os.environ[TOKENIZERS] = "false"
    try:
        with silence():
            return _perform(index, task)
    finally:
        del os.environ[TOKENIZERS]
        if before is not None:
            os.environ[TOKENIZERS] = before


def _in_this_process(tasks: Sequence[Callable[[], T]]) -> Generator[tuple[int, T], None, None]:
    for index, task in enumerate(tasks):
        yield _perform(index, task)


def _in_processes(tasks: Sequence[Callable[[], T]], workers: int) -> Generator[tuple[int, T], None, None]:
    """This process and others beside it: whoever is free takes the next task."""
    if workers == 1:
        yield from _in_this_process(tasks)
        return
    waiting = deque(enumerate(tasks))
    ended: SimpleQueue[Future[tuple[int, T]]] = SimpleQueue()
    others = _other_processes(workers - 1)

    def hand_out(last: Future[tuple[int, T]] | None = None) -> None:
        """Give the next task to a process that is free, because it has not begun or ended its last one."""
        if last is not None:
            ended.put(last)
            if last.cancelled() or last.exception() is not None:
                return  # whoever takes it from the queue ends all
        try:
            index, task = waiting.popleft()
            others.submit(_perform_in_worker, index, task).add_done_callback(hand_out)
        except IndexError:
            pass  # none is left
        except Exception as error:  # nobody hears what a callback raises
            failed: Future[tuple[int, T]] = Future()
            failed.set_exception(error)
            ended.put(failed)

    def next_outcome() -> tuple[int, T]:
        if ended.empty():
            try:
                index, task = waiting.popleft()
            except IndexError:
                pass  # then there is nothing to do here but wait
            else:
                return _perform_beside_workers(index, task)
        return ended.get().result()

    try:
        for _ in range(workers - 1):
            hand_out()
        for _ in tasks:
            yield next_outcome()
    except BaseException as error:  # also when nobody wants the rest
        waiting.clear()
        end_workers()
        if isinstance(error, BrokenProcessPool):
            raise UserError("A worker process died, often for want of memory; use fewer workers.") from error
        raise


def _in_cluster(
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
        yield from parallel(
            joblib.delayed(_perform_in_worker)(index, task) for index, task in enumerate(tasks)
        )


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
    "ray": _ray,
    "dask": _dask,
}


def _optional(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        sentence = f'The backend {extra!r} is not installed; run: pip install "rashomon[{extra}]"'
        raise UserError(sentence) from error
