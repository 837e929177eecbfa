"""Points of a paper's grid are run once, kept, found again by every table and conclusion, and chosen by time."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rashomon.errors import DoesNotFit, UserError
from rashomon.experiments.context import Context
from rashomon.papers import load
from rashomon.papers.costs import EXTENTS, choose, cut, estimate, fitting
from rashomon.papers.grid import Choice, Vectors, grid_of, seeds_of, texts_of
from rashomon.papers.kept import Kept, all_kept, specification_of
from rashomon.papers.outcomes import all_claims, departures, overview
from rashomon.papers.replicating import carry_out, schedule
from rashomon.papers.replication_page import Replication, replication_of
from rashomon.studies.base import Finding
from rashomon.studies.necessity import Necessity
from rashomon.training.run import TrainingRun
from tests.papers.replications import data_folder_of, necessity, small_context

PAPER = load("not_not")


def replicated(context: Any, choice: Choice, minutes: float | None = None) -> Replication:
    planned = schedule(context, PAPER, choice, minutes)
    failed = carry_out(context, planned, choice, minutes)
    return replication_of(context, PAPER, choice, planned, failed)


@pytest.fixture
def runs_of_necessity(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The datasets on which the study was run, in order."""
    ran: list[str] = []
    run = Necessity.run

    def counted(self: Necessity, context: Any) -> Finding:
        ran.append(self.subject.dataset.name)
        return run(self, context)

    monkeypatch.setattr(Necessity, "run", counted)
    return ran


def test_a_table_comes_beside_ours_with_what_was_not_run(tmp_path: Path) -> None:
    context = small_context(tmp_path, "sst", "imdb")
    page = replicated(context, necessity(seeds=3))
    table = next(finding for finding in page.findings if finding.title == "Table 2")
    rows = table.tables["figures"].set_index(["dataset", "attention", "figure"])
    measured = rows["ours"].notna()
    assert set(rows[measured].index) == {
        (dataset, *of)
        for dataset in ("sst", "imdb")
        for of in (("learned", "f1"), ("uniform", "f1"), ("learned", "f1-gain"))
    }
    gain = rows.loc[("sst", "learned", "f1-gain"), "ours"]
    means = [rows.loc[("sst", attention, "f1"), "ours"] for attention in ("learned", "uniform")]
    assert gain == pytest.approx(means[0] - means[1])
    one = rows.loc[("sst", "uniform", "f1")]
    assert one["published"] == 0.822
    assert one["difference"] == pytest.approx(one["ours"] - 0.822)
    assert any("Diabetes is left out" in sentence for sentence in page.not_run)
    assert any(sentence.startswith("AgNews is not run: ") for sentence in page.not_run)
    assert any("no folder agnews_binary" in sentence for sentence in page.not_run)
    assert any("learned from scratch" in sentence for sentence in page.warnings)
    assert any("changed from the paper's" in sentence for sentence in page.warnings)
    outcomes = {row["claim"]: row["outcome"] for row in page.claims}
    assert outcomes["C7"] != "not run"
    assert outcomes["C9"] == "not run"


def test_a_second_call_runs_what_is_missing_alone(tmp_path: Path, runs_of_necessity: list[str]) -> None:
    context = small_context(tmp_path, "sst", "imdb")
    replicated(context, necessity("sst"))
    page = replicated(context, necessity("sst", "imdb"))
    assert runs_of_necessity == ["sst", "imdb"]
    assert page.dataset == "imdb, sst"
    more = replicated(context, necessity("sst", seeds=3))
    assert runs_of_necessity == ["sst", "imdb", "sst"]
    replicated(context, necessity("sst", seeds=2))  # there is more than that
    assert runs_of_necessity == ["sst", "imdb", "sst"]
    assert more.findings[-1].tables["summary"]["seeds"].tolist() == [3]


def test_other_texts_under_the_same_name_are_other_data(tmp_path: Path, runs_of_necessity: list[str]) -> None:
    context = small_context(tmp_path, "sst")
    replicated(context, necessity("sst"))
    texts = tmp_path / "data" / "sst" / "test.jsonl"
    texts.write_text(texts.read_text(encoding="utf-8").replace("film", "play"), encoding="utf-8")
    replicated(replace(context, _datasets={}), necessity("sst"))
    assert runs_of_necessity == ["sst", "sst"]


def test_conclusions_are_read_from_the_store(tmp_path: Path) -> None:
    context, choice = small_context(tmp_path, "sst"), necessity("sst")
    before = all_claims(context.store, choice, any_settings=True)
    assert before["claim"].tolist() == [f"C{number}" for number in range(1, 31)]
    assert set(before["outcome"]) == {"not run"}
    replicated(context, choice)
    after = all_claims(context.store, choice, any_settings=True).set_index("claim")
    assert after.loc["C7", "outcome"] != "not run"
    assert (after.drop("C7")["outcome"] == "not run").all()


def test_other_settings_stand_in_where_the_papers_were_not_run_and_it_is_said(tmp_path: Path) -> None:
    context, changed = small_context(tmp_path, "sst"), necessity("sst")
    replicated(context, changed)
    strict = all_claims(context.store, Choice(), any_settings=False)
    assert set(strict["outcome"]) == {"not run"}
    lenient = all_claims(context.store, Choice(), any_settings=True).set_index("claim")
    assert lenient.loc["C7", "outcome"] != "not run"
    (sentence,) = departures(context.store, Choice(), any_settings=True)
    assert sentence.startswith("not_not: necessity on sst (bilstm) ran with subject.model.")
    assert departures(context.store, Choice(), any_settings=False) == []


def test_the_overview_says_what_is_done_and_which_data_are_missing(tmp_path: Path) -> None:
    context = small_context(tmp_path, "sst")
    table = overview(context.store, context.data_dir).set_index(["paper", "table"])
    row = table.loc[("not_not", "2")]
    assert (row["study"], row["done"], row["datasets"]) == ("necessity", "0 of 4", "sst")
    assert row["datasets not here"] == "imdb, agnews_binary, 20news_sports"
    assert table.loc[("not_not", "1"), "study"] == "none"


def test_a_point_that_fails_is_told_and_the_others_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, run = small_context(tmp_path, "sst", "imdb"), Necessity.run

    def fail_on_imdb(self: Necessity, context: Any) -> Finding:
        if self.subject.dataset.name == "imdb":
            raise DoesNotFit("It does not fit.")
        return run(self, context)

    monkeypatch.setattr(Necessity, "run", fail_on_imdb)
    page = replicated(context, necessity("sst", "imdb"))
    assert "necessity on imdb, bilstm is not run: It does not fit." in page.not_run
    assert page.dataset == "sst"
    with pytest.raises(UserError, match="Nothing could be run: necessity on imdb"):
        replicated(context, necessity("imdb"))


def test_tables_that_come_from_the_same_runs_share_them(tmp_path: Path) -> None:
    folder = data_folder_of(tmp_path, "sst")
    points = grid_of(PAPER, Choice(datasets=("sst",)), folder).points
    assert [point.tables for point in points if point.run.study == "adversary"] == [("4", "5", "figure-5")]


def test_vectors_go_to_models_that_take_them(tmp_path: Path) -> None:
    folder = data_folder_of(tmp_path, "sst")
    vectors = Vectors(tmp_path / "some.npz", 0.3)
    points = grid_of(load("disagreement"), Choice(tables=("3",), vectors=vectors), folder).points
    given = {point.run.point["encoder"]: point.study.subject.model for point in points}
    assert given["bilstm"].embeddings == str(vectors.file)
    assert given["bilstm"].embedding_scale == 0.3
    assert given["distilbert"].embeddings is None


def test_the_papers_scale_of_vectors_stays_unless_another_is_asked(tmp_path: Path) -> None:
    folder = data_folder_of(tmp_path, "sst")
    file = tmp_path / "some.npz"
    scales = []
    for vectors in (Vectors(file), Vectors(file, 0.3), None):
        (point,) = grid_of(load("disagreement"), Choice(tables=("6",), vectors=vectors), folder).points
        scales.append(point.study.subject.model.embedding_scale)
    assert scales == [0.1, 0.3, None]


def test_a_change_goes_to_the_studies_that_have_such_a_setting(tmp_path: Path) -> None:
    folder = data_folder_of(tmp_path, "trec_binary")
    paper, chosen = load("hard_to_agree"), {"datasets": ("trec_binary",), "encoders": ("bilstm",)}
    choice = Choice(changes={"each_epoch": False, "instances": 7}, **chosen)  # type: ignore[arg-type]
    points = {point.run.study: point for point in grid_of(paper, choice, folder).points}
    assert set(points) == {"regularised-agreement", "cartography", "curvature"}
    changed = {
        name: specification_of(point, point.study, choice, folder).changes for name, point in points.items()
    }
    assert set(map(str, changed.values())) == {"{'instances': 7}"}  # figures after other epochs change none
    assert not points["regularised-agreement"].study.each_epoch  # type: ignore[attr-defined]
    assert {texts_of(point.study) for point in points.values()} == {7}
    with pytest.raises(UserError, match="did you mean 'each_epoch'"):
        grid_of(paper, Choice(changes={"each_epok": False}, **chosen), folder)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="setting of cartography named 'each_epoch'"):
        grid_of(paper, Choice(tables=("4",), changes={"each_epoch": False}, **chosen), folder)  # type: ignore[arg-type]


@pytest.mark.parametrize(("insists", "used"), [(False, None), (True, "some.npz")])
def test_a_configuration_with_a_width_takes_no_vectors_unless_they_are_asked_for(
    tmp_path: Path, insists: bool, used: str | None
) -> None:
    """Tying needs states and vectors that are equally wide, so the paper's widths are in its configuration."""
    folder = data_folder_of(tmp_path, "sst")
    choice = Choice(
        tables=("2",), encoders=("bilstm",), vectors=Vectors(tmp_path / "some.npz"), insists=insists
    )
    (point,) = grid_of(load("hard_to_agree"), choice, folder).points
    model = point.study.subject.model
    assert (model.embeddings and Path(model.embeddings).name) == used
    assert model.embedding_dim == 2 * model.hidden
    specification = specification_of(point, point.study, choice, folder)
    assert (specification.vectors and specification.vectors.file.name) == used


# ---- time


def kept(study: str, dataset: str, encoder: str, seconds: float, **more: Any) -> Kept:
    about = {"subject": {"dataset": {"name": dataset}, "model": {"name": encoder}}}
    fields = {"models": 1, "seeds": 1, "texts": None, "resumed": False} | more
    return Kept(Path(), pd.Timestamp(0), {"study": study, "settings": about}, seconds, **fields)


def test_times_are_those_of_the_nearest_point_that_was_measured(tmp_path: Path) -> None:
    folder = data_folder_of(tmp_path, "sst")
    (point,) = grid_of(PAPER, Choice(tables=("2",), datasets=("sst",), seeds=4), folder).points
    assert not estimate(point.study, []).measured
    other = kept("necessity", "imdb", "minilm", 1000.0)
    like = kept("necessity", "imdb", "bilstm", 100.0)
    same = kept("necessity", "sst", "bilstm", 20.0, models=2, seeds=2)
    assert estimate(point.study, [other]).seconds == pytest.approx(4000)
    assert estimate(point.study, [other, like]).seconds == pytest.approx(400)
    assert estimate(point.study, [other, like, same]).seconds == pytest.approx(40)
    cut_short = kept("necessity", "sst", "bilstm", 1.0, resumed=True)
    assert estimate(point.study, [cut_short]) == estimate(point.study, [])
    assert estimate(point.study, [kept("agreement", "sst", "bilstm", 9.0)]) == estimate(point.study, [])


def test_the_time_of_a_point_is_that_on_an_empty_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a point whose models lie in the store would tell that the next one takes no time."""
    make = TrainingRun.make

    def slow(self: TrainingRun, folder: Path) -> None:
        time.sleep(0.2)
        make(self, folder)

    monkeypatch.setattr(TrainingRun, "make", slow)
    context = small_context(tmp_path, "sst")
    replicated(context, necessity("sst", seeds=2))
    replicated(context, necessity("sst", seeds=5))  # of its ten models four are there
    more, fewer = all_kept(context.store)
    assert (fewer.seeds, more.seeds) == (2, 5)
    assert fewer.seconds >= 4 * 0.2
    assert more.seconds >= 10 * 0.2


def test_a_budget_takes_something_of_everything_before_more_of_anything(tmp_path: Path) -> None:
    folder = data_folder_of(tmp_path, "sst", "imdb")
    points = grid_of(load("disagreement"), Choice(tables=("6",)), folder).points
    assert len(points) == 2
    needed = {(point, extent): 10.0 * 2**at for point in points for at, extent in enumerate(EXTENTS)}
    first, second = points
    assert fitting(points, needed, 5) == {}
    assert fitting(points, needed, 10) == {first: EXTENTS[0]}
    assert fitting(points, needed, 29) == {first: EXTENTS[0], second: EXTENTS[0]}
    assert fitting(points, needed, 30) == {first: EXTENTS[1], second: EXTENTS[0]}
    assert fitting(points, needed, 10_000) == {first: EXTENTS[-1], second: EXTENTS[-1]}
    chosen = choose(points, needed, 0.5)
    assert [texts_of(study) for study in chosen.studies.values()] == [200, 50]
    assert chosen.left_out == (
        "agreement on imdb, bilstm has at most 200 of 500 texts.",
        "agreement on sst, bilstm has at most 50 of 500 texts.",
    )
    with pytest.raises(UserError, match=r"Nothing fits into 0\.1 minutes"):
        choose(points, needed, 0.1)


@pytest.mark.parametrize("minutes", [0.0, -3.0, math.nan])
def test_an_impossible_budget_is_told_before_what_is_missing(context: Context, minutes: float) -> None:
    with pytest.raises(UserError, match="above 0"):
        schedule(context, PAPER, Choice(), minutes)
    with pytest.raises(UserError, match="at least one seed, not 0"):
        Choice(seeds=0)


def test_an_extent_never_adds(tmp_path: Path) -> None:
    folder = data_folder_of(tmp_path, "sst")
    (point,) = grid_of(PAPER, Choice(tables=("2",), seeds=2), folder).points
    assert [len(seeds_of(cut(point.study, extent))) for extent in EXTENTS] == [2] * len(EXTENTS)


def test_more_budget_adds_to_what_was_run(tmp_path: Path, runs_of_necessity: list[str]) -> None:
    context, choice = small_context(tmp_path, "sst", "imdb"), necessity("sst", "imdb", seeds=3)
    little = replicated(context, choice, minutes=5)  # 3 for each of two, as long as nothing is measured
    assert runs_of_necessity == ["imdb"]
    assert little.left_out == ("necessity on sst, bilstm was left out: it does not fit into the budget.",)
    more = replicated(context, choice, minutes=60)
    assert runs_of_necessity == ["imdb", "sst"]
    assert more.left_out == ()
    assert len(all_kept(context.store)) == 2


def test_a_budget_that_runs_out_leaves_a_little_of_every_point(
    tmp_path: Path, runs_of_necessity: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run takes ten minutes, far more than was thought."""
    context, choice = small_context(tmp_path, "sst", "imdb"), necessity("sst", "imdb", seeds=4)
    monkeypatch.setattr("time.monotonic", lambda: 600.0 * len(runs_of_necessity))
    page = replicated(context, choice, minutes=30)
    assert runs_of_necessity == ["imdb", "sst", "imdb"]
    assert sorted((one.dataset, one.seeds) for one in all_kept(context.store)) == [
        ("imdb", 3),
        ("imdb", 4),
        ("sst", 3),
    ]
    (notice,) = [sentence for sentence in page.not_run if "used up" in sentence]
    assert (
        notice
        == "necessity on sst, bilstm has less than was planned: the budget was used up by what came before."
    )
    figures = next(finding for finding in page.findings if finding.title == "Table 2").tables["figures"]
    assert len(figures.dropna(subset=["published", "ours"])) == 4
