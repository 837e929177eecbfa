"""``rashomon study NAME --help``: what can be set in that study, with the usual values and what they mean."""

from __future__ import annotations

import json
from typing import Any

from rashomon.cli.options import OutputOptions
from rashomon.cli.output import Printer
from rashomon.fields import Setting, dataclass_in, described_fields
from rashomon.training.settings import TrainingSpec

BY_OPTIONS = {"subject"}  # --dataset, --model and their like say these


def print_settings(name: str) -> None:
    """The study's settings, as --set takes them, with a line of meaning each."""
    from rashomon.studies import studies

    kind = studies.get(name)
    printer = Printer(OutputOptions())
    printer.plain(f"Settings of {name}, as in --set 'NAME=VALUE', with their usual values. {kind.question}\n")
    for path, one in settings_under(kind):
        printer.plain(f"  {path} = {_shown(one.default)}\n      {one.help}")


def settings_under(kind: type[Any], path: str = "") -> list[tuple[str, Setting]]:
    """The settings of a dataclass by their dotted names; those that are dataclasses themselves are opened.

    How something is trained is not: its parts have the names and meanings of the options of training.
    """
    found: list[tuple[str, Setting]] = []
    for one in described_fields(kind):
        inner = dataclass_in(one.kind)
        if one.name in BY_OPTIONS:
            continue
        if inner is None or inner is TrainingSpec or one.default is None:
            found.append((path + one.name, one))
        if inner is not None and inner is not TrainingSpec:
            found += settings_under(inner, f"{path}{one.name}.")
    return found


def _shown(value: object) -> str:
    from rashomon.runs.specifications import to_plain

    return "none" if value is None else json.dumps(to_plain(value), ensure_ascii=False)
