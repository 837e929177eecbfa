"""What a judgement rests on can be drawn: its number inside its interval, and both on its scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from rashomon.audits.auditing import AuditSettings, run_audit
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Gauge
from rashomon.experiments.judging import gauge
from rashomon.studies import agreement, attefa, erasure, noise_ceiling, recovery
from rashomon.studies.base import Judgement

from .planted import subject_in
from .test_attefa import ROW

NOTHING = {"low": np.nan, "high": np.nan}
TESTED = {"n": 100, "test": "wilcoxon", "p_against_random": 0.001, "p_holm": 0.001}


def _on_its_scale(one: Gauge) -> bool:
    low = one.value if one.low is None else one.low
    high = one.value if one.high is None else one.high
    return one.ends[0] <= low <= one.value <= high <= one.ends[1] and (one.low is None) == (one.high is None)


def test_every_study_of_an_audit_can_be_drawn(context: Context) -> None:
    methods = ("attention", "leave-one-out", "lime(samples=30)")
    audit = run_audit(context, AuditSettings(subject_in(context), methods, 12))
    judged = [judgement for verdict in audit.verdicts for judgement in verdict.judgements]
    aspects = {"agreement", "stability", "faithfulness", "truth", "exclusiveness", "cost"}
    assert {j.aspect for j in judged} == aspects
    for judgement in judged:
        assert judgement.gauges or judgement.number == "undefined", judgement
        assert all(map(_on_its_scale, judgement.gauges)), judgement
        assert all(one.measure for one in judgement.gauges)
    drawn = {j.aspect: j.gauges for j in judged if j.method.startswith("lime")}
    assert [one.variant for one in drawn["faithfulness"]] == ["removal", "padding"]
    assert [one.variant for one in drawn["stability"]] == ["sampled again", "trained again"]
    assert drawn["agreement"][0].floor is not None, "the random order was asked too"
    assert drawn["cost"][0].better == "lower"


def _of_agreement() -> Judgement:
    rows = [
        {"first": "attention", "second": "b", "seed": 0, "example": f"e{i}", "value": 0.5} for i in range(9)
    ]
    return agreement.judge("attention", pd.DataFrame(rows), None, 2, floor=-0.02)


def _of_stability() -> Judgement:
    rows = [
        {"measure": noise_ceiling.HEADLINE, "method": "lime", "against": against, "mean": mean, "n": 100}
        | {"low": mean - 0.1, "high": mean + 0.05}
        for against, mean in ((noise_ceiling.SAMPLING, 0.8), (noise_ceiling.MODEL, -0.05))
    ]
    return noise_ceiling.judgements(pd.DataFrame(rows))[0]


def _of_erasure() -> Judgement:
    rows = [
        {"perturbation": how, "measure": "comprehensiveness", "method": method, "mean": mean + more}
        | NOTHING
        | TESTED
        for how, more in (("remove", 0.0), ("pad", 0.1))
        for method, mean in (("a", 0.4), ("b", 0.6), ("random", 0.1), ("trivial", 0.8))
    ]
    return erasure.judgements(pd.DataFrame(rows))[0]


def _of_recovery(method: str = "a") -> Judgement:
    rows = [
        {"measure": "average-precision", "method": name, "mean": mean, "low": mean - 0.1, "high": mean + 0.1}
        | TESTED
        for name, mean in (("a", 0.8), ("random", 0.2))
    ]
    return recovery.judgements(pd.DataFrame(rows))[0]


def _of_attefa(**changes: object) -> Judgement:
    row = ROW | {"mean": 0.3, "low": 0.2, "high": 0.5, **changes}
    return attefa._judgements(pd.DataFrame([row]))[0]


@pytest.mark.parametrize(
    ("judged", "gauges"),
    [
        (_of_agreement, [Gauge("Kendall tau", 0.5, 0.5, 0.5, -0.02, 1.0)]),
        (
            _of_stability,
            [
                Gauge("kappa-top-5", 0.8, 0.7, 0.85, 0.0, 1.0, variant="sampled again"),
                Gauge("kappa-top-5", -0.05, -0.15, 0.0, 0.0, 1.0, (-0.2, 1.0), variant="trained again"),
            ],
        ),
        (
            _of_erasure,
            [
                Gauge("comprehensiveness", 0.4, None, None, 0.1, 0.6, variant="removal"),
                Gauge("comprehensiveness", 0.5, None, None, 0.2, 0.7, variant="padding"),
            ],
        ),
        (_of_recovery, [Gauge("average precision", 0.8, 0.7, 0.9, 0.2, 1.0)]),
        (_of_attefa, [Gauge("AtteFa", 0.3, 0.2, 0.5)]),
        # what beats the adversaries' mean is outside of that mean's interval
        (lambda: _of_attefa(bound=0.02, bound_jsd=0.5, bound_by="x"), [Gauge("AtteFa", 0.02)]),
    ],
)
def test_floor_and_ceiling(judged: Callable[[], Judgement], gauges: list[Gauge]) -> None:
    found = judged().gauges
    for one, wanted in zip(found, gauges, strict=True):
        assert (one.measure, one.variant, one.better) == (wanted.measure, wanted.variant, wanted.better)
        for name in ("value", "low", "high", "floor", "ceiling", "ends"):
            assert getattr(one, name) == pytest.approx(getattr(wanted, name)), name


@pytest.mark.parametrize(
    ("mean", "low", "high", "floor", "ends"),
    [
        (0.5, 0.4, 0.6, 0.0, (0.0, 1.0)),
        (-0.31, -0.42, -0.2, 0.0, (-0.5, 1.0)),
        (1.3, 1.2, 1.41, None, (0.0, 1.5)),
        (0.5, np.nan, np.nan, -0.004, (0.0, 1.0)),  # a floor of nearly nothing does not lengthen the scale
        (0.5, np.nan, np.nan, -0.26, (-0.3, 1.0)),
    ],
)
def test_a_scale_is_as_long_as_it_must_be(
    mean: float, low: float, high: float, floor: float | None, ends: tuple[float, float]
) -> None:
    one = gauge("tau", {"mean": mean, "low": low, "high": high}, floor)
    assert one.ends == pytest.approx(ends)
    assert _on_its_scale(one)
