"""Maps of texts: every text at its place with its words, thinned where there are too many, and inert."""

from __future__ import annotations

import math
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from rashomon.drawing.charts import draw
from rashomon.drawing.maps import MOST_POINTS, MapView
from rashomon.experiments.figures import TextMap
from tests.report.sample import sample_map

SVG = "{http://www.w3.org/2000/svg}"


def drawn(figure: TextMap) -> tuple[MapView, list[ElementTree.Element]]:
    view = draw(figure, "map")
    assert isinstance(view, MapView)
    root = ElementTree.fromstring(str(view.drawings[0][1]))
    return view, list(root.iter("circle"))


def small() -> TextMap:
    figure = sample_map(["a", "b", "c"], ["one", "two & <b>", "three"])
    return replace(figure, x=[0.0, 0.5, 0.25], y=[1.0, 0.0, 0.5])


def test_points_lie_where_they_belong_and_carry_their_text() -> None:
    view, points = drawn(small())
    places = {p.get("data-id"): (float(p.get("cx", "")), float(p.get("cy", ""))) for p in points}
    assert places["a"][0] < places["c"][0] < places["b"][0]
    assert places["a"][1] < places["c"][1] < places["b"][1]  # up is high
    assert places["c"][0] == pytest.approx((places["a"][0] + places["b"][0]) / 2, abs=0.11)
    said = {p.get("data-id"): p[0].text or "" for p in points}
    assert said["b"].startswith("b: two & <b> (variability .50, confidence .00")
    assert [p.get("tabindex") for p in points] == ["0", "-1", "-1"]
    assert [p.get("data-id") for p in points] == [
        "a",
        "c",
        "b",
    ]  # the way of the arrow keys: from left to right
    assert view.table.rows[0][:3] == ("a", ".000", "1.000")


def test_colours_are_those_of_the_first_layer_and_undefined_is_told() -> None:
    _, points = drawn(small())
    by_id = {p.get("data-id"): p for p in points}
    assert by_id["a"].get("class") == "na"
    assert all(p.get("data-shades", "").split()[0] == p.get("class") for p in points)


def test_many_points_are_thinned_with_a_word() -> None:
    count = MOST_POINTS + 500
    figure = sample_map([str(i) for i in range(count)], ["t"] * count)
    view, points = drawn(figure)
    assert len(points) == MOST_POINTS
    assert view.caption == "Made up. 1,500 of 2,000 texts are drawn, chosen at random."
    _, again = drawn(figure)
    assert [p.get("data-id") for p in again] == [p.get("data-id") for p in points]
    whole, points = drawn(sample_map([str(i) for i in range(MOST_POINTS)], ["t"] * MOST_POINTS))
    assert (len(points), whole.caption) == (MOST_POINTS, "Made up.")


def test_without_a_place_there_is_no_point() -> None:
    figure = replace(small(), x=[math.nan, 0.5, 0.25])
    _, points = drawn(figure)
    assert {p.get("data-id") for p in points} == {"b", "c"}
    empty = draw(replace(small(), x=[math.nan] * 3), "map")
    assert isinstance(empty, MapView)
    assert empty.drawings == ()
