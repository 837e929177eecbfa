"""Runs that were there before count with what they took; those that are made inside do not."""

from __future__ import annotations

import time
from pathlib import Path

from rashomon.runs.files import write_json
from rashomon.runs.found import noting_found_runs
from rashomon.runs.store import Store


def make(folder: Path) -> None:
    time.sleep(0.05)
    write_json(folder / "result.json", 1)


def test_only_what_was_there_before_is_noted_and_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    earlier = store.run({"seed": 1}, "models", make)
    store.run({"seed": 2}, "models", make)
    time.sleep(0.002)  # records tell milliseconds
    with noting_found_runs() as found:
        store.run({"seed": 1}, "models", make)
        assert store.finished({"seed": 1}, "models")
        store.run({"seed": 3}, "models", make)
        assert store.finished({"seed": 3}, "models"), "made inside, and found afterwards"
        assert not store.finished({"seed": 4}, "models")
    assert list(found.seconds) == [earlier]
    assert 0.05 <= found.seconds[earlier] < 5
    store.run({"seed": 2}, "models", make)
    assert list(found.seconds) == [earlier], "nothing is noted outside"
