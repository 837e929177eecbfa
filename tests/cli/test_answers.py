"""Questions from the shell: trained on, explained, and refused where the model is for something else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Command
from tests.models.tiny import QUESTIONS, tiny_checkpoint


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    rows = []
    for number, example in enumerate(QUESTIONS * 4):
        answers = [{"start": a.start, "end": a.end} for a in example.answers or ()]
        rows.append(
            {"question": f"{example.text} {number}", "passage": example.text_pair, "answers": answers}
        )
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_train_and_explain(rashomon: Command, tmp_path: Path, asked: Path) -> None:
    folder = tiny_checkpoint("bert", tmp_path / "encoder")
    said = rashomon(
        "train", "--data", asked, "--model", folder, "--epochs", 1, "--out", tmp_path / "answerer"
    )
    assert said.code == 0
    assert "exact-match" in said.out
    assert "accuracy" not in said.out
    alike = ("--data", asked, "--model", tmp_path / "answerer", "--methods", "attention,gradient-x-input")
    said = rashomon("explain", *alike, "--limit", 2)
    assert said.code == 0
    assert said.out.count("Answer: ") == 2
    assert "Question: is the film good 0" in said.out
    assert "Passage: The plot was dull" in said.out
    said = rashomon("explain", *alike, "--limit", 1, "--json", "--out", tmp_path / "explanations.html")
    first, second = json.loads(said.out)
    assert first["answer"] == second["answer"]
    assert first["target_label"] in QUESTIONS[0].text_pair
    page = (tmp_path / "explanations.html").read_text(encoding="utf-8")
    assert page.index("Question</span>") < page.index("Passage</span>")


def test_explain_without_answers(rashomon: Command, tmp_path: Path) -> None:
    path = tmp_path / "open.jsonl"
    path.write_text(json.dumps({"question": "is it good", "passage": "the film is long"}), encoding="utf-8")
    folder = tiny_checkpoint("distilbert", tmp_path / "answerer", answers=True)
    said = rashomon("explain", "--data", path, "--model", folder, "--methods", "leave-one-out", "--json")
    assert said.code == 0
    (item,) = json.loads(said.out)
    assert item["configuration"] == {"perturbation": "mask"}
    classifier = tiny_checkpoint("bert", tmp_path / "classifier")
    said = rashomon("explain", "--data", path, "--model", classifier)
    assert said.code == 2
    assert "chooses between classes" in said.err
    said = rashomon("explain", "a film", "--model", folder)
    assert said.code == 2
    assert "has no passage" in said.err


def test_built_in_models_cannot_answer(rashomon: Command, asked: Path) -> None:
    said = rashomon("train", "--data", asked, "--model", "bilstm")
    assert said.code == 2
    assert "cannot answer the questions" in said.err
    assert "Traceback" not in said.err
