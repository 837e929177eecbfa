"""How long would work take on an empty store? Runs that are found finished are noted, with what making them took."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rashomon.runs.files import read_json
from rashomon.runs.integrity import META


@dataclass(frozen=True)
class FoundRuns:
    """Runs that were finished before, each with the seconds that it took then."""

    since: datetime
    seconds: dict[Path, float] = field(default_factory=dict)


_noting: ContextVar[FoundRuns | None] = ContextVar("noting", default=None)


@contextmanager
def noting_found_runs() -> Iterator[FoundRuns]:
    """The runs that are asked for inside and were there already."""
    found = FoundRuns(datetime.now(UTC))
    token = _noting.set(found)
    try:
        yield found
    finally:
        _noting.reset(token)


def note_found(folder: Path) -> None:
    """Called by the store for every run that it finds whole, also for those that were made a moment ago."""
    found = _noting.get()
    if found is None or folder in found.seconds:
        return
    meta = read_json(folder / META)
    if datetime.fromisoformat(meta["created"]) < found.since:
        found.seconds[folder] = float(meta["seconds"])
