"""Texts by how sharp their attention is and by class: the plane on which the papers draw their violins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rashomon.experiments.figures import Distributions
from rashomon.experiments.summaries import Row, summary_of

EDGES = (0.25, 0.5, 0.75)
BINS = ("0-.25", ".25-.5", ".5-.75", ".75-1")  # of the largest attention weight of a text


def with_bins(instances: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """Adds ``bin`` (from ``max_attention``) and ``label_name``."""
    bins = np.digitize(instances["max_attention"].to_numpy(), EDGES)
    names = [labels[label] for label in instances["label"]]
    return instances.assign(bin=[BINS[number] for number in bins], label_name=names)


def by_bin(instances: pd.DataFrame, value: str) -> pd.DataFrame:
    """n, undefined, median, mean, spread and interval for every bin and class that has texts."""
    rows = []
    for name in (*BINS, "all"):
        in_bin = instances if name == "all" else instances[instances["bin"] == name]
        for label, group in (("all", in_bin), *in_bin.groupby("label_name", sort=True)):
            if len(group):
                rows.append(
                    {
                        "max_attention": name,
                        "class": str(label),
                        "median": group[value].median(),
                        **summary_of(group, value),
                    }
                )
    return pd.DataFrame(rows)


def bin_violins(
    instances: pd.DataFrame, value: str, title: str, x_label: str, caption: str, span: tuple[float, float]
) -> Distributions:
    """A violin for every bin and class; of two classes the first is drawn above, the second below."""
    groups = {
        f"{name} | {label}": part[value].dropna().tolist()
        for name in BINS
        for label, part in instances[instances["bin"] == name].groupby("label_name", sort=True)
    }
    return Distributions(title, groups, x_label, caption, span)


def overall(table: pd.DataFrame) -> Row:
    """The row of all texts."""
    row = table[(table["max_attention"] == "all") & (table["class"] == "all")].iloc[0]
    return {str(name): value for name, value in row.items()}
