"""Which numbers does a rule look at? Figures, their means, differences and correlations, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from rashomon.measures import measures
from rashomon.measures.base import Ragged
from rashomon.papers.published import Bounds, Key, Rule, Term
from rashomon.wording import with_interval

NORMAL = float(norm.ppf(0.975))
DRAWS = 1000  # of figures measured again, for the interval of a correlation
FEWEST_POINTS = 3
NOT_KEYS = ("paper", "table", "value", "low", "high", "n", "spread")


@dataclass(frozen=True)
class Quantity:
    """A figure, or what is made of figures, with its 95 % interval; n is the least of those it is made of."""

    keys: Mapping[str, Key]
    value: float
    low: float
    high: float
    n: float
    table: str = ""

    def widened(self, times: float) -> Quantity:
        low, high = (self.value + times * (end - self.value) for end in (self.low, self.high))
        return replace(self, low=low, high=high)

    def __str__(self) -> str:
        named = (f"{value:g}" if isinstance(value, float) else str(value) for value in self.keys.values())
        name = ", ".join(named) or "all"
        return f"{name}: {with_interval({'mean': self.value, 'low': self.low, 'high': self.high}, 3)}"


def rows_of(frame: pd.DataFrame) -> list[Quantity]:
    """The figures of a tidy table: table, figure, a column a key, value, low, high, n."""
    rows = []
    for record in frame.to_dict("records"):
        keys = {str(name): key for name, key in record.items() if name not in NOT_KEYS and not _missing(key)}
        numbers = {name: float(record.get(name, math.nan)) for name in ("value", "low", "high", "n")}
        if not math.isnan(numbers["value"]):
            rows.append(Quantity(keys, table=str(record["table"]), **numbers))
    return rows


def _missing(key: Any) -> bool:
    return key is None or (isinstance(key, float) and math.isnan(key))


def quantities_of(rule: Rule, rows: Sequence[Quantity]) -> list[tuple[Quantity, Bounds]]:
    """What the rule looks at, each with its bounds."""
    if rule.paired is not None and (own := _selected(rule.paired, rows)):
        return [(one, rule.bounds) for one in own]
    if rule.kind == "order":
        return _ordered(rule, rows)
    term = rule.chain[0][0]
    if rule.kind == "correlation":
        groups = _grouped(_selected(term, rows), rule.by)
        found = [_correlation(rule, keys, group) for keys, group in groups]
        return [(one, rule.bounds) for one in found if one is not None]
    found_rows = _pooled(term, rows, rule.by) if rule.pooled else _figures_of(term, rows)
    return [(one, rule.bounds) for one in found_rows]


def averaged_by(rule: Rule, rows: Sequence[Quantity]) -> dict[tuple[Key, ...], int]:
    """How many figures each mean of a rule about means is of; nothing for other rules."""
    groups = _grouped(_selected(rule.chain[0][0], rows), rule.by) if rule.pooled else []
    return {tuple(keys.values()): len(group) for keys, group in groups}


def has_every_link(rule: Rule, rows: Sequence[Quantity]) -> bool:
    """Whether there are figures for each link, where the rule is an order."""
    return rule.kind != "order" or all(_link(link, rule.chain, rows) for link in rule.chain)


def _ordered(rule: Rule, rows: Sequence[Quantity]) -> list[tuple[Quantity, Bounds]]:
    """Every figure of a link less every figure of the next, within equal keys."""
    margins = rule.margins or (0.0,) * (len(rule.chain) - 1)
    links = [_link(link, rule.chain, rows) for link in rule.chain]
    found = []
    for margin, upper, lower in zip(margins, links[:-1], links[1:], strict=True):
        for first in upper:
            for second in lower:
                if all(first.keys.get(key) == second.keys.get(key) for key in rule.by):
                    found.append((difference(first, second), Bounds(above=margin)))
    return found


def _link(link: Sequence[Term], chain: Iterable[Sequence[Term]], rows: Sequence[Quantity]) -> list[Quantity]:
    named = [term for other in chain for term in other if not term.rest]
    taken = {id(row) for term in named for row in _selected(term, rows)}
    found: list[Quantity] = []
    for term in link:
        if term.rest:
            found += [row for row in _selected(term, rows) if id(row) not in taken]
        else:
            found += _figures_of(term, rows)
    return found


def _figures_of(term: Term, rows: Sequence[Quantity]) -> list[Quantity]:
    chosen = _selected(term, rows)
    if term.less is None:
        return chosen
    others = _selected(_other_side(term), rows)
    apart = {*term.less, *(("table",) if "table" in term.less else ())}
    return [difference(one, other) for one in chosen for other in others if _alike(one, other, apart)]


def _other_side(term: Term) -> Term:
    """What is subtracted: the same figures but for the values that ``less`` names."""
    assert term.less is not None
    changed = {key: value for key, value in term.less.items() if key != "table"}
    table = str(term.less["table"][0]) if "table" in term.less else term.table
    return replace(term, table=table, keys={**term.keys, **changed}, less=None)


def _alike(one: Quantity, other: Quantity, apart: Iterable[str]) -> bool:
    """Whether two figures have the same keys, as far as both have them and they are not what is compared."""
    shared = (set(one.keys) & set(other.keys)) - set(apart)
    return all(one.keys[key] == other.keys[key] for key in shared)


def _selected(term: Term, rows: Sequence[Quantity]) -> list[Quantity]:
    chosen = [
        row
        for row in rows
        if row.table == term.table and all(row.keys.get(key) in values for key, values in term.keys.items())
    ]
    return [replace(row, value=row.n, low=row.n, high=row.n) for row in chosen] if term.count else chosen


def _grouped(rows: Sequence[Quantity], by: Sequence[str]) -> list[tuple[dict[str, Key], list[Quantity]]]:
    groups: dict[tuple[Any, ...], list[Quantity]] = {}
    for row in rows:
        groups.setdefault(tuple(row.keys.get(key) for key in by), []).append(row)
    return [
        ({key: value for key, value in zip(by, values, strict=True) if value is not None}, group)
        for values, group in groups.items()
    ]


def _pooled(term: Term, rows: Sequence[Quantity], by: Sequence[str]) -> list[Quantity]:
    """Means over figures. Figures of the same texts go together, so their intervals are not narrowed by averaging."""
    means = [_mean(keys, group) for keys, group in _grouped(_selected(term, rows), by)]
    if term.less is None:
        return means
    others = [_mean(keys, group) for keys, group in _grouped(_selected(_other_side(term), rows), by)]
    return [difference(one, other) for one in means for other in others if one.keys == other.keys]


def _mean(keys: Mapping[str, Key], group: Sequence[Quantity]) -> Quantity:
    value, low, high = (
        float(np.mean([getattr(one, name) for one in group])) for name in ("value", "low", "high")
    )
    return Quantity(keys, value, low, high, min(one.n for one in group))


def difference(first: Quantity, second: Quantity) -> Quantity:
    """The difference of two figures from their own intervals (Zou & Donner's method of variance estimates recovery).

    Exact for independent figures; figures of the same texts vary together, and then it is on the careful side.
    """
    value = first.value - second.value
    low = value - math.hypot(first.value - first.low, second.high - second.value)
    high = value + math.hypot(first.high - first.value, second.value - second.low)
    keys = {key: name for key, name in first.keys.items() if second.keys.get(key) == name}
    for key in first.keys:
        if key not in keys:
            keys[key] = f"{first.keys[key]} - {second.keys.get(key, 'the other')}"
    return Quantity(keys, value, low, high, min(first.n, second.n))


def _correlation(rule: Rule, keys: Mapping[str, Key], group: Sequence[Quantity]) -> Quantity | None:
    """The correlation of figures with a key; its interval is what it would be, were each figure measured again."""
    placed = [(x, one) for one in group if (x := _place(rule, one)) is not None]
    if len(placed) < FEWEST_POINTS:
        return None
    xs = np.array([x for x, _ in placed])
    values, lows, highs = (
        np.array([getattr(one, name) for _, one in placed]) for name in ("value", "low", "high")
    )
    errors = (highs - lows) / (2 * NORMAL)
    drawn = values + errors * np.random.default_rng(0).standard_normal((DRAWS, len(xs)))
    statistic: Callable[[Ragged, Ragged], np.ndarray] = measures.get(rule.statistic)
    repeated = Ragged.from_list([xs] * (DRAWS + 1))
    correlations = statistic(repeated, Ragged.from_list([values, *drawn]))
    defined = np.isfinite(errors).all() and np.isfinite(correlations[1:]).any()
    low, high = np.nanquantile(correlations[1:], [0.025, 0.975]) if defined else (math.nan, math.nan)
    return Quantity(keys, float(correlations[0]), float(low), float(high), len(placed))


def _place(rule: Rule, one: Quantity) -> float | None:
    key = one.keys.get(rule.against)
    known = rule.at.get(str(key), key)
    return float(known) if isinstance(known, int | float) else None
