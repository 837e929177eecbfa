"""Students who answer questions, from the shell: planted questions in files, trained by, and reported."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from tests.cli.conftest import Command
from tests.models.tiny import tiny_checkpoint
from tests.studies.planted_questions import planted_questions, write_questions

ALIGNED = "attention-alignment"


def test_people_teach_by_equalities(rashomon: Command, tmp_path: Path) -> None:
    encoder = tiny_checkpoint("bert", tmp_path / "encoder")
    write_questions(planted_questions(40), tmp_path / "data" / "tiny-questions")
    said = rashomon(
        *("study", "qa-simulation", "--dataset", "tiny-questions", "--data-dir", tmp_path / "data"),
        *("--set", 'teacher="people"', "--set", 'explanations=["none", "human"]', "--set", "sizes=[20, 40]"),
        *("--set", f'students=["{encoder}"]', "--set", "training.epochs=1", "--set", "seeds=[0, 1]"),
        *("--set", "weights=[1.0]", "--workers", 1, "--json", "--out", tmp_path / "worth"),
    )
    assert said.code == 0, said.err
    finding = json.loads(said.out)
    assert finding["configuration"]["training"] == {
        **finding["configuration"]["training"],
        "epochs": 1,
        "select": "f1",
    }
    table = pd.read_parquet(next((tmp_path / "worth").rglob("*summary*.parquet")))
    assert set(table["learning"]) == {"none", "multitask", "attention-regularisation", ALIGNED}
    assert (tmp_path / "worth" / "report.html").is_file()
