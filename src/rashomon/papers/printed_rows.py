"""How is a printed table written down? As plain columns under a header, close to what one sees in the paper.

A cell is a number, ``value±spread``, or ``-`` where the paper leaves it empty or it cannot be read. Columns named
among the keys hold keys. Every other column is a figure: by an entry of its own that says which figure under which
keys, or, when the header runs ``across`` a key, as a value of that key (``lime``) or ``figure@value`` (``f1@mlp``).
With a key column ``figure`` each row names its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rashomon.errors import UserError
from rashomon.papers.published import Key, PublishedFigure

EMPTY = "-"


def read_rows(
    text: str,
    *,
    row_keys: Sequence[str],
    constant: Mapping[str, Key],
    columns: Mapping[str, Mapping[str, Any]],
    across: str | None,
    figure: str | None,
    n: int | None,
    where: str,
) -> tuple[PublishedFigure, ...]:
    """Every figure of the table, row by row."""
    lines = [line.split() for line in text.strip().splitlines()]
    header = lines[0]
    for key in row_keys:
        if key not in header:
            raise UserError(f"{where} has no column {key!r}.")
    for name in columns:
        if name not in header:
            raise UserError(f"{where} describes a column {name!r} that its header does not have.")
    described = {name: _column(name, columns, across, figure) for name in header if name not in row_keys}
    figures: dict[tuple[Any, ...], PublishedFigure] = {}
    for number, cells in enumerate(lines[1:], 1):
        place = f"{where}, row {number} ({' '.join(cells[:3])} ...)"
        if len(cells) != len(header):
            raise UserError(f"{place} has {len(cells)} cells for {len(header)} columns.")
        row = dict(zip(header, cells, strict=True))
        keys = {key: key_of(row[key]) for key in row_keys if row[key] != EMPTY}
        for name, (what, more) in described.items():
            if row[name] == EMPTY:
                continue
            value, spread = _number(row[name], place)
            own = {**constant, **keys, **more}
            made = PublishedFigure(str(own.pop("figure", what)), own, value, spread, n)
            identity = (made.figure, *sorted(own.items()))
            if identity in figures:
                raise UserError(f"{place} repeats a figure under the same keys.")
            figures[identity] = made
    return tuple(figures.values())


def key_of(cell: str) -> Key:
    """A key as a number where it is one."""
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def _column(
    name: str, columns: Mapping[str, Mapping[str, Any]], across: str | None, figure: str | None
) -> tuple[str, dict[str, Key]]:
    """Which figure a column holds, under which keys besides those of the row."""
    if name in columns:
        own = dict(columns[name])
        return str(own.pop("figure", figure or name)), own
    if across is None:
        return name, {}
    what, _, value = name.rpartition("@")
    return (what or figure or name), {across: key_of(value)}


def _number(cell: str, place: str) -> tuple[float, float | None]:
    value, _, spread = cell.partition("±")
    try:
        numbers = float(value), float(spread) if spread else None
    except ValueError:
        raise UserError(f"{place} has {cell!r} where a number was expected.") from None
    if not all(math.isfinite(one) for one in numbers if one is not None):
        raise UserError(f"{place} has {cell!r}, which is no figure.")
    return numbers
