"""Which studies, in which settings, would give a paper's table? One for every point of its grid that can be had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from rashomon.papers.published import Key, Keys, Paper, Table


@dataclass(frozen=True)
class Run:
    """One study to run: its name, the point of the grid in the paper's names, and its settings as nested tables."""

    study: str
    point: Mapping[str, Key]
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    runs: tuple[Run, ...]
    left_out: tuple[str, ...]  # a sentence for each dataset that cannot be had


def plan_of(paper: Paper, table: Table) -> Plan:
    """The runs behind a table, in the paper's configuration, stand-ins in place of what cannot be had."""
    if table.study is None:
        return Plan((), ())
    if table.run_as is not None:
        return plan_of(paper, paper.table(table.run_as))
    values = {
        key: list(dict.fromkeys([*table.values_of(key), *table.also.get(key, ())])) for key in table.grid
    }
    keys = [key for key in table.grid if values[key]]
    runs, left_out = [], []
    for chosen in product(*(values[key] for key in keys)):
        point = dict(zip(keys, chosen, strict=True))
        reason = _unavailable(paper, point)
        if reason is not None:
            left_out.append(reason)
        elif _is_asked(table, point):
            runs.append(Run(table.study, point, _settings(paper, table, point)))
    return Plan(tuple(runs), tuple(dict.fromkeys(left_out)))


def _unavailable(paper: Paper, point: Mapping[str, Key]) -> str | None:
    name = str(point.get("dataset", ""))
    known = paper.datasets.get(name)
    if known is None or known.available or name in paper.stand_ins:
        return None
    return f"{known.printed} is left out: {known.reason}."


def _is_asked(table: Table, point: Mapping[str, Key]) -> bool:
    """Whether the table has a figure there or the point is asked for beyond it; a grid need not be full."""
    beyond = any(value in table.also.get(key, ()) for key, value in point.items())
    return beyond or not table.figures or bool(_there(table, point))


def _there(table: Table, point: Mapping[str, Key]) -> list[Keys]:
    """The keys of the published figures at a point."""
    return [
        one.keys
        for one in table.figures
        if all(one.keys.get(key, value) == value for key, value in point.items())
    ]


def _settings(paper: Paper, table: Table, point: Mapping[str, Key]) -> dict[str, Any]:
    settings = merged({}, table.configuration.settings)
    for value in point.values():
        settings = merged(settings, table.configuration.at.get(str(value), {}))
    for path, value in table.requires.items():
        settings = merged(settings, _at(path, value))
    for key, value in point.items():
        stand_in = paper.stand_ins.get(str(value))
        settings = merged(settings, _at(table.grid[key], value if stand_in is None else stand_in.name))
    for key, path in table.within.items():
        values = dict.fromkeys(keys[key] for keys in _there(table, point) if key in keys)
        if values:
            settings = merged(settings, _at(path, list(values)))
    return settings


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """``second`` over ``first``, table by table."""
    both = dict(first)
    for key, value in second.items():
        old = both.get(key)
        both[key] = merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return both


def _at(path: str, value: Any) -> dict[str, Any]:
    value = [value] if path.endswith("[]") else value
    for name in reversed(path.removesuffix("[]").split(".")):
        value = {name: value}
    return dict(value)
