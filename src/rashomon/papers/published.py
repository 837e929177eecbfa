"""What did the papers publish? Figures with their keys, how each would be measured here, and their conclusions.

``papers/*.toml`` hold it (``docs/papers.md`` says how they are written); ``load`` reads one into these classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd

from rashomon.errors import unknown_name

Key = str | int | float
Keys = Mapping[str, Key]
Kind = Literal["threshold", "difference", "sign", "order", "correlation"]
Statistic = Literal["kendall", "spearman", "pearson"]


@dataclass(frozen=True)
class PublishedFigure:
    """One number of a table, in the paper's own unit."""

    figure: str  # what it is: "f1", "kendall", ...
    keys: Keys  # of what: dataset, encoder, pair of methods, ...
    value: float
    spread: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class Source:
    """Where a study has the figure that answers a published one. ``published = scale * ours``."""

    table: str = "summary"
    column: str = "mean"
    where: Keys = field(default_factory=dict)
    scale: float = 1.0


@dataclass(frozen=True)
class Curve:
    """Published points that belong on a plot of the finding: the one whose title holds ``plot``."""

    plot: str
    x: str  # two figures of the table
    y: str
    name: str


@dataclass(frozen=True)
class Configuration:
    """The paper's settings for a study, what more it says, and in which ways ours differ all the same."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    at: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  # further settings of one dataset, encoder
    facts: Mapping[str, Any] = field(default_factory=dict)  # what no setting here expresses
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table or figure of a paper, and which study gives it."""

    id: str
    caption: str
    keys: tuple[str, ...] = ()  # every key that a figure of it may have
    figures: tuple[PublishedFigure, ...] = ()
    note: str = ""
    unreadable: str = ""  # why there are no figures
    spread: str = ""  # what the spread is
    study: str | None = None
    configuration: Configuration = field(default_factory=Configuration)
    grid: Mapping[str, str] = field(default_factory=dict)  # key -> setting that takes one value a run
    within: Mapping[str, str] = field(default_factory=dict)  # key -> setting that takes all values in one run
    also: Mapping[str, tuple[Key, ...]] = field(
        default_factory=dict
    )  # values of the grid beyond the published ones
    run_as: str | None = None  # another table whose runs give this one too
    requires: Mapping[str, Any] = field(default_factory=dict)  # settings without which ours is something else
    ours: Mapping[str, Source] = field(default_factory=dict)  # by figure
    symmetric: tuple[str, ...] = ()  # two keys that may be exchanged
    curve: Curve | None = None
    same_as: str | None = None  # another table that holds these figures too

    def values_of(self, key: str) -> list[Key]:
        """The published values of a key, in the order of the table."""
        return list(dict.fromkeys(figure.keys[key] for figure in self.figures if key in figure.keys))


@dataclass(frozen=True)
class Known:
    """A dataset of the paper: what it is called there, and why it cannot be had, if so."""

    printed: str
    available: bool = True
    reason: str = ""


@dataclass(frozen=True)
class StandIn:
    """What is used here in place of a dataset or model that cannot be had."""

    name: str
    reason: str


@dataclass(frozen=True)
class Term:
    """Figures that a claim reads: those of a table whose keys have these values.

    ``less`` subtracts the figures that differ from these in the values it names; ``rest`` are all figures of the table
    that no other term of the rule reads; ``count`` reads n in place of the value.
    """

    table: str
    keys: Mapping[str, tuple[Key, ...]] = field(default_factory=dict)  # "figure" among them
    less: Mapping[str, tuple[Key, ...]] | None = None  # may also name another table
    rest: bool = False
    count: bool = False


@dataclass(frozen=True)
class Bounds:
    """What a figure has to be; every bound that is given."""

    above: float | None = None
    below: float | None = None
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True)
class Rule:
    """One checkable part of a conclusion."""

    kind: Kind
    chain: tuple[tuple[Term, ...], ...]  # one link, but for an order: from the largest to the smallest
    bounds: Bounds = field(default_factory=Bounds)
    by: tuple[str, ...] = ()  # figures are compared, pooled or correlated within equal values of these
    pooled: bool = False  # the mean over figures rather than each of them
    margins: tuple[float, ...] = ()  # of an order: by how much each link exceeds the next
    statistic: Statistic = "kendall"
    against: str = ""  # of a correlation: the key that is the other variable
    at: Keys = field(default_factory=dict)  # its numbers, where it is a name
    # of a difference or an order: the figure in which a study has it itself, on the same texts and seeds; read where
    # there is one, within the bounds
    paired: Term | None = None


@dataclass(frozen=True)
class Claim:
    """A conclusion of a paper: it holds if every rule does."""

    id: str
    says: str
    where: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Paper:
    name: str
    title: str
    year: int
    datasets: Mapping[str, Known]
    tables: Mapping[str, Table]
    claims: Mapping[str, Claim]
    stand_ins: Mapping[str, StandIn] = field(default_factory=dict)

    def table(self, id: str) -> Table:
        if id not in self.tables:
            raise unknown_name(f"table of {self.name}", id, self.tables)
        return self.tables[id]

    def claim(self, id: str) -> Claim:
        if id not in self.claims:
            raise unknown_name(f"claim of {self.name}", id, self.claims)
        return self.claims[id]

    def printed_name(self, name: Key) -> Key:
        """The paper's name of what stands in for it here; every other name is its own."""
        return next((known for known, other in self.stand_ins.items() if other.name == name), name)


def figures_frame(paper: Paper, tables: Sequence[str] = ()) -> pd.DataFrame:
    """The published figures as a tidy table: paper, table, figure, a column a key, value, spread, n."""
    rows = []
    for table in map(paper.table, tables or paper.tables):
        for figure in table.figures:
            named: dict[str, Any] = {"paper": paper.name, "table": table.id, "figure": figure.figure}
            rows.append(
                named | {**figure.keys, "value": figure.value, "spread": figure.spread, "n": figure.n}
            )
    columns = ["paper", "table", "figure", "value", "spread", "n"]
    frame = pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)
    return frame.astype({"value": float, "spread": float, "n": float})


def without_spread(figures: Sequence[PublishedFigure]) -> tuple[PublishedFigure, ...]:
    return tuple(replace(figure, spread=None) for figure in figures)
