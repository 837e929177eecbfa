"""``rashomon replicate``: a paper's tables and conclusions, beside what is measured here."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import OutputOptions, StoreOptions, check_file, names_in
from rashomon.cli.output import Printer
from rashomon.cli.study import parsed_setting
from rashomon.errors import UserError
from rashomon.wording import duration, with_interval

if TYPE_CHECKING:
    from rashomon.papers.grid import Choice
    from rashomon.papers.replicating import Schedule

OUT = Path("rashomon-replication")


@takes
def command(
    paper: Annotated[
        str | None, typer.Argument(help="The paper; without one, what can be replicated and what has been.")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(help="A table of the paper. May be repeated; all without.")
    ] = None,
    only: Annotated[str, typer.Option(help="Datasets, with commas between; all without.")] = "",
    encoder: Annotated[
        str, typer.Option(help="Kinds of model of the paper, with commas between; all without.")
    ] = "",
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds each study varies (default: as many as the paper).")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Minutes: seeds, texts and points are chosen so that they fit."),
    ] = None,
    embeddings: Annotated[
        Path | None,
        typer.Option(
            help="A file of word vectors (default: the one in the folder embeddings of the data folder)."
        ),
    ] = None,
    embedding_scale: Annotated[
        float | None, typer.Option(help="Scale the word vectors to this standard deviation.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the studies, unlike the paper's, as NAME=VALUE in TOML."),
    ] = None,
    claims: Annotated[
        bool, typer.Option("--claims", help="All conclusions with their outcome from what was run before.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be run and how long it would take.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for report.html, replication.json and tables (default: rashomon-replication; with --claims "
            "none is written unless it is named)."
        ),
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            help="Write what the store holds of all papers to this Markdown file, and its figures to a .json beside it "
            "for --take-over elsewhere; nothing is run. What such a .json tells already stays in both."
        ),
    ] = None,
    take_over: Annotated[
        Path | None,
        typer.Option(help="A .json that --write made, on another machine say: its points count as run here."),
    ] = None,
    *,
    store: StoreOptions,
    output: OutputOptions,
) -> None:
    """Replicate the tables of a paper and check its conclusions.

    Every finished point of a paper's grids is kept: the same command goes on where it was interrupted, and a larger
    --budget adds to what was done.

    Examples:

      rashomon replicate

      rashomon replicate not_not --table 2 --data-dir DIR --dry-run

      rashomon replicate disagreement --only sst --budget 60 --data-dir DIR

      rashomon replicate --claims --out conclusions
    """
    printer = Printer(output)
    if embeddings is not None:
        check_file(embeddings, "--embeddings")
    from rashomon.papers.grid import Choice, Vectors, usual_vectors
    from rashomon.papers.plan import merged

    changes: dict[str, Any] = {}
    for setting in settings or []:
        changes = merged(changes, parsed_setting(setting))
    vectors = usual_vectors(store.data_dir) if embeddings is None else Vectors(embeddings.resolve())
    if embedding_scale is not None:
        if vectors is None:
            raise UserError("There are no word vectors to scale; say which with --embeddings.")
        vectors = Vectors(vectors.file, embedding_scale)
    choice = Choice(
        tuple(table or ()), names_in(only), names_in(encoder), seeds, changes, vectors, embeddings is not None
    )
    taken = 0
    if take_over is not None:
        check_file(take_over, "--take-over")
        taken = _take_over(take_over, store, printer)
    if write is not None:
        _write_document(paper, choice, write, store, printer)
    elif claims:
        any_settings = embeddings is None and embedding_scale is None and not changes
        if budget is not None or dry_run:
            raise UserError("--claims reads what was run and runs nothing: leave --budget and --dry-run out.")
        _say_claims(paper, choice, any_settings, out, store, printer)
    elif paper is not None:
        _replicate(paper, choice, budget, dry_run, out or OUT, store, printer)
    elif take_over is not None:
        printer.document({"taken_over": taken})
    else:
        _check_paper_named(choice, budget, dry_run)
        _say_overview(store, printer)


def _command() -> str:
    return shlex.join(["rashomon", *sys.argv[1:]])


def _check_paper_named(choice: Choice, budget: float | None, dry_run: bool) -> None:
    asked = (*choice.tables, *choice.datasets, *choice.encoders, *choice.changes)
    if asked or choice.seeds is not None or budget is not None or dry_run:
        from rashomon.papers import papers

        raise UserError(f"Say which paper to replicate: {', '.join(papers())}.")


def _say_overview(store: StoreOptions, printer: Printer) -> None:
    from rashomon.papers.outcomes import overview

    frame = overview(store.runs(), store.data_dir)
    printer.table("Tables that can be replicated", list(frame.columns), frame.itertuples(index=False), keep=4)
    printer.document({"tables": frame.to_dict("records")})


def _write_document(
    paper: str | None, choice: Choice, file: Path, store: StoreOptions, printer: Printer
) -> None:
    from rashomon.papers.kept import all_kept
    from rashomon.papers.ledger import ledger
    from rashomon.papers.replication_document import replication_document
    from rashomon.runs.files import write_bytes, written_or_told

    if paper is not None:
        raise UserError("--write is of all papers: leave the paper out.")
    figures = file.with_suffix(".json")
    if figures.is_file():
        _take_over(figures, store, printer)
    command = f"rashomon replicate --write {file.name}"
    text = replication_document(store.runs(), choice, command)
    with written_or_told(f"Cannot write {file}"):
        write_bytes(file, text.encode())
        write_bytes(figures, ledger(all_kept(store.runs())).encode())
    printer.plain(f"The document is in {file.resolve()}, its figures in {figures.name}")
    printer.document({"document": str(file), "figures": str(figures)})


def _take_over(file: Path, store: StoreOptions, printer: Printer) -> int:
    from rashomon.papers.ledger import take_over

    count = take_over(store.runs(), file.read_text(encoding="utf-8", errors="replace"), str(file))
    printer.plain(f"{count} points of {file.name} count as run here.")
    return count


def _say_claims(
    paper: str | None,
    choice: Choice,
    any_settings: bool,
    out: Path | None,
    store: StoreOptions,
    printer: Printer,
) -> None:
    from rashomon.papers import load, papers
    from rashomon.papers.replication_page import conclusions_page
    from rashomon.report import save_report
    from rashomon.runs.folders import check_folder

    if out is not None:
        check_folder(out, "report")
    names = papers() if paper is None else [load(paper).name]
    page = conclusions_page(store.runs(), choice, any_settings, names, _command())
    rows, counts = page.claims, Counter(str(row["outcome"]) for row in page.claims)
    printer.table(
        "Conclusions of the papers",
        ["claim", "outcome", "figure that decides", "n", "says", "why"],
        [(r["claim"], r["outcome"], _figure(r), r["n"], r["says"], r["why"]) for r in rows],
    )
    printer.plain(page.summary)
    unlike = [sentence for section in page.findings for sentence in section.warnings]
    printer.warnings(unlike)
    document = {"claims": list(rows), "outcomes": dict(counts), "unlike the papers": unlike}
    if out is not None:
        report = save_report(page, out).report
        printer.plain(f"The report is in {report.resolve()}")
        document["report"] = str(report)
    printer.document(document)


def _figure(row: Mapping[str, Any]) -> str:
    return "" if row["outcome"] == "not run" else with_interval({**row, "mean": row["value"]}, digits=3)


def _replicate(
    name: str,
    choice: Choice,
    budget: float | None,
    dry_run: bool,
    out: Path,
    store: StoreOptions,
    printer: Printer,
) -> None:
    from rashomon.papers import load
    from rashomon.papers.replicating import carry_out, schedule
    from rashomon.papers.replication_page import replication_of
    from rashomon.report import save_report
    from rashomon.runs.folders import check_folder

    paper = load(name)
    if not dry_run:
        check_folder(out, "report")
    context = store.context()
    planned = schedule(context, paper, choice, budget)
    _say_plan(planned, printer)
    if dry_run:
        printer.document(_plan_document(planned))
        return
    failed = carry_out(context, planned, choice, budget, printer.plain)
    replication = replication_of(context, paper, choice, planned, failed, _command())
    files = save_report(replication, out)
    printer.plain(replication.summary)
    printer.table(
        "Conclusions",
        ["claim", "outcome", "says", "why"],
        [(row["claim"], row["outcome"], row["says"], row["why"]) for row in replication.claims],
    )
    printer.warnings(replication.warnings)
    printer.plain(f"The report is in {files.report.resolve()}")
    printer.document(
        {
            "report": str(files.report),
            "summary": replication.summary,
            "claims": list(replication.claims),
            "not_run": list(replication.not_run),
            "left_out": list(replication.left_out),
        }
    )


def _say_plan(planned: Schedule, printer: Printer) -> None:
    printer.table(
        "What is run",
        ["point", "time", "tables", "seeds", "texts", "by"],
        [tuple(row.values()) for row in _plan_rows(planned)],
    )
    printer.plain(f"About {duration(planned.seconds)} in all.")
    printer.warnings((*planned.grid.not_run, *planned.left_out))


def _plan_rows(planned: Schedule) -> list[dict[str, Any]]:
    from rashomon.papers.grid import seeds_of, texts_of

    return [
        {
            "point": step.point.name,
            "time": "done" if step.done else duration(step.estimate.seconds),
            "tables": ", ".join(step.point.tables),
            "seeds": len(seeds_of(step.study)),
            "texts": texts_of(step.study) or "all",
            "by": "measured earlier" if step.estimate.measured else "a guess: the study was never run",
        }
        for step in planned.steps
    ]


def _plan_document(planned: Schedule) -> dict[str, Any]:
    return {
        "plan": _plan_rows(planned),
        "seconds": planned.seconds,
        "not_run": list(planned.grid.not_run),
        "left_out": list(planned.left_out),
    }
