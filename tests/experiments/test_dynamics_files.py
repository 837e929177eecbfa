"""Training dynamics in the format of the cartography paper's code: read, written, and matched with texts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from rashomon.errors import UserError
from rashomon.experiments.dynamics_files import (
    INNER,
    Dynamics,
    of_texts,
    read_dynamics_files,
    write_dynamics_files,
)

KNOWN = Dynamics(("a", "b"), np.arange(12.0).reshape(3, 2, 2) / 7, np.array([0, 1]))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    write_dynamics_files(tmp_path / "dynamics", KNOWN)
    found = read_dynamics_files(tmp_path / "dynamics")
    assert found.ids == KNOWN.ids
    np.testing.assert_array_equal(found.logits, KNOWN.logits)
    np.testing.assert_array_equal(found.labels, KNOWN.labels)


def test_lines_are_those_of_the_papers_code(tmp_path: Path) -> None:
    write_dynamics_files(tmp_path, KNOWN)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"dynamics_epoch_{n}.jsonl" for n in range(3)]
    first = json.loads((tmp_path / "dynamics_epoch_1.jsonl").read_text().splitlines()[0])
    assert first == {"guid": "a", "logits_epoch_1": [4 / 7, 5 / 7], "gold": 0}


def test_their_folder_is_found_with_epochs_in_their_order(tmp_path: Path) -> None:
    folder = tmp_path / INNER
    folder.mkdir()
    for epoch in (10, 2, 0):
        rows = [{"guid": 7, f"logits_epoch_{epoch}": [epoch, 0.0], "gold": 1}]
        (folder / f"dynamics_epoch_{epoch}.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    found = read_dynamics_files(tmp_path)
    assert found.ids == ("7",)
    assert found.logits[:, 0, 0].tolist() == [0, 2, 10]


def test_texts_are_matched_by_id_else_by_row() -> None:
    notes: list[str] = []
    found = of_texts(KNOWN, ["b", "c", "a"], notes)
    assert found.ids == ("b", "a")
    np.testing.assert_array_equal(found.logits[:, 0], KNOWN.logits[:, 1])
    assert notes == ["1 of 3 texts have no dynamics and are not on the map."]
    numbered = Dynamics(("1", "0"), KNOWN.logits, KNOWN.labels)
    notes.clear()
    found = of_texts(numbered, ["x", "y"], notes)
    assert (found.ids, found.labels.tolist()) == (("x", "y"), [1, 0])
    assert "row numbers" in notes[0]
    with pytest.raises(UserError, match="None of the 2 texts"):
        of_texts(KNOWN, ["x"], notes)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ({}, "no files such as"),
        ({0: '{"guid": 1, "gold": 0}'}, "line 1 is not guid"),
        ({0: "no json"}, "line 1 is not guid"),
        ({0: '{"guid": 1, "logits_epoch_0": [1, 2], "gold": 2}'}, "no class 2"),
        (
            {
                0: '{"guid": 1, "logits_epoch_0": [1, 2], "gold": 1}',
                1: '{"guid": 2, "logits_epoch_1": [1, 2], "gold": 1}',
            },
            "Epoch 1 has other texts",
        ),
        (
            {
                0: '{"guid": 1, "logits_epoch_0": [1, 2], "gold": 1}',
                1: '{"guid": 1, "logits_epoch_1": [1, 2, 3], "gold": 1}',
            },
            "different numbers of logits",
        ),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, lines: dict[int, str], words: str) -> None:
    for epoch, line in lines.items():
        (tmp_path / f"dynamics_epoch_{epoch}.jsonl").write_text(line)
    with pytest.raises(UserError, match=words):
        read_dynamics_files(tmp_path)


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder"):
        read_dynamics_files(tmp_path / "nowhere")
