"""Heads that learn to teach, from the shell: what is learned of a checkpoint is asked by the next command."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from tests.cli.conftest import Command
from tests.models.planted_head import planted_head_checkpoint
from tests.studies.planted import LABELS, OPINIONS, planted

QUICK = (
    *("--set", 'students=["mlp(hidden=8, embedding_dim=8, epochs=2, learning_rate=0.02)"]'),
    *("--set", 'learner="gru(hidden=8, embedding_dim=8, learning_rate=0.02)"', "--set", "learners=1"),
    *("--set", "sizes=[40]", "--set", "seeds=[0]", "--set", "weights=[1.0]", "--set", "instances=0"),
    *("--workers", 1, "--json"),
)


def test_heads_are_weighted_kept_and_asked(rashomon: Command, tmp_path: Path) -> None:
    model = planted_head_checkpoint(tmp_path / "model", OPINIONS[:2], layer=0, head=2, layers=1)
    examples = planted(held_out=120)["test"]
    rows = [{"body": example.text, "tone": LABELS[example.label or 0]} for example in examples]
    pd.DataFrame(rows).to_csv(tmp_path / "texts.csv", index=False)
    data = ("--data", tmp_path / "texts.csv", "--text-column", "body", "--label-column", "tone")
    asked = ("study", "learning-to-teach", "--model", model, *data, *QUICK)
    said = rashomon(*asked, "--set", 'explanations=["none", "heads"]', "--out", tmp_path / "out")
    assert said.code == 0, said.err
    assert (tmp_path / "out" / "report.html").is_file()
    warnings = json.loads(said.out)["warnings"]
    (label,) = [note.rpartition("is kept: ")[2].rstrip(".") for note in warnings if "is kept: " in note]
    asked_again = rashomon("explain", examples[0].text, "--model", model, "--methods", label, "--json")
    assert asked_again.code == 0, asked_again.err
    assert label in asked_again.out


def test_a_model_without_heads_ends_in_a_sentence(rashomon: Command) -> None:
    asked = ("study", "learning-to-teach", "--dataset", "mock-5", "--encoder", "mlp", *QUICK)
    said = rashomon(*asked, "--set", 'explanations=["none", "heads"]')
    assert said.code == 2
    assert "There are no heads to be weighted: the model has no layers of self-attention." in said.err
