"""The options of a command are the fields of what they become: none is missing, and each says what it means."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rashomon.audits.kept_findings import KIND
from rashomon.cli.audit import _has_found
from rashomon.cli.groups import options_of, typed
from rashomon.cli.main import app
from rashomon.cli.options import DataOptions, ModelOptions, StoreOptions
from rashomon.cli.study_help import settings_under
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.specifications import to_plain
from rashomon.studies import Study, studies
from rashomon.training.settings import FINE_TUNING, TrainingSpec
from tests.cli.conftest import Command


@pytest.mark.parametrize(
    ("group_field", "specification"), [("of_model", ModelSpec), ("of_training", TrainingSpec)]
)
def test_there_is_an_option_for_every_field(group_field: str, specification: type) -> None:
    options = [o.setting.name for o in options_of(ModelOptions) if o.group_field == group_field]
    assert options == [field.name for field in fields(specification)]


@pytest.mark.parametrize("name", ["train", "audit", "explain", "study"])
def test_no_two_options_are_spelt_alike(name: str) -> None:
    command: Any = get_command(app).commands[name]  # type: ignore[attr-defined]
    spelt = [word for parameter in command.params for word in (*parameter.opts, *parameter.secondary_opts)]
    assert len(spelt) == len(set(spelt))
    assert {"--min-count", "--self-heads", "--width", "--freeze-embeddings", "--warmup"} <= set(spelt)


# What is typed for a field, and the value that it becomes.
TYPED: dict[str, tuple[str, Any]] = {
    "name": ("--encoder cnn", "cnn"),
    "embedding_dim": ("--embedding-dim 7", 7),
    "hidden": ("--hidden 12", 12),
    "layers": ("--layers 3", 3),
    "self_heads": ("--self-heads 2", 2),
    "widths": ("--width 3 --width 7", (3, 7)),
    "attention": ("--attention dot", "dot"),
    "heads": ("--heads 2", 2),
    "weights": ("--weights sparsemax", "sparsemax"),
    "temperature": ("--temperature 2", 2.0),
    "dropout": ("--dropout 0.25", 0.25),
    "max_length": ("--max-length 33", 33),
    "steps": ("--step alphanumeric --step truncate:9", ("alphanumeric", "truncate:9")),
    "vocabulary_size": ("--vocabulary-size 50", 50),
    "min_count": ("--min-count 2", 2),
    "embeddings": ("--embeddings vectors.txt", "vectors.txt"),
    "embedding_scale": ("--embedding-scale .1", 0.1),
    "decay_embeddings": ("--decay-embeddings", True),
    "freeze_embeddings": ("--freeze-embeddings", True),
    "epochs": ("--epochs 5", 5),
    "batch_size": ("--batch-size 9", 9),
    "learning_rate": ("--learning-rate 0.5", 0.5),
    "weight_decay": ("--weight-decay 0.125", 0.125),
    "optimizer": ("--optimizer adam", "adam"),
    "clip": ("--clip 2.5", 2.5),
    "patience": ("--patience none", None),
    "least_gain": ("--least-gain 0.5", 0.5),
    "enough": ("--enough 0.5", 0.5),
    "select": ("--select loss", "loss"),
    "warmup": ("--warmup 0.5", 0.5),
}


def _instead_of_training(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The subjects that were to be trained."""
    asked: list[Any] = []

    def stop(context: object, subject: object) -> None:
        asked.append(subject)
        raise KeyboardInterrupt

    monkeypatch.setattr("rashomon.experiments.context.Context.models", stop)
    return asked


def test_every_option_reaches_its_field(
    rashomon: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    assert set(TYPED) == {field.name for kind in (ModelSpec, TrainingSpec) for field in fields(kind)}
    (tmp_path / "vectors.txt").write_text("word 1 2\n", encoding="utf-8")
    asked = _instead_of_training(monkeypatch)
    rashomon("train", *(word for words, _ in TYPED.values() for word in words.split()))
    found = {
        **vars(asked[0].model),
        **{f.name: getattr(asked[0].training, f.name) for f in fields(TrainingSpec)},
    }
    assert found == {name: value for name, (_, value) in TYPED.items()}


def test_what_is_not_typed_stays_as_usual(rashomon: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _instead_of_training(monkeypatch)
    rashomon("train")
    rashomon("train", "--model", "minilm", "--clip", "none")
    assert (asked[0].model, asked[0].training) == (ModelSpec(), None)
    usual = to_plain(FINE_TUNING)
    assert to_plain(asked[1].training) == {**usual, "clip": None}


def test_no_step_at_all_can_be_asked_for(rashomon: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _instead_of_training(monkeypatch)
    rashomon("train", "--step", "none")
    assert asked[0].model.steps == ()
    assert "'none'" in rashomon("train", "--step", "none", "--step", "lowercase").err


def test_an_objective_and_what_is_kept_reach_the_subject(
    rashomon: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = _instead_of_training(monkeypatch)
    rashomon(
        "train", "--objective", "tying(weight=5)", "--callback", "dynamics", "--callback", "epoch-models"
    )
    assert asked[0].objective == "tying(weight=5)"
    assert asked[0].callbacks == ("dynamics", "epoch-models")


def test_help_says_meaning_choices_and_usual_values(rashomon: Command) -> None:
    said = " ".join(rashomon("train", "--help").out.replace("│", " ").split())
    assert "One of adam, adamw, amsgrad. (default: amsgrad; fine-tuning adamw)" in said
    assert "(default: none; fine-tuning 1.0)" in said
    assert "--no-freeze-embeddings" in said


@pytest.mark.parametrize("entry", list(studies), ids=lambda entry: entry.name)
def test_a_study_says_what_its_settings_mean(rashomon: Command, entry: Any) -> None:
    kind: type[Study] = entry.value
    settings = settings_under(kind)
    assert all(one.help for _, one in settings), [path for path, one in settings if not one.help]
    said = rashomon("study", entry.name, "--help")
    assert said.code == 0
    assert kind.question in " ".join(said.out.split())
    for path, one in settings:
        assert f"  {path} = " in said.out
        assert one.help.split()[0] in said.out


def test_help_on_a_study_that_is_none(rashomon: Command) -> None:
    said = rashomon("study", "agreementt", "--help")
    assert (said.code, "did you mean 'agreement'" in said.err) == (2, True)


def test_options_that_were_typed_are_named_as_they_are_spelt() -> None:
    asked = ModelOptions({"name": "mlp", "steps": ("lowercase",)}, {"patience": 2}, seed=[1])
    assert typed(asked) == ["--model", "--step", "--patience", "--seed"]
    assert typed(DataOptions(dataset="mock-1", classes=3)) == ["--dataset", "--classes"]
    assert typed(StoreOptions()) == []


def test_whether_an_audit_has_left_findings_is_seen_without_loading_anything(tmp_path: Path) -> None:
    """Then there is most likely nothing to train, and no workers are started early."""
    assert not _has_found(StoreOptions(store=tmp_path))
    (tmp_path / KIND / "some").mkdir(parents=True)
    assert _has_found(StoreOptions(store=tmp_path))
