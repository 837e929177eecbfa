"""The studies of regularised models as they are typed, and the same from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rashomon as ra
from tests.cli.conftest import Command
from tests.studies.planted import planted

OWN = ("--text-column", "body", "--label-column", "stars")
QUICK = ("--model", "mlp", "--epochs", 2, "--hidden", 8, "--embedding-dim", 8, "--workers", 1)
METHODS = "gradient-x-input,integrated-gradients"
STUDIES = ("regularised-agreement", "cartography", "curvature", "agreement-and-truth")


@pytest.mark.parametrize("name", STUDIES)
def test_from_the_command_line(rashomon: Command, reviews: Path, tmp_path: Path, name: str) -> None:
    said = rashomon(
        "study", name, "--data", reviews, *OWN, *QUICK, "--methods", METHODS, "--instances", 6,
        "--set", "variants=['tying(weight=0.1)']", "--set", "reading=as-coded", "--set", "dropout=on",
        "--out", tmp_path / "report", "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    document = json.loads(said.out)
    assert document["study"] == name
    assert document["configuration"]["reading"] == "as-coded"
    assert document["configuration"]["subject"]["callbacks"] == ["dynamics(split=test)", "epoch-models"]
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "tying" in page
    assert ('class="points"' in page) == (name == "cartography")


@pytest.mark.parametrize("name", STUDIES)
def test_from_python(name: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"training": {"epochs": 2}, "variants": ["tying(weight=0.1)"], "instances": 8}
    found = ra.study(
        name, ra.ModelSpec(name="mlp", hidden=8, embedding_dim=8), planted(),
        store=tmp_path, workers=1, methods=METHODS.split(","), **settings,
    )  # fmt: skip
    assert found.study == name
    assert len(found.summary)
    assert "<svg" in found._repr_html_()


def test_dynamics_are_exported_and_read_again(rashomon: Command, reviews: Path, tmp_path: Path) -> None:
    common = ("study", "cartography", "--data", reviews, *OWN, *QUICK, "--methods", METHODS, "--json")
    first = rashomon(*common, "--set", "variants=[]", "--set", f"export='{tmp_path / 'theirs'}'")
    assert first.code == 0, first.err
    assert (tmp_path / "theirs" / "base-0" / "dynamics_epoch_1.jsonl").is_file()
    again = rashomon(*common, "--set", "variants=[]", "--set", f"dynamics='{tmp_path / 'theirs' / 'base-0'}'")
    assert again.code == 0, again.err
    assert json.loads(again.out)["summary"] == json.loads(first.out)["summary"]
    wrong = rashomon(*common, "--set", f"dynamics='{tmp_path / 'nowhere'}'")
    assert (wrong.code, wrong.out) == (2, "")
    assert "no folder" in wrong.err


def test_a_model_in_memory_has_a_curvature(tmp_path: Path) -> None:
    model = ra.train(ra.ModelSpec(name="mlp", hidden=8, embedding_dim=8), planted(), epochs=1)
    found = ra.study("curvature", model, planted(), store=tmp_path, methods=METHODS.split(","))
    assert set(found.summary["variant"]) == {"base"}
