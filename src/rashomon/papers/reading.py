"""How is a paper's TOML file read? Into the classes of ``published``, mistakes named by file, table and row."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from rashomon.errors import UserError, unknown_name
from rashomon.papers.printed_rows import read_rows
from rashomon.papers.published import (
    Claim,
    Configuration,
    Curve,
    Known,
    Paper,
    PublishedFigure,
    Source,
    StandIn,
    Table,
    without_spread,
)
from rashomon.papers.reading_checks import check_fields, check_known, made, several
from rashomon.papers.reading_claims import read_claim

PAPER = ("title", "year", "datasets", "stand_ins", "configurations", "tables", "claims")
PRINTED = ("keys", "constant", "across", "figure", "columns", "rows", "n", "spread", "unreadable", "note")
MEASURED = (
    "study",
    "configuration",
    "grid",
    "within",
    "also",
    "run_as",
    "requires",
    "ours",
    "compared",
    "only_ours",
)
TABLE = ("id", "caption", "like", "same_as", *PRINTED, *MEASURED, "symmetric", "curve")
OWN = ("id", "caption", "note", "unreadable", "rows")  # not taken over from the table that this one is like
USUAL_GRID = {"dataset": "subject.dataset.name", "encoder": "subject.model.name"}


def papers() -> list[str]:
    """The papers whose figures are kept, by their short names."""
    folder = files("rashomon.papers")
    return sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))


@cache
def load(paper: str) -> Paper:
    """A paper by its short name (``attefa``, ``not_not``, or ``not-not``)."""
    name = paper.replace("-", "_")
    if name not in papers():
        raise unknown_name("paper", paper, papers())
    return read_paper(name, (files("rashomon.papers") / f"{name}.toml").read_text(encoding="utf-8"))


def read_paper(name: str, text: str) -> Paper:
    """A paper from the text of its file."""
    file = f"{name}.toml"
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{file} is not valid TOML: {error}.") from None
    check_fields(raw, PAPER, ("title", "year", "datasets", "tables"), file)
    datasets = {key: made(Known, value, f"{file}, dataset {key}") for key, value in raw["datasets"].items()}
    configurations = {
        key: made(Configuration, value, f"{file}, configuration {key}")
        for key, value in raw.get("configurations", {}).items()
    }
    tables: dict[str, Table] = {}
    described: dict[str, Mapping[str, Any]] = {}
    for one in raw["tables"]:
        if described.setdefault(str(one.get("id")), one) is not one:
            raise UserError(f"{file} has two tables {one.get('id')}.")
    for one in sorted(raw["tables"], key=lambda one: "same_as" in one):  # copies come after what they copy
        table = _table(one, described, configurations, tables, file)
        tables[table.id] = table
    ordered = {key: tables[key] for key in described}
    _check_datasets(ordered, datasets, file)
    claims: dict[str, Claim] = {}
    for one in raw.get("claims", ()):
        claim = read_claim(one, ordered, file)
        if claim.id in claims:
            raise UserError(f"{file} has two claims {claim.id}.")
        claims[claim.id] = claim
    stand_ins = {
        key: made(StandIn, value, f"{file}, stand-in for {key}")
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
    check_fields(raw, TABLE, ("id", "caption"), where)
    configuration = raw.get("configuration")
    if configuration is not None and configuration not in configurations:
        raise unknown_name(f"configuration of {where}", configuration, configurations)
    copied = raw.get("same_as")
    figures = _figures(raw, where) if copied is None else without_spread(known[copied].figures)
    if not figures and not raw.get("unreadable"):
        raise UserError(f"{where} has no rows and does not say why (unreadable).")
    keys = _all_keys(raw)
    for key in raw.get("also", {}):
        check_known("key", key, keys, where)
    if "run_as" in raw:
        check_known("table", raw["run_as"], described, where)
    grid = {key: setting for key, setting in USUAL_GRID.items() if key in keys} | raw.get("grid", {})
    ours, compared = (
        {name: made(Source, value, f"{where}, {part}.{name}") for name, value in raw.get(part, {}).items()}
        for part in ("ours", "compared")
    )
    if figures:
        for name in ours:
            check_known("figure", name, {figure.figure for figure in figures}, where)
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
        also={key: several(value) for key, value in raw.get("also", {}).items()},
        run_as=raw.get("run_as"),
        requires=raw.get("requires", {}),
        ours={**ours, **compared},
        symmetric=tuple(raw.get("symmetric", ())),
        curve=None if curve is None else made(Curve, curve, f"{where}, curve"),
        same_as=copied,
    )


def _with_taken_over(
    raw: Mapping[str, Any],
    described: Mapping[str, Mapping[str, Any]],
    where: str,
    before: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The table with what it takes over from the one that it is like."""
    other = raw.get("like") or raw.get("same_as")
    if other is None:
        return dict(raw)
    check_known("table", other, described, where)
    if other in before:
        raise UserError(f"{where} is like itself.")
    taken = _with_taken_over(described[other], described, where, (*before, other))
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
            check_known("dataset", str(name), datasets, f"{file}, table {table.id}")
