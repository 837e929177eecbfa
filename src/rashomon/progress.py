"""Progress of long work, on standard error: bars in a terminal, plain lines elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

console = Console(stderr=True)


class Advance(Protocol):
    """Call it when ``steps`` more are done; ``note`` says something about the newest of them."""

    def __call__(self, steps: float = 1, note: str = "") -> None: ...


class _State:
    shown = sys.stderr.isatty()
    bars: Progress | None = None  # rich allows one live display, so nested work shares it
    whole: tuple[Advance, float] | None = (
        None  # the work that what comes next is a part of, and how much of it
    )
    depth = 0


def show_progress(shown: bool) -> None:
    """Turn progress on or off for this process. The library shows it in terminals, the command line unless quiet."""
    _State.shown = shown


@contextmanager
def silence() -> Iterator[None]:
    """No progress from what runs inside, such as short runs that are only timed."""
    shown, _State.shown = _State.shown, False
    try:
        yield
    finally:
        _State.shown = shown


@contextmanager
def part_of(advance: Advance, size: float) -> Iterator[None]:
    """What is followed inside has no bar of its own: it moves that of the whole, by ``size`` steps when it is done."""
    done = 0.0

    def move(steps: float = 1, note: str = "") -> None:
        nonlocal done
        more = min(steps, size - done)
        done += more
        advance(more, note)

    before, _State.whole = _State.whole, (move, size)
    try:
        yield
        move(size)
    finally:
        _State.whole = before


@contextmanager
def progress(what: str, total: int) -> Iterator[Advance]:
    """Follow ``total`` steps of work called ``what``."""
    if not _State.shown or total <= 0:
        yield lambda steps=1, note="": None
    elif _State.whole is not None:
        move, size = _State.whole
        with part_of(lambda steps=1, note="": None, 1):  # what is inside of it moves nothing
            yield lambda steps=1, note="": move(size * steps / total, note or what)
    elif console.is_terminal:
        with _bar(what, total) as advance:
            yield advance
    else:
        with _lines(what) as advance:
            yield advance


@contextmanager
def _lines(what: str) -> Iterator[Advance]:
    """A line when work begins and one when it ends; work inside work would only be noise in a log."""
    last = ""

    def remember(steps: float = 1, note: str = "") -> None:
        nonlocal last
        last = note or last

    _State.depth += 1
    try:
        if _State.depth == 1:
            _say(f"{what} ...")
        yield remember
        if _State.depth == 1:
            _say(f"{what}: done{', ' + last if last else ''}")
    finally:
        _State.depth -= 1


def _say(line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _bar(what: str, total: int) -> Iterator[Advance]:
    outermost = _State.bars is None
    if _State.bars is None:
        _State.bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            transient=True,
        )
        _State.bars.start()
    bars = _State.bars
    task = bars.add_task(what, total=total, note="")

    def advance(steps: float = 1, note: str = "") -> None:
        bars.advance(task, steps)
        if note:
            bars.update(task, note=note)

    try:
        yield advance
    finally:
        bars.remove_task(task)
        if outermost:
            bars.stop()
            _State.bars = None
