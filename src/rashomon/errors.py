"""The one kind of error a user can cause: a sentence that says what is wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """A mistake in what was asked. The command line prints its sentence and exits with code 2."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a wrong name, with the nearest right one."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}."
    return UserError(f"There is no {kind} named {name!r}; {hint}")
