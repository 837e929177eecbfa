from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from rashomon import wording
from rashomon.wording import cell, duration, number, p_value, plain_cell, with_interval


def row(
    mean: float, low: float = math.nan, high: float = math.nan, interval: str = "95 %"
) -> dict[str, object]:
    return {"mean": mean, "low": low, "high": high, "interval": interval}


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (row(0.423, 0.38, 0.46), "0.42 [0.38, 0.46]"),
        (row(0.423, 0.38, 0.46, "range"), "0.42 (0.38 to 0.46)"),
        (row(0.4, interval="none"), "0.40"),
        (row(math.nan, interval="none"), "undefined"),
        (row(-0.001, -0.2, 0.003), "0.00 [-0.20, 0.00]"),
    ],
)
def test_figures_with_their_interval(figure: dict[str, object], text: str) -> None:
    assert with_interval(figure) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 seeds"), (1, "1 seed"), (2.0, "2 seeds"), (18210, "18,210 seeds")]
)
def test_one_thing_and_several(count: float, text: str) -> None:
    assert wording.how_many(count, "seed") == text


def test_digits_of_figures() -> None:
    assert with_interval(row(0.5, 0.4, 0.6), digits=3) == "0.500 [0.400, 0.600]"


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0, "p < .001"),
        (1e-30, "p < .001"),
        (0.00099, "p < .001"),
        (0.001, "p = .001"),
        (0.0342, "p = .034"),
        (0.5, "p = .500"),
        (1.0, "p = 1.000"),
        (math.nan, "p undefined"),
    ],
)
def test_p_values(p: float, text: str) -> None:
    assert p_value(p) == text


@pytest.mark.parametrize(
    ("end", "text"), [(0.0, "0"), (1.0, "1"), (-0.2, "−.2"), (0.001, ".001"), (10.0, "10"), (-0.0, "0")]
)
def test_ends_of_scales(end: float, text: str) -> None:
    assert wording.brief(end) == text


def test_what_an_interval_is_called() -> None:
    assert wording.interval_column(["95 %", "95 %", "none"]) == "mean [95 %]"
    assert wording.interval_column(["range", "none"]) == "mean (range)"
    assert wording.interval_column(["range", "95 %"]) == "mean [95 %] or (range)"
    assert wording.interval_column(["none"]) == "mean"
    assert wording.interval_words(["95 %", "none", "95 %"]) == "95 % interval"
    assert wording.interval_words(["range"]) == "range over two (too few for an interval)"
    assert wording.interval_words([]) == "no interval"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.4249, ".42"),
        (-0.1, "−.10"),
        (1.0, "1.00"),
        (0.0, ".00"),
        (12345, "12,345"),
        (np.int64(-3), "−3"),
        (1234.5, "1,234"),
        (0.00042, "4e−4"),
        (-0.00042, "−4e−4"),
        (7.27e-17, ".00"),
        (-7.27e-17, ".00"),
        (10.5, "10.50"),
        (math.nan, "–"),
        (None, "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
    ],
)
def test_numbers_of_the_page(value: object, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "yes"), (np.bool_(False), "no"), (np.int64(1200), "1,200"), (0.5, ".500"), (None, "–"),
     ([1, "a"], "1, a"), (np.array([1.0, 2.0]), "1.000, 2.000"), ("text", "text"), (np.float64("nan"), "–"),
     (0.0, ".000"), (5.25e-4, ".000525"), (np.float64(8e-4), ".0008"), (np.float32(0.5), ".500"),
     (2.5e-5, "2.5e−5"), (-0.00123, "−.00123"), (0.01234, ".012"), (7.27e-17, ".000"), (pd.NA, "–"),
     (pd.NaT, "–")],
)  # fmt: skip
def test_cells_of_the_page(value: object, text: str) -> None:
    assert cell(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.500"), (5.25e-4, "0.000525"), (8e-4, "0.0008"), (0.01, "0.010"), (0.0, "0.000"), (1200, "1200"),
     (np.int64(3), "3"), (True, "True"), (7.27e-17, "0.000"), (-7.27e-17, "0.000"), (math.nan, "undefined"),
     (-0.25, "-0.250"), ("a [b]", "a [b]"), (np.float32(0.25), "0.250")],
)  # fmt: skip
def test_cells_of_the_terminal(value: object, text: str) -> None:
    assert plain_cell(value) == text


@pytest.mark.parametrize("column", ["p", "p_holm", "p_against_random"])
def test_columns_of_p_values(column: str) -> None:
    assert [write(1e-9, column) for write in (cell, plain_cell)] == ["< .001", "< .001"]
    assert [write(0.0, column) for write in (cell, plain_cell)] == ["< .001", "< .001"]
    assert [write(0.02, column) for write in (cell, plain_cell)] == [".020", "0.020"]
    assert [write(math.nan, column) for write in (cell, plain_cell)] == ["–", "undefined"]
    assert [write(1e-9, "points") for write in (cell, plain_cell)] == ["1e−9", "1e-09"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.234, "1.2 s"), (61, "61 s"), (97.4, "1 min 37 s"), (7265, "2 h 1 min"), (math.nan, "unknown time")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_rest() -> None:
    assert wording.percent(0.423) == "42%"
    assert wording.percent(0.4236, 1) == "42.4%"
    assert wording.percent(math.nan) == "undefined"
    assert wording.sample(1200.0) == "n = 1,200"
    assert [wording.milliseconds(s) for s in (0.0042, 0.01, 1.5)] == ["4.2 ms", "10 ms", "1500 ms"]
    assert [wording.size(n) for n in (999, 1200, 3_400_000, 5e9)] == ["999 B", "1 kB", "3 MB", "5.0 GB"]
    assert wording.capitalised("myIG") == "MyIG"


def test_writing_loads_nothing() -> None:
    """The command line answers before it has loaded anything that takes seconds."""
    code = (
        "import sys, rashomon.wording; print([m for m in ('numpy', 'pandas', 'torch') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([4], "4"),
        ([9, 3], "3 and 9"),
        ([3, 4, 5, 9, 1], "1, 3-5 and 9"),
        (range(1, 200, 2), ", ".join(str(n) for n in range(1, 101, 2)) + " and 50 more"),
    ],
)
def test_ranges(numbers: list[int], said: str) -> None:
    assert wording.ranges(numbers) == said


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (number(999.994), "999.99"),
        (number(1000.4), "1,000"),
        (number(999.0, 0), "999"),
        (number(0.005), ".01"),  # half a unit is the least that is rounded up to one
        (number(0.0049), "5e−3"),
        (number(0.006), ".01"),
        (duration(9.94), "9.9 s"),
        (duration(10.0), "10 s"),
        (duration(10.5), "10 s"),
        (duration(89.9), "90 s"),
        (duration(90.0), "1 min 30 s"),
        (wording.size(1000), "1 kB"),
        (wording.size(999_900), "1000 kB"),
        (wording.size(1_000_000), "1 MB"),
        (number(-0.00042), "−4e−4"),
        (number(0.42), ".42"),
        (number(10.05), "10.05"),
    ],
)
def test_where_one_way_of_writing_ends_and_the_next_begins(said: str, text: str) -> None:
    assert said == text
