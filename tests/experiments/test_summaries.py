from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from rashomon.errors import UserError
from rashomon.experiments.summaries import (
    against_floor,
    beyond_others,
    check_measures,
    headline,
    ranked_rows,
    summarise_by,
    summary_of,
    summary_row,
)
from rashomon.measures.intervals import summarise_seeds


def _table(values: dict[tuple[str, int], list[float]]) -> pd.DataFrame:
    parts = [
        pd.DataFrame(
            {"method": method, "seed": seed, "example": [f"e{i}" for i in range(len(v))], "value": v}
        )
        for (method, seed), v in values.items()
    ]
    return pd.concat(parts, ignore_index=True).assign(measure="m")


def test_summary_equals_plain_numpy_and_one_figure_after_the_other() -> None:
    rng = np.random.default_rng(0)
    values = {(m, s): rng.normal(size=30 + s).tolist() for m in "ab" for s in range(3)}
    summary = summarise_by(_table(values), ["measure", "method"]).set_index("method")
    for method in "ab":
        groups = [np.array(values[(method, seed)]) for seed in range(3)]
        texts = [[f"e{i}" for i in range(len(group))] for group in groups]
        row, expected = summary.loc[method], summarise_seeds(groups, texts)
        assert row["mean"] == pytest.approx(np.mean([g.mean() for g in groups]))
        assert row["std"] == pytest.approx(np.concatenate(groups).std(ddof=1))
        assert (row["n"], row["undefined"]) == (93, 0)
        assert [row["low"], row["high"]] == pytest.approx([expected.low, expected.high], abs=1e-12)
        own = summary_row(groups, texts)
        assert own.pop("interval") == row["interval"] == "95 %"
        assert [own[key] for key in own] == pytest.approx([row[key] for key in own])
        of_table = summary_of(_table({k: v for k, v in values.items() if k[0] == method}), "value")
        assert of_table == summary_row(groups, texts)


def test_an_interval_over_seeds_is_wider_than_one_over_texts() -> None:
    rng = np.random.default_rng(1)
    apart = {("a", s): (s + 0.01 * rng.normal(size=50)).tolist() for s in range(3)}
    row = summarise_by(_table(apart), ["method"]).iloc[0]
    assert row["high"] - row["low"] > 1.0  # the seeds are what differs
    pooled = {("a", 0): [v for values in apart.values() for v in values]}
    alone = summarise_by(_table(pooled), ["method"]).iloc[0]
    assert alone["high"] - alone["low"] < 0.5


def test_undefined_values_are_counted_and_left_out() -> None:
    nan = float("nan")
    table = _table({("a", 0): [1.0, nan, 3.0], ("b", 0): [nan, nan], ("c", 0): [2.0]})
    summary = summarise_by(table, ["method"]).set_index("method")
    assert summary.loc["a", ["n", "undefined", "mean"]].tolist() == [2, 1, 2.0]
    assert summary.loc["b", ["n", "undefined"]].tolist() == [0, 2]
    assert np.isnan(summary.loc["b", "mean"])
    assert summary.loc["c", ["n", "undefined", "mean"]].tolist() == [1, 0, 2.0], (
        "texts it lacks are not undefined"
    )
    assert [row["method"] for row in ranked_rows(summary.reset_index())] == ["a", "c"]
    assert len(ranked_rows(summary, defined=False)) == 3


def test_tests_against_random_are_paired_and_adjusted() -> None:
    rng = np.random.default_rng(2)
    floor = rng.normal(size=40)
    better, same = floor + np.abs(rng.normal(size=40)), rng.normal(size=40)
    table = _table({("good", 0): better.tolist(), ("same", 0): same.tolist(), ("random", 0): floor.tolist()})
    shuffled = table.sample(frac=1, random_state=0, ignore_index=True)
    summary = against_floor(shuffled).set_index("method")
    expected = [stats.wilcoxon(v - floor, alternative="greater").pvalue for v in (better, same)]
    assert summary.loc[["good", "same"], "p_against_random"].tolist() == pytest.approx(expected)
    assert summary.loc[["good", "same"], "p_holm"].tolist() == pytest.approx(
        multipletests(expected, method="holm")[1]
    )
    assert np.isnan(summary.loc["random", "p_holm"])
    lower = against_floor(table, lower_is_better=("m",)).set_index("method")
    assert lower.loc["good", "p_against_random"] > 0.99


def test_pairs_are_made_by_text_and_not_by_place() -> None:
    table = _table({("a", 0): [5.0, 6.0, 7.0, 8.0, 9.0], ("random", 0): [0.0, 1.0, 2.0, 3.0, 4.0, 99.0]})
    late = table[~((table["method"] == "random") & (table["example"] == "e0"))]
    row = against_floor(late).set_index("method").loc["a"]
    assert row["p_against_random"] == pytest.approx(1 / 16)  # four pairs, all won


def test_methods_are_compared_with_the_best_other_on_the_same_texts() -> None:
    """Single intervals overlap because texts differ; on the same texts one method is always a little ahead."""
    rng = np.random.default_rng(3)
    hard = rng.normal(scale=5, size=60)
    ahead, behind = hard + 0.2 + 0.01 * rng.normal(size=60), hard
    far = hard - 3 + rng.normal(size=60)
    table = _table(
        {
            ("behind", 0): behind.tolist(),
            ("ahead", 0): ahead.tolist(),
            ("far", 0): far.tolist(),
            ("random", 0): (hard + 99).tolist(),
        }
    )
    found = beyond_others(table).set_index("method")
    assert found["than"].to_dict() == {"ahead": "behind", "behind": "ahead", "far": "ahead"}  # no control
    assert found.loc["ahead", "difference"] == pytest.approx(np.mean(ahead - behind))
    assert 0 < found.loc["ahead", "low"] < found.loc["ahead", "high"]
    assert found.loc["behind", "high"] < 0
    expected = [
        stats.wilcoxon(one, other).pvalue for one, other in ((ahead, behind), (behind, ahead), (far, ahead))
    ]
    assert found.loc[["ahead", "behind", "far"], "p"].tolist() == pytest.approx(expected)
    lower = beyond_others(table, lower_is_better=("m",)).set_index("method")
    assert lower["than"].to_dict() == {"far": "behind", "behind": "far", "ahead": "far"}
    assert beyond_others(_table({("a", 0): [1.0, 2.0], ("random", 0): [0.0, 1.0]})).empty


def test_equal_to_random_does_not_beat_it_and_without_random_there_is_no_test() -> None:
    same = against_floor(_table({("a", 0): [1.0, 2.0], ("random", 0): [1.0, 2.0]})).set_index("method")
    assert same.loc["a", "p_holm"] == 1.0
    assert np.isnan(against_floor(_table({("a", 0): [1.0, 2.0]}))["p_holm"]).all()


def test_the_headline_is_the_usual_measure_or_the_first() -> None:
    assert headline("kendall", ("pearson", "kendall")) == "kendall"
    assert headline("kendall", ("pearson",)) == "pearson"


def test_measures_are_checked_by_family() -> None:
    check_measures(("kendall",), "agreement")
    with pytest.raises(UserError, match="no measure of agreement"):
        check_measures(("auprc",), "agreement")
    with pytest.raises(UserError, match="kendall"):
        check_measures(("kendal",), "agreement")
    with pytest.raises(UserError, match="at least one"):
        check_measures((), "recovery")


def _null(rng: np.random.Generator, seeds: int) -> pd.DataFrame:
    """A method that is no better than random, each seed with luck of its own."""
    values: dict[tuple[str, int], list[float]] = {}
    for seed in range(seeds):
        values["a", seed] = (rng.normal() + rng.normal(size=30)).tolist()
        values["random", seed] = [0.0] * 30
    return _table(values)


def test_several_seeds_are_not_pooled() -> None:
    rng = np.random.default_rng(5)
    tables = [against_floor(_null(rng, 3)).set_index("method") for _ in range(150)]
    assert tables[0].loc["a", "interval"] == "95 %"
    assert np.mean([table.loc["a", "p_holm"] < 0.05 for table in tables]) <= 0.10
    assert set(tables[0]["test"]) == {"hierarchical t", "none"}
    clear = {("a", s): (2.0 + 0.1 * s + rng.normal(size=30)).tolist() for s in range(3)}
    found = against_floor(_table(clear | {("random", s): [0.0] * 30 for s in range(3)})).set_index("method")
    assert found.loc["a", "p_holm"] < 0.001


def test_one_seed_is_tested_by_wilcoxon() -> None:
    values = np.random.default_rng(6).normal(size=20).tolist()
    one = against_floor(_table({("a", 0): values, ("random", 0): [0.0] * 20})).set_index("method")
    assert one["test"].to_dict() == {"a": "wilcoxon", "random": "none"}
    unmatched = _table({("a", 0): values, ("a", 1): values, ("random", 0): [0.0] * 20}).query("seed == 0")
    assert against_floor(unmatched).set_index("method").loc["a", "test"] == "wilcoxon"


def test_under_three_seeds_the_interval_is_called_a_range() -> None:
    rng = np.random.default_rng(7)
    two = _table({("a", s): (s + rng.normal(size=20)).tolist() for s in range(2)})
    means = two.groupby("seed")["value"].mean()
    row = summarise_by(two, ["method"]).iloc[0]
    assert row["interval"] == "range"
    assert (row["low"], row["high"]) == pytest.approx((means.min(), means.max()))
    assert summarise_by(_table({("a", 0): [1.0]}), ["method"]).iloc[0]["interval"] == "none"


def test_intervals_stay_within_the_measures_range() -> None:
    table = _table({("a", 0): [1.0, 1.0, 0.9], ("b", 0): [-1.0, -1.0, -0.9]})
    free = summarise_by(table, ["measure", "method"])
    assert free["high"].max() > 1.0
    within = summarise_by(table.assign(measure="kendall"), ["measure", "method"])
    assert (within["high"].max(), within["low"].min()) == (1.0, -1.0)
    assert summary_row([[0.9, 0.98, 1.0]], bounds=(0.0, 1.0))["high"] == 1.0


def test_seeds_that_share_texts_are_not_so_many_trials() -> None:
    """A method is no better than random; the same hard and easy texts come back under every seed."""
    rng = np.random.default_rng(8)
    found = []
    for _ in range(150):
        hard = rng.normal(size=30)
        values = {("a", s): (hard + 0.1 * rng.normal(size=30)).tolist() for s in range(5)}
        table = against_floor(_table(values | {("random", s): [0.0] * 30 for s in range(5)})).set_index(
            "method"
        )
        found.append(table.loc["a", "p_holm"] < 0.05)
    assert np.mean(found) <= 0.10
