"""Tidy tables that studies share: figures with n, spread and interval, and tests against the random control."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rashomon.measures.significance import holm_bonferroni, summarise_seeds, wilcoxon_test
from rashomon.studies.base import Distributions

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
    """One row per combination of ``keys``, over the ``value`` of instances and seeds."""
    rows = []
    for names, group in instances.groupby(list(keys), sort=False):
        by_seed = [part["value"].to_numpy() for _, part in group.groupby("seed")]
        rows.append(dict(zip(keys, names, strict=True)) | summary_row(by_seed))
    return pd.DataFrame(rows)


def against_floor(
    instances: pd.DataFrame, controls: Collection[str] = (FLOOR,), lower_is_better: Collection[str] = ()
) -> pd.DataFrame:
    """Figures by measure and method, each method tested against the random control on the same texts.

    One-sided Wilcoxon signed-rank tests, Holm-adjusted over the family of methods and measures.
    """
    summary = summarise_by(instances, ["measure", "method"])
    values = {
        names: group.sort_values(["seed", "example"])["value"].to_numpy()
        for names, group in instances.groupby(["measure", "method"], sort=False)
    }
    p_values = []
    for measure, method in zip(summary["measure"], summary["method"], strict=True):
        floor = values.get((measure, FLOOR))
        if method in controls or floor is None or len(floor) != len(values[(measure, method)]):
            p_values.append(np.nan)
        elif measure in lower_is_better:
            p_values.append(wilcoxon_test(values[(measure, method)], floor, alternative="less").p)
        else:
            p_values.append(wilcoxon_test(values[(measure, method)], floor, alternative="greater").p)
    return summary.assign(p_against_random=p_values, p_holm=holm_bonferroni(p_values).p)


def ranked_rows(table: pd.DataFrame, defined: bool = True) -> list[Row]:
    """Rows from the lowest mean to the highest; those without one are left out, or come last."""
    rows = table.sort_values("mean").to_dict("records")
    named = [{str(key): value for key, value in row.items()} for row in rows]
    return [row for row in named if not defined or row["mean"] == row["mean"]]


def number(row: Row) -> str:
    """``.42 [.38, .46]``."""
    return f"{row['mean']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


def spread_by_method(
    instances: pd.DataFrame, title: str, label: str, caption: str, span: tuple[float, float]
) -> Distributions:
    """Violins of the values of each method."""
    groups = {
        str(method): part["value"].dropna().tolist()
        for method, part in instances.groupby("method", sort=False)
    }
    return Distributions(title, groups, label, caption, span)
