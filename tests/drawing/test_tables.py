"""The figure is seen first: right after the names, however narrow the terminal."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from rashomon.drawing.tables import SummaryTable, figure_first, table_text

LONG = "lime(samples=500, perturbation=mask)"
SUMMARY = pd.DataFrame(
    {
        "measure": ["kendall", "pearson"],
        "first": [LONG, "attention"],
        "second": ["integrated-gradients", LONG],
        "n": [100, 0],
        "undefined": [0, 100],
        "mean": [0.4242, math.nan],
        "std": [0.2, math.nan],
        "low": [0.31, math.nan],
        "high": [0.55, math.nan],
        "p_holm": [0.0004, math.nan],
    }
)


def test_columns_are_names_then_the_figure_then_its_company() -> None:
    ordered = figure_first(SUMMARY)
    assert list(ordered.columns) == [
        *("measure", "first", "second", "mean", "low", "high", "n", "undefined", "std", "p_holm")
    ]
    pd.testing.assert_frame_equal(ordered[list(SUMMARY.columns)], SUMMARY)
    other = SUMMARY.drop(columns="mean")
    assert figure_first(other) is other


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_the_mean_is_shown_at_every_width(width: int) -> None:
    head, first, *_, note = table_text(SUMMARY, width).split("\n")
    assert head.split()[:4] == ["measure", "first", "second", "mean"]
    assert ".424" in first
    assert max(len(head), len(first)) <= width
    assert note.startswith("not shown, for want of width: ")
    assert note.endswith("p holm")
    if width >= 80:
        assert ".310" in first


def test_everything_is_shown_where_there_is_room() -> None:
    text = table_text(SUMMARY, 200)
    assert LONG in text
    assert "not shown" not in text
    assert "< .001" in text  # a p-value


def test_a_summary_prints_like_that_and_its_parts_are_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    table = SummaryTable(SUMMARY)
    assert str(table) == repr(table) == table_text(SUMMARY, 80)
    assert type(table[["mean"]]) is pd.DataFrame
    assert table["mean"].max() == 0.4242


def test_long_tables_say_how_much_is_left_out() -> None:
    assert "... and 60 more rows" in table_text(pd.concat([SUMMARY] * 50), 100)
