"""How do our figures stand beside the published ones? The join of a study's findings with a paper's table, by keys.

Studies know nothing of papers: a table's file says in which table and column of a finding its figures are. Keys are
read from that table, or, where it has no such column, from the finding's configuration (the dataset, the encoder).
Ours are told in the paper's unit, so that both columns can be checked against the printed page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as students_t

from rashomon.experiments.figures import Figure, Plot, Series
from rashomon.experiments.subject import GIVEN
from rashomon.papers.published import Key, Paper, PublishedFigure, Source, Table
from rashomon.papers.reading import load, papers
from rashomon.studies.base import Finding

FEWEST_FOR_INTERVAL = 3
ROUNDING = 1e-9  # .837 - .826 is a little more than .011
ELSEWHERE = ("file", "train", "dev", "test", "classes", "placement", "strength")  # then it is another dataset
FIGURES = ("published", "spread", "ours", "low", "high", "n", "difference", "within_spread")


@dataclass(frozen=True)
class Measured:
    """A figure of ours under the paper's keys and in its unit."""

    figure: str
    keys: Mapping[str, Key]
    value: float
    low: float = math.nan
    high: float = math.nan
    n: float = math.nan


def beside(
    findings: Finding | Iterable[Finding] | pd.DataFrame, paper: Paper | str, table: str
) -> pd.DataFrame:
    """Every figure of the table, published and ours, the difference, and whether it is within the published spread.

    Figures of ours that the paper does not have (another dataset, another lambda) come after the published ones. A
    data frame is taken for the table of a finding; it must have a column for every key.
    """
    paper = load(paper) if isinstance(paper, str) else paper
    chosen = paper.table(table)
    ours = measured(findings, paper, chosen)
    rows, used = [], set()
    for known in chosen.figures:
        same = [number for number, one in enumerate(ours) if _answers(one, known)]
        used.update(same)
        rows += [_row(known, ours[number]) for number in same] or [_row(known, None)]
    rows += [_row(None, one) for number, one in enumerate(ours) if number not in used]
    return _frame(rows, chosen.keys)


def claims_input(joined: pd.DataFrame, paper: str, table: str) -> pd.DataFrame:
    """Our figures of a join in the columns that claims are decided from: paper, table, keys, value, low, high, n."""
    ours = joined.dropna(subset="ours").rename(columns={"ours": "value"})
    ours = ours.drop(columns=["published", "spread", "difference", "within_spread"])
    ours.insert(0, "table", table)
    ours.insert(0, "paper", paper)
    return ours.reset_index(drop=True)


def with_published(finding: Finding) -> Finding:
    """The finding with a table ``published`` and the published points on its plots, where a paper has its subject.

    Only what was measured on the paper's own dataset with the paper's own kind of model is compared: nothing stands in.
    """
    parts, figures = [], finding.figures
    for paper in map(load, papers()):
        for table in paper.tables.values():
            if table.study != finding.study or table.same_as is not None:
                continue
            rows = _about_subject(finding, paper, table)
            if not rows:
                continue
            frame = _frame([_row(known, one) for known, one in rows], table.keys)
            parts.append(frame.assign(paper=paper.name, table=table.id))
            figures = _with_curve(figures, table, [known for known, _ in rows])
    if not parts:
        return finding
    together = pd.concat(parts, ignore_index=True)
    keys = [name for name in together.columns if name not in ("paper", "table", "figure", *FIGURES)]
    together = together[["paper", "table", *keys, "figure", *FIGURES]]
    return replace(finding, tables={**finding.tables, "published": together}, figures=figures)


def measured(
    findings: Finding | Iterable[Finding] | pd.DataFrame, paper: Paper, table: Table, stand_ins: bool = True
) -> list[Measured]:
    """What findings have under the keys of a table; several figures under the same keys become their mean."""
    if isinstance(findings, pd.DataFrame):
        tables = {source.table: findings for source in table.ours.values()}
        found = _figures_in(tables, {}, paper, table, stand_ins)
    else:
        several = [findings] if isinstance(findings, Finding) else list(findings)
        found = [
            one
            for finding in several
            if finding.study == table.study and _in_configuration(finding.configuration, table)
            for one in _figures_in(finding.tables, finding.configuration, paper, table, stand_ins)
        ]
    groups: dict[tuple[Any, ...], list[Measured]] = {}
    for one in found:
        groups.setdefault((one.figure, *sorted(one.keys.items())), []).append(one)
    return [_mean(group) for group in groups.values()]


def _figures_in(
    tables: Mapping[str, pd.DataFrame],
    configuration: Mapping[str, Any],
    paper: Paper,
    table: Table,
    stand_ins: bool,
) -> list[Measured]:
    asked = {key: setting_of(configuration, path) for key, path in table.grid.items()}
    names = {
        key: set(known)
        for key in table.keys
        if key not in table.grid and (known := [v for v in table.values_of(key) if isinstance(v, str)])
    }
    orders = {frozenset(_pair(one.keys, table)): _pair(one.keys, table) for one in table.figures}
    found = []
    for figure, source in table.ours.items():
        for row in _source_rows(tables, source):
            keys = {
                key: _plain_key(row[key] if key in row else asked.get(key), paper, stand_ins)
                for key in table.keys
            }
            present = {key: value for key, value in keys.items() if value is not None}
            if table.symmetric and set(table.symmetric) <= set(present):
                pair = _pair(present, table)
                present |= dict(zip(table.symmetric, orders.get(frozenset(pair), sorted(pair)), strict=True))
            if all(present[key] in known for key, known in names.items() if key in present):
                found.append(_measured(figure, present, row, source))
    return found


def _source_rows(tables: Mapping[str, pd.DataFrame], source: Source) -> list[dict[str, Any]]:
    frame = tables.get(source.table)
    if frame is None or source.column not in frame or not set(source.where) <= set(frame.columns):
        return []
    for column, value in source.where.items():
        frame = frame[frame[column] == value]
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _measured(figure: str, keys: Mapping[str, Key], row: Mapping[str, Any], source: Source) -> Measured:
    own = source.column == "mean" or (source.column == "difference" and "difference_low" not in row)
    prefix = "" if own else f"{source.column}_"
    value, n = _float(row[source.column]), _float(row.get(f"{prefix}n", row.get("n")))
    low, high = (_float(row.get(f"{prefix}{end}")) for end in ("low", "high"))
    kind = row.get(f"{prefix}interval", row.get("interval"))
    if kind in ("range", "none"):  # of two seeds, or of one value: that decides nothing
        low = high = math.nan
    elif math.isnan(low) and n >= FEWEST_FOR_INTERVAL:  # a mean with its spread over n runs
        half = students_t.ppf(0.975, n - 1) * _float(row.get(f"{prefix}std")) / math.sqrt(n)
        low, high = value - half, value + half
    return Measured(figure, keys, source.scale * value, source.scale * low, source.scale * high, n)


def _mean(group: Sequence[Measured]) -> Measured:
    if len(group) == 1:
        return group[0]
    return Measured(
        group[0].figure, group[0].keys, float(np.mean([one.value for one in group])), n=len(group)
    )


def _answers(one: Measured, known: PublishedFigure) -> bool:
    return one.figure == known.figure and all(one.keys.get(key) == value for key, value in known.keys.items())


def _row(known: PublishedFigure | None, one: Measured | None) -> dict[str, Any]:
    published = math.nan if known is None else known.value
    spread = math.nan if known is None or known.spread is None else known.spread
    ours = Measured("", {}, math.nan) if one is None else one
    difference = ours.value - published
    inside = None if math.isnan(spread) or math.isnan(difference) else abs(difference) <= spread + ROUNDING
    keys = {**(known.keys if known else {}), **ours.keys}
    return {
        **keys,
        "figure": known.figure if known else ours.figure,
        "published": published,
        "spread": spread,
        "ours": ours.value,
        "low": ours.low,
        "high": ours.high,
        "n": ours.n,
        "difference": difference,
        "within_spread": inside,
    }


def _frame(rows: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=[*keys, "figure", *FIGURES])
    return frame.astype({"within_spread": object})


def _about_subject(
    finding: Finding, paper: Paper, table: Table
) -> list[tuple[PublishedFigure, Measured | None]]:
    """The published figures of what the finding is about, each with ours; None where the finding does not have it."""
    if not _in_configuration(finding.configuration, table):
        return []
    ours = measured(finding, paper, table, stand_ins=False)
    rows: list[tuple[PublishedFigure, Measured | None]] = []
    for known in table.figures:
        if known.figure in table.ours:
            same = [one for one in ours if _answers(one, known)]
            rows += [(known, one) for one in same]
            if not same and _asked_for(known, finding, paper, table):
                rows.append((known, None))
    return rows


def _asked_for(known: PublishedFigure, finding: Finding, paper: Paper, table: Table) -> bool:
    """Whether the configuration alone says that the figure is of this subject."""
    frame = finding.tables.get(table.ours[known.figure].table, pd.DataFrame())
    asked = {
        key: _plain_key(setting_of(finding.configuration, path), paper, stand_ins=False)
        for key, path in table.grid.items()
        if key not in frame
    }
    return bool(asked) and all(known.keys.get(key, value) == value for key, value in asked.items())


def _with_curve(
    figures: tuple[Figure, ...], table: Table, known: Sequence[PublishedFigure]
) -> tuple[Figure, ...]:
    if table.curve is None:
        return figures
    curve = table.curve
    points: dict[tuple[tuple[str, Key], ...], dict[str, float]] = {}
    for one in known:
        scale = table.ours[one.figure].scale
        points.setdefault(tuple(sorted(one.keys.items())), {})[one.figure] = one.value / scale
    places = sorted((point[curve.x], point[curve.y]) for point in points.values())
    series = Series(curve.name, [x for x, _ in places], [y for _, y in places])
    return tuple(
        replace(figure, series=(*figure.series, series))
        if isinstance(figure, Plot) and curve.plot in figure.title
        else figure
        for figure in figures
    )


def _in_configuration(configuration: Mapping[str, Any], table: Table) -> bool:
    """Whether a finding is about the paper's dataset as it is, with the settings that the table cannot do without."""
    dataset = setting_of(configuration, "subject.dataset") or {}
    if str(dataset.get("name", "")).startswith(GIVEN) or any(dataset.get(name) for name in ELSEWHERE):
        return False
    return all(setting_of(configuration, path) == value for path, value in table.requires.items())


def setting_of(configuration: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path of a configuration, of ``path[]`` the only one of a list; None where there is none."""
    value: Any = configuration
    for name in path.removesuffix("[]").split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    if not path.endswith("[]"):
        return value
    return value[0] if isinstance(value, list) and len(value) == 1 else None


def _plain_key(value: Any, paper: Paper, stand_ins: bool) -> Key | None:
    """A key as the paper has it: an explainer without its settings, a stand-in under the name it stands for."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        name = value.partition("(")[0].strip()
        return paper.printed_name(name) if stand_ins else name
    return int(value) if isinstance(value, int | np.integer) else float(value)


def _pair(keys: Mapping[str, Key], table: Table) -> tuple[str, ...]:
    return tuple(str(keys.get(key)) for key in table.symmetric)


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)
