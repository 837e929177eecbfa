from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from rashomon.errors import UserError
from rashomon.progress import progress, show_progress
from rashomon.runs import executor
from rashomon.runs.executor import _perform_in_worker, one_thread, run_tasks, start_workers


def train(seed: int) -> bytes:
    """The weights of a small attention model after some steps; with two threads they come out different."""
    generator = torch.Generator().manual_seed(seed)
    encoder = nn.LSTM(100, 128, batch_first=True, bidirectional=True)
    model = nn.ModuleList([encoder, nn.Embedding(500, 100), nn.Linear(256, 1), nn.Linear(256, 2)])
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-0.1, 0.1, generator=generator)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(5):
        hidden, _ = encoder(model[1](torch.randint(500, (32, 20), generator=generator)))
        pooled = (model[2](hidden).softmax(1) * hidden).sum(1)
        loss = model[3](pooled).logsumexp(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())


def slow_first(index: int) -> int:
    time.sleep(0.3 if index == 0 else 0.0)
    return index * index


def threads() -> tuple[int, str | None, int]:
    time.sleep(0.1)  # so that nobody does everything
    return torch.get_num_threads(), os.environ.get("TOKENIZERS_PARALLELISM"), os.getpid()


def fail(error: Exception) -> None:
    raise error


def die(unless: int) -> None:
    """A process that is killed, unless it is the one that runs the tests."""
    if os.getpid() != unless:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.5)


def nested() -> list[tuple[int, str | None, int]]:
    return run_tasks([threads, threads], workers=2)


def write_into(array: np.ndarray) -> float:
    array += 1.0
    return float(array.sum())


def test_same_bits_whatever_the_number_of_workers() -> None:
    tasks = [partial(train, seed) for seed in range(4)]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        one, two = run_tasks(tasks, workers=1), run_tasks(tasks, workers=2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert one == two == run_tasks(tasks, backend="serial")
    assert len(set(one)) == 4


def test_results_in_order_and_progress_as_it_comes() -> None:
    done: list[int] = []
    assert run_tasks([partial(slow_first, i) for i in range(6)], 2, on_done=done.append) == [
        0,
        1,
        4,
        9,
        16,
        25,
    ]
    assert sorted(done) == list(range(6))
    assert done[0] != 0
    done.clear()
    assert run_tasks([partial(slow_first, i) for i in range(3)], 1, on_done=done.append) == [0, 1, 4]
    assert done == [0, 1, 2]


def test_workers_are_processes_with_one_thread_each() -> None:
    before = os.environ.get("TOKENIZERS_PARALLELISM")
    answers = run_tasks([threads] * 8, workers=2)
    assert {(count, tokenizers) for count, tokenizers, _ in answers} == {(1, "false")}
    assert os.environ.get("TOKENIZERS_PARALLELISM") == before
    processes = {process for *_, process in answers}
    assert os.getpid() in processes  # which works too
    assert len(processes) == 2
    assert {process for *_, process in run_tasks([threads] * 2, workers=1)} == {os.getpid()}
    assert run_tasks([threads], workers=8)[0][2] == os.getpid()  # no more workers than tasks


def test_tasks_inside_tasks_stay_in_their_worker() -> None:
    (one, other), (third, fourth) = run_tasks([nested, nested], workers=2)
    assert one[2] == other[2] != third[2] == fourth[2]
    assert one[0] == third[0] == 1


def long_work() -> None:
    with progress("long work", 1) as advance:
        advance()


def test_workers_show_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        show_progress(True)  # as in a worker that has a terminal and has not heard of --quiet
        long_work()
        assert "long work" in capsys.readouterr().err
        _perform_in_worker(0, long_work)
        assert capsys.readouterr().err == ""
    finally:
        show_progress(False)


def test_arrays_may_be_written_to() -> None:
    arrays = [np.zeros(300_000) for _ in range(2)]  # above joblib's limit for sharing by file
    assert run_tasks([partial(write_into, array) for array in arrays], workers=2) == [300_000.0] * 2


def test_whoever_is_free_takes_the_next_task() -> None:
    """This process sleeps through its first task, and the other one does all the rest meanwhile."""
    answers = run_tasks([threads, partial(time.sleep, 3.0), *[threads] * 6], workers=2)
    assert os.getpid() not in {process for *_, process in answers[:1] + answers[2:]}


@pytest.mark.parametrize(
    ("workers", "error"),
    [(1, UserError("no such column")), (1, ZeroDivisionError("by zero")), (2, UserError("no such column"))],
)
def test_errors_keep_their_type_and_words(workers: int, error: Exception) -> None:
    tasks: list[Callable[[], object]] = [partial(slow_first, 1), partial(fail, error), partial(slow_first, 2)]
    with pytest.raises(type(error), match=str(error)):
        run_tasks(tasks, workers)
    assert run_tasks([partial(slow_first, 3)] * 2, workers) == [9, 9]  # and the next round works


def test_one_thread_is_undone_after_an_error() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert torch.get_num_threads() == 1
        with pytest.raises(ZeroDivisionError), one_thread():
            fail(ZeroDivisionError())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_killed_worker_is_told_in_a_sentence() -> None:
    with pytest.raises(UserError, match="worker process died"):
        run_tasks([partial(die, os.getpid())] * 2, workers=2)
    assert run_tasks([partial(slow_first, 3)] * 2, workers=2) == [9, 9]  # by a new worker


def test_wrong_requests() -> None:
    assert run_tasks([]) == []
    with pytest.raises(UserError, match="did you mean 'processes'"):
        run_tasks([threads], backend="process")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="at least 1"):
        run_tasks([threads], workers=0)


@pytest.mark.parametrize(("backend", "module"), [("ray", "ray.util.joblib"), ("dask", "distributed")])
def test_missing_backend_says_what_to_install(
    backend: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # importing it now fails
    with pytest.raises(UserError, match=rf"rashomon\[{backend}\]"):
        run_tasks([threads] * 2, backend=backend)  # type: ignore[arg-type]


def test_dask_starts_workers_of_its_own_where_there_are_none() -> None:
    """Ray does so in test_clusters.py, and keeps them."""
    pytest.importorskip("distributed")
    assert run_tasks([torch.get_num_threads], 1, "dask") == [1]


INTERRUPTED = """
import os, signal, sys, time
from functools import partial
from pathlib import Path
from rashomon.runs.executor import run_tasks

def sleep(folder):
    (Path(folder) / str(os.getpid())).touch()
    time.sleep(60)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits its being ignored
run_tasks([partial(sleep, sys.argv[1])] * 2, workers=2)
"""


def alive(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_interrupt_stops_the_workers(tmp_path: Path) -> None:
    parent = subprocess.Popen([sys.executable, "-c", INTERRUPTED, str(tmp_path)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(list(tmp_path.iterdir())) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = [int(path.name) for path in tmp_path.iterdir()]
    assert len(workers) == 2
    parent.send_signal(signal.SIGINT)  # to the parent alone, unlike Ctrl-C, which reaches the workers too
    assert parent.wait(40) != 0
    deadline = time.monotonic() + 10
    while any(map(alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, workers))


def knows(module: str) -> tuple[int, bool]:
    time.sleep(0.5)
    return os.getpid(), module in sys.modules


@pytest.mark.parametrize(("module", "there"), [("this", True), ("no_such_module", False)])
def test_workers_that_were_started_early_have_loaded_and_serve_the_next_tasks(
    module: str, there: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    executor.end_workers()
    start_workers(2, [module])
    answers = run_tasks([partial(knows, module)] * 6, workers=2)
    assert {known for process, known in answers if process != os.getpid()} == {there}
    assert "Traceback" not in capfd.readouterr().err  # what cannot be loaded is the business of the tasks
    executor.end_workers()


def test_few_tasks_end_none_of_the_workers(recwarn: pytest.WarningsRecorder) -> None:
    """Three processes load; two tasks need one of them, and neither wait for the others nor send them away."""
    executor.end_workers()
    start_workers(4, ["this"])
    assert run_tasks([partial(slow_first, 2)] * 2, workers=4) == [4, 4]
    processes = {process for _, _, process in run_tasks([threads] * 16, workers=4)}
    assert len(processes) == 4
    assert not [warning for warning in recwarn if "resize" in str(warning.message)]
    executor.end_workers()


def test_one_worker_is_not_started_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        executor, "get_reusable_executor", partial(fail, AssertionError("a process was started"))
    )
    start_workers(1, ["this"])
