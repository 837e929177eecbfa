"""One way to print: tables for people, one JSON document for programs."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rashomon.cli.options import OutputOptions
from rashomon.progress import show_progress
from rashomon.wording import plain_cell

FOLDED = 24  # what a column of words needs at least
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # line breaks and tabs are harmless


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
        """Text from outside: square brackets mean nothing, and what would steer the terminal is shown instead."""
        if self.for_people:
            self.console.print(harmless(text), markup=False, highlight=False)

    def warnings(self, texts: Iterable[str]) -> None:
        """What to be wary of, each thing once."""
        for text in dict.fromkeys(texts):
            self.plain(f"note: {text}")

    def table(
        self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], keep: int = 2
    ) -> None:
        """As many of the columns as the screen is wide enough for, and the names of the others.

        The first ``keep`` are always there, the last of these unbroken: it is the figure that the table is about.
        """
        if not self.for_people:
            return
        cells = [
            [harmless(plain_cell(value, column)) for value, column in zip(row, columns, strict=True)]
            for row in rows
        ]
        shown = _fitting(columns, cells, self.console.width, keep)
        table = Table(title=Text(title), title_justify="left", title_style="bold", header_style="bold")
        for number, column in enumerate(columns[:shown]):
            figure = number == keep - 1 and max((len(row[number]) for row in cells), default=0) <= FOLDED
            table.add_column(Text(column), overflow="fold", no_wrap=figure)
        for row in cells:
            table.add_row(*map(Text, row[:shown]))
        self.console.print(table)
        if shown < len(columns):
            self.plain(f"Not shown, for want of width: {', '.join(columns[shown:])}.")

    def document(self, document: Any) -> None:
        """Print ``document`` when JSON was asked for."""
        if self.options.json:
            escaped = not (sys.stdout.encoding or "").lower().startswith("utf")
            sys.stdout.write(json.dumps(_finite(document), ensure_ascii=escaped, indent=2) + "\n")


def harmless(text: str) -> str:
    """Control characters as their escapes, so that a text from a file cannot clear the screen or worse."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _fitting(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int, keep: int) -> int:
    """How many columns fit without folding numbers; long words are folded, so they need only so much."""
    return next(
        (count for count in range(len(columns), keep, -1) if _width(columns[:count], cells, FOLDED) <= width),
        min(keep, len(columns)),
    )


def _width(columns: Sequence[str], cells: Sequence[Sequence[str]], most: int | None = None) -> int:
    """Of a table with borders, with columns of at most so many characters."""
    longest = [max([len(name), *(len(row[n]) for row in cells)]) for n, name in enumerate(columns)]
    return 1 + sum(min(each, most or each) + 3 for each in longest)


def _finite(value: Any) -> Any:
    """NaN is not JSON; null is."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
