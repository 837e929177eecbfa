"""What a user can cause and should hear of: each a sentence that says what is wrong and what to do."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any


class UserError(Exception):
    """Something the user can mend: a mistake in what was asked, a full disk, a damaged file.

    The command line prints its sentence and exits with code 2.
    """


class DoesNotFit(UserError):  # noqa: N818 - reads as what it says
    """What was asked makes no sense for this model or these data; an audit leaves the study out and says so."""


class Caution(UserWarning):
    """Work goes on, but the user should know: a run was damaged, a tokeniser hardly knows a word."""


@contextmanager
def cautions(heard: list[str]) -> Iterator[None]:
    """Collect the cautions of what is done inside, which are shown as ever; a report should have them too."""
    show = warnings.showwarning

    def hear(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, Caution):
            heard.append(str(message))
        show(message, category, *where, **more)

    warnings.showwarning = hear
    try:
        yield
    finally:
        warnings.showwarning = show


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UserError:
    """The error for a wrong name, with the nearest right one."""
    names = sorted(known)
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(names) or 'none'}."
    return UserError(f"There is no {kind} named {name!r}; {hint}")
