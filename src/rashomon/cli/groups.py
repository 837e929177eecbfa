"""Command-line options from dataclasses: one source for names, types, defaults and help.

A command says which groups of options it takes and receives each group as an instance, so that five commands
that share options do not repeat them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer


def option(default: Any, help: str, *names: str) -> Any:
    """A dataclass field that is an option; ``names`` replace the one made from the field's name."""
    metadata = {"help": help, "names": names}
    if isinstance(default, list):
        return field(default_factory=lambda: list(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def takes(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: parameters annotated with a dataclass become that dataclass's options."""
    given = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {p.name: p.annotation for p in given if is_dataclass(p.annotation)}
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in given if p.name not in groups]
    parameters += [_parameter(f, group) for group in groups.values() for f in fields(group)]

    @wraps(command)
    def run(**values: Any) -> None:
        filled = {
            name: group(**{f.name: values.pop(f.name) for f in fields(group)})
            for name, group in groups.items()
        }
        command(**values, **filled)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del run.__wrapped__  # typer would look through it and see the groups instead
    return run


def _parameter(of: Field[Any], group: type[Any]) -> inspect.Parameter:
    assert is_dataclass(group)
    kind = get_type_hints(group)[of.name]
    names = of.metadata["names"] or (f"--{of.name.replace('_', '-')}",)
    made = of.default_factory() if of.default_factory is not MISSING else of.default
    panel = getattr(group, "panel", None)
    about = typer.Option(*names, help=of.metadata["help"], rich_help_panel=panel)
    annotation = Annotated.__class_getitem__((kind, about))  # type: ignore[attr-defined]  # made at run time
    return inspect.Parameter(of.name, inspect.Parameter.KEYWORD_ONLY, default=made, annotation=annotation)
