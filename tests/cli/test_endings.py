"""How the command ends, in a process of its own: quickly when something is missing, cleanly when it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
COMMAND = [sys.executable, "-m", "rashomon"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "RASHOMON_STORE": str(tmp_path / "store")}


@pytest.mark.parametrize(
    "typed",
    [
        "train --data nowhere.csv",
        "audit --data nowhere.csv",
        "audit --out file",
        "audit --explanations nowhere.parquet",
        "explain text --embeddings nowhere.npz",
        "explain --data nowhere.csv",
        "explain text --model ./nowhere",
        "study agreement --config nowhere.toml",
        "study agreement --explanations nowhere.parquet",
        "data show --data nowhere.csv",
        "train --workers 0",
    ],
)
def test_what_is_missing_is_told_before_anything_slow_is_imported(
    typed: str, environment: dict[str, str], tmp_path: Path
) -> None:
    """Torch, pandas and Arrow take seconds; without them the answer is there in half of one."""
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    script = (
        "import sys; from rashomon.cli.main import run; code = run(sys.argv[1:]);"
        "print([n for n in ('torch', 'pandas', 'pyarrow') if n in sys.modules], code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *typed.split()],
        env=environment, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[] 2\n", done
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("typed", ["--help", "runs list", "runs list --json"])
def test_a_reader_that_has_seen_enough_is_no_failure(typed: str, environment: dict[str, str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)  # as `head` does once it is done
    with os.fdopen(writing, "w") as closed:
        done = subprocess.run(
            [*COMMAND, *typed.split()], env=environment, stdout=closed, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (0, "")


def test_terminals_without_our_letters(environment: dict[str, str], tmp_path: Path) -> None:
    text = "un café 😀"
    (tmp_path / "data.csv").write_text(f"text,label\n{text},1\na grey day,0\n", encoding="utf-8")
    show = [*COMMAND, "data", "show", "--data", "data.csv"]
    ascii_only = {**environment, "PYTHONIOENCODING": "ascii"}
    for_programs = subprocess.run([*show, "--json"], env=ascii_only, cwd=tmp_path, capture_output=True)
    assert for_programs.returncode == 0, for_programs.stderr
    assert json.loads(for_programs.stdout.decode("ascii"))["rows"][0]["text"] == text
    for_people = subprocess.run(show, env=ascii_only, cwd=tmp_path, capture_output=True)
    assert for_people.returncode == 0, for_people.stderr
    assert b"un caf\\xe9" in for_people.stdout


@pytest.mark.parametrize(
    "module", ["rashomon.cli.main", "typer", "rich.console", "rashomon.cli.study", "torch"]
)
def test_interrupted_while_it_is_still_starting(module: str, environment: dict[str, str]) -> None:
    """Ctrl-C at the moment when a module is about to be imported."""
    script = f"""
import os, runpy, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["rashomon", "list", "explainers"]
runpy.run_module("rashomon", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 130, done
    assert done.stderr.startswith("rashomon: Interrupted.")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_being_terminated_ends_the_workers_too(
    environment: dict[str, str], tmp_path: Path, reviews: Path
) -> None:
    small = "--text-column body --label-column stars --encoder mlp --hidden 4 --epochs 100000 --patience none"
    words = [*COMMAND, "train", "--data", str(reviews), *small.split()]
    words += ["--seed", "0", "--seed", "1", "--workers", "2"]
    running = subprocess.Popen(
        words, env=environment, cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    try:
        _wait_for(lambda: len(list(tmp_path.glob("store/models/*.partial/checkpoint.safetensors"))) == 2)
        os.kill(running.pid, signal.SIGTERM)
        _, said = running.communicate(timeout=60)
        assert running.returncode == 143, said
        assert "Finished work is kept" in said
        assert "Traceback" not in said
        _wait_for(lambda: not _session(running.pid), seconds=20)
    finally:
        for process in _session(running.pid):
            os.kill(process, signal.SIGKILL)


def _session(leader: int) -> list[int]:
    """The living processes of the session that ``leader`` began."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except (OSError, ValueError):  # it has just ended
            continue
        if int(session) == leader and state != "Z":
            found.append(int(stat.parent.name))
    return found


def _wait_for(condition: object, seconds: float = 120) -> None:
    assert callable(condition)
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)
