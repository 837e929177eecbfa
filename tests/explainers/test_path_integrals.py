"""Quadrature rules, steps as needed, and one path for two methods."""

from __future__ import annotations

import numpy as np
import pytest

from rashomon.errors import UserError
from rashomon.explainers import explain, make_explainer
from rashomon.explainers.path_integrals import Layer, PathSettings, quadrature, resolve_paths
from tests.explainers.conftest import Families, Jobs
from tests.models.tiny import SINGLES

RULES = ("gauss-legendre", "graded", "trapezoid", "middle", "left", "right")
SETTINGS = PathSettings("pad", None, None, 0.01)
LAYER = Layer(trapezoid=True, endpoints=True)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("steps", [2, 3, 8, 51])
def test_weights_sum_to_one_and_rules_integrate_what_they_can(rule: str, steps: int) -> None:
    nodes, weights = quadrature(rule, steps)  # type: ignore[arg-type]
    assert weights.sum() == pytest.approx(1)
    assert ((nodes >= 0) & (nodes <= 1)).all()
    exact = {"gauss-legendre": 2 * steps - 1, "graded": steps - 1, "trapezoid": 1, "middle": 1}
    degree = min(exact.get(rule, 0), 20)
    assert weights @ nodes**degree == pytest.approx(1 / (degree + 1))


def test_paths_need_steps() -> None:
    with pytest.raises(UserError, match="at least one step"):
        quadrature("middle", 0)
    with pytest.raises(UserError, match="at least two"):
        quadrature("trapezoid", 1)


def test_steps_grow_only_where_the_gap_asks_for_it(jobs: Jobs) -> None:
    job = jobs("bert")
    paths = resolve_paths(job, SETTINGS)
    assert max(path.gap(path.inputs) for path in paths) <= 0.01
    fine = resolve_paths(jobs("bert"), PathSettings("pad", None, 128, 0.01))
    coarse = resolve_paths(jobs("bert"), PathSettings("pad", None, None, 0.01, most_steps=9))
    refined = [i for i, path in enumerate(coarse) if path.gap(path.inputs) > 0.01]
    assert 0 < len(refined) < len(paths)
    for i, path in enumerate(paths):
        if i not in refined:
            np.testing.assert_allclose(path.inputs, coarse[i].inputs, atol=1e-5)
        scale = np.abs(fine[i].inputs.sum(1)).max()
        assert np.abs(path.inputs.sum(1) - fine[i].inputs.sum(1)).max() < 0.05 * scale


@pytest.mark.parametrize("name", ["bilstm", "bert"])
@pytest.mark.parametrize("steps", [17, 33])
def test_halving_equals_starting_over_and_costs_what_is_new(jobs: Jobs, name: str, steps: int) -> None:
    job = jobs(name)
    halved = resolve_paths(job, PathSettings("pad", None, None, 0.0, most_steps=steps), how="norm")
    asked = job.engine.counts.evaluated
    again = jobs(name)
    whole = resolve_paths(again, PathSettings("pad", "trapezoid", steps, 0.0), how="norm")
    for one, other in zip(halved, whole, strict=True):
        np.testing.assert_allclose(one.inputs, other.inputs, atol=1e-5)
    assert asked == again.engine.counts.evaluated


def test_what_halving_does_not_settle_is_looked_at_near_the_reference(jobs: Jobs) -> None:
    finest = resolve_paths(jobs("bert"), PathSettings("pad", None, None, 0.0), how="norm")
    for rule in ("graded", "gauss-legendre"):  # on a smooth path both are exact
        expected = resolve_paths(jobs("bert"), PathSettings("pad", rule, 257, 0.0), how="norm")
        for one, other in zip(finest, expected, strict=True):
            np.testing.assert_allclose(one.inputs, other.inputs, atol=1e-5)


def test_the_graded_rule_sees_what_happens_at_once() -> None:
    """As RMSNorm does it: x / sqrt(x^2 + eps) rises to 1 within a thousandth of the path."""
    narrow = 1e-3

    def missed(rule: str) -> float:
        nodes, weights = quadrature(rule, 129)  # type: ignore[arg-type]
        return abs(float(weights @ (narrow**2 / (nodes**2 + narrow**2) ** 1.5)) - 1)

    assert missed("graded") < 0.01 < 0.5 < missed("trapezoid")
    assert missed("gauss-legendre") > 10 * missed("graded")


@pytest.mark.parametrize("name", ["bilstm", "cnn", "bert"])
def test_asking_for_both_methods_changes_neither(families: Families, name: str) -> None:
    model = families(name)
    methods = ["integrated-gradients", "layer-conductance"]
    together = explain(model, SINGLES, methods)
    for method in methods:
        for one, other in zip(together.by_method(method), explain(model, SINGLES, [method]), strict=True):
            np.testing.assert_allclose(one.scores, other.scores, atol=2e-5)
            assert one.gap is not None
            assert one.gap <= 0.01


def test_the_second_asker_costs_nothing(jobs: Jobs) -> None:
    job, settings = (
        jobs("gru"),
        PathSettings("pad", None, 21, 0.01),
    )  # given steps: both ask for the same points
    resolve_paths(job, settings, LAYER)
    before = job.engine.counts.evaluated
    resolve_paths(job, settings)
    assert job.engine.counts.evaluated == before
    alone = Layer(trapezoid=True, endpoints=True, inputs=False)
    for one, other in zip(
        resolve_paths(jobs("gru"), settings, alone), resolve_paths(job, settings, LAYER), strict=True
    ):
        assert one.inputs is None  # nobody asked for it
        assert one.layer is not None
        assert other.layer is not None
        np.testing.assert_allclose(one.layer, other.layer, atol=1e-5)
    resolve_paths(job, PathSettings("zero", "gauss-legendre", None, 0.01))
    assert job.engine.counts.evaluated > before


@pytest.mark.parametrize("steps", [1, 2, 9])
def test_long_paths_are_cut_into_stretches(jobs: Jobs, steps: int) -> None:
    settings = PathSettings("pad", "gauss-legendre", steps, 0.01)
    for layer in (LAYER, Layer(trapezoid=False, endpoints=False)):
        whole = resolve_paths(jobs("bilstm"), settings, layer)
        cut = resolve_paths(jobs("bilstm", token_budget=40), settings, layer)
        for one, other in zip(whole, cut, strict=True):
            assert one.layer is not None
            assert other.layer is not None
            assert one.inputs is not None
            assert other.inputs is not None
            np.testing.assert_allclose(one.inputs, other.inputs, atol=1e-5)
            np.testing.assert_allclose(one.layer, other.layer, atol=1e-5)


def test_a_large_gap_is_said(families: Families) -> None:
    explanations = explain(
        families("bert"), SINGLES, [make_explainer("integrated-gradients", steps=1, rule="left")]
    )
    for item in explanations:
        assert item.gap is not None
        change = item.gap > 0.05
        assert any("miss the output's change" in warning for warning in item.warnings) == change
    assert any(item.warnings for item in explanations)
