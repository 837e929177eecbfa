"""What can be set, with its meaning beside it: the one source for checks, command-line options and help.

A specification is a dataclass. ``setting`` makes a field that carries its help; where a field has none, the comment
behind it in the source is its meaning. ``described_fields`` reads both.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
import typing
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from typing import Any, Literal

_COMMENTED = re.compile(r" {4}(\w+):[^#]*#\s*(.*)$")


@dataclass(frozen=True, slots=True)
class Setting:
    """One field of a specification, as a person may want to set it."""

    name: str
    kind: Any  # its type
    default: Any
    help: str
    names: tuple[str, ...] = ()  # what it is called on the command line, where that is not its own name
    choices: tuple[str, ...] = ()


def setting(default: Any, help: str, *names: str, choices: Sequence[str] = ()) -> Any:
    """A dataclass field with its meaning; ``names`` replace the option's name made from the field's."""
    metadata = {"help": help, "names": names, "choices": tuple(choices)}
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def described_fields(specification: type[Any]) -> list[Setting]:
    """The fields of a dataclass in their order; with their meaning."""
    hints = typing.get_type_hints(specification)
    known = dataclasses.fields(specification)
    silent = any("help" not in field.metadata for field in known)
    said = _comments(specification) if silent else {}  # reading the source takes its time
    return [_read(field, hints[field.name], said.get(field.name, "")) for field in known]


def default_of(field: dataclasses.Field[Any]) -> Any:
    """The usual value of a field; None where it has none."""
    usual = field.default if field.default_factory is MISSING else field.default_factory()
    return None if usual is MISSING else usual


def dataclass_in(kind: Any) -> type[Any] | None:
    """The dataclass that an annotation such as ``Search | None`` speaks of, if it is one."""
    found = [member for member in (kind, *typing.get_args(kind)) if dataclasses.is_dataclass(member)]
    return found[0] if found and isinstance(found[0], type) else None


def _read(field: dataclasses.Field[Any], kind: Any, said: str) -> Setting:
    about = field.metadata
    literal = typing.get_args(kind) if typing.get_origin(kind) is Literal else ()
    return Setting(
        name=field.name,
        kind=kind,
        default=default_of(field),
        help=about.get("help", said),
        names=tuple(about.get("names", ())),
        choices=tuple(about.get("choices", ())) or literal,
    )


def _comments(specification: type[Any]) -> dict[str, str]:
    """The comments behind the fields of a class and of those it inherits from, by field."""
    found: dict[str, str] = {}
    for cls in reversed(specification.__mro__):
        if not dataclasses.is_dataclass(cls):
            continue
        try:
            lines = textwrap.dedent(inspect.getsource(cls)).splitlines()
        except (OSError, TypeError):  # made at run time, or installed without its source
            continue
        found |= {match[1]: match[2] for line in lines if (match := _COMMENTED.match(line))}
    return found
