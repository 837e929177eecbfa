"""The published tables agree with themselves and with each other: a slip in copying one would show."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from rashomon.papers import figures_frame, load, papers
from rashomon.papers.claims import as_measured, decide_all
from rashomon.papers.published import Table
from rashomon.studies import studies

# How many figures each table has, counted on the printed page: rows times columns without the empty cells.
COUNTS = {
    "disagreement": {
        "1": 75,
        "2": 75,
        "3": 20,
        "4": 20,
        "5": 75,
        "6": 75,
        "7": 10,
        "8": 15,
        "9": 10,
        "figure-1": 2,
    },
    "not_not": {"1": 30, "2": 18, "3": 16, "4": 16, "5": 3 * (10 + 11 + 16 + 10)},
    "hard_to_agree": {
        "1": 2 * 2 * 6 * 4,
        "2": 48,
        "3": 24,
        "4": 24,
        "5": 10,
        "6": 12,
        "7": 8,
        "8": 16,
        "9": 8,
        "10": 16,
        "11": 96,
        "figure-1": 2,
    },
    "attefa": {"1": 42, "2": 28 + 10, "3": 14 * 10, "4": 8 * 9 * 10, "5": 6 * 9 * 10},
    "teacher_student": {"3": 9, "4": 12, "7": 12, "8": 4 * 8 * 3, "9": 36, "11": 6 * 8 + 1, "text": 16},
}
UNREADABLE = {
    "not_not": ["figure-3", "figure-5", "figure-5-instance"],
    "teacher_student": ["1", "2", "5", "6", "10"],
}
RANGES = {
    "accuracy|f1|base-f1|reported-f1|attefa": (0, 1),
    "kendall.*|pearson|correlation|rank-correlation|noise-correlation": (-1, 1),
    "tvd": (0, 0.5),
    "jsd": (0, np.log(2) + 5e-4),
    "rank|.*-rank": (1, 9),
}
EVERY_TABLE = [(name, table.id) for name in papers() for table in load(name).tables.values()]


def frame(paper: str, table: str) -> pd.DataFrame:
    return figures_frame(load(paper), [table])


def wide(paper: str, table: str, keys: list[str], across: str = "figure") -> pd.DataFrame:
    return frame(paper, table).pivot_table("value", keys, across, sort=False)


def test_the_five_papers_are_there_with_thirty_claims() -> None:
    assert papers() == sorted(COUNTS)
    ids = [claim for name in papers() for claim in load(name).claims]
    assert sorted(ids, key=lambda one: int(one[1:])) == [f"C{number}" for number in range(1, 31)]


@pytest.mark.parametrize("paper", papers())
def test_every_table_has_the_figures_that_were_counted(paper: str) -> None:
    tables = load(paper).tables
    counted = {id: len(table.figures) for id, table in tables.items() if table.figures}
    assert counted == COUNTS[paper]
    assert [id for id, table in tables.items() if table.unreadable] == UNREADABLE.get(paper, [])
    assert all(not table.figures for table in tables.values() if table.unreadable)


@pytest.mark.parametrize(("paper", "id"), EVERY_TABLE)
def test_figures_lie_in_their_range_and_sources_name_what_exists(paper: str, id: str) -> None:
    table = load(paper).table(id)
    for one in table.figures:
        scale = table.ours[one.figure].scale if one.figure in table.ours else 1.0
        percent = 100 if one.value > 2 and one.figure in ("accuracy", "f1") else 1
        assert scale in (1.0, 0.5, 100), "a unit that nobody has explained"
        assert one.spread is None or one.spread >= 0
        for pattern, (low, high) in RANGES.items():
            if re.fullmatch(pattern, one.figure):
                assert low <= one.value / percent <= high, one
    _check_requirements(table)


def _check_requirements(table: Table) -> None:
    """Spreads are explained; a table that is measured says where ours are."""
    assert table.unreadable or table.figures
    assert (table.study is None) == (not table.ours)
    if table.study is not None:
        assert table.configuration.differs, "no paper is replicated without a difference"
    if any(one.spread is not None for one in table.figures):
        assert table.spread
    if table.study in studies:
        for source in table.ours.values():
            assert source.table


def test_copies_of_a_table_have_its_means() -> None:
    for paper, copy, first in (
        ("disagreement", "1", "5"),
        ("disagreement", "2", "6"),
        ("hard_to_agree", "9", "7"),
    ):
        one, other = frame(paper, copy), frame(paper, first)
        assert one["value"].tolist() == other["value"].tolist()
        assert one["spread"].isna().all()


# ---- not_not


def test_the_best_adversaries_are_those_of_the_sweep() -> None:
    best = wide("not_not", "4", ["dataset"])
    sweep = wide("not_not", "5", ["dataset", "lambda"]).reset_index()
    far = sweep[sweep["jsd"] > 0.4]
    chosen = far.loc[far.groupby("dataset")["f1"].idxmax()].set_index("dataset")
    for column in ("lambda", "f1", "tvd", "jsd"):
        assert chosen.loc[best.index, column].tolist() == best[column].tolist()


def test_the_sweep_is_sorted_by_lambda_and_ends_far_away() -> None:
    sweep = frame("not_not", "5")
    for _, rows in sweep[sweep["figure"] == "jsd"].groupby("dataset"):
        assert rows["lambda"].is_monotonic_increasing
        assert rows["value"].iloc[-1] > 0.6
        assert rows["value"].iloc[0] < 0.11


# ---- attefa


def test_attefa_means_and_spreads_are_those_of_its_seeds() -> None:
    together = frame("attefa", "3").set_index(["dataset", "encoder", "figure"])
    seeds = pd.concat([frame("attefa", "4"), frame("attefa", "5")])
    for keys, group in seeds.groupby(["dataset", "encoder", "figure"]):
        assert sorted(group["seed"]) == [2, 10, 50, 257, 12504, 100078, 500231, 8988812, 90754789]
        # printed with three digits (epochs with none), the means of AtteFa with four
        slack = 0.51 if keys[2] == "epoch" else 1.01e-3
        assert group["value"].mean() == pytest.approx(together.loc[keys, "value"], abs=slack), keys
        assert group["value"].std(ddof=0) == pytest.approx(together.loc[keys, "spread"], abs=slack), keys


def test_attefa_follows_from_its_distances() -> None:
    rows = wide("attefa", "3", ["dataset", "encoder"])
    expected = np.minimum((rows["tvd"] / 0.5) / (rows["jsd"] / np.log(2)), 1)
    assert np.abs(rows["attefa"] - expected).max() < 5e-3


def test_attefa_quotes_the_earlier_paper_right() -> None:
    """Its columns of reported F1 are the other paper's base and trained MLP."""
    quoted = frame("attefa", "2")
    quoted = quoted[quoted["figure"] == "reported-f1"].set_index(["encoder", "dataset"])["value"]
    base = frame("not_not", "2")
    base = base[(base["figure"] == "f1") & (base["attention"] == "learned")].set_index("dataset")["value"]
    guided = frame("not_not", "3")
    own = guided[guided["guide"] == "own"].set_index("dataset")["value"]
    assert quoted.loc["bilstm"].to_dict() == base.to_dict()
    assert quoted.loc["mlp"].to_dict() == own.to_dict()


# ---- hard_to_agree


def test_average_agreement_is_the_mean_over_pairs() -> None:
    pairs = frame("hard_to_agree", "1").groupby(["encoder", "dataset", "figure"])["value"]
    average = frame("hard_to_agree", "2")
    average = average[average["variant"] == "base"].set_index(["encoder", "dataset", "figure"])["value"]
    assert (pairs.size() == 6).all()
    assert (pairs.mean() - average).abs().max() < 0.0101


def test_curvature_is_the_mean_over_datasets() -> None:
    keys = ["statistic", "attribute", "variant"]
    by_dataset = frame("hard_to_agree", "11")
    means = by_dataset[by_dataset["figure"] == "correlation"].groupby(keys)["value"].mean()
    printed = frame("hard_to_agree", "5").set_index(keys)["value"]
    assert len(printed) == 10
    assert (means.loc[printed.index] - printed).abs().max() < 0.0076  # two digits, of means of two digits


def test_splits_add_up() -> None:
    sizes = wide("hard_to_agree", "10", ["dataset"], "split")
    assert (sizes["train"] + sizes["dev"] + sizes["test"]).tolist() == sizes["total"].tolist()


# ---- teacher_student


def test_average_ranks_follow_from_accuracies() -> None:
    """Mean of the two ranks; equal accuracies were told apart by digits that are not printed."""
    rows = frame("teacher_student", "8")
    accuracy = rows[rows["figure"] == "accuracy"].pivot_table(
        "value", ["student-setting", "explanation"], "learning", sort=False
    )
    ranks = rows[rows["figure"] == "rank"].set_index(["student-setting", "explanation"])["value"]
    by_setting = accuracy.groupby(level=0)
    first = by_setting.rank(ascending=False, method="min").mean(axis=1)
    last = by_setting.rank(ascending=False, method="max").mean(axis=1)
    assert ((first <= ranks) & (ranks <= last)).all(), pd.concat([first, ranks, last], axis=1)


def test_ranks_of_erasure_follow_from_its_values() -> None:
    rows = wide("teacher_student", "9", ["method"])
    for figure, ascending in (("sufficiency", True), ("comprehensiveness", False)):
        first, last = (rows[figure].rank(ascending=ascending, method=method) for method in ("min", "max"))
        assert sorted(rows[f"{figure}-rank"]) == list(range(1, 10))
        assert ((first <= rows[f"{figure}-rank"]) & (rows[f"{figure}-rank"] <= last)).all()


# ---- conclusions


@pytest.mark.parametrize("paper", papers())
def test_a_papers_own_figures_bear_out_its_conclusions(paper: str) -> None:
    """Read as exact figures; what is drawn or a picture cannot be read, and flow on IMDb is what the paper lacks."""
    decided = decide_all(load(paper), as_measured(load(paper))).set_index("claim")
    unread = {"C6", "C8", "C11", "C12", "C26"} & set(decided.index)
    assert (decided.loc[sorted(unread), "outcome"] == "not run").all()
    others = decided.drop(index=sorted(unread))
    assert (others["outcome"] == "holds").all(), others["why"].tolist()
    assert (others["figures"] == others["published_figures"]).all()
