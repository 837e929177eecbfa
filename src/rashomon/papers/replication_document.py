"""What has been replicated, as a Markdown document: the conclusions, and measured figures beside published ones.

Read from the store, so that the same document comes out of the same store; nothing is run. Points that were taken over
from another store (``ledger.py``) stand among its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from rashomon.papers.beside import beside
from rashomon.papers.claims import outcomes_in_words
from rashomon.papers.costs import less_than_asked
from rashomon.papers.grid import Choice, grid_of, heading
from rashomon.papers.kept import Kept, all_kept, answering
from rashomon.papers.outcomes import Findings, all_claims
from rashomon.papers.published import Paper, Table
from rashomon.papers.reading import load, papers
from rashomon.runs.store import Store, library_versions
from rashomon.wording import DASH, duration, number, with_interval

MOST_ROWS = 60  # of a table; of a longer one the kinds of figures are summed up


def replication_document(store: Store, choice: Choice, command: str) -> str:
    """All papers of which something was run. Points in other settings count where there is none in the paper's."""
    kept = all_kept(store)
    claims = all_claims(store, choice, any_settings=True)
    found = [Findings(load(name), kept, choice, any_settings=True) for name in papers()]
    chapters = [_chapter(one) for one in found]
    versions = ", ".join(f"{name} {version}" for name, version in library_versions().items())
    newest = max((one.created for one in kept), default=None)
    written = "Nothing was run yet." if newest is None else f"The newest run is of {newest:%d %B %Y}."
    return "\n\n".join(
        [
            "# Replications",
            f"Written by `{command}` with {versions}. {written}",
            "The interval decides about a conclusion, never the mean; where it holds both answers, it cannot be told.",
            "## Conclusions",
            _claims(claims),
            *(chapter for chapter in chapters if chapter),
            "",
        ]
    )


def _claims(claims: pd.DataFrame) -> str:
    rows = [
        (row["claim"], row["says"], row["outcome"], _decided(row), row["why"])
        for row in claims.to_dict("records")
    ]
    counted = outcomes_in_words(claims, "the")
    return f"{counted}\n\n{_markdown(['claim', 'says', 'outcome', 'figure', 'why'], rows)}"


def _heading(paper: Paper) -> str:
    return f"## {paper.title} ({paper.year})"


def _decided(row: dict[Any, Any]) -> str:
    if row["outcome"] == "not run":
        return ""
    return f"{with_interval({**row, 'mean': row['value']}, digits=3)}, n = {number(row['n'], 0)}"


def _chapter(findings: Findings) -> str:
    """A paper's tables beside ours; empty where nothing of it was run."""
    paper = findings.paper
    points = _points(findings)
    if not points:
        return ""
    tables = [_table(findings, table) for table in paper.tables.values()]
    return "\n\n".join([_heading(paper), _runs(points), *(text for text in tables if text)])


def _points(findings: Findings) -> list[tuple[str, Kept, str]]:
    """Name, run and in which ways it is not the paper's, of every point that was run."""
    found = []
    for point in grid_of(findings.paper, Choice(), wherever_run=True).points:
        kept = answering(point.run, point.paper, findings.kept, findings.choice, any_settings=True)
        if kept is not None:
            less = less_than_asked("it", point.study, kept.seeds, kept.texts)
            parts = (less.removeprefix("it has ").removesuffix("."), kept.departures)
            found.append((point.name, kept, "; ".join(part for part in parts if part)))
    return found


def _runs(points: Sequence[tuple[str, Kept, str]]) -> str:
    rows = [
        (name, f"{kept.created:%d %B %Y}", kept.seeds, kept.texts or "all", duration(kept.seconds), unlike)
        for name, kept, unlike in points
    ]
    return _markdown(["point", "run on", "seeds", "texts", "took", "unlike the paper's"], rows)


def _table(findings: Findings, table: Table) -> str:
    ours = findings.of(table)
    if not ours or table.same_as is not None:
        return ""
    rows = beside(ours, findings.paper, table.id).dropna(subset="ours")
    rows = rows[rows["published"].notna()] if len(rows) > MOST_ROWS else rows
    if rows.empty:
        return ""
    notes = "".join(f"\n\n{sentence}" for sentence in table.configuration.differs)
    body = _summed_up(rows) if len(rows) > MOST_ROWS else _figures(rows, table)
    return f"### {heading(table.id)}: {table.caption}\n\n{body}{notes}"


def _figures(rows: pd.DataFrame, table: Table) -> str:
    keys = [key for key in table.keys if rows[key].notna().any()]
    cells = [
        (
            *(row[key] for key in keys),
            row["figure"],
            _published(row),
            with_interval({"mean": row["ours"], "low": row["low"], "high": row["high"]}, digits=3),
            number(row["difference"], 3),
        )
        for row in rows.to_dict("records")
    ]
    return _markdown([*keys, "figure", "published", "ours", "difference"], cells)


def _published(row: dict[Any, Any]) -> str:
    if pd.isna(row["published"]):
        return DASH
    spread = "" if pd.isna(row["spread"]) else f" ± {number(row['spread'], 3)}"
    return f"{number(row['published'], 3)}{spread}"


def _summed_up(rows: pd.DataFrame) -> str:
    cells = []
    for figure, part in rows.groupby("figure", sort=False):
        apart = part["difference"]
        cells.append((figure, len(part), number(apart.mean(), 3), number(apart.abs().mean(), 3)))
    return _markdown(["figure", "measured", "mean difference", "mean absolute difference"], cells)


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return ""
    return str(value).replace("|", "\\|").replace("\n", " ")
