"""Students who answer questions, from the shell: planted questions in files, trained by, and reported."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from rashomon.studies.qa_simulation import QaSimulation
from rashomon.training.settings import TrainingSpec
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


def test_an_audit_of_answers_asks_what_they_are_worth(
    rashomon: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Students are as tiny as the model here."""
    tiny_checkpoint("bert", tmp_path / "model", answers=True)
    encoder = tiny_checkpoint("bert", tmp_path / "encoder")
    write_questions(planted_questions(8, held_out=80), tmp_path / "data" / "tiny-questions")
    small = partial(
        replace, students=(str(encoder),), seeds=(0, 1), training=TrainingSpec(epochs=1, select="f1")
    )
    for_audit = QaSimulation.for_audit
    monkeypatch.setattr(QaSimulation, "for_audit", lambda asked: small(for_audit(asked)))
    few = ("--methods", "attention", "--instances", 10, "--without", "noise-ceiling,erasure,permutation")
    data = ("--dataset", "tiny-questions", "--data-dir", tmp_path / "data")
    said = rashomon("audit", "--simulate", "--model", tmp_path / "model", *data, *few, "--workers", 1)
    assert said.code == 0, said
    assert said.out.startswith("The simulation explains 10 texts by 1 methods and trains 6 students: at most")
    page = (tmp_path / "rashomon-report" / "report.html").read_text(encoding="utf-8")
    assert "study-qa-simulation" in page
    assert "What is it worth to who must answer?" in page
