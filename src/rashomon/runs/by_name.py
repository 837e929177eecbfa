"""A registered thing with its settings, written in one word: ``lime(samples=500, perturbation=mask)``.

Explainers, objectives and callbacks are frozen dataclasses under a name. What is written this way in Python, in a file
and on the command line is read here, and written again as short as it can be.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from rashomon.errors import UserError
from rashomon.fields import default_of
from rashomon.registry import Registry
from rashomon.runs.specifications import from_plain, to_plain

T = TypeVar("T")
_BETWEEN = re.compile(r",(?![^\[]*\])")  # commas, except those inside brackets


def make_by_name(registry: Registry[type[T]], text: str, **settings: Any) -> T:
    """The thing that ``text`` names, with the settings behind its name and those given here."""
    name, asked = name_and_settings(text)
    kind = registry.get(name)
    known = settings_of(kind)
    unknown = sorted({*asked, *settings} - {*known})
    if unknown:
        raise UserError(f"{name} has no setting {unknown[0]!r}; it has: {', '.join(known) or 'none'}.")
    return from_plain(kind, asked | settings) if asked else kind(**settings)


def settings_of(kind: type[Any]) -> dict[str, Any]:
    """What can be set, with the usual values."""
    return {field.name: default_of(field) for field in fields(kind)} if is_dataclass(kind) else {}


def in_one_word(name: str, thing: object) -> str:
    """The name, with the settings that differ from the usual ones; ``make_by_name`` reads it back."""
    values = [(key, getattr(thing, key), usual) for key, usual in settings_of(type(thing)).items()]
    differing = [written(key, value) for key, value, usual in values if value != usual]
    return f"{name}({', '.join(differing)})" if differing else name


def written(name: str, value: object) -> str:
    """A setting as it is written behind a name."""
    return f"{name}={value if isinstance(value, str) else json.dumps(to_plain(value))}"


def name_and_settings(text: str) -> tuple[str, dict[str, Any]]:
    """A name and the settings written behind it in parentheses."""
    name, opened, rest = text.strip().partition("(")
    if not opened:
        return name, {}
    if not rest.endswith(")"):
        raise UserError(f"Write settings as in lime(samples=500, perturbation=mask), not as in {text!r}.")
    settings: dict[str, Any] = {}
    for part in filter(str.strip, _BETWEEN.split(rest[:-1])):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise UserError(f"In {text!r}, {part.strip()!r} is not a setting such as samples=500.")
        if key in settings:
            raise UserError(f"In {text!r}, {key} is set twice.")
        settings[key] = _value(value)
    return name.strip(), settings


def _value(text: str) -> object:
    """A number, true, false or a list in brackets; anything else is a word."""
    for read in (int, float, json.loads):
        with suppress(ValueError, RecursionError):  # what is nested without end is a word, too
            return read(text)
    return text
