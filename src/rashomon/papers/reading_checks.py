"""What may stand in a paper's file? Wrong and missing fields, named by file and table, with the nearest right name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

from rashomon.errors import UserError, unknown_name


def check_fields(
    raw: Mapping[str, Any], allowed: Collection[str], needed: Collection[str], where: str
) -> None:
    """Refuse fields that do not exist, and the lack of those that must be there."""
    for name in raw:
        check_known("field", name, allowed, where)
    for name in needed:
        if name not in raw:
            raise UserError(f"{where} has no {name}.")


def check_known(kind: str, name: str, allowed: Collection[str], where: str) -> None:
    if name not in allowed:
        raise unknown_name(f"{kind} in {where}", name, allowed)


def made(cls: Any, raw: Mapping[str, Any], where: str) -> Any:
    """A dataclass from a table of the file, lists as tuples."""
    check_fields(raw, [one.name for one in fields(cls)], (), where)
    try:
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()})
    except TypeError as error:
        raise UserError(f"{where} is incomplete: {error}.") from None


def several(value: Any) -> tuple[Any, ...]:
    """One value or a list of them, as a tuple."""
    return tuple(value) if isinstance(value, list) else (value,)
