"""What has been replicated, and what became of the papers' conclusions? Read from the store; nothing is run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from rashomon.data import known_names
from rashomon.papers.beside import beside, claims_input
from rashomon.papers.claims import decide_all
from rashomon.papers.grid import Choice, dataset_of, runs_of
from rashomon.papers.kept import Kept, all_kept, answering
from rashomon.papers.published import Paper, Table
from rashomon.papers.reading import load, papers
from rashomon.runs.store import Store
from rashomon.studies.base import Finding, studies

EMPTY = pd.DataFrame(columns=["paper", "table", "figure", "value", "low", "high", "n"])


class Findings:
    """The kept findings behind the tables of a paper, each read once."""

    def __init__(
        self, paper: Paper, kept: Sequence[Kept], choice: Choice, any_settings: bool = False
    ) -> None:
        self.paper, self.kept, self.choice, self.any_settings = paper, kept, choice, any_settings
        self._read: dict[Path, Finding] = {}

    def points(self, table: Table, everything: bool = False) -> list[Kept]:
        """The kept points of a table: those that were chosen, or all."""
        runs = runs_of(self.paper, table, Choice() if everything else self.choice)
        found = (answering(run, self.paper.name, self.kept, self.choice, self.any_settings) for run in runs)
        return [one for one in found if one is not None]

    def of(self, table: Table, everything: bool = False) -> list[Finding]:
        return [self.read(one) for one in self.points(table, everything)]

    def read(self, point: Kept) -> Finding:
        if point.path not in self._read:
            self._read[point.path] = point.finding()
        return self._read[point.path]


def claims_of(findings: Findings) -> pd.DataFrame:
    """Every conclusion of the paper with its outcome, from all of its tables that were run."""
    paper = findings.paper
    parts = [EMPTY]
    for table in paper.tables.values():
        ours = findings.of(table, everything=True)
        if ours:
            parts.append(claims_input(beside(ours, paper, table.id), paper.name, table.id))
    figures = [part for part in parts if len(part)]
    return decide_all(paper, pd.concat(figures, ignore_index=True) if figures else EMPTY)


def all_claims(
    store: Store, choice: Choice, any_settings: bool, names: Iterable[str] | None = None
) -> pd.DataFrame:
    """The conclusions of all papers, in the order of their numbers."""
    kept = all_kept(store)
    parts = []
    for name in papers() if names is None else names:
        found = claims_of(Findings(load(name), kept, choice, any_settings))
        found.insert(0, "paper", name)
        parts.append(found)
    together = pd.concat(parts, ignore_index=True)
    return together.sort_values("claim", key=lambda ids: ids.str[1:].astype(int), ignore_index=True)


def departures(
    store: Store, choice: Choice, any_settings: bool, names: Iterable[str] | None = None
) -> list[str]:
    """A sentence for every study that conclusions are read from and that ran in other settings than the paper's."""
    kept, where = all_kept(store), defaultdict[tuple[str, str, str], list[str]](list)
    for name in papers() if names is None else names:
        findings = Findings(load(name), kept, choice, any_settings)
        for table in findings.paper.tables.values():
            for one in findings.points(table, everything=True):
                if one.departures:
                    where[name, one.study, one.departures].append(f"{one.dataset} ({one.encoder})")
    return [
        f"{paper}: {study} on {', '.join(dict.fromkeys(points))} ran with {settings}."
        for (paper, study, settings), points in where.items()
    ]


def overview(store: Store, data_dir: Path | None, names: Iterable[str] | None = None) -> pd.DataFrame:
    """Every table of the papers: which study gives it, over how many points, on which data, and how many are done."""
    kept, here = all_kept(store), set(known_names(data_dir))
    rows = []
    for name in papers() if names is None else names:
        findings = Findings(load(name), kept, Choice(), any_settings=True)
        for table in findings.paper.tables.values():
            runs = runs_of(findings.paper, table, Choice())
            needed = list(dict.fromkeys(map(dataset_of, runs)))
            rows.append(
                {
                    "paper": name,
                    "table": table.id,
                    "study": _study(table),
                    "done": f"{len(findings.points(table))} of {len(runs)}" if runs else "",
                    "datasets": ", ".join(one for one in needed if one in here),
                    "datasets not here": ", ".join(one for one in needed if one not in here),
                }
            )
    return pd.DataFrame(rows)


def _study(table: Table) -> str:
    if table.study is None:
        return "none"
    return table.study if table.study in studies else f"{table.study} (does not exist yet)"
