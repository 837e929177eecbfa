"""How is a conclusion written down? As rules over the figures of tables; a wrong name in one is told at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args

from rashomon.errors import UserError
from rashomon.papers.published import Bounds, Claim, Kind, Rule, Statistic, Table, Term
from rashomon.papers.reading_checks import check_fields, check_known, several

CLAIM = ("id", "says", "where", "rules")
BOUNDS = tuple(one.name for one in fields(Bounds))
RULE = (
    *("kind", "table", "of", "less", "count", "chain", "by", "pooled", "margins"),
    *("statistic", "against", "at", "is", "paired", *BOUNDS),
)
SIGNS = {"positive": Bounds(above=0.0), "negative": Bounds(below=0.0)}
NO_KEYS = ("table", "less", "rest", "count")  # what a term says besides the values of keys

Raw = Mapping[str, Any]
Tables = Mapping[str, Table]


def read_claim(raw: Raw, tables: Tables, file: str) -> Claim:
    where = f"{file}, claim {raw.get('id', '?')}"
    check_fields(raw, CLAIM, CLAIM, where)
    rules = tuple(
        _rule(rule, tables, f"{where}, rule {number}") for number, rule in enumerate(raw["rules"], 1)
    )
    return Claim(raw["id"], raw["says"], raw["where"], rules)


def _rule(raw: Raw, tables: Tables, where: str) -> Rule:
    check_fields(raw, RULE, ("kind",), where)
    check_known("kind", raw["kind"], get_args(Kind), where)
    check_known("statistic", raw.get("statistic", "kendall"), get_args(Statistic), where)
    chain = _chain(raw, tables, where)
    against = raw.get("against", "")
    read = {key for link in chain for term in link for key in tables[term.table].keys}
    for key in (*raw.get("by", ()), *([against] if against else [])):
        check_known("key", key, read, where)
    if raw["kind"] == "difference" and chain[0][0].less is None:
        raise UserError(f"{where} is a difference and does not say of what (less).")
    if raw["kind"] == "correlation" and not against:
        raise UserError(f"{where} is a correlation and does not say against what.")
    paired = raw.get("paired")
    if paired is not None and raw["kind"] not in ("difference", "order"):
        raise UserError(f"{where} reads a paired difference, so it must be a difference or an order.")
    return Rule(
        kind=raw["kind"],
        chain=chain,
        bounds=_bounds(raw, where),
        by=tuple(raw.get("by", ())),
        pooled=raw.get("pooled", False),
        margins=tuple(raw.get("margins", ())),
        statistic=raw.get("statistic", "kendall"),
        against=against,
        at=raw.get("at", {}),
        paired=None if paired is None else _term(paired, raw.get("table"), tables, where),
    )


def _bounds(raw: Raw, where: str) -> Bounds:
    if raw["kind"] == "sign":
        check_known("sign", raw.get("is", ""), SIGNS, where)
        return SIGNS[raw["is"]]
    bounds = Bounds(**{name: raw[name] for name in BOUNDS if name in raw})
    if (raw["kind"] != "order" or "paired" in raw) and bounds == Bounds():
        raise UserError(f"{where} has no bound (above, below, at_least, at_most).")
    return bounds


def _chain(raw: Raw, tables: Tables, where: str) -> tuple[tuple[Term, ...], ...]:
    if raw["kind"] != "order":
        own = {name: raw[name] for name in ("less", "count") if name in raw}
        return ((_term({**raw.get("of", {}), **own}, raw.get("table"), tables, where),),)
    chain = tuple(
        tuple(_term(term, raw.get("table"), tables, where) for term in link) for link in raw.get("chain", ())
    )
    if len(chain) < 2:
        raise UserError(f"{where} is an order of at least two links.")
    if len(raw.get("margins", ())) not in (0, len(chain) - 1):
        raise UserError(f"{where} needs a margin between each two links.")
    return chain


def _term(raw: Raw, usual: str | None, tables: Tables, where: str) -> Term:
    table = raw.get("table", usual)
    if table is None:
        raise UserError(f"{where} does not say which table it reads.")
    less = raw.get("less")
    _check_selection(raw, table, tables, where)
    if less is not None:
        _check_selection(less, less.get("table", table), tables, where)
    return Term(
        table=table,
        keys={key: several(value) for key, value in raw.items() if key not in NO_KEYS},
        less=None if less is None else {key: several(value) for key, value in less.items()},
        rest=raw.get("rest", False),
        count=raw.get("count", False),
    )


def _check_selection(raw: Raw, name: str, tables: Tables, where: str) -> None:
    """Keys and names must be the table's; what a table cannot be read for is not known."""
    check_known("table", name, tables, where)
    table = tables[name]
    for key, chosen in raw.items():
        if key in NO_KEYS:
            continue
        check_known("key", key, ("figure", *table.keys), where)
        known = [*table.ours, *(one.figure for one in table.figures)] if key == "figure" else []
        known += [str(value) for value in (*table.values_of(key), *table.also.get(key, ()))]
        for value in several(chosen):
            if known and isinstance(value, str):
                check_known(key, value, known, where)
