"""``rashomon list``: everything that has a name, a line each."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import OutputOptions, StoreOptions
from rashomon.cli.output import Printer
from rashomon.errors import unknown_name

if TYPE_CHECKING:
    from rashomon.explainers import Explainer

KINDS = ("datasets", "models", "explainers", "measures", "studies")


@takes
def command(
    kind: Annotated[str | None, typer.Argument(help=f"One of {', '.join(KINDS)}; all without.")] = None,
    *,
    store: StoreOptions,
    output: OutputOptions,
) -> None:
    """List datasets, models, explainers, measures and studies.

    In brackets: the settings of an explainer (written behind its name) and of a study (for --set).
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
    registry: Any
    if kind == "datasets":
        from rashomon.data import datasets as registry
        from rashomon.data import known_names

        built_in = [(entry.name, entry.summary) for entry in registry]
        found = [name for name in known_names(store.data_dir) if name not in registry]
        return built_in + [(name, "in the data folder") for name in found]
    if kind == "models":
        from rashomon.models import models as registry
    elif kind == "explainers":
        from rashomon.explainers import explainers

        return [(entry.name, entry.summary + _settings(entry.value)) for entry in explainers]
    elif kind == "measures":
        from rashomon.measures import measures as registry
    else:
        from rashomon.studies import studies

        named = [(e.name, e.summary, ", ".join(f.name for f in fields(e.value))) for e in studies]
        return [(name, f"{summary} [{settings}]") for name, summary, settings in named]
    return [(entry.name, entry.summary) for entry in registry]


def _settings(kind: type[Explainer]) -> str:
    """What can be written in parentheses behind an explainer's name, with the usual values."""
    from rashomon.runs.by_name import written

    told = [name if usual is None else written(name, usual) for name, usual in kind.settings().items()]
    return f" [{', '.join(told)}]" if told else ""
