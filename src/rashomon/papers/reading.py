"""How is a paper's TOML file read? Into the classes of ``published``, with every mistake named by file, table and row."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any, get_args

from rashomon.errors import UserError, unknown_name
from rashomon.papers.printed_rows import read_rows
from rashomon.papers.published import (
    Bounds,
    Claim,
    Configuration,
    Curve,
    Key,
    Kind,
    Known,
    Paper,
    PublishedFigure,
    Rule,
    Source,
    StandIn,
    Statistic,
    Table,
    Term,
    without_spread,
)

PAPER = ("title", "year", "datasets", "stand_ins", "configurations", "tables", "claims")
TABLE = (
    *("id", "caption", "note", "unreadable", "spread", "n", "study", "configuration", "grid", "within", "requires"),
    *("ours", "symmetric", "curve", "same_as", "like", "keys", "constant", "across", "figure", "columns", "rows"),
    *("only_ours", "also", "run_as"),
)
OWN = ("id", "caption", "note", "unreadable", "rows")  # what a table does not take over from the one it is like
CLAIM = ("id", "says", "where", "rules")
BOUNDS = tuple(one.name for one in fields(Bounds))
RULE = (
    *("kind", "table", "of", "less", "count", "chain", "by", "pooled", "margins"),
    *("statistic", "against", "at", "is", *BOUNDS),
)
SIGNS = {"positive": Bounds(above=0.0), "negative": Bounds(below=0.0)}
USUAL_GRID = {"dataset": "subject.dataset.name", "encoder": "subject.model.name"}


def papers() -> list[str]:
    """The papers whose figures are kept, by their short names."""
    folder = files("rashomon.papers")
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


@cache
def load(paper: str) -> Paper:
    """A paper by its short name (``attefa``, ``not_not``)."""
    if paper not in papers():
        raise unknown_name("paper", paper, papers())
    return read_paper(paper, (files("rashomon.papers") / f"{paper}.toml").read_text(encoding="utf-8"))


def read_paper(name: str, text: str) -> Paper:
    """A paper from the text of its file."""
    file = f"{name}.toml"
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file} is not valid TOML: {error}.") from None
    _check(raw, PAPER, ("title", "year", "datasets", "tables"), file)
    datasets = {
        key: _made(Known, value, f"{file}, dataset {key}") for key, value in raw["datasets"].items()
    }
    configurations = {
        key: _made(Configuration, value, f"{file}, configuration {key}")
        for key, value in raw.get("configurations", {}).items()
    }
    tables: dict[str, Table] = {}
    described = {str(one.get("id")): one for one in raw["tables"]}
    for one in sorted(raw["tables"], key=lambda one: "same_as" in one):  # copies come after what they copy
        table = _table(one, described, configurations, tables, file)
        if table.id in tables:
            raise UserError(f"{file} has two tables {table.id}.")
        tables[table.id] = table
    ordered = {key: tables[key] for key in described}
    _check_datasets(ordered, datasets, file)
    claims: dict[str, Claim] = {}
    for one in raw.get("claims", ()):
        claim = _claim(one, ordered, file)
        if claim.id in claims:
            raise UserError(f"{file} has two claims {claim.id}.")
        claims[claim.id] = claim
    stand_ins = {
        key: _made(StandIn, value, f"{file}, stand-in for {key}")
        for key, value in raw.get("stand_ins", {}).items()
    }
    return Paper(name, raw["title"], raw["year"], datasets, ordered, claims, stand_ins)


def _table(
    raw: Mapping[str, Any],
    described: Mapping[str, Mapping[str, Any]],
    configurations: Mapping[str, Configuration],
    known: Mapping[str, Table],
    file: str,
) -> Table:
    where = f"{file}, table {raw.get('id', '?')}"
    raw = _with_taken_over(raw, described, where)
    _check(raw, TABLE, ("id", "caption"), where)
    configuration = raw.get("configuration")
    if configuration is not None and configuration not in configurations:
        raise unknown_name(f"configuration of {where}", configuration, configurations)
    copied = raw.get("same_as")
    if copied is not None:
        figures = without_spread(known[copied].figures)
    else:
        figures = _figures(raw, where)
    if not figures and not raw.get("unreadable"):
        raise UserError(f"{where} has no rows and does not say why (unreadable).")
    keys = _all_keys(raw)
    for key in raw.get("also", {}):
        _known("key", key, keys, where)
    if "run_as" in raw:
        _known("table", raw["run_as"], described, where)
    grid = {key: setting for key, setting in USUAL_GRID.items() if key in keys} | raw.get("grid", {})
    ours = {name: _made(Source, value, f"{where}, ours.{name}") for name, value in raw.get("ours", {}).items()}
    if figures:
        for name in ours:
            _known("figure", name, {figure.figure for figure in figures}, where)
    curve = raw.get("curve")
    return Table(
        id=raw["id"],
        caption=raw["caption"],
        keys=keys,
        figures=figures,
        note=raw.get("note", ""),
        unreadable=raw.get("unreadable", ""),
        spread=raw.get("spread", "") if copied is None else "",
        study=raw.get("study"),
        configuration=Configuration() if configuration is None else configurations[configuration],
        grid=grid,
        within=raw.get("within", {}),
        also={key: _several(value) for key, value in raw.get("also", {}).items()},
        run_as=raw.get("run_as"),
        requires=raw.get("requires", {}),
        ours=ours,
        symmetric=tuple(raw.get("symmetric", ())),
        curve=None if curve is None else _made(Curve, curve, f"{where}, curve"),
        same_as=copied,
    )


def _with_taken_over(
    raw: Mapping[str, Any], described: Mapping[str, Mapping[str, Any]], where: str
) -> dict[str, Any]:
    """The table with what it takes over from the one that it is like."""
    other = raw.get("like") or raw.get("same_as")
    if other is None:
        return dict(raw)
    _known("table", other, described, where)
    taken = _with_taken_over(described[other], described, where)
    return {key: value for key, value in taken.items() if key not in OWN} | dict(raw)


def _figures(raw: Mapping[str, Any], where: str) -> tuple[PublishedFigure, ...]:
    if "rows" not in raw:
        return ()
    return read_rows(
        raw["rows"],
        row_keys=raw.get("keys", ()),
        constant=raw.get("constant", {}),
        columns=raw.get("columns", {}),
        across=raw.get("across"),
        figure=raw.get("figure"),
        n=raw.get("n"),
        where=where,
    )


def _all_keys(raw: Mapping[str, Any]) -> tuple[str, ...]:
    of_columns = (key for column in raw.get("columns", {}).values() for key in column)
    across = [raw["across"]] if raw.get("across") else []
    named = [*raw.get("keys", ()), *raw.get("constant", {}), *across, *of_columns, *raw.get("only_ours", ())]
    found = dict.fromkeys(named)
    return tuple(key for key in found if key != "figure")


def _check_datasets(tables: Mapping[str, Table], datasets: Collection[str], file: str) -> None:
    for table in tables.values():
        for name in table.values_of("dataset"):
            _known("dataset", str(name), datasets, f"{file}, table {table.id}")


def _claim(raw: Mapping[str, Any], tables: Mapping[str, Table], file: str) -> Claim:
    where = f"{file}, claim {raw.get('id', '?')}"
    _check(raw, CLAIM, CLAIM, where)
    rules = tuple(
        _rule(rule, tables, f"{where}, rule {number}") for number, rule in enumerate(raw["rules"], 1)
    )
    return Claim(raw["id"], raw["says"], raw["where"], rules)


def _rule(raw: Mapping[str, Any], tables: Mapping[str, Table], where: str) -> Rule:
    _check(raw, RULE, ("kind",), where)
    kind = raw["kind"]
    _known("kind", kind, get_args(Kind), where)
    _known("statistic", raw.get("statistic", "kendall"), get_args(Statistic), where)
    bounds = Bounds(**{name: raw[name] for name in BOUNDS if name in raw})
    if kind == "sign":
        _known("sign", raw.get("is", ""), SIGNS, where)
        bounds = SIGNS[raw["is"]]
    if kind != "order" and bounds == Bounds():
        raise UserError(f"{where} has no bound (above, below, at_least, at_most).")
    if kind == "order":
        chain = tuple(tuple(_term(term, raw, tables, where) for term in link) for link in raw.get("chain", ()))
        if len(chain) < 2:
            raise UserError(f"{where} is an order of at least two links.")
        if len(raw.get("margins", ())) not in (0, len(chain) - 1):
            raise UserError(f"{where} needs a margin between each two links.")
    else:
        own = {name: raw[name] for name in ("less", "count") if name in raw}
        chain = ((_term({**raw.get("of", {}), **own}, raw, tables, where),),)
    read = [key for link in chain for term in link for key in tables[term.table].keys]
    for key in (*raw.get("by", ()), *([raw["against"]] if "against" in raw else [])):
        _known("key", key, read, where)
    if kind == "difference" and chain[0][0].less is None:
        raise UserError(f"{where} is a difference and does not say of what (less).")
    if kind == "correlation" and "against" not in raw:
        raise UserError(f"{where} is a correlation and does not say against what.")
    return Rule(
        kind=kind,
        chain=chain,
        bounds=bounds,
        by=tuple(raw.get("by", ())),
        pooled=raw.get("pooled", False),
        margins=tuple(raw.get("margins", ())),
        statistic=raw.get("statistic", "kendall"),
        against=raw.get("against", ""),
        at=raw.get("at", {}),
    )


def _term(raw: Mapping[str, Any], rule: Mapping[str, Any], tables: Mapping[str, Table], where: str) -> Term:
    table = raw.get("table", rule.get("table"))
    if table is None:
        raise UserError(f"{where} does not say which table it reads.")
    less = raw.get("less")
    for name, chosen in ((table, raw), *(((less or {}).get("table", table), less),) * (less is not None)):
        _known("table", name, tables, where)
        for key in chosen:
            _known("key", key, ("figure", *tables[name].keys, "table", "less", "rest", "count"), where)
    apart = ("table", "less", "rest", "count")
    return Term(
        table=table,
        keys={key: _several(value) for key, value in raw.items() if key not in apart},
        less=None if less is None else {key: _several(value) for key, value in less.items()},
        rest=raw.get("rest", False),
        count=raw.get("count", False),
    )


def _several(value: Key | Sequence[Key]) -> tuple[Key, ...]:
    return tuple(value) if isinstance(value, list) else (value,)  # type: ignore[return-value]


def _made(cls: Any, raw: Mapping[str, Any], where: str) -> Any:
    names = [one.name for one in fields(cls)]
    _check(raw, names, (), where)
    try:
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in raw.items()})
    except TypeError as error:
        raise UserError(f"{where} is incomplete: {error}.") from None


def _check(raw: Mapping[str, Any], allowed: Collection[str], needed: Collection[str], where: str) -> None:
    for name in raw:
        _known("field", name, allowed, where)
    for name in needed:
        if name not in raw:
            raise UserError(f"{where} has no {name}.")


def _known(kind: str, name: str, allowed: Collection[str], where: str) -> None:
    if name not in allowed:
        raise unknown_name(f"{kind} in {where}", name, allowed)
