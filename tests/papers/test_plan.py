"""Every table's runs are settings that its study takes."""

from __future__ import annotations

import pytest

from rashomon.papers import load, papers, plan_of
from rashomon.papers.plan import merged
from rashomon.runs.specifications import from_plain, to_plain
from rashomon.studies import studies

MEASURED = [
    (name, table.id) for name in papers() for table in load(name).tables.values() if table.study in studies
]


@pytest.mark.parametrize(("name", "id"), MEASURED)
def test_studies_take_the_papers_settings(name: str, id: str) -> None:
    paper = load(name)
    plan = plan_of(paper, paper.table(id))
    assert plan.runs or plan.left_out  # where none of its data can be had, that is said
    for run in plan.runs:
        kind = studies.get(run.study)
        plain = to_plain(kind())
        assert isinstance(plain, dict)
        study = from_plain(kind, merged(plain, run.settings))
        dataset = run.point["dataset"]
        stands_in = paper.stand_ins.get(str(dataset))
        assert study.subject.dataset.name == (stands_in.name if stands_in else dataset)
        assert paper.datasets[str(dataset)].available or stands_in is not None


def test_students_of_questions_are_those_of_people() -> None:
    paper = load("teacher_student")
    (run,) = plan_of(paper, paper.table("4")).runs
    assert run.study == "qa-simulation"
    assert run.settings["subject"]["dataset"]["name"] == "qed"
    own = {key: value for key, value in run.settings.items() if key != "subject"}
    assert own == {
        "teacher": "people",
        "explanations": ["none", "human"],
        "students": ["minilm"],
        "sizes": [500, 1500, 2500],
        "learning": ["none", "multitask", "attention-regularisation", "attention-alignment"],
    }
    assert plan_of(paper, paper.table("7")).left_out


def test_grids_are_what_is_published_and_can_be_had() -> None:
    paper = load("not_not")
    plan = plan_of(paper, paper.table("5"))
    assert [run.point["dataset"] for run in plan.runs] == ["sst", "imdb"]
    assert plan.left_out == (
        "Anemia is left out: MIMIC-III may not be passed on.",
        "Diabetes is left out: MIMIC-III may not be passed on.",
    )
    sst, imdb = (run.settings for run in plan.runs)
    assert len(sst["lambdas"]) == 16
    assert imdb["lambdas"][-1] == 0.01
    assert (sst["training"]["epochs"], imdb["training"]["epochs"]) == (80, 40)
    assert sst["subject"]["model"]["name"] == "bilstm"
    assert plan_of(paper, paper.table("4")) == plan  # the best of the sweep comes from the sweep


def test_what_stands_in_is_run_in_its_place_and_more_than_was_published_on_request() -> None:
    paper = load("disagreement")
    runs = plan_of(paper, paper.table("4")).runs
    assert [run.point["dataset"] for run in runs] == ["snli", "sst", "imdb"]
    assert {run.settings["subject"]["model"]["name"] for run in runs} == {"minilm"}
    assert {run.point["encoder"] for run in runs} == {"distilbert"}


def test_a_dataset_that_cannot_be_had_is_run_where_something_stands_in() -> None:
    paper = load("teacher_student")
    as_published, beyond = plan_of(paper, paper.table("3")).runs
    for run in (as_published, beyond):
        assert run.point["dataset"] == "movie_rationales"
        assert run.settings["subject"]["dataset"]["name"] == "yelp_hat"
    assert as_published.settings["students"] == ["minilm"]  # for BERT
    assert beyond.settings["students"] == ["bilstm-attention"]
    nothing = plan_of(paper, paper.table("7"))
    assert nothing.runs == ()
    assert nothing.left_out[0].startswith("Natural Questions is left out")


def test_tables_that_no_study_gives_have_no_runs() -> None:
    paper = load("disagreement")
    assert plan_of(paper, paper.table("7")).runs == ()


def test_merging_goes_table_by_table() -> None:
    first = {"a": {"b": 1, "c": 2}, "d": [1]}
    assert merged(first, {"a": {"b": 3}, "d": [2]}) == {"a": {"b": 3, "c": 2}, "d": [2]}
    assert first == {"a": {"b": 1, "c": 2}, "d": [1]}
