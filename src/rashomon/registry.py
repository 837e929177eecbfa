"""Names for things that can be chosen: one registry class for explainers, measures, studies, models and the others.

Things register with a decorator when their module is imported. Those of ours are found in the ``home`` package of
their registry, so that a new one is one file. Other packages announce theirs as entry points in the group
``rashomon.<plural>`` (``rashomon.explainers``, ``rashomon.studies`` ...). Both are looked for only when a name is not
known yet, or when all are listed.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import walk_packages
from typing import Generic, TypeVar

from rashomon.errors import unknown_name

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    name: str
    value: T
    summary: str


class Registry(Generic[T]):
    """Things of one kind by name; a wrong name is answered with the nearest right one."""

    def __init__(self, kind: str, plural: str, home: str | None = None) -> None:
        self.kind = kind
        self.plural = plural
        self.home = home
        self._entries: dict[str, Entry[T]] = {}
        self._complete = False

    @property
    def group(self) -> str:
        """The group of entry points in which other packages announce theirs."""
        return f"rashomon.{self.plural}"

    def register(self, name: str, summary: str = "") -> Callable[[T], T]:
        """Decorator. The summary defaults to the first line of the docstring."""

        def decorate(value: T) -> T:
            if name in self._entries:
                raise ValueError(f"two {self.plural} are named {name!r}")
            line = summary or (getattr(value, "__doc__", None) or "").strip().split("\n")[0]
            self._entries[name] = Entry(name, value, line)
            return value

        return decorate

    def get(self, name: str) -> T:
        if name not in self:
            raise unknown_name(self.kind, name, self._entries)
        return self._entries[name].value

    def __contains__(self, name: object) -> bool:
        if name not in self._entries:
            self._load_all()
        return name in self._entries

    def __iter__(self) -> Iterator[Entry[T]]:
        self._load_all()
        return iter(sorted(self._entries.values(), key=lambda entry: entry.name))

    def names(self) -> list[str]:
        return [entry.name for entry in self]

    def _load_all(self) -> None:
        if self._complete:
            return
        self._complete = True
        if self.home is not None:
            package = import_module(self.home)
            for module in walk_packages(package.__path__, f"{self.home}."):
                import_module(module.name)
        for point in entry_points(group=self.group):
            try:
                self._load(point)
            except Exception as error:  # whatever a stranger's module raises, the others still work
                whose = f" of {point.dist.name}" if point.dist is not None else ""
                reason = f"{type(error).__name__}: {error}"
                warnings.warn(
                    f"The {self.kind} {point.name!r}{whose} is left out, because {point.value} cannot be loaded "
                    f"({reason}).",
                    stacklevel=2,
                )

    def _load(self, point: EntryPoint) -> None:
        taken = point.name in self._entries and point.module not in sys.modules
        value = point.load()
        if taken:
            raise ValueError(f"there is another {self.kind} of this name")
        if point.name not in self._entries:  # loading may itself have run the decorator
            self.register(point.name)(value)
