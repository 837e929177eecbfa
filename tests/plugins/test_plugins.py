"""A real package, installed with pip, whose explainer, measure, study, model and objective are used as ours are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
SMALL = ("--dataset", "mock-1", "--hidden", "8", "--epochs", "1")
OWN_MODEL = ("--model", "bag-of-words", *SMALL)
OWN_OBJECTIVE = ("--objective", "small-logits(weight=0.5)")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fresh installation of the package; pip needs no network for it."""
    made = tmp_path_factory.mktemp("plugins")
    shutil.copytree(HERE / "package", made / "package")  # building leaves files beside the sources
    target = made / "installed"
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
    ]
    subprocess.run([*pip, "--target", str(target), str(made / "package")], check=True)
    return target


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def trained(installed: Path, store: Path) -> Path:
    """The folder of the package's model, trained in the store by a process of its own."""
    document, said = rashomon(installed, store, "train", *OWN_MODEL, *OWN_OBJECTIVE)
    assert "training" in said
    assert all(row["size"] > 0 for row in document["scores"]), "the objective's own figure is missing"
    return Path(document["runs"][0]) / "model"


def rashomon(installed: Path, store: Path, *words: str) -> tuple[Any, str]:
    """What a command prints as JSON, and what it says beside it, in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": f"{installed}{os.pathsep}{SOURCE}",
        "RASHOMON_STORE": str(store),
    }
    command = [sys.executable, "-m", "rashomon", *words, "--json"]
    done = subprocess.run(command, env=environment, cwd=store, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_everything_of_the_package_is_listed_and_what_is_broken_is_named(
    installed: Path, store: Path
) -> None:
    listed, said = rashomon(installed, store, "list")
    names = {kind: {entry["name"] for entry in entries} for kind, entries in listed.items()}
    assert "word-length" in names["explainers"]
    assert "first-place" in names["measures"]
    assert "accuracy" in names["studies"]
    assert "small-logits" in names["objectives"]
    assert {"bag-of-words", "minilm", "bilstm"} <= names["models"]
    assert "broken" not in names["models"]
    assert "'broken' of rashomon-stranger is left out" in said
    assert "no_such_module" in said


def test_a_model_an_objective_and_an_explainer(installed: Path, store: Path, trained: Path) -> None:
    """The model is trained with the objective by one process, and another reads it from the store."""
    assert (
        json.loads((trained / "config.json").read_text(encoding="utf-8"))["format"] == "stranger-bag-of-words"
    )
    text = "a wonderful film"
    methods = ("--methods", "word-length(power=2),leave-one-out")
    records, said = rashomon(installed, store, "explain", text, *OWN_MODEL, *OWN_OBJECTIVE, *methods)
    assert "training" not in said
    assert records[0]["method"].startswith("word-length")
    assert records[0]["scores"] == [1.0, 81.0, 16.0]


def test_a_measure_of_another_package(installed: Path, store: Path, trained: Path) -> None:
    """Asked of the model as a checkpoint folder, in which its own format is recognised."""
    ask = ("--methods", "leave-one-out,word-length", "--instances", "4", "--set", "measures=['first-place']")
    about = ("--model", str(trained), "--dataset", "mock-1")
    document, _ = rashomon(installed, store, "study", "agreement", *about, *ask)
    assert {row["measure"] for row in document["summary"]} == {"first-place"}
    (row,) = (r for r in document["summary"] if {r["first"], r["second"]} == {"leave-one-out", "word-length"})
    assert row["n"] == 4
    assert row["mean"] in (0, 0.25, 0.5, 0.75, 1)


@pytest.mark.usefixtures("trained")
def test_a_study_of_another_package(installed: Path, store: Path) -> None:
    document, _ = rashomon(
        installed, store, "study", "accuracy", *OWN_MODEL, *OWN_OBJECTIVE, "--set", "enough=1.5"
    )
    assert document["verdict"].endswith("not enough.")
    assert {row["split"] for row in document["summary"]} == {"train", "dev", "test"}
