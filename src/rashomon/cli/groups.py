"""Command-line options from dataclasses: one source for names, types, defaults and help.

A command says which groups of options it takes and receives each group as an instance, so that five commands
that share options do not repeat them. A group may hold the options of a whole specification, one for each of its
fields; of these it receives what was typed.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import cache, wraps
from typing import Annotated, Any

import typer

from rashomon.fields import Setting, described_fields

Given = Mapping[str, Any]  # the fields of a specification that were typed, by name
NONE = "none"  # how None is typed


@dataclass(frozen=True, slots=True)
class Option:
    """One option: where its value goes, and the parameter that typer makes it from."""

    spelling: str
    group_field: str
    setting: Setting
    parameter: inspect.Parameter
    of_specification: bool


def fields_of(specification: type[Any], **others: object) -> Any:
    """A group's field that stands for the options of a specification.

    ``others`` are further sets of usual values, by the case in which they hold, for the help.
    """
    return field(
        default_factory=dict, metadata={"help": "", "specification": specification, "others": others}
    )


def takes(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: parameters annotated with a dataclass become that dataclass's options."""
    given = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in given if is_dataclass(p.annotation)}
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in given if p.name not in groups]
    parameters += [option.parameter for group in groups.values() for option in options_of(group)]

    @wraps(command)
    def run(**values: Any) -> None:
        filled = {name: _filled(group, values) for name, group in groups.items()}
        command(**values, **filled)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__  # typer would look through it and see the groups instead
    return run


@cache
def options_of(group: Any) -> tuple[Option, ...]:
    """All options of a group, in order."""
    own = {setting.name: setting for setting in described_fields(group)}
    return tuple(option for of in fields(group) for option in _options(of, own[of.name], group))


def typed(options: Any) -> list[str]:
    """The options that were given, as they are spelt."""
    kind: Any = type(options)
    usual = kind()
    return [
        option.spelling for option in options_of(kind) if _value(options, option) != _value(usual, option)
    ]


def _value(options: Any, option: Option) -> object:
    value = getattr(options, option.group_field)
    return value.get(option.setting.name) if option.of_specification else value


def _filled(group: Any, values: dict[str, Any]) -> Any:
    filled: dict[str, Any] = {}
    for option in options_of(group):
        value = values.pop(option.parameter.name)
        if not option.of_specification:
            filled[option.group_field] = value
        elif value not in (None, []):
            plain = _several(value) if isinstance(value, list) else None if value == NONE else value
            filled.setdefault(option.group_field, {})[option.setting.name] = plain
    return group(**filled)


def _several(values: list[Any]) -> tuple[Any, ...]:
    return () if values == [NONE] else tuple(values)


def _options(of: Field[Any], own: Setting, group: type[Any]) -> Iterator[Option]:
    specification = of.metadata.get("specification")
    if specification is None:
        yield _option(own, group, of.name, of.name, own.kind, own.default, own.help)
        return
    for setting in described_fields(specification):
        others = {case: getattr(usual, setting.name) for case, usual in of.metadata["others"].items()}
        kind, empty = _typed_as(setting.kind)
        about = _described(setting, others)
        yield _option(setting, group, of.name, f"{of.name}_{setting.name}", kind, empty, about)


def _option(
    setting: Setting, group: type[Any], group_field: str, name: str, kind: Any, default: Any, about: str
) -> Option:
    spelling = setting.names or (f"--{setting.name.replace('_', '-')}",)
    own = name == group_field
    if not own and kind == bool | None:
        spelling = (f"{spelling[0]}/--no-{spelling[0][2:]}",)
    extra: dict[str, Any] = {}
    if not own and _may_be_none(setting.kind) and kind != str | None:
        extra = {"parser": _or_none(kind), "metavar": "NUMBER|none"}
    panel = getattr(group, "panel", None)
    option = typer.Option(*spelling, help=about, rich_help_panel=panel, **extra)
    annotation = Annotated.__class_getitem__((kind, option))  # type: ignore[attr-defined]  # made at run time
    parameter = inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )
    return Option(spelling[0].split("/")[0], group_field, setting, parameter, not own)


def _typed_as(kind: Any) -> tuple[Any, Any]:
    """The type of an option that may be left out, and what it is then."""
    if typing.get_origin(kind) is tuple:
        return list[typing.get_args(kind)[0]], []  # type: ignore[misc]
    if typing.get_origin(kind) is typing.Literal:
        return str | None, None
    return kind | None, None


def _may_be_none(kind: Any) -> bool:
    return typing.get_origin(kind) in (types.UnionType, typing.Union) and type(None) in typing.get_args(kind)


def _or_none(kind: Any) -> Callable[[str], Any]:
    (number,) = (member for member in typing.get_args(kind) if member is not type(None))

    def read(text: str) -> Any:
        return NONE if text.lower() == NONE else number(text)

    return read


def _described(setting: Setting, others: Mapping[str, object]) -> str:
    parts = [setting.help]
    if setting.choices:
        parts.append(f"One of {', '.join(setting.choices)}.")
    if typing.get_origin(setting.kind) is tuple:
        parts.append("May be repeated.")
    cases = [
        f"{case.replace('_', '-')} {_shown(value)}"
        for case, value in others.items()
        if value != setting.default
    ]
    if cases or setting.default is not None:
        parts.append(f"(default: {'; '.join([_shown(setting.default), *cases])})")
    return " ".join(parts)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return NONE if value is None else str(value).lower() if isinstance(value, bool) else str(value)
