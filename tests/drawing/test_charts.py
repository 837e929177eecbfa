import math
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from rashomon.drawing.charts import draw
from rashomon.drawing.violins import density
from rashomon.experiments.figures import Distributions, Matrix, Plot, Series

MATRIX = Matrix(
    "m", ("a", "b"), ("a", "b"), {"tau": [[1.0, math.nan], [-0.5, 1.0]], "top": [[1, 0], [0, 1]]},
    {"tau": (-1, 1)}, {"tau": [["n 3", "n 0"], ["n 3", "n 3"]]},
)  # fmt: skip


def svgs(chart):
    return [ET.fromstring(str(drawing)) for _, drawing in chart.drawings]


def numbers_in(tree):
    for node in tree.iter():
        for name in ("x", "y", "cx", "cy", "x1", "x2", "y1", "y2"):
            if name in node.attrib:
                yield float(node.attrib[name])


def test_matrix_cells():
    view = draw(MATRIX, "id")
    tau, top = view.layers
    texts = [[cell.text for cell in cells] for _, cells in tau.rows]
    assert texts == [["1.00", "–"], ["−.50", "1.00"]]
    assert [[cell.shade for cell in cells] for _, cells in tau.rows] == [["p10", "na"], ["n5", "p10"]]
    assert tau.rows[1][1][0].detail == "b and a: tau −.50. n 3"
    assert tau.rows[0][1][1].detail == "a and b: tau undefined. n 0"
    assert tau.diverging
    assert not top.diverging
    assert top.span == (".00", "1.00")


def test_ragged_matrix_is_undefined_where_values_are_missing():
    view = draw(Matrix("m", ("a", "b"), ("a", "b"), {"tau": [[1.0]]}, {}), "id")
    assert [[cell.shade for cell in cells] for _, cells in view.layers[0].rows] == [
        ["p0", "na"],
        ["na", "na"],
    ]


def test_density_equals_scipy():
    values = np.random.default_rng(0).normal(size=50)
    places, height = density(values)
    expected = gaussian_kde(values)(places)
    np.testing.assert_allclose(height, expected / expected.max())
    assert (places.min(), places.max()) == (values.min(), values.max())


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 2.0], [0.3] * 50, [1e100, -1e100, 0, 1, 2, 3]])
def test_density_of_odd_groups_is_empty_or_finite(values):
    places, height = density(np.array(values))
    assert len(places) == len(height)
    assert np.isfinite(height).all()


def test_violins_show_every_group_and_the_median():
    groups = {
        "normal": list(np.linspace(0, 1, 41)),
        "one": [0.5],
        "same": [0.2] * 9,
        "none": [],
        "bad": [math.nan] * 3,
    }
    chart = draw(Distributions("t", groups, "x"), "id")
    for tree in svgs(chart):
        said = " ".join(tree.itertext())
        assert all(name in said for name in groups)
        assert ".50, n 41" in said
        assert said.count("no values") >= 2
        assert all(math.isfinite(value) for value in numbers_in(tree))
    rows = {row[0]: row for row in chart.table.rows}
    assert rows["bad"][1:3] == ("0", "3")
    assert rows["normal"][6] == ".500"


def test_paired_groups_share_a_row():
    pair = {
        "low | neg": list(np.linspace(0, 1, 20)),
        "low | pos": list(np.linspace(0, 2, 20)),
        "high | neg": [1.0],
    }
    chart = draw(Distributions("t", pair, "x"), "id")
    assert [name for _, name in chart.legend] == ["neg", "pos"]
    labels = [node.text for node in svgs(chart)[0].iter() if node.get("class") == "label"]
    assert labels == ["low", "high"]


def test_ids_are_unique_and_referenced():
    chart = draw(Distributions("t", {"a": [1, 2, 3, 4, 5, 7]}, "x"), "id")
    ids = []
    for tree in svgs(chart):
        own = [node.get("id") for node in tree.iter() if node.get("id")]
        assert tree.get("aria-labelledby") in own
        assert tree.get("aria-describedby") in own
        ids += own
    assert len(ids) == len(set(ids))


def test_plot_breaks_the_line_at_an_undefined_point():
    series = Series("s", [0, 1, 2, 3, 4], [0, 1, math.nan, 1, 0], [0] * 5, [2] * 5)
    tree = svgs(draw(Plot("t", "x", "y", (series,)), "id"))[0]
    assert sum((node.get("class") or "").startswith("line ") for node in tree.iter()) == 2
    assert sum((node.get("class") or "").startswith("band ") for node in tree.iter()) == 2
    assert sum((node.get("class") or "").startswith("dot ") for node in tree.iter()) == 4


def test_points_without_a_line_have_bars():
    series = Series("s", [0, 1], [0, 1], [0, 0], [2, 2], line=False, marker="square")
    tree = svgs(draw(Plot("t", "x", "y", (series,)), "id"))[0]
    assert sum((node.get("class") or "").startswith("bar ") for node in tree.iter()) == 2


@pytest.mark.parametrize("marker", ["circle", "triangle", "square", "plus", "nonsense"])
def test_markers(marker):
    chart = draw(Plot("t", "x", "y", (Series("s", [1.0], [2.0], marker=marker),)), "id")
    for tree in svgs(chart):
        assert "s: 2.000 at 1.000" in " ".join(tree.itertext())


@pytest.mark.parametrize(
    "figure",
    [
        Distributions("t", {}, "x"),
        Distributions("t", {"a": [math.nan]}, "x"),
        Plot("t", "x", "y", ()),
        Plot("t", "x", "y", (Series("s", [math.nan], [1.0]),)),
        Plot("t", "x", "y", (Series("s", [], []),)),
    ],
)
def test_nothing_defined_draws_nothing(figure):
    assert draw(figure, "id").drawings == ()


def test_direct_labels_do_not_overlap_and_long_tables_are_cut():
    many = tuple(Series(f"s{i}", range(100), [0.5 + 0.001 * i] * 100) for i in range(8))
    chart = draw(Plot("t", "x", "y", many), "id")
    tree = svgs(chart)[0]
    heights = sorted(float(n.get("y")) for n in tree.iter() if (n.get("class") or "").startswith("label ink"))
    assert len(heights) == 8
    assert min(np.diff(heights)) >= 14.9
    assert (len(chart.table.rows), chart.table.left_out) == (200, 600)


def test_labels_are_escaped():
    evil = "</svg><script>alert(1)</script>"
    figures = (
        Distributions(evil, {evil: [1, 2, 3, 4, 5, 6]}, evil),
        Plot(evil, evil, evil, (Series(evil, [0, 1], [0, 1]), Series(evil, [0, 1], [1, 0]))),
    )
    for figure in figures:
        for _, drawing in draw(figure, "id").drawings:
            assert "<script" not in str(drawing)


def test_a_control_never_has_the_colour_of_a_method():
    methods = [Series(f"method {n}", [0, 1], [n, n]) for n in range(8)]
    controls = [Series(name, [0, 1], [9, 9], control=True) for name in ("random", "trivial")]
    drawn = draw(Plot("t", "x", "y", (*methods, *controls)), "p")
    lines = re.findall(r"line stroke-(s\d)", str(drawn.drawings[0][1]))
    assert lines == [*(f"s{n}" for n in range(1, 9)), "s0", "s0"]
    assert [re.findall(r"stroke-(s\d)", str(swatch))[0] for swatch, _ in drawn.legend][8:] == ["s0", "s0"]
