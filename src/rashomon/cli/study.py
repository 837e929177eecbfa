"""``rashomon study``: one question, asked of one model and dataset."""

from __future__ import annotations

import json
import shlex
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from rashomon.cli.groups import takes, typed
from rashomon.cli.options import (
    DataOptions,
    Methods,
    ModelOptions,
    OutputOptions,
    SpaceName,
    StoreOptions,
    check_file,
    method_names,
)
from rashomon.cli.output import Printer
from rashomon.cli.study_help import print_settings
from rashomon.errors import UserError
from rashomon.wording import INTERVAL_COLUMNS, interval_column, with_interval

if TYPE_CHECKING:
    import pandas as pd

    from rashomon.studies import Finding, Study, Subject

COUNTS = ("n", "undefined")
MOST_ROWS = 40  # of the summary on the screen; files hold everything


class StudyCommand(TyperCommand):
    """``rashomon study NAME --help`` goes on with the settings of that study."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["words"] = list(args)  # --help is answered before any argument is read
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        super().format_help(ctx, formatter)
        words = [word for word in ctx.meta.get("words", ()) if not word.startswith("-")]
        if words:
            print_settings(words[0])


@takes
def command(
    name: Annotated[str, typer.Argument(help="The study (`rashomon list studies`).")],
    methods: Methods = "",
    instances: Annotated[int | None, typer.Option(help="How many texts are explained.")] = None,
    split: Annotated[str | None, typer.Option(help="Which split they are drawn from.")] = None,
    space: SpaceName = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="How many models a study of attention trains beside the base; else how many bases. "
            "--seed names the bases."
        ),
    ] = None,
    explanations: Annotated[
        Path | None,
        typer.Option(help="Stored explanations (a Parquet file) to study instead of new ones."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the study, as NAME=VALUE in TOML. May be repeated."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with the whole configuration.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for report.html, findings.json, tables.")] = None,
    *,
    data: DataOptions,
    model: ModelOptions,
    store: StoreOptions,
    output: OutputOptions,
) -> None:
    """Ask one question of a model.

    Examples:

      rashomon study agreement --dataset sst --data-dir DIR --seed 0 --seed 1 --seed 2 --instances 500

      rashomon study attefa --dataset mock-5 --encoder mlp --seeds 9

      rashomon study erasure --model ./checkpoint --data reviews.csv --set 'fractions=[0.1, 0.2]'
    """
    printer = Printer(output)
    if config is not None:
        check_file(config, "--config")
        _check_alone(data, model, seeds)
    if explanations is not None:
        check_file(explanations, "--explanations")
    if out is not None:
        from rashomon.runs.folders import check_folder

        check_folder(out, "report")
    from rashomon.explainers.request import output_space
    from rashomon.papers import with_published
    from rashomon.studies import studies

    kind = studies.get(name)
    study = _from_file(kind, config) if config is not None else _about(kind(), data, model, seeds)
    asked: dict[str, Any] = {
        "instances": instances,
        "split": split,
        "space": space and output_space(space),
        "stored": explanations and str(explanations),
    }
    if methods:
        asked["methods"] = method_names(methods)
    study = _with_values(study, {key: value for key, value in asked.items() if value is not None})
    study = _with_settings(study, settings or [])
    started = time.monotonic()
    finding = with_published(study.run(store.context()))
    if out is not None:
        _save(study, finding, time.monotonic() - started, out, printer)
    printer.plain(finding.verdict)
    summary = _compact(finding.tables["summary"])
    rows = summary.head(MOST_ROWS).itertuples(index=False)
    printer.table(finding.question, list(summary.columns), rows, keep=_figure_column(summary) + 1)
    printer.warnings(finding.all_warnings)
    _document(finding, printer)


def _compact(summary: pd.DataFrame) -> pd.DataFrame:
    """Mean and interval in one column, right after the names; how many there were comes behind."""
    from rashomon.drawing.tables import figure_first

    if {"mean", "low", "high", "interval"} <= set(summary.columns):
        rows = summary[["mean", "low", "high", "interval"]].to_dict("records")
        figures = [with_interval({str(key): value for key, value in row.items()}, digits=3) for row in rows]
        heading = interval_column(summary["interval"])
        together = figure_first(summary).assign(mean=figures).rename(columns={"mean": heading})
        return together.drop(columns=["low", "high", "interval", "std"], errors="ignore")
    counts = [name for name in COUNTS if name in summary.columns]
    return summary[[name for name in summary.columns if name not in counts] + counts]


def _figure_column(summary: pd.DataFrame) -> int:
    """Which column the summary is about: the mean, else the first of measured numbers."""
    figures = [number for number, name in enumerate(summary.columns) if name in INTERVAL_COLUMNS]
    if figures:
        return figures[0]
    measured = [number for number, kind in enumerate(summary.dtypes) if kind.kind == "f"]
    return measured[0] if measured else 1


def _check_alone(data: DataOptions, model: ModelOptions, seeds: int | None) -> None:
    """A file holds the whole configuration: an option beside it would be passed over in silence."""
    given = [*(["--seeds"] if seeds is not None else []), *typed(data), *typed(model)]
    if given:
        raise UserError(f"{given[0]} cannot be given beside --config: change it in the file, or with --set.")


def _from_file(kind: type[Study], config: Path) -> Study:
    import tomllib

    from rashomon.models.model_spec import ModelSpec
    from rashomon.runs.specifications import from_plain, to_plain

    try:
        values = _toml(config.read_text(encoding="utf-8"), str(config))
    except UnicodeDecodeError:
        raise UserError(f"{config} is not UTF-8 text, as TOML has to be.") from None
    except OSError as error:
        raise UserError(f"{config} cannot be read: {error.strerror}.") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{config} is not valid TOML: {error}.") from None
    subject = values.get("subject", {})
    training = subject.get("training") if isinstance(subject, dict) else None
    if isinstance(training, dict):  # what is not said is as usual, as with --set
        model = from_plain(ModelSpec, subject.get("model", {}))
        subject["training"] = to_plain(kind().base_training(model)) | training
    return from_plain(kind, values)


def _toml(text: str, where: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise UserError(f"{where} holds a value that is nested too deeply to be read.") from None
    except ValueError:  # Python reads no number of more than 4,300 digits
        raise UserError(f"{where} holds a number with too many digits.") from None


def _has(study: Study, field: str) -> bool:
    return any(f.name == field for f in fields(study))


def _about(study: Any, data: DataOptions, model: ModelOptions, seeds: int | None) -> Any:
    """The study of the asked model and texts; what was not said stays as the study has it."""
    from rashomon.studies.asking import so_many

    own: Subject = study.subject
    dataset = data.spec(labelled=not model.checkpoint(), usual=own.dataset.name)
    if seeds is not None and seeds < 1:
        raise UserError(f"A study needs at least one seed, not {seeds}.")
    several = next((name for name in ("seeds", "other_seeds") if _has(study, name)), None)
    count = range(seeds) if seeds is not None and several is None else own.seeds
    subject = model.any_subject(dataset, tuple(count), study.base_training)
    if seeds is not None and several is not None:
        study = replace(study, **{several: so_many(getattr(study, several), seeds)})
    return replace(study, subject=subject)


def _with_values(study: Any, values: dict[str, Any]) -> Any:
    for key, value in values.items():
        if not _has(study, key):
            raise UserError(f"The study {study.name} does not take {key!r}.")
        study = replace(study, **{key: value})
    return study


def _with_settings(study: Any, settings: list[str]) -> Any:
    from rashomon.runs.specifications import from_plain, to_plain

    for setting in settings:
        value = parsed_setting(setting)
        study = from_plain(type(study), _merged(to_plain(study), value, to_plain(_left_open(study))))
    return study


def parsed_setting(setting: str) -> dict[str, Any]:
    """What ``--set`` was given, as nested tables."""
    import tomllib

    if "=" not in setting:
        raise UserError(f"--set takes NAME=VALUE, not {setting!r}.")
    try:
        return _toml(setting, "--set")
    except tomllib.TOMLDecodeError:
        return _bare_word(setting)


def _bare_word(setting: str) -> dict[str, Any]:
    """What is no TOML value is a text without its quotes."""
    import tomllib

    key, _, word = setting.partition("=")
    try:
        return tomllib.loads(f"{key} = {json.dumps(word.strip())}")
    except tomllib.TOMLDecodeError:
        raise UserError(f"--set takes NAME=VALUE, not {setting!r}.") from None


def _left_open(study: Any) -> dict[str, Any]:
    """What the study takes for settings that are None, with the training of its subject."""
    return {**study.left_open(), "subject": {"training": study.base_training(study.subject.model)}}


def _merged(old: dict[str, Any], new: dict[str, Any], left_open: Any) -> dict[str, Any]:
    """``new`` over ``old``, table by table; a setting that was left open starts from what the study would take."""
    merged = dict(old)
    for key, value in new.items():
        usual = left_open.get(key, {}) if isinstance(left_open, dict) else {}
        before = usual if old.get(key) is None else old[key]
        both = isinstance(value, dict) and isinstance(before, dict)
        merged[key] = _merged(before, value, usual) if both else value
    return merged


def _save(study: Study, finding: Finding, seconds: float, out: Path, printer: Printer) -> None:
    from rashomon.audits.auditing import single_finding
    from rashomon.report import save_report

    command = shlex.join(["rashomon", *sys.argv[1:]])
    files = save_report(single_finding(study, finding, command, seconds), out)
    printer.plain(f"The report is in {files.report.resolve()}")


def _document(finding: Finding, printer: Printer) -> None:
    from rashomon.report.export import plain

    printer.document(
        {
            "study": finding.study,
            "question": finding.question,
            "verdict": finding.verdict,
            "judgements": plain(finding.judgements),
            "summary": plain(finding.tables["summary"].to_dict("records")),
            "warnings": list(finding.all_warnings),
            "configuration": plain(finding.configuration),
        }
    )
