"""``rashomon audit``: every study that fits a model and its data, and one page to pass on."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import DataOptions, Methods, ModelOptions, OutputOptions, StoreOptions, method_names
from rashomon.cli.output import Printer
from rashomon.errors import UserError


@takes
def command(
    out: Annotated[Path, typer.Option(help="Folder for report.html, findings.json and tables.")] = Path(
        "rashomon-report"
    ),
    methods: Methods = "",
    instances: Annotated[int, typer.Option(help="How many texts are explained.")] = 100,
    split: Annotated[str, typer.Option(help="Which split they are drawn from.")] = "test",
    without: Annotated[str, typer.Option(help="Studies to leave out, with commas between.")] = "",
    *,
    data: DataOptions,
    model: ModelOptions,
    store: StoreOptions,
    output: OutputOptions,
) -> None:
    """Audit the explanations of a model and write a report.

    Without options it audits the built-in BiLSTM on built-in reviews whose deciding words are known. For a
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
    from rashomon.audits import AuditSettings, cautions_in, run_audit
    from rashomon.audits.auditing import check_names
    from rashomon.experiments.testimony import METHODS
    from rashomon.report import save_report

    subject = model.any_subject(data.spec(labelled=not model.checkpoint()))
    settings = AuditSettings(
        subject=subject,
        methods=method_names(methods) or METHODS,
        instances=instances,
        split=split,
        without=_names(without),
    )
    check_names(settings)
    audit = run_audit(store.context(), settings, command=shlex.join(["rashomon", *sys.argv[1:]]))
    files = save_report(audit, out)
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
            "findings": {f.study: f.verdict for f in audit.findings},
            "warnings": warnings,
        }
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())
