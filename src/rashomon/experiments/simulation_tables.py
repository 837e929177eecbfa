"""What do students' answers say about explanations? Gains over no explanation, ranks, their agreement, noise and price.

Everything is made from one table of answers with a row for each student, seed and test text. Seeds and texts are both
chance, so that figures have the intervals and tests of `measures.intervals`; ranks are taken seed by seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import scipy  # its parts load when they are first used

from rashomon.experiments.lessons import HUMAN, NONE
from rashomon.experiments.summaries import Row, share_of, summary_row
from rashomon.measures.intervals import CONFIDENCE, ENOUGH
from rashomon.measures.significance import compare_variants, holm_bonferroni

CELL = ["student", "learning", "explanation", "percent", "dropped", "size"]
JUDGE = ["student", "learning", "percent"]  # who ranks explanations
# Kinds of pairs of rankings that are also averaged together.
TOGETHER = {
    "all": ("students", "strategies", "students and strategies"),
    "erasure": ("sufficiency", "comprehensiveness"),
}
DIFFERENCE = [
    "n",
    "undefined",
    "difference",
    "difference_low",
    "difference_high",
    "interval",
    "seeds",
    "test",
    "p",
]


def accuracy_table(instances: pd.DataFrame, chosen: pd.DataFrame, figure: str = "accuracy") -> pd.DataFrame:
    """Simulation accuracy at every place of the design, each tested against "none", Holm-adjusted over the table.

    ``figure`` is what the mean of ``correct`` is called.
    """
    alone = {
        names: _by_seed(part)
        for names, part in instances[instances["explanation"] == NONE].groupby(["student", "size"])
    }
    weights = {names: part["weight"].iloc[0] for names, part in chosen.groupby(CELL, sort=False)}
    rows = []
    for names, part in instances.groupby(CELL, sort=False):
        keys = dict(zip(CELL, names, strict=True))
        own = keys | {"figure": figure} | share_of(part, "correct") | {"weight": weights[names]}
        floor = alone.get((keys["student"], keys["size"]))
        if floor is None or keys["explanation"] == NONE:
            rows.append(own)
        else:
            rows.append(_difference(_by_seed(part), floor) | own)
    return _adjusted(pd.DataFrame(rows))


def gains_table(instances: pd.DataFrame, by: Sequence[str] = ("explanation", "percent")) -> pd.DataFrame:
    """What each explanation adds to labels alone, over all students, strategies and sizes together.

    ``by`` says what is told apart. The differences on a text under a seed are averaged over the places of the design
    first.
    """
    shown = instances[instances["dropped"] == 0]
    alone = shown[shown["explanation"] == NONE].set_index(["student", "size", "seed", "example"])["correct"]
    rows = []
    for names, part in shown[shown["explanation"] != NONE].groupby([*by], sort=False):
        place = pd.MultiIndex.from_frame(part[["student", "size", "seed", "example"]])
        both = part.assign(alone=alone.reindex(place).to_numpy()).dropna(subset="alone")
        if both.empty:
            continue
        means = both.groupby(["seed", "example"])[["correct", "alone"]].mean().reset_index()
        one, other = (means.pivot(index="seed", columns="example", values=c) for c in ("correct", "alone"))
        keys = dict(zip(by, names, strict=True))
        rows.append(keys | {"places": len(part[CELL].drop_duplicates())} | _difference(one, other))
    return _adjusted(pd.DataFrame(rows, columns=[*by, "places", *DIFFERENCE]))


def against_table(instances: pd.DataFrame, one: str, others: Sequence[str]) -> pd.DataFrame:
    """What one explanation is worth beyond others, over all students, strategies, sizes and shares together."""
    shown = instances[instances["dropped"] == 0]

    def means(name: str) -> pd.DataFrame:
        own = shown[shown["explanation"] == name]
        return own.groupby(["seed", "example"])["correct"].mean().unstack("example")

    rows = [{"explanation": one, "other": other, **_difference(means(one), means(other))} for other in others]
    return _adjusted(pd.DataFrame(rows))


def _by_seed(part: pd.DataFrame) -> pd.DataFrame:
    return part.pivot(index="seed", columns="example", values="correct")


def _difference(one: pd.DataFrame, other: pd.DataFrame) -> Row:
    """First minus second over seeds and texts, in columns of their own beside those of the accuracy."""
    first, second = one.align(other, join="inner")
    found = compare_variants(
        list(first.to_numpy()), list(second.to_numpy()), [first.columns.tolist()] * len(first)
    ).row()
    ends = {f"difference_{end}": found.pop(end) for end in ("low", "high")}
    return {name: (found | ends)[name] for name in DIFFERENCE}


def _adjusted(table: pd.DataFrame) -> pd.DataFrame:
    table = table.reindex(columns=[*dict.fromkeys([*table.columns, *DIFFERENCE])])
    return table.assign(p_holm=holm_bonferroni(table["p"].to_numpy(dtype=np.float64)).p)


def ranks_by_seed(instances: pd.DataFrame) -> pd.DataFrame:
    """The rank of every explanation (1 is best, equals share one) with each judge, at each size, under each seed.

    What has no share of its own (no marks, people's, all scores of a method) is ranked beside every share.
    """
    shown = instances[instances["dropped"] == 0]
    means = shown.groupby([*CELL, "seed"], sort=False)["correct"].mean().reset_index()
    taught = means[means["learning"] != NONE]
    parts = []
    for student, learning, share in _judges(taught):
        own = (means["student"] == student) & means["learning"].isin((NONE, learning))
        beside = means[own & means["percent"].isin((0.0, share))]
        parts.append(beside.assign(learning=learning, percent=share))
    together = pd.concat(parts, ignore_index=True) if parts else means.iloc[:0]
    within = together.groupby([*JUDGE, "size", "seed"])["correct"]
    return together.assign(rank=within.rank(ascending=False), of=within.transform("size"))


def _judges(taught: pd.DataFrame) -> list[tuple[str, str, float]]:
    """Student, strategy and share; where nothing that was taught has a share, it is 0."""
    found = taught[JUDGE].drop_duplicates()
    shares = found["percent"].groupby([found["student"], found["learning"]]).transform("max")
    return [tuple(row) for row in found[(found["percent"] > 0) | (shares == 0)].to_numpy().tolist()]


def rank_table(ranks: pd.DataFrame) -> pd.DataFrame:
    """The average rank of each explanation over judges and sizes, with an interval over seeds."""
    each = ranks.groupby(["explanation", "seed"], sort=False)["rank"].mean().reset_index()
    most = float(ranks["of"].max()) if len(ranks) else 1.0
    rows = [
        {"explanation": name, **summary_row([part["rank"].to_numpy()], bounds=(1.0, most)), "of": most}
        for name, part in each.groupby("explanation", sort=False)
    ]
    return pd.DataFrame(rows).sort_values("mean", ignore_index=True) if rows else pd.DataFrame()


def rank_correlations(ranks: pd.DataFrame, measures: pd.DataFrame) -> pd.DataFrame:
    """Kendall's tau-b between the rankings of every two judges, and of judges and measures that need no student.

    ``tau`` is that of the rankings over all seeds; mean and interval are of the taus seed by seed, which are lower.
    """
    names = [
        dict(zip(JUDGE, values, strict=True)) for values in ranks[JUDGE].drop_duplicates().to_numpy().tolist()
    ]
    judges = [(keys, _ranking(ranks, keys)) for keys in names]
    rows = []
    for (one, first), (other, second) in combinations(judges, 2):
        about = {"first": _called(one), "second": _called(other), "between": _between(one, other)}
        same = one["learning"] if one["learning"] == other["learning"] else ""
        rows.append(about | {"learning": same} | _taus(first, second))
    for measure, part in measures.groupby("measure", sort=False):
        order = part.set_index("explanation")["rank"]
        by_measure = pd.DataFrame(dict.fromkeys(ranks["seed"].unique(), order))
        for keys, ranking in judges:
            about = {
                "first": _called(keys),
                "second": str(measure),
                "between": str(measure),
                "learning": keys["learning"],
            }
            rows.append(about | _taus(ranking, by_measure))
    return pd.DataFrame(rows)


def rank_agreement(correlations: pd.DataFrame) -> pd.DataFrame:
    """How far rankings agree on average, by what differs between them."""
    if correlations.empty:
        return pd.DataFrame()
    kinds = [(str(kind), "", part) for kind, part in correlations.groupby("between", sort=False)]
    students = correlations[correlations["between"] == "students"]
    kinds += [
        ("students", str(learning), part) for learning, part in students.groupby("learning", sort=False)
    ]
    for kind, members in TOGETHER.items():
        part = correlations[correlations["between"].isin(members)]
        kinds += [(kind, "", part)] if len(part) else []
    rows = []
    for kind, learning, part in kinds:
        known = part["tau"].dropna()
        ends = {"low": known.min(), "high": known.max(), "interval": "range" if len(known) > 1 else "none"}
        about = {"between": kind, "learning": learning, "n": len(known), "undefined": len(part) - len(known)}
        rows.append(about | {"mean": known.mean(), "std": known.std()} | ends)
    return pd.DataFrame(rows)


def _ranking(ranks: pd.DataFrame, keys: Mapping[str, Any]) -> pd.DataFrame:
    """Explanations by seeds: the mean rank over sizes."""
    own = ranks[np.logical_and.reduce([ranks[name] == value for name, value in keys.items()])]
    return own.pivot_table(index="explanation", columns="seed", values="rank", aggfunc="mean", sort=False)


def _taus(first: pd.DataFrame, second: pd.DataFrame) -> Row:
    one, other = first.align(second, join="inner")
    each = [_tau(one[seed], other[seed]) for seed in one.columns]
    return {
        "explanations": len(one),
        "tau": _tau(one.mean(axis=1), other.mean(axis=1)),
        **summary_row([each], bounds=(-1, 1)),
    }


def _tau(one: pd.Series[float], other: pd.Series[float]) -> float:
    return float(scipy.stats.kendalltau(one, other).statistic) if len(one) > 1 else float("nan")


def _called(keys: Mapping[str, Any]) -> str:
    share = f", {keys['percent']:g} %" if keys["percent"] else ""
    return f"{keys['student']}, {keys['learning']}{share}"


def _between(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    names = {"student": "students", "learning": "strategies", "percent": "shares"}
    return " and ".join(word for name, word in names.items() if one[name] != other[name])


def noise_table(instances: pd.DataFrame) -> pd.DataFrame:
    """Pearson's correlation of the share of people's marks that was dropped with accuracy, a point a share and seed."""
    human = instances[instances["explanation"] == HUMAN]
    points = human.groupby([*CELL, "seed"], sort=False)["correct"].mean().reset_index()
    rows = []
    for (student, learning, size), part in points.groupby(["student", "learning", "size"], sort=False):
        if part["dropped"].nunique() > 1:
            keys = {"student": student, "learning": learning, "explanation": HUMAN, "size": size}
            rows.append(keys | _pearson(part["dropped"].to_numpy(), part["correct"].to_numpy()))
    return pd.DataFrame(rows)


def _pearson(x: np.ndarray, y: np.ndarray) -> Row:
    if len(x) <= ENOUGH or np.ptp(y) == 0:
        return {
            "n": len(x),
            "correlation": np.nan,
            "correlation_low": np.nan,
            "correlation_high": np.nan,
            "p": np.nan,
        }
    found = scipy.stats.pearsonr(x, y)
    low, high = found.confidence_interval(CONFIDENCE)
    ends = {"correlation_low": float(low), "correlation_high": float(high)}
    return {"n": len(x), "correlation": float(found.statistic), **ends, "p": float(found.pvalue)}


def price_table(gains: pd.DataFrame, costs: pd.DataFrame, sizes: Sequence[int]) -> pd.DataFrame:
    """Points of accuracy for each second that the explanations of a training set take, and for each mark of a text."""
    texts = float(np.mean(sizes))
    table = gains.merge(costs, on=["explanation", "percent"], how="left")
    points = 100 * table["difference"]
    with np.errstate(divide="ignore", invalid="ignore"):
        a_second = np.where(table["seconds"] > 0, points / (table["seconds"] * texts), np.nan)
        a_mark = np.where(table["marks"] > 0, points / table["marks"], np.nan)
    columns = [
        "explanation",
        "percent",
        "difference",
        "difference_low",
        "difference_high",
        "interval",
        "seeds",
    ]
    return table[[*columns, "seconds", "marks", "bits"]].assign(
        points_a_second=a_second, points_a_mark=a_mark
    )
