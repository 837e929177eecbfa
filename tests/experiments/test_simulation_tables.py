"""Tables of students' answers, from answers whose figures are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from rashomon.experiments.simulation_tables import (
    ComparedRankings,
    accuracy_table,
    compared_rankings,
    gains_table,
    noise_table,
    price_table,
    rank_agreement,
    rank_correlations,
    rank_table,
    ranks_by_seed,
    ways_table,
)

TEXTS, SEEDS = 200, (0, 1, 2, 3)
NO_MEASURES = pd.DataFrame(columns=["measure", "explanation", "n", "mean", "rank"])


def answers(
    accuracy: dict[str, float],
    learning: str = "multitask",
    size: int = 100,
    percent: float = 10.0,
    **other: object,
) -> pd.DataFrame:
    """Each explanation is right on the first so many of the texts, a few more under later seeds."""
    parts = []
    for explanation, share in accuracy.items():
        alone = explanation == "none"
        for seed in SEEDS:
            right = np.arange(TEXTS) < round(share * TEXTS) + seed
            keys = {
                "student": "s",
                "learning": "none" if alone else learning,
                "explanation": explanation,
                "percent": 0.0 if alone or explanation == "human" else percent,
                "dropped": 0.0,
                "size": size,
                "seed": seed,
            }
            table = pd.DataFrame({"example": [f"t{i}" for i in range(TEXTS)], "correct": right.astype(float)})
            parts.append(table.assign(**(keys | other)))
    return pd.concat(parts, ignore_index=True)


def chosen(instances: pd.DataFrame) -> pd.DataFrame:
    keys = ["student", "learning", "explanation", "percent", "dropped", "size", "seed"]
    return instances[keys].drop_duplicates().assign(weight=1.0)


FOUR = {"none": 0.6, "lime": 0.7, "attention": 0.8, "random": 0.6}


def test_accuracy_is_tested_against_labels_alone() -> None:
    instances = answers(FOUR)
    table = accuracy_table(instances, chosen(instances)).set_index("explanation")
    assert table["mean"].to_dict() == pytest.approx({k: v + 1.5 / TEXTS for k, v in FOUR.items()})
    assert table.loc["attention", "difference"] == pytest.approx(0.2)
    assert table.loc["random", "difference"] == 0
    assert table.loc["attention", "p_holm"] < 0.001 < 0.05 < table.loc["random", "p_holm"]
    assert np.isnan(table.loc["none", "p"])
    assert (table["n"] == TEXTS * len(SEEDS)).all()


def test_gains_are_taken_over_the_whole_design() -> None:
    small, large = (
        answers(FOUR),
        answers({"none": 0.7, "lime": 0.7, "attention": 0.8, "random": 0.7}, size=400),
    )
    gains = gains_table(pd.concat([small, large])).set_index("explanation")
    assert "none" not in gains.index
    assert gains["difference"].to_dict() == pytest.approx({"lime": 0.05, "attention": 0.15, "random": 0.0})
    assert (gains["places"] == 2).all()
    assert gains.loc["attention", "difference_low"] > 0
    assert gains.loc["attention", "p_holm"] < 0.05 < gains.loc["random", "p_holm"]


def test_ranks_share_places_and_are_averaged() -> None:
    table = rank_table(ranks_by_seed(answers(FOUR))).set_index("explanation")
    assert table["mean"].to_dict() == {"attention": 1.0, "lime": 2.0, "none": 3.5, "random": 3.5}
    assert (table["n"] == len(SEEDS)).all()
    assert (table["of"] == 4).all()


def test_what_has_no_share_is_ranked_beside_every_share() -> None:
    five, ten = (
        answers({**FOUR, "human": 0.9}, percent=5.0),
        answers({"lime": 0.95, "attention": 0.85}, percent=10.0),
    )
    ranks = ranks_by_seed(pd.concat([five, ten]))
    by_share = ranks[ranks["seed"] == 0].set_index(["percent", "explanation"])["rank"]
    assert by_share[5.0].to_dict() == {"none": 4.5, "lime": 3, "attention": 2, "random": 4.5, "human": 1}
    assert by_share[10.0].to_dict() == {"none": 4, "lime": 1, "attention": 3, "human": 2}


def test_people_alone_are_ranked_too() -> None:
    table = rank_table(ranks_by_seed(answers({"none": 0.6, "human": 0.8}))).set_index("explanation")
    assert table["mean"].to_dict() == {"human": 1.0, "none": 2.0}


def test_rankings_that_agree_and_that_do_not() -> None:
    """One strategy ranks none < a < b < c, another the same, a third student the other way round."""
    order, turned = {"none": 0.5, "a": 0.6, "b": 0.7, "c": 0.8}, {"none": 0.8, "a": 0.7, "b": 0.6, "c": 0.5}
    instances = pd.concat(
        [
            answers(order),
            answers({k: v for k, v in order.items() if k != "none"}, learning="attention-regularisation"),
            answers(turned, student="t"),
        ]
    )
    measure = pd.DataFrame(
        {"measure": "erasure-like", "explanation": ["a", "b", "c"], "rank": [3.0, 2.0, 1.0]}
    )
    rankings = compared_rankings(ranks_by_seed(instances), measure)
    found = rank_correlations(rankings)
    tau = {(row["first"], row["second"]): row["tau"] for row in found.to_dict("records")}
    assert tau["s, multitask, 10 %", "s, attention-regularisation, 10 %"] == 1
    assert tau["s, multitask, 10 %", "t, multitask, 10 %"] == -1
    assert tau["s, multitask, 10 %", "erasure-like"] == 1
    assert tau["t, multitask, 10 %", "erasure-like"] == -1
    assert (found["n"] == len(SEEDS)).all()
    between = rank_agreement(rankings).set_index(["between", "learning"])["mean"].to_dict()
    assert between["strategies", ""] == 1
    assert between["students", ""] == between["students", "multitask"] == -1
    assert between["all", ""] == pytest.approx(-1 / 3)


def test_rankings_are_compared_seed_by_seed_too() -> None:
    """Students agree under some seeds and not under others: the interval is over seeds, as SciPy has it."""
    one = pd.DataFrame({seed: [1.0, 2, 3, 4] for seed in range(4)}, index=list("abcd"))
    other = one.copy()
    other[1], other[2] = [2.0, 1, 3, 4], [4.0, 3, 2, 1]
    third = pd.DataFrame({seed: [4.0, 3, 2, 1] for seed in range(4)}, index=list("abcd"))
    pairs = [
        ComparedRankings("s", "t", "students", "multitask", (one, other)),
        ComparedRankings("s", "u", "students", "multitask", (one, third)),
    ]
    assert pairs[0].by_seed == pytest.approx([1, 2 / 3, -1, 1])
    row = rank_agreement(pairs).set_index(["between", "learning"]).loc[("students", "multitask")]
    seeds = (np.array([1, 2 / 3, -1, 1]) - 1) / 2  # the mean of both pairs
    assert row["mean"] == pytest.approx((pairs[0].tau - 1) / 2)
    assert row["by_seed"] == pytest.approx(seeds.mean())
    low, high = scipy.stats.t.interval(0.95, 3, seeds.mean(), scipy.stats.sem(seeds))
    assert row["by_seed_low"] == pytest.approx(max(low, -1))
    assert row["by_seed_high"] == pytest.approx(high)
    assert (row["by_seed_interval"], row["by_seed_n"], row["n"]) == ("95 %", 4, 2)
    few = [replace(pair, ranks=(pair.ranks[0][[0, 1]], pair.ranks[1][[0, 1]])) for pair in pairs]
    assert set(rank_agreement(few)["by_seed_interval"]) == {"range"}, "two seeds have no interval"


def test_noise_goes_with_accuracy() -> None:
    instances = pd.concat([answers({"human": 0.9 - 0.3 * p}, dropped=p) for p in (0.0, 0.5, 1.0)])
    row = noise_table(instances).iloc[0]
    assert row["n"] == 3 * len(SEEDS)
    points = [(p, round((0.9 - 0.3 * p) * TEXTS) + seed) for p in (0.0, 0.5, 1.0) for seed in SEEDS]
    assert row["correlation"] == pytest.approx(np.corrcoef(np.array(points).T)[0, 1])
    assert row["correlation_low"] < row["correlation"] < row["correlation_high"] < 0
    assert noise_table(answers(FOUR)).empty


def test_the_price_of_a_point() -> None:
    gains = gains_table(answers(FOUR))
    costs = pd.DataFrame(
        {
            "explanation": ["lime", "attention", "random"],
            "percent": 10.0,
            "seconds": [0.5, 0.01, 0.0],
            "marks": 4.0,
            "bits": 9.0,
        }
    )
    price = price_table(gains, costs, [100]).set_index("explanation")
    assert price.loc["lime", "points_a_second"] == pytest.approx(10 / 50)
    assert price.loc["attention", "points_a_second"] == pytest.approx(20 / 1)
    assert np.isnan(price.loc["random", "points_a_second"])
    assert price.loc["attention", "points_a_mark"] == pytest.approx(5)


def test_ways_of_learning_are_compared_on_the_same_marks() -> None:
    """Multitask learning is right on ten texts more, under every seed; nothing is compared with having no marks."""
    both_ways = pd.concat(
        [answers({"none": 0.5, "lime": 0.7}), answers({"lime": 0.65}, learning="regularisation")]
    )
    table = ways_table(both_ways).set_index(["learning", "than"])
    assert len(table) == 2
    ahead = table.loc[("multitask", "regularisation")]
    assert ahead["explanation"] == "lime"
    assert ahead["difference"] == pytest.approx(0.05)
    assert ahead["difference_low"] > 0
    assert table.loc[("regularisation", "multitask"), "difference"] == pytest.approx(-0.05)
    assert ways_table(answers({"none": 0.5, "lime": 0.7})).empty
