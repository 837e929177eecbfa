"""``rashomon check`` from the shell."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Command
from tests.models.tiny import tiny_checkpoint


def test_check(rashomon: Command, tmp_path: Path) -> None:
    folder = tiny_checkpoint("bert", tmp_path / "model")
    said = rashomon("check", folder)
    assert said.code == 0
    assert "2 layers of 4 heads" in said.out
    document = json.loads(rashomon("check", folder, "--json").out)
    assert document["model"] == "BertForSequenceClassification"
    assert "lime" in document["answered"]
    missing = rashomon("check", tmp_path / "nowhere")
    assert missing.code == 2
    assert "Traceback" not in missing.err


def test_windows(rashomon: Command, tmp_path: Path) -> None:
    folder = tiny_checkpoint("bert", tmp_path / "model")
    long = "a witty film and a warm plot " * 30
    asked = ("explain", long, "--model", folder, "--methods", "leave-one-out", "--json")
    (cut,) = json.loads(rashomon(*asked).out)
    (whole,) = json.loads(rashomon(*asked, "--windows").out)
    assert max(end for _, end in cut["offsets"]) < len(long) / 2
    assert max(end for _, end in whole["offsets"]) == len(long.rstrip())
