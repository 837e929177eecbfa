"""``rashomon list``: everything that has a name, a line each."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Annotated, Any

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import OutputOptions, StoreOptions
from rashomon.cli.output import Printer
from rashomon.errors import unknown_name
from rashomon.registry import Registry

# Where each registry lives, imported only when it is listed.
HOMES = {
    "datasets": "rashomon.data.catalogue",
    "models": "rashomon.models.build",
    "encoders": "rashomon.models.encoders",
    "tasks": "rashomon.models.tasks",
    "objectives": "rashomon.training.objectives",
    "callbacks": "rashomon.training.callbacks",
    "explainers": "rashomon.explainers.base",
    "measures": "rashomon.measures.base",
    "studies": "rashomon.studies.base",
}
KINDS = tuple(HOMES)
IN_PARENTHESES = ("explainers", "objectives", "callbacks")  # their settings are written behind their names


@takes
def command(
    kind: Annotated[str | None, typer.Argument(help=f"One of {', '.join(KINDS)}; all without.")] = None,
    *,
    store: StoreOptions,
    output: OutputOptions,
) -> None:
    """List everything that can be chosen by name.

    In brackets: the settings of an explainer, an objective or a callback (written behind its name) and of a study
    (for --set).
    Third-party packages add theirs through entry points (see CONTRIBUTING).
    """
    if kind is not None and kind not in KINDS:
        raise unknown_name("kind of thing to list", kind, KINDS)
    printer = Printer(output)
    document: dict[str, Any] = {}
    for each in [kind] if kind else KINDS:
        entries = _entries(each, store)
        document[each] = [{"name": name, "summary": summary} for name, summary in entries]
        printer.table(each, ["name", "what it is"], entries)
    printer.document(document)


def _entries(kind: str, store: StoreOptions) -> list[tuple[str, str]]:
    if kind == "models":
        from rashomon.models import known_models

        return known_models()
    registry: Registry[Any] = getattr(import_module(HOMES[kind]), kind)
    entries = [(entry.name, entry.summary + _settings(kind, entry.value)) for entry in registry]
    if kind == "datasets":
        from rashomon.data import known_names

        found = [name for name in known_names(store.data_dir) if name not in registry]
        entries += [(name, "in the data folder") for name in found]
    return entries


def _settings(kind: str, value: Any) -> str:
    """What can be set, in brackets: with the usual values where it is written behind the name in parentheses."""
    if kind == "studies":
        return f" [{', '.join(field.name for field in fields(value))}]"
    if kind not in IN_PARENTHESES:
        return ""
    from rashomon.runs.by_name import settings_of, written

    usual = settings_of(value).items()
    listed = [name if default is None else written(name, default) for name, default in usual]
    return f" [{', '.join(listed)}]" if listed else ""
