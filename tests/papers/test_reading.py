"""Papers' files are read whole, and a slip in one is named by file, table and row."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rashomon.errors import UserError
from rashomon.papers import load
from rashomon.papers.printed_rows import key_of
from rashomon.papers.published import Bounds, PublishedFigure, Source, Term
from rashomon.papers.reading import read_paper

PAPER = """
title = "A paper"
year = 2020
[datasets]
sst = { printed = "SST-2" }
mnli = { printed = "MNLI", available = false, reason = "none at hand" }
[stand_ins]
distilbert = { name = "minilm", reason = "small too" }
[configurations.usual]
settings.subject.seeds = [1, 2]
differs = ["other vectors"]

[[tables]]
id = "1"
caption = "Agreement and F1"
study = "agreement"
configuration = "usual"
n = 7
keys = ["dataset"]
constant = { encoder = "bilstm" }
across = "second"
figure = "tau"
columns.f1 = { figure = "f1", split = "test" }
ours.tau = { where = { measure = "kendall" } }
rows = '''
dataset  lime     r@lime  10   f1
sst      .1±.02   -       .3   0.9
mnli     .2       -1.     -    -
'''

[[tables]]
id = "2"
caption = "The same on more"
like = "1"
constant = { encoder = "mlp" }
rows = '''
dataset  lime  f1
sst      .4    .8
'''

[[claims]]
id = "K1"
says = "It is so."
where = "section 1"
[[claims.rules]]
kind = "difference"
table = "1"
of = { figure = "tau", dataset = ["sst", "mnli"] }
less = { table = "2" }
by = ["dataset"]
at_most = 0.5
"""


def test_cells_become_figures_with_their_keys() -> None:
    table = read_paper("mine", PAPER).table("1")
    base = {"encoder": "bilstm", "dataset": "sst"}
    assert table.figures == (
        PublishedFigure("tau", {**base, "second": "lime"}, 0.1, 0.02, 7),
        PublishedFigure("tau", {**base, "second": 10}, 0.3, None, 7),
        PublishedFigure("f1", {**base, "split": "test"}, 0.9, None, 7),
        PublishedFigure("tau", {**base, "dataset": "mnli", "second": "lime"}, 0.2, None, 7),
        PublishedFigure("r", {**base, "dataset": "mnli", "second": "lime"}, -1.0, None, 7),
    )
    assert set(table.keys) == {"dataset", "encoder", "second", "split"}
    assert table.ours == {"tau": Source(where={"measure": "kendall"})}
    assert table.grid == {"dataset": "subject.dataset.name", "encoder": "subject.model.name"}
    assert table.configuration.differs == ("other vectors",)


def test_a_table_takes_over_what_it_does_not_say() -> None:
    table = read_paper("mine", PAPER).table("2")
    assert table.study == "agreement"
    assert [one.keys["encoder"] for one in table.figures] == ["mlp", "mlp"]
    assert table.caption == "The same on more"


def test_rules_are_read() -> None:
    (rule,) = read_paper("mine", PAPER).claim("K1").rules
    assert rule.chain == ((Term("1", {"figure": ("tau",), "dataset": ("sst", "mnli")}, {"table": ("2",)}),),)
    assert rule.bounds == Bounds(at_most=0.5)
    assert rule.by == ("dataset",)


@pytest.mark.parametrize(("cell", "key"), [("10", 10), ("5.25e-4", 5.25e-4), ("mock-1", "mock-1"), ("0", 0)])
def test_keys_are_numbers_where_they_can_be(cell: str, key: object) -> None:
    assert key_of(cell) == key
    assert type(key_of(cell)) is type(key)


@dataclass(frozen=True)
class Slip:
    old: str
    new: str
    says: str


SLIPS = {
    "toml": Slip("year = 2020", "year = ", "mine.toml is not valid TOML"),
    "no title": Slip('title = "A paper"', "", "mine.toml has no title"),
    "field": Slip("year = 2020", "yaer = 2020", "did you mean 'year'"),
    "table field": Slip("n = 7", "nn = 7", "table 1 named 'nn'"),
    "number": Slip(".1±.02", ".1±x", "mine.toml, table 1, row 1 (sst .1±x - ...) has '.1±x'"),
    "not finite": Slip("0.9\n", "nan\n", "row 1 (sst .1±.02 - ...) has 'nan'"),
    "cells": Slip("-1.     -    -", "-1.     -", "row 2 (mnli .2 -1. ...) has 4 cells for 5 columns"),
    "twice": Slip("mnli     .2", "sst     .2", "row 2 (sst .2 -1. ...) repeats a figure"),
    "no key column": Slip("dataset  lime     r@", "data  lime     r@", "has no column 'dataset'"),
    "no such column": Slip("columns.f1 =", "columns.f2 =", "describes a column 'f2'"),
    "dataset": Slip("mnli     .2", "mnlii     .2", "did you mean 'mnli'"),
    "figure of ours": Slip("ours.tau", "ours.taus", "did you mean 'tau'"),
    "source": Slip("where = { measure", "were = { measure", "did you mean 'where'"),
    "configuration": Slip('configuration = "usual"', 'configuration = "usal"', "did you mean 'usual'"),
    "like": Slip('like = "1"', 'like = "9"', "no table in mine.toml, table 2 named '9'"),
    "like itself": Slip('like = "1"', 'like = "2"', "table 2 is like itself"),
    "no rows": Slip("rows = '''\ndataset  lime  f1\nsst      .4    .8\n'''", "", "table 2 has no rows"),
    "two tables": Slip('id = "2"', 'id = "1"', "two tables 1"),
    "stand-in": Slip('name = "minilm", ', "", "stand-in for distilbert is incomplete"),
    "kind": Slip('kind = "difference"', 'kind = "diference"', "did you mean 'difference'"),
    "no bound": Slip("at_most = 0.5", "", "claim K1, rule 1 has no bound"),
    "nothing to subtract": Slip('less = { table = "2" }', "", "does not say of what"),
    "claim key": Slip('figure = "tau", dataset', 'figure = "tau", datset', "did you mean 'dataset'"),
    "claim name": Slip('["sst", "mnli"]', '["sst", "mnly"]', "did you mean 'mnli'"),
    "claim figure": Slip('of = { figure = "tau"', 'of = { figure = "taw"', "did you mean 'tau'"),
    "claim by": Slip('by = ["dataset"]', 'by = ["datast"]', "did you mean 'dataset'"),
    "claim table": Slip('less = { table = "2" }', 'less = { table = "3" }', "named '3'"),
    "order of one": Slip('kind = "difference"', 'kind = "order"', "an order of at least two links"),
    "against nothing": Slip('kind = "difference"', 'kind = "correlation"', "does not say against what"),
    "sign": Slip('kind = "difference"', 'kind = "sign"\nis = "up"', "named 'up'"),
}


@pytest.mark.parametrize("slip", SLIPS.values(), ids=SLIPS)
def test_slips_are_named(slip: Slip) -> None:
    assert slip.old in PAPER
    with pytest.raises(UserError) as raised:
        read_paper("mine", PAPER.replace(slip.old, slip.new, 1))
    assert slip.says in str(raised.value)


def test_wrong_names_get_the_nearest_right_one() -> None:
    with pytest.raises(UserError, match="did you mean 'attefa'"):
        load("atefa")
    with pytest.raises(UserError, match="no table of not_not named '12'"):
        load("not_not").table("12")
    with pytest.raises(UserError, match="did you mean 'figure-5'"):
        load("not_not").table("figure5")
    with pytest.raises(UserError, match="no claim of attefa named 'C1'"):
        load("attefa").claim("C1")
