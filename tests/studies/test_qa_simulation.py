"""What explanations of answers are worth: the whole design, teachers of both kinds, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rashomon.data import Dataset
from rashomon.errors import DoesNotFit, UserError
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.store import Store
from rashomon.studies.qa_simulation import QaSimulation
from rashomon.training.settings import ANSWERING
from tests.models.tiny import tiny_checkpoint
from tests.studies.planted import planted
from tests.studies.planted_questions import planted_questions
from tests.studies.trials import check_finding, finished_runs

ALIGNED = "attention-alignment"


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(Store(tmp_path / "store"), workers=1)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint("bert", tmp_path_factory.mktemp("encoder") / "bert")


def quick(encoder: Path) -> tuple[str, ...]:
    return (f"{encoder}(epochs=2, learning_rate=0.003, batch_size=16)",)


def by_people(
    context: Context, encoder: Path, data: Dataset | None = None, **settings: object
) -> QaSimulation:
    subject = Subject(context.adopt(data or planted_questions(40)))
    usual = {"sizes": (20, 40), "seeds": (0, 1), "weights": (1.0,)}
    return QaSimulation(
        subject, ("none", "random", "human"), quick(encoder), teacher="people", **{**usual, **settings}
    )


def test_people_as_teachers(context: Context, encoder: Path) -> None:
    study = by_people(context, encoder)
    finding = study.run(context)
    check_finding(finding)
    summary = finding.summary
    assert set(summary["figure"]) == {"f1", "exact-match"}
    f1 = summary[summary["figure"] == "f1"]
    assert set(f1["learning"]) == {"none", "multitask", "attention-regularisation", ALIGNED}
    assert len(f1) == 2 * (1 + 2 * 3)
    assert f1["n"].eq(2 * 24).all()
    taught = f1[f1["learning"] != "none"]
    assert taught["p_holm"].ge(taught["p"]).all()
    assert not [run for run in finished_runs(context) if run.startswith("models/")]
    assert study.about(finding)[0] == "people"
    gains = finding.tables["gains"].set_index(["learning", "explanation"])
    instances = finding.tables["instances"]
    means = instances.groupby(["learning", "explanation"])["f1"].mean()
    wanted = means[(ALIGNED, "human")] - means[("none", "none")]
    assert gains.loc[(ALIGNED, "human"), "difference"] == pytest.approx(wanted)
    assert finding.figures[0].y_label == "token F1"  # type: ignore[union-attr]
    again = study.run(context)
    assert again.summary.equals(summary)


def test_figures_are_those_of_the_answers(context: Context, encoder: Path) -> None:
    """The table's means are those that the training itself scored, and exact matches are never more than F1."""
    finding = by_people(context, encoder, seeds=(0,), learning=(ALIGNED,)).run(context)
    instances, students = finding.tables["instances"], finding.tables["students"]
    for row in students.to_dict("records"):
        own = instances[(instances["learning"] == row["learning"]) & (instances["size"] == row["size"])]
        own = own[own["explanation"] == row["explanation"]]
        assert own["f1"].mean() == pytest.approx(row["f1"])
    assert (instances["exact-match"] <= instances["f1"]).all()


def test_a_model_as_teacher(context: Context, encoder: Path) -> None:
    data = planted_questions(32, 120)
    training = replace(ANSWERING, epochs=1)
    subject = Subject(context.adopt(data), ModelSpec(name=str(encoder)), training)
    study = QaSimulation(
        subject,
        ("none", "random", "human", "attended-words", "attention", "gradient-norm"),
        quick(encoder),
        sizes=(30,),
        seeds=(0,),
        percents=(20.0,),
        noise=(1.0,),
        weights=(1.0,),
        dev_texts=20,
        test_texts=20,
        instances=10,
    )
    finding = study.run(context)
    check_finding(finding)
    f1 = finding.summary[finding.summary["figure"] == "f1"]
    by_way = f1.groupby("learning")["explanation"].agg(set)
    with_pairs = {"random", "human", "attended-words"}
    assert by_way[ALIGNED] == with_pairs
    assert by_way["multitask"] == with_pairs | {"attention", "gradient-norm"}
    assert {"sufficiency", "comprehensiveness", "agreement"} <= set(finding.tables["measures"]["measure"])
    # All equalities dropped: these students are those of answers alone.
    human = f1[(f1["explanation"] == "human") & (f1["dropped"] == 1.0)]
    assert human["mean"].eq(f1.loc[f1["learning"] == "none", "mean"].item()).all()
    assert "noise" in finding.tables


def test_planted_equalities_help_and_random_ones_do_not(context: Context, encoder: Path) -> None:
    """The answer is where the question's word stands in the passage, which is what equalities tell."""
    student = f"{encoder}(epochs=25, learning_rate=0.003, batch_size=16, select=loss)"
    study = by_people(
        context, encoder, planted_questions(96, 60), learning=(ALIGNED,), sizes=(96,), seeds=(0, 1, 2, 3)
    )
    finding = replace(study, students=(student,)).run(context)
    gains = finding.tables["gains"].set_index("explanation")
    assert gains.loc["human", "difference"] > 0.1
    assert gains.loc["human", "p_holm"] < 0.05
    assert not (gains.loc["random", "p_holm"] < 0.05 and gains.loc["random", "difference"] > 0)
    assert finding.verdict.startswith("1 of 2 explanations help students to simulate the teacher (human by")
    assert "points over answers alone" in finding.verdict


def test_students_without_attention_learn_in_other_ways(context: Context, encoder: Path) -> None:
    uniform = f"{encoder}(weights=uniform, epochs=1)"
    study = replace(by_people(context, encoder, sizes=(20,), seeds=(0,)), students=(uniform,))
    finding = study.run(context)
    assert set(finding.summary["learning"]) == {"none", "multitask"}
    assert any("cannot be pulled at" in warning for warning in finding.warnings)


def test_wrong_settings_are_told_before_any_work() -> None:
    with pytest.raises(UserError, match="way to learn"):
        QaSimulation(learning=("osmosis",))
    with pytest.raises(UserError, match="an answer is none"):
        QaSimulation(explanations=("none", "trivial"))
    with pytest.raises(UserError, match="did you mean"):
        QaSimulation(explanations=("none", "atention"))


def test_what_does_not_fit_is_refused(context: Context, encoder: Path) -> None:
    questions = planted_questions(40)
    bare = {s: tuple(replace(e, equalities=()) for e in questions[s]) for s in questions}
    with pytest.raises(DoesNotFit, match="Nobody said which phrases"):
        by_people(context, encoder, Dataset("bare", bare, ())).run(context)
    with pytest.raises(DoesNotFit, match="has none; see simulation"):
        by_people(context, encoder, planted()).run(context)
    with pytest.raises(DoesNotFit, match="methods explain a model's answers"):
        replace(by_people(context, encoder), explanations=("none", "attention")).run(context)
    few = Subject(context.adopt(questions), ModelSpec(name=str(encoder)))
    with pytest.raises(DoesNotFit, match="24 texts of tiny-questions are too few"):
        QaSimulation(few, ("none", "random"), quick(encoder), sizes=(20,)).run(context)
    assert not finished_runs(context)


def test_an_audit_asks_for_a_small_one_only_on_request() -> None:
    study = QaSimulation.for_audit(Ask(Subject(), ("lime", "attention"), instances=50))
    assert study.explanations == ("none", "random", "lime", "attention")
    assert study.sizes == (50,)
    assert QaSimulation.on_request
