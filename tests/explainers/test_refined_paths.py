"""Points of a path go where the rule misses the output's change, which is known stretch by stretch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import simpson

from rashomon.explainers import explain
from rashomon.explainers.path_integrals import PathSettings, resolve_paths
from rashomon.explainers.refined_paths import SHARE, Line, refined_lines
from tests.explainers.conftest import Families, Jobs
from tests.models.tiny import SINGLES

NARROW = 1e-3
Curve = Callable[[np.ndarray], np.ndarray]


def at(places: np.ndarray, output: Curve, slope: Curve) -> tuple[np.ndarray, np.ndarray]:
    """Output and slopes of two tokens, of which the first adds a straight line."""
    return output(places) + places, np.column_stack([np.ones_like(places), slope(places)])


def refined(output: Curve, slope: Curve, target: float = 0.01, most: int = 257) -> Line:
    """The loop of ``refined_lines`` on a curve in closed form."""
    places = np.linspace(0, 1, 9)
    line = Line(places, *at(places, output, slope))
    while line.is_missing(target) and len(line.places) + 2 <= most:
        new = line.next_places(target, most - len(line.places))
        line = line.with_points(new, *at(new, output, slope))
    return line


def norm_like(places: np.ndarray) -> np.ndarray:
    """As RMSNorm does it: a word is turned on within a thousandth of the path."""
    return places / np.sqrt(places**2 + NARROW**2)


def norm_slope(places: np.ndarray) -> np.ndarray:
    return NARROW**2 / (places**2 + NARROW**2) ** 1.5


@pytest.mark.parametrize("turn", [0.03, 0.4321, 0.7, 0.999])
def test_a_sudden_turn_anywhere_gets_the_points(turn: float) -> None:
    def output(places: np.ndarray) -> np.ndarray:
        return np.tanh((places - turn) / NARROW)

    def slope(places: np.ndarray) -> np.ndarray:
        return (1 - output(places) ** 2) / NARROW

    line = refined(output, slope)
    exact = output(np.ones(1)) - output(np.zeros(1))
    np.testing.assert_allclose(line.scores, [1, exact.item()], rtol=0.02)
    assert len(line.places) < 80
    assert np.mean(np.abs(line.places - turn) < 0.1) > 0.5
    even = np.linspace(0, 1, 257)
    assert abs(np.trapezoid(slope(even), even) - exact.item()) > 0.1  # many more points, evenly, miss it


def test_a_word_that_is_turned_on_at_the_reference_is_seen() -> None:
    line = refined(norm_like, norm_slope)
    np.testing.assert_allclose(line.scores, [1, 1], rtol=0.03)
    assert len(line.places) < 60


def test_a_smooth_path_stays_as_it_is() -> None:
    line = refined(lambda a: a**2, lambda a: 2 * a)
    np.testing.assert_array_equal(line.places, np.linspace(0, 1, 9))
    np.testing.assert_allclose(line.scores, [1, 1])


@given(st.lists(st.floats(-2, 2), min_size=4, max_size=4), st.floats(0.2, 3.0))
def test_a_cubic_slope_is_met_exactly(powers: list[float], end: float) -> None:
    """Simpson's rule is exact up to the third power, on stretches of whatever length."""
    slope, output = np.polynomial.Polynomial(powers), np.polynomial.Polynomial(powers).integ()
    places = np.array([0.0, 0.125, 0.25, 0.625, 1.0]) * end
    line = Line(places, output(places), slope(places)[:, None])
    np.testing.assert_allclose(line.scores, [line.change], atol=1e-9)
    np.testing.assert_allclose(line.missed(), 0, atol=1e-9)


@given(st.lists(st.floats(-3, 3), min_size=9, max_size=9), st.integers(0, 3))
def test_the_stretch_that_is_missed_is_halved_first(slopes: list[float], bad: int) -> None:
    """Outputs are made to fit SciPy's rule everywhere but on one stretch."""
    places, each = np.linspace(0, 1, 9), np.array(slopes)
    steps = [simpson(each[k : k + 3], x=places[k : k + 3]) + 5 * (k == 2 * bad) for k in range(0, 8, 2)]
    outputs = np.interp(places, places[::2], np.concatenate([[0.0], np.cumsum(steps)]))
    line = Line(places, outputs, each[:, None])
    assert line.missed().argmax() == bad
    assert line.missed()[bad] == pytest.approx(5)
    np.testing.assert_allclose(line.next_places(0.01, 10), 0.25 * bad + np.array([0.0625, 0.1875]))


@pytest.mark.parametrize(
    ("missed", "halved"),
    [
        ([5, 0.5, 4, 0], [0, 2]),  # the two hold all but a quarter of what is missed, one would not
        ([1, 1, 1, 1], [0, 1, 2]),
        ([5, 0.1, 0, 0.1], [0]),
    ],
)
def test_as_many_stretches_are_halved_as_hold_most_of_what_is_missed(
    missed: list[float], halved: list[int]
) -> None:
    outputs = np.repeat(np.concatenate([[0.0], np.cumsum(missed)]), 2)[
        1:
    ]  # what a middle has is not looked at
    line = Line(np.linspace(0, 1, 9), outputs, np.zeros((9, 1)))  # flat slopes miss every change
    middles = [0.25 * at + quarter for at in halved for quarter in (0.0625, 0.1875)]
    np.testing.assert_allclose(line.next_places(0.01, 10), middles)
    assert len(line.next_places(0.01, 2)) == len(line.next_places(0.01, 3)) == 2
    almost = SHARE * 0.9  # what is left to miss is within the gap that is allowed
    assert len(line.next_places(1 / almost, 10)) == 2


def test_new_points_stand_in_their_places() -> None:
    line = Line(np.array([0.0, 0.5, 1.0]), np.array([0.0, 5.0, 10.0]), np.array([[0.0], [5.0], [10.0]]))
    more = line.with_points(np.array([0.25, 0.75]), np.array([2.5, 7.5]), np.array([[2.5], [7.5]]))
    np.testing.assert_array_equal(more.places, [0, 0.25, 0.5, 0.75, 1])
    np.testing.assert_array_equal(more.outputs, 10 * more.places)
    np.testing.assert_array_equal(more.slopes[:, 0], 10 * more.places)


@pytest.mark.parametrize("name", ["bilstm", "gru", "bert"])
def test_scores_are_those_of_many_points(jobs: Jobs, name: str) -> None:
    lines = refined_lines(jobs(name), "pad", 0.001, 9, 257)
    exact = resolve_paths(jobs(name), PathSettings("pad", "gauss-legendre", 128, 0.0))
    for line, path in zip(lines, exact, strict=True):
        assert path.inputs is not None
        scale = np.abs(path.inputs).max()
        np.testing.assert_allclose(line.scores, path.inputs[:, 0], atol=0.02 * scale)
        assert line.change == pytest.approx(path.change, abs=1e-5)


def test_no_more_points_than_allowed_and_no_more_than_halving_takes(jobs: Jobs) -> None:
    assert {len(line.places) for line in refined_lines(jobs("bert"), "pad", 0.0, 9, 30)} == {29}
    job, halving = jobs("bert"), jobs("bert")
    resolve_paths(job, PathSettings("pad", None, None, 0.003))
    resolve_paths(halving, PathSettings("pad", None, None, 0.003), how="norm")
    assert job.engine.counts.evaluated <= halving.engine.counts.evaluated


@pytest.mark.parametrize("name", ["bilstm", "bert"])
def test_a_text_alone_has_the_same_scores(families: Families, name: str) -> None:
    model = families(name)
    together = explain(model, SINGLES, ["integrated-gradients"])
    for example, among in zip(SINGLES, together, strict=True):
        (alone,) = explain(model, [example], ["integrated-gradients"])
        np.testing.assert_allclose(alone.scores, among.scores, atol=2e-5)
