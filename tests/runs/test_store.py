from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from rashomon.errors import UserError
from rashomon.runs.files import (
    read_json,
    read_parquet,
    read_tensors,
    write_json,
    write_parquet,
    write_tensors,
)
from rashomon.runs.specifications import key
from rashomon.runs.store import Store, default_root

fork = multiprocessing.get_context("fork")  # children only touch files, and start in milliseconds


@dataclass(frozen=True)
class Spec:
    seed: int = 0
    steps: int = 4


SPEC = Spec()
RESULT = {"spec.json", "checkpoint.json", "sub/result.txt"}


def chain(folder: Path, log: Path, pause: float = 0.0) -> None:
    """Work of four steps with a checkpoint after each; ``log`` tells which steps were really done."""
    checkpoint = folder / "checkpoint.json"
    state = read_json(checkpoint) if checkpoint.exists() else {"step": 0, "value": "start"}
    while state["step"] < SPEC.steps:
        with log.open("a") as stream:
            stream.write(f"{state['step']}\n")
        time.sleep(pause)
        value = hashlib.sha256(state["value"].encode()).hexdigest()
        state = {"step": state["step"] + 1, "value": value}
        write_json(checkpoint, state)
    (folder / "sub").mkdir(exist_ok=True)
    (folder / "sub" / "result.txt").write_text(state["value"])


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the record of when and how long."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "meta.json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def run_chain(root: Path, log: Path, pause: float = 0.0) -> Path:
    return Store(root).run(SPEC, "chain", lambda folder: chain(folder, log, pause))


def run_and_die(root: Path, log: Path, operation: int) -> None:
    """Run until the given file operation, then die by SIGKILL just before it."""
    count = 0

    def deadly(function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            nonlocal count
            count += 1
            if count == operation:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return wrapped

    for module, names in ((os, ("fsync", "replace", "rename", "mkdir", "unlink")), (Path, ("open",))):
        for name in names:
            setattr(module, name, deadly(getattr(module, name)))
    run_chain(root, log)


def exit_code(target: Callable[..., object], *args: object) -> int | None:
    process = fork.Process(target=target, args=args)
    process.start()
    process.join(30)
    return process.exitcode


def test_killed_before_any_file_operation_and_started_again(tmp_path: Path) -> None:
    """Exhaustive: one store for each operation of an undisturbed run, killed there and continued."""
    expected = contents(run_chain(tmp_path / "calm", tmp_path / "calm.log"))
    kills = 0
    for operation in range(1, 1000):
        root, log = tmp_path / str(operation), tmp_path / f"{operation}.log"
        if exit_code(run_and_die, root, log, operation) == 0:
            break
        kills += 1
        if not (root / "chain" / key(SPEC)).exists():
            assert all(not info.finished for info in Store(root).list())
        final = run_chain(root, log)
        assert contents(final) == expected
        assert [path.name for path in final.parent.iterdir()] == [key(SPEC)]
        steps = log.read_text().split()  # at most the one step that was cut short is done again
        assert sorted(set(steps)) == ["0", "1", "2", "3"]
        assert len(steps) <= SPEC.steps + 1
    assert kills > 30


@pytest.mark.parametrize("delay", [0.02, 0.07, 0.13])
def test_killed_from_outside_at_any_time(tmp_path: Path, delay: float) -> None:
    expected = contents(run_chain(tmp_path / "calm", tmp_path / "calm.log"))
    root, log = tmp_path / "store", tmp_path / "log"
    attempts = 0
    while not (root / "chain" / key(SPEC)).is_dir():
        attempts += 1
        process = fork.Process(target=run_chain, args=(root, log, 0.04))
        process.start()
        time.sleep(delay + 0.01 * attempts)  # grows, so that a step is done at last
        process.kill()
        process.join()
    assert attempts > 1
    assert contents(run_chain(root, log)) == expected
    assert Store(root).list()[0].finished


def test_killed_between_the_record_and_the_rename(tmp_path: Path) -> None:
    """The work is not done again: a maker may have dropped its checkpoints at its end."""
    store = Store(tmp_path)
    final = run_chain(tmp_path, tmp_path / "log")
    final.rename(final.with_name(final.name + ".partial"))
    assert store.run(SPEC, "chain", lambda folder: pytest.fail("made twice")) == final


def test_two_processes_make_it_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    processes = [fork.Process(target=run_chain, args=(tmp_path / "store", log, 0.02)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    assert [process.exitcode for process in processes] == [0] * 4
    assert log.read_text().split() == ["0", "1", "2", "3"]


def test_a_waiting_process_takes_over_from_a_killed_one(tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = fork.Process(target=run_chain, args=(tmp_path / "store", log, 0.2))
    first.start()
    while not (log.exists() and len(log.read_text().split()) == 2):
        time.sleep(0.005)
    second = fork.Process(target=run_chain, args=(tmp_path / "store", log, 0.0))
    second.start()
    time.sleep(0.1)
    assert second.is_alive()
    first.kill()
    second.join(30)
    assert second.exitcode == 0
    assert log.read_text().split() == ["0", "1", "1", "2", "3"]


def test_finished_runs_are_not_made_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    calls: list[Path] = []
    first = store.run(SPEC, "thing", calls.append)
    assert store.run(Spec(), "thing", calls.append) == first == store.path(SPEC, "thing")
    assert len(calls) == 1
    other = store.run(Spec(seed=1), "thing", calls.append)
    assert other != first
    assert len(calls) == 2
    assert read_json(first / "spec.json") == {"seed": 0, "steps": 4}
    meta = read_json(first / "meta.json")
    assert (meta["kind"], meta["key"], meta["resumed"]) == ("thing", key(SPEC), False)
    assert meta["versions"]["rashomon"]
    assert meta["versions"]["torch"]


def test_a_maker_that_fails_leaves_no_finished_run(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def fail(folder: Path) -> None:
        (folder / "half").write_text("x")
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        store.run(SPEC, "thing", fail)
    assert not store.path(SPEC, "thing").exists()
    (info,) = store.list()
    assert not info.finished
    assert info.specification == {"seed": 0, "steps": 4}

    def go_on(folder: Path) -> None:
        assert (folder / "half").read_text() == "x"

    assert read_json(store.run(SPEC, "thing", go_on) / "meta.json")["resumed"]


def test_full_disk_is_told_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(UserError, match="is full"):
            run_chain(tmp_path, tmp_path / "log")
    assert contents(run_chain(tmp_path, tmp_path / "log")).keys() == RESULT


def test_unwritable_store_is_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=r"Cannot write to the run store .*file"):
            run_chain(root, tmp_path / "log")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_forbidden_store_is_told_in_a_sentence(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(UserError, match="Permission denied"):
            run_chain(tmp_path / "deep" / "store", tmp_path / "log")
    finally:
        tmp_path.chmod(0o700)


def test_the_makers_own_errors_pass(tmp_path: Path) -> None:
    def denied(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "denied", "/elsewhere/data.csv")

    with pytest.raises(PermissionError):
        Store(tmp_path / "store").run(SPEC, "thing", denied)


def test_list_show_remove(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    assert store.list() == []
    keys = []
    for seed in range(20):  # among twenty keys, two share their first digit
        store.run(Spec(seed), "thing", lambda folder: (folder / "data").write_bytes(b"x" * 1000) and None)
        keys.append(key(Spec(seed)))
    infos = store.list()
    assert {info.key for info in infos} == set(keys)
    assert [info.created for info in infos] == sorted((info.created for info in infos), reverse=True)
    assert all(info.finished and info.kind == "thing" and 1000 < info.bytes < 3000 for info in infos)
    shared = next(k[0] for k in keys if sum(other[0] == k[0] for other in keys) > 1)
    with pytest.raises(UserError, match="give more of the key"):
        store.show(shared)
    for bad in ("xyz", "", "thing2/"):
        with pytest.raises(UserError, match="No run"):
            store.remove(bad)
    assert store.show(f"thing/{keys[3]}").specification["seed"] == 3
    removed = store.remove(keys[3])
    assert removed.key == keys[3]
    assert not removed.path.exists()
    assert keys[3] not in {info.key for info in store.list()}
    assert not (store.root / ".trash").exists()


def test_two_kinds_may_share_a_key(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for kind in ("one", "two"):
        store.run(SPEC, kind, lambda folder: None)
    with pytest.raises(UserError, match="2 runs"):
        store.remove(key(SPEC))
    store.remove(f"one/{key(SPEC)}")
    assert [info.kind for info in store.list()] == ["two"]


def test_a_run_at_work_is_not_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def make(folder: Path) -> None:
        with pytest.raises(UserError, match="being made"):
            store.remove(key(SPEC))

    assert store.run(SPEC, "thing", make).is_dir()


def test_foreign_folders_are_not_runs(tmp_path: Path) -> None:
    (tmp_path / "photos" / "summer").mkdir(parents=True)
    assert Store(tmp_path).list() == []


def test_default_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RASHOMON_STORE", str(tmp_path))
    assert default_root() == Store().root == tmp_path
    monkeypatch.setenv("RASHOMON_STORE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert "rashomon" in default_root().parts


def test_files_round_trip(tmp_path: Path) -> None:
    data = {"a": [1, 2.5, None, "é"], "b": {"c": True}}
    write_json(tmp_path / "x.json", data)
    assert read_json(tmp_path / "x.json") == data
    write_json(tmp_path / "x.json", {"nan": float("nan"), "inf": (float("inf"),), "np": np.float32(0.5)})
    assert read_json(tmp_path / "x.json") == {"nan": None, "inf": [None], "np": 0.5}
    frame = pd.DataFrame({"text": ["a", None], "score": [0.1, float("nan")], "n": [1, 2]})
    write_parquet(tmp_path / "x.parquet", frame)
    pd.testing.assert_frame_equal(read_parquet(tmp_path / "x.parquet"), frame)
    weight = torch.arange(6.0).reshape(2, 3)
    tensors = {"w": weight, "tied": weight, "view": weight.T, "half": weight[0], "n": torch.tensor([1, 2])}
    write_tensors(tmp_path / "x.safetensors", tensors)
    loaded = read_tensors(tmp_path / "x.safetensors")
    assert loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)
    assert {path.name for path in tmp_path.iterdir()} == {"x.json", "x.parquet", "x.safetensors"}


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    write_json(path, {"old": 1})

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        write_json(path, {"new": 2})
    assert read_json(path) == {"old": 1}
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def flushed_before_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder is renamed only when each of its files was flushed, once."""
    flushed, fsync, rename = list[int](), os.fsync, Path.rename

    def noted(descriptor: int) -> None:
        flushed.append(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def only_when_flushed(self: Path, target: Path) -> Path:
        files = [path.stat().st_ino for path in self.rglob("*")]
        assert [flushed.count(inode) for inode in files] == [1] * len(files)
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(Path, "rename", only_when_flushed)


@pytest.mark.usefixtures("flushed_before_renamed")
def test_every_file_is_flushed_before_a_run_counts_as_finished(tmp_path: Path) -> None:
    """Also those of a run inside a run, which lie elsewhere than what the outer one flushes."""
    store = Store(tmp_path)

    def outer(folder: Path) -> None:
        write_json(folder / "first.json", 1)
        store.run({"of": "another"}, "inner", lambda inside: write_json(inside / "second.json", 2))
        (folder / "third.txt").write_text("by other means")

    store.run({}, "outer", outer)
    assert len(store.list()) == 2


@pytest.mark.usefixtures("flushed_before_renamed")
def test_what_died_before_it_was_flushed_is_flushed_by_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, made = Store(tmp_path), list[Path]()

    def make(folder: Path) -> None:
        made.append(folder)
        write_json(folder / "result.json", 1)

    def die(folder: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("rashomon.runs.store.sync_tree", die)
        with pytest.raises(KeyboardInterrupt):
            store.run({}, "models", make)
    store.run({}, "models", make)
    assert len(made) == 1, "its record was there, so that nothing is made again"
    assert store.list()[0].finished
