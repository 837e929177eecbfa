"""What do students' answers say about explanations? Gains over no explanation, ranks, their agreement, noise and price.

Everything is made from one table of answers with a row for each student, seed and test text. Seeds and texts are both
chance, so that figures have the intervals and tests of `measures.intervals`; ranks are taken seed by seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
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


def ways_table(instances: pd.DataFrame) -> pd.DataFrame:
    """What the same marks are worth learned from in one way beyond another, at every place of the design."""
    place = [name for name in CELL if name != "learning"]
    rows = []
    for names, part in instances[instances["explanation"] != NONE].groupby(place, sort=False):
        answers = {str(way): _by_seed(own) for way, own in part.groupby("learning", sort=False)}
        for way, than in permutations(answers, 2):
            keys = dict(zip(place, names, strict=True)) | {"learning": way, "than": than}
            rows.append(keys | _difference(answers[way], answers[than]))
    return _adjusted(pd.DataFrame(rows, columns=[*place, "learning", "than", *DIFFERENCE]))


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


@dataclass(frozen=True)
class ComparedRankings:
    """Two rankings of the same explanations, each explanations by seeds, and how they differ."""

    first: str
    second: str
    between: str
    learning: str  # where it is the same for both
    ranks: tuple[pd.DataFrame, pd.DataFrame]

    @property
    def tau(self) -> float:
        """Kendall's tau-b of the rankings over all seeds."""
        one, other = self.ranks
        return _tau(one.mean(axis=1), other.mean(axis=1))

    @property
    def by_seed(self) -> list[float]:
        """The same seed by seed, which is lower, because the rankings of one seed hold more luck."""
        one, other = self.ranks
        return [_tau(one[seed], other[seed]) for seed in one.columns]


def compared_rankings(ranks: pd.DataFrame, measures: pd.DataFrame) -> list[ComparedRankings]:
    """The rankings of every two judges, and of judges and measures that need no student."""
    names = [
        dict(zip(JUDGE, values, strict=True)) for values in ranks[JUDGE].drop_duplicates().to_numpy().tolist()
    ]
    judges = [(keys, _ranking(ranks, keys)) for keys in names]
    pairs = []
    for (one, first), (other, second) in combinations(judges, 2):
        same = one["learning"] if one["learning"] == other["learning"] else ""
        both = first.align(second, join="inner")
        pairs.append(ComparedRankings(_called(one), _called(other), _between(one, other), same, both))
    for measure, part in measures.groupby("measure", sort=False):
        order = part.set_index("explanation")["rank"]
        by_measure = pd.DataFrame(dict.fromkeys(ranks["seed"].unique(), order))
        for keys, ranking in judges:
            both = ranking.align(by_measure, join="inner")
            pairs.append(ComparedRankings(_called(keys), str(measure), str(measure), keys["learning"], both))
    return pairs


def rank_correlations(pairs: Sequence[ComparedRankings]) -> pd.DataFrame:
    """``tau`` is that of the rankings over all seeds; mean and interval are of the taus seed by seed."""
    return pd.DataFrame(
        {
            "first": pair.first,
            "second": pair.second,
            "between": pair.between,
            "learning": pair.learning,
            "explanations": len(pair.ranks[0]),
            "tau": pair.tau,
            **summary_row([pair.by_seed], bounds=(-1, 1)),
        }
        for pair in pairs
    )


def rank_agreement(pairs: Sequence[ComparedRankings]) -> pd.DataFrame:
    """How far rankings agree on average, by what differs between them.

    ``mean`` is over pairs of rankings, with their range; ``by_seed`` the mean of the taus seed by seed, with an
    interval over seeds.
    """
    kinds: dict[tuple[str, str], list[ComparedRankings]] = {}
    for pair in pairs:
        kinds.setdefault((pair.between, ""), []).append(pair)
    for pair in pairs:
        if pair.between == "students":
            kinds.setdefault((pair.between, pair.learning), []).append(pair)
    for together, members in TOGETHER.items():
        if part := [pair for pair in pairs if pair.between in members]:
            kinds[together, ""] = part
    return pd.DataFrame(
        {"between": kind, "learning": learning} | _agreement_row(part)
        for (kind, learning), part in kinds.items()
    )


def _agreement_row(pairs: Sequence[ComparedRankings]) -> Row:
    taus = pd.Series([pair.tau for pair in pairs])
    known = taus.dropna()
    ends = {"low": known.min(), "high": known.max(), "interval": "range" if len(known) > 1 else "none"}
    # Pairs of one seed share judges, so that only their mean over a seed is an independent figure.
    seeds = pd.DataFrame([pair.by_seed for pair in pairs]).mean(axis=0)
    over_seeds = summary_row([seeds.to_numpy()], bounds=(-1, 1))
    return {
        "n": len(known),
        "undefined": len(taus) - len(known),
        "mean": known.mean(),
        "std": known.std(),
        **ends,
        "by_seed": over_seeds["mean"],
        **{f"by_seed_{name}": over_seeds[name] for name in ("low", "high", "interval", "n")},
    }


def _ranking(ranks: pd.DataFrame, keys: Mapping[str, Any]) -> pd.DataFrame:
    """Explanations by seeds: the mean rank over sizes."""
    own = ranks[np.logical_and.reduce([ranks[name] == value for name, value in keys.items()])]
    return own.pivot_table(index="explanation", columns="seed", values="rank", aggfunc="mean", sort=False)


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
