"""What explanations are worth: planted truth helps students, noise does not, and the study keeps its promises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from rashomon.data import Dataset, load_dataset
from rashomon.errors import DoesNotFit, UserError
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Distributions, Matrix, Plot
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.store import Store
from rashomon.studies.simulation import Simulation, judgements
from rashomon.training.settings import TrainingSpec
from tests.studies.planted import planted, subject_in
from tests.studies.trials import check_finding, finished_runs

TINY = "mlp(hidden=8, embedding_dim=8, epochs=2, learning_rate=0.02)"
LEARNER = "mlp(hidden=16, embedding_dim=16, learning_rate=0.02, epochs=10, patience=null, select=loss)"
PULLED = ("attention-regularisation",)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(Store(tmp_path / "store"), workers=1)


def subject_of(context: Context, data: Dataset | None = None) -> Subject:
    return subject_in(context, data or planted(held_out=120))


def by_explanation(table: pd.DataFrame) -> pd.DataFrame:
    return table.set_index("explanation")


def test_the_whole_design(context: Context) -> None:
    study = Simulation(
        subject_of(context),
        explanations=("none", "random", "human", "attention", "gradient-x-input"),
        students=(TINY, "bilstm(hidden=4, embedding_dim=4, epochs=1)"),
        sizes=(20, 40),
        seeds=(0, 1),
        percents=(10.0, 20.0),
        noise=(1.0,),
        full=("attention",),
        weights=(1.0,),
        instances=10,
    )
    finding = study.run(context)
    check_finding(finding)
    summary = finding.summary
    assert set(summary["learning"]) == {"none", "multitask", "attention-regularisation"}
    plain = summary[summary["student"].str.startswith("bilstm")]
    assert set(plain["learning"]) == {"none", "multitask"}  # it has no attention that could be pulled at
    assert any("cannot be pulled at" in warning for warning in finding.warnings)
    assert set(summary["size"]) == {20, 40}
    assert {"attention, all scores", "human", "random"} <= set(summary["explanation"])
    assert set(finding.tables["measures"]["measure"]) == {
        "sufficiency",
        "comprehensiveness",
        "agreement",
        "recovery",
    }
    assert {"strategies", "students", "shares", "recovery"} <= set(
        finding.tables["rank-agreement"]["between"]
    )
    assert len(finding.tables["noise"]) == 3 * 2
    price = finding.tables["price"].set_index(["explanation", "percent"])
    assert price.loc[("attention", 10.0), "seconds"] > 0
    assert price.loc[("attention", 10.0), "marks"] < price.loc[("attention", 20.0), "marks"]
    assert {type(figure) for figure in finding.figures} == {Plot, Distributions, Matrix}
    students = [run for run in finished_runs(context) if run.startswith("students/")]
    seeds, sizes = 2, 2
    marked = (
        3 * 2 + 1
    )  # three explanations of two shares, and people's marks; without any it is a student of labels
    assert len(students) == seeds * sizes * ((1 + 2 * marked + 1) + (1 + marked))
    again = study.run(context)
    assert again.summary.equals(summary)
    assert again.verdict == finding.verdict


def test_people_as_teachers(context: Context) -> None:
    study = Simulation(
        subject_of(context, planted(train=60, held_out=30)),
        explanations=("none", "human"),
        students=(TINY,),
        sizes=(30, 60),
        weights=(1.0,),
        teacher="people",
    )
    finding = study.run(context)
    check_finding(finding)
    assert not [run for run in finished_runs(context) if run.startswith("models/")]  # no teacher was trained
    assert set(finding.summary["explanation"]) == {"none", "human"}
    assert study.needed_models() == ()


@pytest.mark.parametrize(("name", "seeds", "least"), [("planted-reviews", 4, 0.04), ("mock-5", 12, 0.02)])
def test_planted_words_help_and_noise_does_not(context: Context, name: str, seeds: int, least: float) -> None:
    """Texts whose deciding words are known: marks on these teach, random and telltale marks do not.

    On mock-5 all other words are one and the same, which a student learns to overlook by itself: there is less to gain.
    """
    data = load_dataset(name, train_size=300, dev_size=100, test_size=300)
    study = Simulation(
        Subject(context.adopt(data)),
        explanations=("none", "random", "trivial", "human"),
        students=(LEARNER,),
        learning=PULLED,
        sizes=(300,),
        seeds=tuple(range(seeds)),
        noise=(0.5, 0.9),
        weights=(1.0,),
        teacher="people",
    )
    finding = study.run(context)
    gains = by_explanation(finding.tables["gains"])
    assert gains.loc["human", "difference_low"] > least / 2
    assert gains.loc["human", "difference"] > least
    assert gains.loc["human", "p_holm"] < 0.05
    for control in ("random", "trivial"):
        assert not (gains.loc[control, "p_holm"] < 0.05 and gains.loc[control, "difference"] > 0)
    human = finding.summary[finding.summary["explanation"] == "human"].sort_values("dropped")
    assert human["mean"].is_monotonic_decreasing
    assert finding.tables["noise"]["correlation"].item() < -0.5
    assert finding.verdict.startswith("1 of 3 explanations help")
    assert by_explanation(finding.tables["ranks"])["mean"].idxmin() == "human"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["planted-reviews", "mock-5"])
def test_planted_words_help_every_way_of_learning(context: Context, name: str) -> None:
    """A model teaches; its own explanations are beside the words that were planted."""
    sizes = {"train_size": 2000, "dev_size": 300, "test_size": 1500}
    subject = Subject(
        context.adopt(load_dataset(name, **sizes)),
        ModelSpec(name="mlp", hidden=64),
        TrainingSpec(batch_size=64, learning_rate=3e-3),
    )
    study = Simulation(
        subject,
        explanations=("none", "random", "trivial", "human", "attention", "integrated-gradients"),
        students=(
            "mlp(hidden=32, embedding_dim=32, learning_rate=0.01)",
            "bilstm-attention(hidden=32, embedding_dim=32)",
        ),
        sizes=(200, 400),
        seeds=(0, 1, 2, 3, 4),
        noise=(0.25, 0.5, 0.75, 1.0),
        weights=(0.2, 1.0, 5.0),
    )
    finding = study.run(context)
    gains = by_explanation(finding.tables["gains"])
    assert gains.loc["human", "difference"] > 0
    assert gains.loc["human", "p_holm"] < 0.05
    for control in ("random", "trivial"):
        assert not (gains.loc[control, "p_holm"] < 0.05 and gains.loc[control, "difference"] > 0)
    noise = finding.tables["noise"]
    assert (noise.loc[noise["learning"] == PULLED[0], "correlation"] < 0).all()


def test_wrong_settings_are_told_before_any_work() -> None:
    with pytest.raises(UserError, match="did you mean"):
        Simulation(explanations=("none", "limee"))
    with pytest.raises(UserError, match="way to learn"):
        Simulation(learning=("osmosis",))
    with pytest.raises(UserError, match="setting of a student"):
        Simulation(students=("bilstm(hiden=3)",))
    with pytest.raises(UserError, match="between 0 and 100"):
        Simulation(percents=(0.0,))
    with pytest.raises(UserError, match="at least one size"):
        Simulation(sizes=())


def test_what_does_not_fit_is_refused(context: Context) -> None:
    with pytest.raises(DoesNotFit, match="24 texts of tiny are too few"):
        Simulation(subject_in(context), students=(TINY,), sizes=(20,)).run(context)
    bare = planted(held_out=120)
    unmarked = {s: tuple(replace(e, rationale=None) for e in bare[s]) for s in bare}
    subject = subject_in(context, Dataset("bare", unmarked, bare.labels))
    with pytest.raises(DoesNotFit, match="Nobody marked words"):
        Simulation(subject, ("none", "human"), (TINY,), sizes=(20,)).run(context)


def test_an_audit_asks_for_a_small_one() -> None:
    asked = Ask(Subject(), ("lime", "attention"), instances=50)
    study = Simulation.for_audit(asked)
    assert study.explanations == ("none", "random", "trivial", "lime", "attention")
    assert study.sizes == (150,)
    assert Simulation.on_request


def test_sizes_are_cut_to_half_of_the_texts(context: Context) -> None:
    study = Simulation(
        subject_of(context), ("none", "random"), (TINY,), PULLED, sizes=(30, 90, 500), weights=(1.0,)
    )
    finding = study.run(context)
    assert finding.summary["size"].unique().tolist() == [30, 60]
    assert "There are texts for training sets of 30, 60 alone." in finding.warnings


def test_the_cost_is_said_beforehand(context: Context) -> None:
    study = Simulation(
        subject_of(context),
        ("none", "random", "lime"),
        (TINY,),
        PULLED,
        sizes=(20, 40),
        seeds=(0, 1),
        weights=(1.0, 2.0),
        noise=(0.5,),
    )
    said = study.cost(context)
    assert "explains 40 texts by 1 methods" in said
    # none: two seeds; of two explanations and people's marks, half of them dropped, two weights and a second seed
    assert f"trains {2 * (2 + 3 * 3)} students: at most about" in said
    assert not finished_runs(context)
    study.run(context)
    students = [run for run in finished_runs(context) if run.startswith("students/")]
    assert len(students) == 2 * (2 + 3 * 3)


def test_methods_are_judged_by_the_test() -> None:
    row = {"n": 900, "percent": 10.0, "seeds": 3, "difference": 0.05, "interval": "95 %", "p": 0.001}
    ends = {"difference_low": 0.03, "difference_high": 0.07}
    table = pd.DataFrame(
        [
            row | ends | {"explanation": "lime", "p_holm": 0.004},
            row | ends | {"explanation": "attention", "p_holm": 0.2},
            row | ends | {"explanation": "deeplift", "p_holm": 0.01, "difference": -0.05},
            row | ends | {"explanation": "ig", "p_holm": 0.001, "seeds": 2},
            row | ends | {"explanation": "random", "p_holm": 0.001},
        ]
    )
    ratings = {j.method: j.rating for j in judgements(table)}
    assert ratings == {"lime": "good", "attention": "unknown", "deeplift": "poor", "ig": "unknown"}
    assert judgements(table)[0].number == "5.0 [3.0, 7.0] points of simulation accuracy"
