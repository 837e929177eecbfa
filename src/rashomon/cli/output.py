"""One way to print: tables for people, one JSON document for programs."""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from rashomon.cli.options import OutputOptions
from rashomon.errors import UserError
from rashomon.progress import show_progress
from rashomon.wording import plain_cell

FOLDED = 24  # what a column of words needs at least


class Printer:
    """Collects what a command has to say and says it once, in the asked form."""

    def __init__(self, options: OutputOptions) -> None:
        self.options = options
        self.console = Console()
        show_progress(not options.quiet)

    @property
    def for_people(self) -> bool:
        return not (self.options.json or self.options.quiet)

    def say(self, *what: Any) -> None:
        if self.for_people:
            self.console.print(*what)

    def plain(self, text: str) -> None:
        """Text from outside, in which square brackets mean nothing."""
        if self.for_people:
            self.console.print(text, markup=False, highlight=False)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """As many of the columns as the screen is wide enough for, and the names of the others."""
        if not self.for_people:
            return
        cells = [
            [
                plain_cell(value, column).replace("[", "\\[")
                for value, column in zip(row, columns, strict=True)
            ]
            for row in rows
        ]
        shown = _fitting(columns, cells, self.console.width)
        table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
        for number, column in enumerate(columns[:shown]):
            table.add_column(column, overflow="fold", justify="left" if number == 0 else "default")
        for row in cells:
            table.add_row(*row[:shown])
        self.console.print(table)
        if shown < len(columns):
            self.plain(f"Not shown, for want of width: {', '.join(columns[shown:])}.")

    def document(self, document: Any) -> None:
        """Print ``document`` when JSON was asked for."""
        if self.options.json:
            sys.stdout.write(json.dumps(_finite(document), ensure_ascii=False, indent=2) + "\n")


def _fitting(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> int:
    """How many columns fit without folding numbers; long words are folded, so they need only so much."""
    used = 1
    for number, column in enumerate(columns):
        longest = max([len(column), *(len(row[number]) for row in cells)])
        used += min(longest, FOLDED) + 3
        if used > width and number > 1:
            return number
    return len(columns)


def _finite(value: Any) -> Any:
    """NaN is not JSON; null is."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def check_writable(out: Path) -> None:
    """Before hours of training rather than after. Nothing is made yet, in case the work fails."""
    try:
        there = next(path for path in (out, *out.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise UserError(f"Cannot write to {out}: {error.strerror}.") from None
