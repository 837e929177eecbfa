"""Tidy tables that studies share: figures with n, spread and interval, and tests against the random control."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rashomon.errors import UserError
from rashomon.experiments.figures import Distributions
from rashomon.measures import measures
from rashomon.measures.base import Family, family_of
from rashomon.measures.significance import (
    Alternative,
    Comparison,
    hierarchical_test,
    holm_bonferroni,
    summarise_seed_columns,
    summarise_seeds,
    wilcoxon_test,
)

FLOOR = "random"
Row = dict[str, Any]


def summary_row(groups: Sequence[np.ndarray]) -> dict[str, float]:
    """n, undefined, mean, spread and interval over instances (and seeds, when there are several)."""
    summary = summarise_seeds(groups)
    std = float(np.nanstd(np.concatenate(groups), ddof=1)) if summary.n > 1 else float("nan")
    return {
        "n": summary.n,
        "undefined": summary.undefined,
        "mean": summary.mean,
        "std": std,
        "low": summary.low,
        "high": summary.high,
    }


def summarise_by(instances: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """One row per combination of ``keys``, over the ``value`` of instances and seeds.

    The texts are drawn once for all rows, which makes hundreds of rows as quick as one.
    """
    grouped = instances.groupby(list(keys), sort=False)
    columns, values = grouped.ngroup().to_numpy(), instances["value"].to_numpy(dtype=np.float64)
    tables = []
    for where in instances.groupby("seed").indices.values():
        rows, texts = pd.factorize(instances["example"].to_numpy()[where])
        table = np.full((len(texts), grouped.ngroups), np.nan)
        table[rows, columns[where]] = values[where]
        tables.append(table)
    described = []
    for summary, (names, group) in zip(summarise_seed_columns(tables), grouped["value"], strict=True):
        own = group[np.isfinite(group)]
        described.append(
            dict(zip(keys, names, strict=True))
            | {
                "n": summary.n,
                "undefined": len(group) - summary.n,
                "mean": summary.mean,
                "std": float(np.std(own, ddof=1)) if len(own) > 1 else np.nan,
                "low": summary.low,
                "high": summary.high,
            }
        )
    return pd.DataFrame(described)


def against_floor(
    instances: pd.DataFrame, controls: Collection[str] = (FLOOR,), lower_is_better: Collection[str] = ()
) -> pd.DataFrame:
    """Figures by measure and method, each method tested against the random control on the same texts.

    One-sided tests, Holm-adjusted over the family of methods and measures: Wilcoxon's signed-rank test over the texts
    of one seed; of several seeds the hierarchical test, since texts of one seed share its luck. ``test`` says which.
    A method that equals the control on every text does not beat it (p = 1); without a control there is no test (NaN).
    """
    summary = summarise_by(instances, ["measure", "method"])
    by_text = {
        names: group.set_index(["seed", "example"])["value"]
        for names, group in instances.groupby(["measure", "method"], sort=False)
    }
    tests, p_values = [], []
    for measure, method in zip(summary["measure"], summary["method"], strict=True):
        floor = by_text.get((measure, FLOOR))
        if method in controls or floor is None:
            tests.append("none")
            p_values.append(np.nan)
            continue
        difference = (by_text[(measure, method)] - floor).dropna()
        tested = _paired_test(difference, "less" if measure in lower_is_better else "greater")
        tests.append(tested.test)
        p_values.append(1.0 if len(difference) and (difference == 0).all() else tested.p)
    return summary.assign(test=tests, p_against_random=p_values, p_holm=holm_bonferroni(p_values).p)


def _paired_test(difference: pd.Series[float], side: Alternative) -> Comparison:
    """``difference`` by seed and text."""
    groups = [group.to_numpy() for _, group in difference.groupby(level="seed")]
    if len(groups) > 1:
        return hierarchical_test(groups, side)
    values = difference.to_numpy()
    return wilcoxon_test(values, np.zeros_like(values), side)


def ranked_rows(table: pd.DataFrame, defined: bool = True) -> list[Row]:
    """Rows from the lowest mean to the highest; those without one are left out, or come last."""
    rows = table.sort_values("mean").to_dict("records")
    named = [{str(key): value for key, value in row.items()} for row in rows]
    return [row for row in named if not defined or row["mean"] == row["mean"]]


def number(row: Row) -> str:
    """``0.42 [0.38, 0.46]``; without an interval where one value has none."""
    if row["mean"] != row["mean"]:
        return "undefined"
    if row["low"] != row["low"]:
        return f"{row['mean']:.2f}"
    return f"{row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


def capitalised(text: str) -> str:
    """For the start of a sentence; names such as ``myIG`` keep their other letters."""
    return text[:1].upper() + text[1:]


def headline(wanted: str, names: Sequence[str]) -> str:
    """The measure that verdicts and figures speak of: the usual one, or the first that was asked for."""
    return wanted if wanted in names else names[0]


def check_measures(names: Sequence[str], family: Family) -> None:
    """Refuse wrong names before any work is done."""
    if not names:
        raise UserError(f"Name at least one measure of {family}.")
    for name in names:
        if measures.get(name).family != family:
            known = ", ".join(entry.name for entry in family_of(family))
            raise UserError(f"{name} is no measure of {family}; there are: {known}.")


def spread_by_method(
    instances: pd.DataFrame, title: str, label: str, caption: str, span: tuple[float, float]
) -> Distributions:
    """Violins of the values of each method."""
    groups = {
        str(method): part["value"].dropna().tolist()
        for method, part in instances.groupby("method", sort=False)
    }
    return Distributions(title, groups, label, caption, span)
