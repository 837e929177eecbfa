"""What happens to rows without a text? A few are left out and told of; many are a mistake in the file or the column.

Exports of real data nearly always have some. Ten cannot change what a dataset says, nor can one in a hundred; but where
more than a tenth is blank, the column is likely the wrong one, however short the file.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from rashomon.data.file_formats import Table
from rashomon.errors import Caution, UserError, unknown_name
from rashomon.wording import ranges

Empty = Literal["few", "error", "skip"]  # leave out a few; refuse any; leave out any number
FEW, FEW_SHARE = 10, 0.01  # left out unasked, whichever is more
MOST_SHARE = 0.1  # but never more of a short file


def check_empty(empty: str) -> None:
    if empty not in get_args(Empty):
        raise unknown_name("way with blank texts", empty, get_args(Empty))


def without_blanks(table: Table, columns: Sequence[str], empty: Empty) -> Table:
    """The rows with a text in each of the columns; the table's notes, and a warning, say what was left out."""
    check_empty(empty)
    blank = {number for number, values in table.rows if any(is_blank(values.get(name)) for name in columns)}
    if not blank:
        return table
    named = " or ".join(repr(name) for name in columns)
    if len(blank) == len(table.rows):
        raise UserError(f"No row of {table.source} has a text ({named}); is it another column?")
    numbers = f"{table.unit}{'s' if len(blank) > 1 else ''} {ranges(blank)}"
    said = (
        f"{len(blank):,} of {len(table.rows):,} rows of {table.source} {'have' if len(blank) > 1 else 'has'}"
    )
    few = _few(len(table.rows))
    if empty == "error" or (empty == "few" and len(blank) > few):
        raise UserError(f"{said} an empty text ({named}): {numbers}. {_way_out(empty, few)}")
    note = f"{said} an empty text ({named}) and {'were' if len(blank) > 1 else 'was'} left out: {numbers}."
    warnings.warn(note, Caution, stacklevel=2)
    rows = tuple(row for row in table.rows if row[0] not in blank)
    return replace(table, rows=rows, notes=(*table.notes, note))


def is_blank(value: object) -> bool:
    """Nothing, a missing number, or white space alone."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def _few(rows: int) -> int:
    return int(min(max(FEW, FEW_SHARE * rows), MOST_SHARE * rows))


def _way_out(empty: Empty, few: int) -> str:
    if empty == "error":
        return "Mend or remove them."
    unasked = f"{few:,} would be left out unasked, but not so many" if few else "Mend or remove them"
    return f"{unasked}; --empty skip (in Python, empty='skip') leaves out any number."
