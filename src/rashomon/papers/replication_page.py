"""What does the page of a replication show? The conclusions, every table beside ours, and what was run of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pandas as pd

from rashomon.audits.record import ReportContent
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Figure, Plot, Series
from rashomon.models.build import is_pretrained
from rashomon.papers.beside import beside, with_published
from rashomon.papers.claims import outcomes_in_words
from rashomon.papers.costs import less_than_asked
from rashomon.papers.grid import Choice, Point, heading, tables_of
from rashomon.papers.kept import Kept, all_kept, answering, named_settings
from rashomon.papers.outcomes import Findings, all_claims, claims_of, departures
from rashomon.papers.published import Paper, Table
from rashomon.papers.reading import load
from rashomon.papers.replicating import Schedule
from rashomon.runs.specifications import to_plain
from rashomon.runs.store import Store, library_versions
from rashomon.studies.base import Finding

FEWEST_POINTS = 2  # of a plot


@dataclass(frozen=True, kw_only=True)
class Replication(ReportContent):
    """A page that sets a paper's tables beside ours and says which of its conclusions hold."""

    kind: ClassVar[str] = "replication"
    numbers: ClassVar[str] = "replication.json"

    paper: str  # or several, with commas between
    claims: tuple[Mapping[str, Any], ...]
    not_run: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()  # for want of time


def replication_of(
    context: Context,
    paper: Paper,
    choice: Choice,
    planned: Schedule,
    failed: Sequence[str] = (),
    command: str = "",
) -> Replication:
    """The page from what is in the store, so that it is the same however often the work was interrupted."""
    findings = Findings(paper, all_kept(context.store), choice)
    claims = claims_of(findings)
    sections = [_table_section(findings, table) for table in tables_of(paper, choice)]
    shown = [section for section in sections if section is not None]
    if not shown:
        raise UserError(f"Nothing could be run: {' '.join(failed)}")
    points = _points(findings, planned)
    used = [one for _, one in points if one is not None]
    not_run = (*planned.grid.not_run, *failed)
    return Replication(
        title=f"{paper.title} ({paper.year}), replicated",
        model=", ".join(dict.fromkeys(one.encoder for one in used)),
        dataset=", ".join(dict.fromkeys(one.dataset for one in used)),
        summary=f"{outcomes_in_words(claims)} {_agreement(shown)}",
        findings=(_claims_section(claims), *shown, _runs_section(points)),
        warnings=tuple(dict.fromkeys((*_differences(paper, choice, used), *not_run, *planned.left_out))),
        configuration=_settings(choice),
        versions=library_versions(),
        command=command,
        seconds=sum(one.seconds for one in used),
        paper=paper.name,
        claims=_rows(claims),
        not_run=not_run,
        left_out=planned.left_out,
    )


def conclusions_page(
    store: Store, choice: Choice, any_settings: bool, names: Sequence[str], command: str
) -> Replication:
    """The conclusions of papers from what is in the store, a section a paper; nothing is run."""
    claims = all_claims(store, choice, any_settings, names)
    of_paper = {name: claims[claims["paper"] == name].drop(columns="paper") for name in names}
    sections = [
        replace(
            _claims_section(part),
            study=f"claims-{name}",
            title=load(name).title,
            warnings=tuple(departures(store, choice, any_settings, [name])),
        )
        for name, part in of_paper.items()
    ]
    used = _all_used([Findings(load(name), all_kept(store), choice, any_settings) for name in names])
    return Replication(
        title="What became of the papers' conclusions",
        model=", ".join(dict.fromkeys(one.encoder for one in used)),
        dataset=", ".join(dict.fromkeys(one.dataset for one in used)),
        summary=outcomes_in_words(claims, "the"),
        findings=tuple(sections),
        warnings=(),
        configuration=_settings(choice),
        versions=library_versions(),
        command=command,
        seconds=sum(one.seconds for one in used),
        paper=", ".join(names),
        claims=_rows(claims),
    )


def _all_used(papers: Sequence[Findings]) -> list[Kept]:
    """The kept points that conclusions are read from, each once."""
    points = (
        one
        for findings in papers
        for table in findings.paper.tables.values()
        for one in findings.points(table, everything=True)
    )
    return list({one.path: one for one in points}.values())


def _settings(choice: Choice) -> dict[str, Any]:
    named = {"tables": choice.tables, "datasets": choice.datasets, "encoders": choice.encoders}
    return {**{name: list(chosen) for name, chosen in named.items()}, "changes": to_plain(choice.changes)}


def _rows(claims: pd.DataFrame) -> tuple[Mapping[str, Any], ...]:
    return tuple({str(key): value for key, value in row.items()} for row in claims.to_dict("records"))


def _points(findings: Findings, planned: Schedule) -> list[tuple[Point, Kept | None]]:
    return [
        (point, answering(point.run, point.paper, findings.kept, findings.choice, any_settings=False))
        for point in planned.grid.points
    ]


def _agreement(sections: Sequence[Finding]) -> str:
    rows = pd.concat([section.tables["figures"] for section in sections])
    return _within(rows)


def _within(rows: pd.DataFrame) -> str:
    known = rows[rows["published"].notna()]
    if known.empty:
        return "There are no published numbers to set beside ours."
    both = known[known["ours"].notna()]
    sentence = f"{len(both)} of {len(known)} published figures were measured here"
    judged = both["within_spread"].dropna()
    if len(judged):
        sentence += f"; of {len(judged)} that have a published spread {int(judged.sum())} lie within it"
    return f"{sentence}."


def _claims_section(claims: pd.DataFrame) -> Finding:
    """What is read stands in the summary; the numbers behind it, which ``why`` tells too, in a table of their own."""
    return Finding(
        study="claims",
        title="Conclusions",
        question="Do the paper's conclusions hold here?",
        verdict=f"{outcomes_in_words(claims)} The interval decides, never the mean.",
        configuration={},
        tables={
            "summary": claims[["claim", "outcome", "says", "why", "where"]],
            "decisions": claims.assign(n=claims["n"].astype("Int64")).drop(columns=["says", "where", "why"]),
        },
    )


def _table_section(findings: Findings, table: Table) -> Finding | None:
    """A table beside ours; None where nothing of it was run."""
    ours = findings.of(table)
    if not ours:
        return None
    rows = beside(ours, findings.paper, table.id)
    notes = [f"The published spread is the {table.spread}."] if table.spread else []
    return Finding(
        study=f"table-{table.id}",
        title=heading(table.id),
        question=table.caption,
        verdict=_within(rows) if table.figures else table.unreadable,
        configuration={},
        tables={"summary": _by_figure(rows), "figures": rows},
        figures=(*_against(rows), *_own_figures(table, ours)),
        warnings=(*notes, *table.configuration.differs),
    )


def _by_figure(rows: pd.DataFrame) -> pd.DataFrame:
    """For every kind of figure: how many there are, how far ours lie from them, how many within the spread."""
    summary = []
    for figure, part in rows.groupby("figure", sort=False):
        both = part.dropna(subset=["published", "ours"])
        judged = both["within_spread"].dropna()
        summary.append(
            {
                "figure": figure,
                "published": int(part["published"].notna().sum()),
                "ours": int(part["ours"].notna().sum()),
                "mean difference": both["difference"].mean(),
                "mean absolute difference": both["difference"].abs().mean(),
                "with spread": len(judged),
                "within spread": int(judged.sum()),
            }
        )
    return pd.DataFrame(summary)


def _against(rows: pd.DataFrame) -> tuple[Figure, ...]:
    both = rows.dropna(subset=["published", "ours"])
    if len(both) < FEWEST_POINTS:
        return ()
    series = []
    for figure, part in both.groupby("figure", sort=False):
        series.append(Series(str(figure), part["published"].tolist(), part["ours"].tolist(), line=False))
    ends = [float(both["published"].min()), float(both["published"].max())]
    series.append(Series("equal", ends, ends, control=True, marker="plus"))
    return (Plot("Ours against the published figures", "published", "ours", tuple(series)),)


def _own_figures(table: Table, ours: Sequence[Finding]) -> list[Figure]:
    """What the paper drew, drawn from ours."""
    if table.figures and table.curve is None:
        return []
    drawn: list[Figure] = []
    for finding in ours:
        about: Any = finding.configuration["subject"]
        where = f"{about['dataset']['name']}, {about['model']['name']}"
        drawn += [replace(one, title=f"{where}: {one.title}") for one in with_published(finding).figures]
    return drawn


def _runs_section(points: Sequence[tuple[Point, Kept | None]]) -> Finding:
    rows = []
    for point, kept in points:
        less = "" if kept is None else less_than_asked("it", point.study, kept.seeds, kept.texts)
        rows.append(
            {**point.run.point, "study": point.run.study, "tables": ", ".join(point.tables)}
            | {"seeds": None if kept is None else kept.seeds, "texts": None if kept is None else kept.texts}
            | {"state": "not run" if kept is None else "in part" if less else "done"}
        )
    frame = pd.DataFrame(rows)
    done = int((frame["state"] != "not run").sum())
    return Finding(
        study="runs",
        title="What was run",
        question="Which points of the paper's grids were run, and in what extent?",
        verdict=f"{done} of {len(frame)} points were run, {int((frame['state'] == 'in part').sum())} of them in part.",
        configuration={},
        tables={"summary": frame},
        warnings=tuple(
            sentence
            for point, kept in points
            if kept and (sentence := less_than_asked(point.name, point.study, kept.seeds, kept.texts))
        ),
    )


def _differences(paper: Paper, choice: Choice, used: Sequence[Kept]) -> list[str]:
    """In which ways data, vectors and models are not the paper's."""
    differences = [
        f"{stand_in.name} stands in for {name}: {stand_in.reason}."
        for name, stand_in in paper.stand_ins.items()
        if any(stand_in.name in (one.dataset, one.encoder) for one in used)
    ]
    differences += dict.fromkeys(_vectors(one) for one in used if not is_pretrained(one.encoder))
    if choice.changes:
        differences.append(f"Settings were changed from the paper's: {named_settings(choice.changes)}.")
    return differences


def _vectors(point: Kept) -> str:
    if point.vectors is None:
        return "Word vectors were learned from scratch: none were given (--embeddings) that fit."
    file, scale = point.vectors
    scaled = "" if scale is None else f", scaled to a standard deviation of {scale:g}"
    return f"The word vectors are those of {file}{scaled}."
