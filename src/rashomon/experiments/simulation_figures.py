"""What students' answers look like: learning curves, ranks, how far rankings agree, noise, and the price."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rashomon.experiments.figures import Distributions, Figure, Matrix, Plot, Series
from rashomon.experiments.lessons import CONTROLS, HUMAN
from rashomon.wording import decimal, interval_words


@dataclass(frozen=True)
class Measured:
    """How well students do: the figure, what it is called, what it says of one text, and what all of them learn by."""

    figure: str
    called: str
    says: str
    alone: str = "labels alone"


ACCURACY = Measured(
    "accuracy", "simulation accuracy", "Share of test texts on which student and teacher agree"
)
TOKEN_F1 = Measured(
    "f1",
    "token F1",
    "Token F1 of the student's answers against its teacher's on test questions",
    "answers alone",
)


def figures_of(
    tables: Mapping[str, pd.DataFrame], ranks: pd.DataFrame, measured: Measured
) -> tuple[Figure, ...]:
    """Those for which there is something to draw."""
    summary = tables["summary"]
    summary = summary[summary["figure"] == measured.figure]
    drawn: list[Figure | None] = [*_curves(summary, measured), _ranks(tables, ranks, measured)]
    drawn += [_heatmap(tables), _noise(summary, measured), _price(tables, measured)]
    return tuple(figure for figure in drawn if figure is not None)


def _curves(summary: pd.DataFrame, measured: Measured) -> list[Plot]:
    """Accuracy by training size, one figure a student and way to learn, with the student that has labels alone."""
    plots = []
    shown = summary[summary["dropped"] == 0]
    taught = shown[shown["learning"] != "none"]
    for (student, learning, share), part in taught.groupby(["student", "learning", "percent"], sort=False):
        if share == 0 and (taught["percent"] > 0).any():
            continue  # what has no share of its own stands beside every other
        own = (shown["student"] == student) & shown["learning"].isin(("none", learning))
        beside = shown[own & shown["percent"].isin((0.0, share))]
        series = tuple(_series(str(name), rows) for name, rows in beside.groupby("explanation", sort=False))
        title = f"{student}, {learning}" + (f", {share:g} % of the words marked" if share else "")
        caption = f"{measured.says}, with {interval_words(part['interval'])}."
        plots.append(Plot(title, "training texts", measured.called, series, caption))
    return plots


def _series(name: str, rows: pd.DataFrame, x: str = "size") -> Series:
    rows = rows.sort_values(x)
    low, high = rows["low"].tolist(), rows["high"].tolist()
    return Series(name, rows[x].tolist(), rows["mean"].tolist(), low, high, control=name in CONTROLS)


def _ranks(
    tables: Mapping[str, pd.DataFrame], ranks: pd.DataFrame, measured: Measured
) -> Distributions | None:
    if "ranks" not in tables:
        return None
    groups = {
        str(name): ranks.loc[ranks["explanation"] == name, "rank"].tolist()
        for name in tables["ranks"]["explanation"]
    }
    caption = (
        f"Rank of each explanation by {measured.called}, one value a student, strategy, share, size and seed."
    )
    return Distributions("Ranks, the best explanation first", groups, "rank (1 is best)", caption)


def _heatmap(tables: Mapping[str, pd.DataFrame]) -> Matrix | None:
    """Every ranking against every other, the measures that need no student last."""
    found = tables.get("rank-correlations")
    if found is None:
        return None
    names = tuple(dict.fromkeys([*found["first"], *found["second"]]))
    values = np.full((len(names), len(names)), math.nan)
    details = [["" for _ in names] for _ in names]
    for row in found.to_dict("records"):
        i, j = names.index(row["first"]), names.index(row["second"])
        values[i, j] = values[j, i] = row["tau"]
        details[i][j] = details[j][i] = f"{decimal(row['tau'])}, {row['explanations']} explanations"
    np.fill_diagonal(values, 1.0)
    caption = "Kendall's tau-b between rankings of the explanations."
    return Matrix(
        "Do rankings agree?",
        names,
        names,
        {"tau": values.tolist()},
        {"tau": (-1.0, 1.0)},
        {"tau": details},
        caption,
    )


def _noise(summary: pd.DataFrame, measured: Measured) -> Plot | None:
    human = summary[summary["explanation"] == HUMAN]
    if human["dropped"].nunique() < 2:
        return None
    series = tuple(
        _series(f"{student}, {learning}, {size:,} texts", rows, "dropped")
        for (student, learning, size), rows in human.groupby(["student", "learning", "size"], sort=False)
    )
    return Plot("When marks go missing", "share of marks dropped", measured.called, series)


def _price(tables: Mapping[str, pd.DataFrame], measured: Measured) -> Plot | None:
    """What is gained by the time that an explanation takes."""
    price = tables.get("price")
    price = None if price is None else price[price["seconds"] > 0]
    if price is None or price.empty:
        return None
    series = tuple(
        Series(
            str(name),
            np.log10(rows["seconds"]).tolist(),
            (100 * rows["difference"]).tolist(),
            (100 * rows["difference_low"]).tolist(),
            (100 * rows["difference_high"]).tolist(),
            line=False,
        )
        for name, rows in price.groupby("explanation", sort=False)
    )
    caption = f"Points of {measured.called} over {measured.alone}, by the time that explaining a text takes."
    label = "seconds to explain a text, as a power of ten"
    return Plot("The price of an explanation", label, "points gained", series, caption)
