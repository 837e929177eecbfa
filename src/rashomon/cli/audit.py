"""``rashomon audit``: every study that fits a model and its data, and one page to pass on."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rashomon.cli.groups import takes, typed
from rashomon.cli.options import (
    DataOptions,
    Methods,
    ModelOptions,
    OutputOptions,
    StoreOptions,
    check_file,
    method_names,
    names_in,
)
from rashomon.cli.output import Printer
from rashomon.errors import UserError

if TYPE_CHECKING:
    from rashomon.studies import Finding

# What workers need: the studies, what torch loads when it first makes an optimizer, what scores and tests come from.
LOADED_EARLY = ("rashomon.audits.kept_findings", "torch._dynamo", "sklearn.metrics", "scipy.stats")


@takes
def command(
    out: Annotated[Path, typer.Option(help="Folder for report.html, findings.json and tables.")] = Path(
        "rashomon-report"
    ),
    methods: Methods = "",
    instances: Annotated[int, typer.Option(help="How many texts are explained.")] = 100,
    split: Annotated[str, typer.Option(help="Which split they are drawn from.")] = "test",
    explanations: Annotated[
        Path | None,
        typer.Option(
            help="Stored explanations of this model (a Parquet file) whose methods take part beside --methods."
        ),
    ] = None,
    without: Annotated[str, typer.Option(help="Studies to leave out, with commas between.")] = "",
    simulate: Annotated[
        bool,
        typer.Option(
            "--simulate",
            help="Also ask what the explanations are worth: train small students with them and without. "
            "Takes minutes, where questions are answered more; how many is said first.",
        ),
    ] = False,
    *,
    data: DataOptions,
    model: ModelOptions,
    store: StoreOptions,
    output: OutputOptions,
) -> None:
    """Audit the explanations of a model and write a report.

    Without options it audits a small BiLSTM (64 units) on built-in reviews whose deciding words are known. For a
    model of your own, labels are needed only by what says so.

    Examples:

      rashomon audit

      rashomon audit --model ./my-checkpoint --data reviews.csv --text-column body --label-column stars
    """
    from rashomon.runs.folders import check_folder

    printer = Printer(output)
    check_folder(out, "report")
    if instances < 1:
        raise UserError(f"--instances must be at least 1, not {instances}.")
    if explanations is not None:
        check_file(explanations, "--explanations")
    will_train = "--model" not in typed(model) and not _has_found(store)
    if store.backend == "processes" and will_train:
        from rashomon.runs.executor import start_workers

        start_workers(store.workers, LOADED_EARLY)
    from rashomon.audits import AuditSettings, cautions_in, run_audit
    from rashomon.audits.auditing import check_names
    from rashomon.experiments.abilities import able_model
    from rashomon.experiments.subject import DEMONSTRATION
    from rashomon.experiments.testimony import METHODS
    from rashomon.report import save_report
    from rashomon.studies.performance import Performance
    from rashomon.studies.qa_simulation import simulation_for

    if {*typed(data), *typed(model)} <= {"--seed"}:
        subject = replace(DEMONSTRATION, seeds=tuple(model.seed) or DEMONSTRATION.seeds)
    else:
        subject = model.any_subject(data.spec(labelled=not model.checkpoint()))
    settings = AuditSettings(
        subject=subject,
        methods=method_names(methods) or METHODS,
        instances=instances,
        split=split,
        without=names_in(without),
        explanations=None if explanations is None else str(explanations),
    )
    check_names(settings)
    context = store.context()
    if simulate:
        simulation = simulation_for(able_model(context, subject), settings.asked)
        settings = replace(settings, also=(simulation.name,))
        printer.plain(simulation.cost(context))
    audit = run_audit(context, settings, command=shlex.join(["rashomon", *sys.argv[1:]]))
    files = save_report(audit, out)
    _say_how_good(audit.findings, printer)
    printer.plain(audit.summary)
    printer.table("Verdicts", ["method", "in a sentence"], [(v.method, v.sentence) for v in audit.verdicts])
    warnings = [*audit.warnings, *(str(caution) for caution, _ in cautions_in(audit))]
    printer.warnings(warnings)
    printer.plain(f"The report is in {files.report.resolve()}")
    printer.document(
        {
            "report": str(files.report),
            "summary": audit.summary,
            "verdicts": {v.method: v.sentence for v in audit.verdicts},
            "model": {f.study: f.verdict for f in audit.findings}.get(Performance.name),
            "findings": {f.study: f.verdict for f in audit.findings},
            "warnings": warnings,
        }
    )


def _has_found(store: StoreOptions) -> bool:
    """Whether some audit has left its findings: this one will most likely read them, and train nothing."""
    return any((store.runs().root / "findings").glob("*"))  # kept_findings.KIND, which takes seconds to load


def _say_how_good(findings: Sequence[Finding], printer: Printer) -> None:
    """What the model gets right and what it predicts, before anything is said of its explanations."""
    from rashomon.studies.performance import Performance

    for finding in findings:
        if finding.study == Performance.name:
            table = finding.tables.get("classes", finding.summary)
            printer.plain(finding.verdict)
            printer.table(finding.title, list(table.columns), table.itertuples(index=False))
