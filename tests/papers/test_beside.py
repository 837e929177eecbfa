"""Ours beside the published figures: by keys, in the paper's unit, for the paper's own subjects alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rashomon.experiments.figures import Distributions, Plot, Series
from rashomon.papers import claims_input, load, with_published
from rashomon.papers.beside import _measured, beside, setting_of
from rashomon.papers.claims import decide
from rashomon.papers.published import Source
from rashomon.studies.base import Finding


def finding(study: str, tables: Mapping[str, pd.DataFrame], **settings: Any) -> Finding:
    configuration = {"subject": subject(), "split": "test"} | settings
    return Finding(study, "?", "So it is.", configuration, {"summary": pd.DataFrame(), **tables})


def subject(dataset: str = "sst", encoder: str = "bilstm", **about_data: Any) -> dict[str, Any]:
    return {"dataset": {"name": dataset, "file": None, **about_data}, "model": {"name": encoder}}


def necessity(learned: float = 0.84, uniform: float = 0.82, **settings: Any) -> Finding:
    rows = [
        {
            "figure": figure,
            "attention": attention,
            "mean": mean,
            "low": mean - 0.01,
            "high": mean + 0.01,
            "n": 3,
        }
        for figure in ("accuracy", "f1")
        for attention, mean in (("learned", learned), ("uniform", uniform))
    ]
    return finding("necessity", {"summary": pd.DataFrame(rows)}, **settings)


def row_of(joined: pd.DataFrame, **keys: Any) -> pd.Series:  # type: ignore[type-arg]
    for key, value in keys.items():
        joined = joined[joined[key] == value]
    assert len(joined) == 1
    return joined.iloc[0]


def test_figures_meet_by_their_keys() -> None:
    joined = beside(necessity(), "not_not", "2")
    row = row_of(joined, dataset="sst", attention="learned", figure="f1")
    assert row["published"] == 0.831
    assert row["ours"] == 0.84
    assert row["difference"] == pytest.approx(0.009)
    assert (row["low"], row["high"], row["n"]) == (0.83, 0.85, 3)
    assert row["within_spread"] is None  # the paper gives none
    assert row["encoder"] == "bilstm"
    other = row_of(joined, dataset="imdb", attention="learned", figure="f1")
    assert np.isnan(other["ours"])
    assert len(joined) == 18


@pytest.mark.parametrize(("learned", "inside"), [(0.816, True), (0.837, True), (0.814, False), (0.84, False)])
def test_within_the_published_spread(learned: float, inside: bool) -> None:
    joined = beside(necessity(learned), "disagreement", "3")  # .826 with a spread of .011
    assert row_of(joined, dataset="sst", encoder="bilstm", attention="learned")["within_spread"] is inside


def test_ours_are_in_the_papers_unit() -> None:
    shared = {"class": "all", "n": 100}
    adversary = {"kind": "adversary", "lambda": 5.25e-4, "f1": 0.82, "tvd": 0.06, "jsd": 0.5}
    uniform = {"kind": "uniform", "lambda": np.nan, "f1": 0.8, "tvd": 0.2, "jsd": 0.2}
    points = pd.DataFrame([shared | adversary, shared | uniform])
    points = points.assign(tvd_low=0.05, tvd_high=0.07)
    joined = beside(finding("adversary", {"summary": points}), "not_not", "5")
    row = row_of(joined, dataset="sst", figure="tvd", **{"lambda": 5.25e-4})
    assert (row["published"], row["ours"], row["low"], row["high"]) == pytest.approx(
        (0.036, 0.03, 0.025, 0.035)
    )
    assert joined["ours"].notna().sum() == 3  # not the uniform point


def test_pairs_meet_in_either_order_and_settings_of_explainers_do_not_matter() -> None:
    rows = pd.DataFrame(
        [
            {"measure": "kendall", "first": "lime(perturbation=mask)", "second": "attention", "mean": 0.3},
            {"measure": "pearson", "first": "lime(perturbation=mask)", "second": "attention", "mean": 0.9},
            {"measure": "kendall", "first": "attention", "second": "random", "mean": 0.0},
        ]
    )
    joined = beside(finding("agreement", {"summary": rows}), "disagreement", "6")
    row = row_of(joined, dataset="sst", first="attention", second="lime")
    assert (row["published"], row["ours"]) == (0.1326, 0.3)
    assert joined["ours"].notna().sum() == 1  # the random control is no method of the paper


def test_several_findings_make_one_table_and_extra_ones_stay() -> None:
    rows = pd.DataFrame(
        [{"measure": "kendall", "first": "attention-flow", "second": "lime", "mean": 0.2, "n": 500}]
    )
    found = [
        finding("agreement", {"summary": rows}, subject=subject(dataset, "minilm"))
        for dataset in ("sst", "imdb", "mrpc")
    ]
    joined = beside(found, "disagreement", "4")
    assert joined.dropna(subset="ours")["dataset"].tolist() == ["sst", "imdb", "mrpc"]
    assert set(joined["encoder"]) == {"distilbert"}  # what minilm stands in for
    assert np.isnan(row_of(joined, dataset="imdb")["published"])
    ours = claims_input(joined, "disagreement", "4")
    assert ours["paper"].unique().tolist() == ["disagreement"]
    assert decide(load("disagreement").claim("C6"), ours).outcome == "holds"
    assert decide(load("disagreement").claim("C6"), ours.assign(n=20)).outcome == "does not hold"


def test_a_data_frame_with_all_keys_is_enough() -> None:
    rows = pd.DataFrame(
        [{"dataset": "imdb", "encoder": "bilstm", "attention": "uniform", "figure": "f1", "mean": 0.9}]
    )
    row = row_of(beside(rows, "not_not", "2"), dataset="imdb", attention="uniform")
    assert row["difference"] == pytest.approx(0.021)


def test_intervals_follow_from_spread_over_seeds_where_a_study_has_no_more() -> None:
    values = np.array([0.6, 0.65, 0.7, 0.66])
    rows = pd.DataFrame(
        [{"dataset": "sst", "encoder": "mlp", "mean": 0.3, "std": 0.1, "low": 0.2, "high": 0.4}]
    )
    rows = rows.assign(n=4, jsd=values.mean(), jsd_std=values.std(ddof=1))
    joined = beside(finding("attefa", {"summary": rows}), "attefa", "3")
    row = row_of(joined, dataset="sst", encoder="mlp", figure="jsd")
    expected = stats.t.interval(0.95, 3, values.mean(), stats.sem(values))
    assert (row["low"], row["high"]) == pytest.approx(expected)
    attefa = row_of(joined, dataset="sst", encoder="mlp", figure="attefa")
    assert (attefa["ours"], attefa["low"], attefa["high"]) == (0.3, 0.2, 0.4)
    few = beside(finding("attefa", {"summary": rows.assign(n=2)}), "attefa", "3")
    assert np.isnan(row_of(few, dataset="sst", encoder="mlp", figure="jsd")["low"])


@pytest.mark.parametrize("kind", ["range", "none"])
def test_the_range_of_two_seeds_and_one_value_alone_are_no_interval(kind: str) -> None:
    source = Source("summary", "mean")
    row = {"mean": 0.5, "low": 0.4, "high": 0.6, "std": 0.1, "n": 200, "interval": "95 %"}
    sure = _measured("f1", {}, row, source)
    assert (sure.low, sure.high) == (0.4, 0.6)
    unsure = _measured("f1", {}, row | {"interval": kind}, source)
    assert np.isnan([unsure.low, unsure.high]).all()


def test_a_column_with_an_interval_of_its_own_is_judged_by_that() -> None:
    """The mean over pairs of rankings has a range, and the mean over seeds beside it an interval."""
    row = {"mean": 0.4, "low": 0.3, "high": 0.5, "n": 2, "interval": "range"}
    row |= {
        "by_seed": 0.35,
        "by_seed_low": 0.1,
        "by_seed_high": 0.6,
        "by_seed_n": 8,
        "by_seed_interval": "95 %",
    }
    over_seeds = _measured("tau", {}, row, Source("rank-agreement", "by_seed"))
    assert (over_seeds.low, over_seeds.high, over_seeds.n) == (0.1, 0.6, 8)
    assert np.isnan(_measured("tau", {}, row, Source("rank-agreement", "mean")).low)
    few = _measured("tau", {}, row | {"by_seed_interval": "range"}, Source("rank-agreement", "by_seed"))
    assert np.isnan(few.low)


def test_several_bases_under_one_key_are_averaged_without_an_interval() -> None:
    seeds = pd.DataFrame(
        [
            {"dataset": "mock-1", "encoder": "mlp", "base": base, "seed": 10, "attefa": value}
            for base, value in ((0, 0.7), (1, 0.5))
        ]
    )
    row = row_of(
        beside(finding("attefa", {"seeds": seeds}), "attefa", "4"),
        dataset="mock-1",
        encoder="mlp",
        seed=10,
        figure="attefa",
    )
    assert (row["ours"], row["n"]) == (pytest.approx(0.6), 2)
    assert np.isnan(row["low"])


# ---- a finding with what was published


def test_a_finding_on_the_papers_subject_gains_the_published_figures() -> None:
    table = with_published(necessity()).tables["published"]
    assert table[["paper", "table", "figure", "attention", "published", "ours"]].to_numpy().tolist() == [
        ["disagreement", "3", "accuracy", "uniform", 0.823, 0.82],
        ["disagreement", "3", "accuracy", "learned", 0.826, 0.84],
        ["not_not", "2", "f1", "learned", 0.831, 0.84],
        ["not_not", "2", "f1", "uniform", 0.822, 0.82],
    ]


def test_a_table_that_is_printed_twice_is_shown_once() -> None:
    rows = pd.DataFrame([{"measure": "kendall", "first": "lime", "second": "attention", "mean": 0.3}])
    table = with_published(finding("agreement", {"summary": rows})).tables["published"]
    assert table["table"].unique().tolist() == ["6"]
    assert len(table) == 15  # every pair of this dataset, also those that were not asked for


@pytest.mark.parametrize(
    "settings",
    [
        {"subject": subject("mrpc")},
        {"subject": subject("sst", "mlp")},
        {
            "subject": subject("sst", "minilm")
        },  # beside DistilBERT's figures only in a replication, which says so
        {"subject": subject("given-abc")},
        {"subject": subject("sst", file="mine.csv")},
        {"subject": {"dataset": {"name": "sst"}, "checkpoint": "folder"}},
        {"split": "train"},
    ],
)
def test_another_subject_has_no_published_figures(settings: dict[str, Any]) -> None:
    plain = necessity(**settings)
    assert with_published(plain) is plain


def test_planted_data_of_another_kind_is_not_the_papers() -> None:
    rows = pd.DataFrame(
        [{"dataset": "mock-5", "encoder": "mlp", "mean": 0.4, "low": 0.3, "high": 0.5, "n": 3}]
    )
    same = with_published(finding("attefa", {"summary": rows}, subject=subject("mock-5", "mlp")))
    assert row_of(same.tables["published"], table="3", figure="attefa")["published"] == 0.4987
    other = finding("attefa", {"summary": rows}, subject=subject("mock-5", "mlp", classes=3))
    assert with_published(other) is other


def test_a_figure_belongs_to_its_lambda() -> None:
    rows = pd.DataFrame(
        [{"figure": "f1", "guide": guide, "mean": 0.8} for guide in ("base", "own", "adversary")]
    )
    same = with_published(finding("guided-mlp", {"summary": rows}, weight=0.001)).tables["published"]
    assert same.set_index("guide")["published"].to_dict() == {
        "uniform": 0.812,
        "own": 0.817,
        "base": 0.824,
        "adversary": 0.592,
    }
    assert np.isnan(row_of(same, guide="uniform")["ours"])  # not asked for, but of this subject
    other = with_published(finding("guided-mlp", {"summary": rows}, weight=0.01)).tables["published"]
    assert set(other["guide"]) == {"uniform", "own", "base"}


def test_published_points_join_the_curve_in_our_unit() -> None:
    points = pd.DataFrame(
        [{"kind": "adversary", "class": "all", "lambda": 0.0, "f1": 0.8, "tvd": 0.1, "jsd": 0.1}]
    )
    plots = tuple(
        Plot(f"What it costs: {where}", "JSD", "TVD", (Series("adversaries", [0.1], [0.1]),))
        for where in ("all texts", "texts of class 1")
    )
    violins = Distributions("all texts too", {}, "JSD")
    plain = finding("adversary", {"summary": points})
    drawn = with_published(Finding(**{**vars(plain), "figures": (*plots, violins)}))
    joined, by_class, same_violins = drawn.figures
    assert isinstance(joined, Plot)
    series = joined.series[-1]
    assert series.name == "published adversaries"
    assert len(series.x) == 16
    assert list(series.x) == sorted(series.x)
    place = list(series.x).index(0.514)
    assert series.y[place] == pytest.approx(2 * 0.036)
    assert (by_class, same_violins) == (plots[1], violins)
    assert drawn.tables["published"]["table"].value_counts().to_dict() == {"5": 48, "4": 4}
    assert drawn.verdict == plain.verdict


def test_a_key_may_be_the_only_one_of_a_list() -> None:
    asked = {"students": ["bilstm"], "percents": [5.0, 10.0], "subject": {"seeds": [3]}}
    assert setting_of(asked, "students[]") == "bilstm"
    assert setting_of(asked, "subject.seeds[]") == 3
    assert setting_of(asked, "percents[]") is None
    assert setting_of(asked, "nothing[]") is None
