"""What of a table is seen first? The figure right after the names, on a page, in a notebook and on 80 columns."""

from __future__ import annotations

from shutil import get_terminal_size

import pandas as pd

from rashomon.drawing.svg import Table, short
from rashomon.wording import cell

FIGURES = ("mean", "low", "high", "interval", "n", "undefined", "std")
MOST_ROWS = 40
_LEAST_NAME = 8  # characters that a name keeps however narrow the terminal
_GAP = "  "


class SummaryTable(pd.DataFrame):
    """A frame that prints its figures before it runs out of columns; a part of it is a plain frame."""

    def __repr__(self) -> str:
        return table_text(self)


def figure_first(frame: pd.DataFrame) -> pd.DataFrame:
    """The columns in the order names, mean, interval, counts, spread, and whatever else there is."""
    columns = [str(column) for column in frame.columns]
    if "mean" not in columns:
        return frame
    first = next(place for place, column in enumerate(columns) if column in FIGURES)
    names = columns[:first]
    figures = [column for column in FIGURES if column in columns]
    return frame[[*names, *figures, *(c for c in columns if c not in (*names, *figures))]]


def cells_of(frame: pd.DataFrame, most: int = MOST_ROWS) -> Table:
    """The first rows as text."""
    numeric = tuple(pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes)
    names = [str(column) for column in frame.columns]
    rows = tuple(
        tuple(cell(value, name) for value, name in zip(row, names, strict=True))
        for row in frame.head(most).itertuples(index=False)
    )
    heads = tuple(name.replace("_", " ") for name in names)
    return Table(heads, rows, numeric, max(0, len(frame) - most))


def table_text(frame: pd.DataFrame, width: int | None = None) -> str:
    """The table for a terminal: long names are cut in the middle, and columns that do not fit are named below."""
    table = cells_of(figure_first(frame))
    columns = [[name, *(row[place] for row in table.rows)] for place, name in enumerate(table.columns)]
    room = _widths(columns, table.numeric, width or get_terminal_size().columns)
    lines = []
    for row in zip(*columns[: len(room)], strict=True):
        aligned = [
            short(text, most).rjust(most) if number else short(text, most).ljust(most)
            for text, most, number in zip(row, room, table.numeric, strict=False)
        ]
        lines.append(_GAP.join(aligned).rstrip())
    if table.left_out:
        lines.append(f"... and {table.left_out:,} more rows")
    if len(room) < len(columns):
        lines.append(f"not shown, for want of width: {', '.join(table.columns[len(room) :])}")
    return "\n".join(lines)


def _widths(columns: list[list[str]], numeric: tuple[bool, ...], width: int) -> list[int]:
    """The widths of the columns that are shown: names give way to the first figures, never the other way."""
    wanted = [max(map(len, column)) for column in columns]
    names = next((place for place, number in enumerate(numeric) if number), len(columns))
    figures = sum(size + len(_GAP) for size in wanted[names : names + 3])  # the mean and its interval
    while names and sum(wanted[:names]) + len(_GAP) * (names - 1) + figures > width:
        widest = max(range(names), key=lambda place: wanted[place])
        if wanted[widest] <= _LEAST_NAME:
            break
        wanted[widest] -= 1
    shown, used = 0, -len(_GAP)
    for size in wanted:
        used += size + len(_GAP)
        if used > width and shown > names:
            break
        shown += 1
    return wanted[:shown]
