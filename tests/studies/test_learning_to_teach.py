"""Learning to teach, from a model's methods to students who try what was learned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rashomon.errors import DoesNotFit, UserError
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.explainers import explain
from rashomon.explainers.taught import read_weights
from rashomon.runs.store import Store
from rashomon.studies.learning_to_teach import LearningToTeach
from tests.models.planted_head import planted_head_checkpoint
from tests.studies.planted import OPINIONS, planted, subject_in
from tests.studies.trials import check_finding, finished_runs

TINY = "mlp(hidden=8, embedding_dim=8, epochs=2, learning_rate=0.02)"
LEARNER = "gru(hidden=8, embedding_dim=8, learning_rate=0.02)"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(Store(tmp_path / "store"), workers=1)


def study_in(context: Context) -> LearningToTeach:
    return LearningToTeach(
        subject_in(context, planted(held_out=120)),
        ("none", "random", "attention", "gradient-x-input"),
        (TINY,),
        sizes=(40,),
        weights=(1.0,),
        percents=(20.0,),
        instances=0,
        learner=LEARNER,
        learners=1,
        learner_epochs=4,
    )


def test_what_is_learned_is_kept_and_tried(context: Context) -> None:
    study = study_in(context)
    finding = study.run(context)
    check_finding(finding)
    parts = {"random", "attention", "gradient-x-input"}
    assert set(finding.summary["explanation"]) == {"none", "taught", "plain mean", *parts}
    against = finding.tables["against"]
    assert against["explanation"].eq("taught").all()
    assert against["other"].tolist()[1] == "plain mean"
    gains = finding.tables["gains"].set_index("explanation")["difference"]
    assert against["other"][0] == gains[list(parts)].idxmax()
    assert against["difference"][0] == pytest.approx(gains["taught"] - gains[list(parts)].max())
    assert sum("dev texts judge are much a matter of luck" in warning for warning in finding.warnings) == 1
    (note,) = [warning for warning in finding.warnings if warning.startswith("What was learned")]
    label = note.rpartition(" ")[2].removesuffix(".")
    model = context.models(study.subject)[0].model
    (explanation,) = explain(model, planted()["test"][:1], [label])
    kept = read_weights(Path(explanation.configuration["path"]))
    assert (
        dict(zip(explanation.configuration["methods"], explanation.configuration["weights"], strict=True))
        == kept
    )
    runs = finished_runs(context)
    assert study.run(context).verdict == finding.verdict
    assert finished_runs(context) == runs


def test_who_tries_it_is_of_another_kind_than_who_it_learned_by() -> None:
    with pytest.raises(UserError, match="other kinds than the learner"):
        LearningToTeach(students=("bilstm-attention",))
    with pytest.raises(UserError, match="two methods"):
        LearningToTeach(explanations=("none", "attention"))


def test_what_does_not_fit_is_refused(context: Context) -> None:
    with pytest.raises(DoesNotFit, match="not weighted"):
        replace(study_in(context), teacher="people").run(context)
    with pytest.raises(DoesNotFit, match="cannot be pulled at"):
        replace(study_in(context), learner="gru(weights=uniform)").run(context)


def test_heads_of_a_transformer_are_weighted(context: Context, tmp_path: Path) -> None:
    folder = planted_head_checkpoint(tmp_path / "model", OPINIONS[:2], layer=0, head=2, layers=1)
    study = replace(
        study_in(context),
        subject=Subject(context.adopt(planted(held_out=200)), checkpoint=str(folder)),
        explanations=("none", "random", "heads"),
        sizes=(100,),
        dev_texts=50,
        test_texts=50,
        seeds=(0,),
        learners=3,
        learner_epochs=5,
    )
    finding = study.run(context)
    check_finding(finding)
    heads = [f"attention(layer=0, head={n})" for n in range(4)]
    assert set(finding.summary["explanation"]) == {"none", "random", "taught", "plain mean", *heads}
    assert finding.configuration["explanations"] == ["none", "random", "heads"]
    (kept,) = (context.store.root / "explainers").iterdir()
    weights = read_weights(kept)
    assert weights[heads[2]] > 0.9
    assert sum(weights.values()) == pytest.approx(1.0)


def test_a_model_without_heads_is_told_so(context: Context) -> None:
    with pytest.raises(
        DoesNotFit, match="no heads to be weighted: the model has no layers of self-attention"
    ):
        replace(study_in(context), explanations=("none", "heads")).run(context)
