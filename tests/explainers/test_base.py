"""Methods by name: settings behind the name, and the name that tells them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from rashomon.errors import UserError
from rashomon.experiments.testimony import is_signed, samples
from rashomon.explainers import Explainer, Job, Scores, explainers, find_explainer, make_explainer
from rashomon.registry import Entry

OTHER: dict[str, Any] = {
    "samples": 77,
    "perturbation": "mask",
    "reference": "zero",
    "references": "zero",
    "steps": 12,
    "target_gap": 0.5,
    "variance_reduction": False,
    "layer": 0,
    "head": -1,
    "aggregation": "norm",
    "draw": "coins",
    "rule": "middle",
    "kernel_width": 0.5,
    "penalty": 0.1,
    "percent": 20.0,
    "trapezoid": False,
    "endpoints": False,
}


@dataclass(frozen=True)
class Foreign(Explainer):
    """Of another package, with settings of other kinds."""

    name: ClassVar[str] = "foreign"
    layers: tuple[int, ...] = (1, 2)
    words: tuple[str, ...] = field(default_factory=tuple)

    def attribute(self, job: Job) -> list[Scores]:
        return []


@pytest.mark.parametrize("name", explainers.names())
def test_a_label_tells_the_settings_and_is_read_back(name: str) -> None:
    usual = make_explainer(name)
    assert usual.label == name
    changes = {key: value for key, value in OTHER.items() if key in usual.settings()}
    if name == "gradient-norm":
        changes["aggregation"] = "sum"
    changed = replace(usual, **changes)  # type: ignore[type-var]
    assert make_explainer(changed.label) == changed
    assert (changed.label == name) == (not changes)
    for key, value in changes.items():
        one = make_explainer(name, **{key: value})
        assert make_explainer(one.label) == one


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("lime(samples=500)", {"samples": 500}),
        (" lime ( samples = 500 , perturbation = mask ) ", {"samples": 500, "perturbation": "mask"}),
        ("lime()", {}),
        ("lime(kernel_width=1e-1)", {"kernel_width": 0.1}),
        ("lime(kernel_width=.5, samples=0500)", {"kernel_width": 0.5, "samples": 500}),
    ],
)
def test_settings_are_read_from_the_name(text: str, settings: dict[str, Any]) -> None:
    assert make_explainer(text) == make_explainer("lime", **settings)


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("lime(samples=500", "not as in"),
        ("lime(samples)", "'samples' is not a setting"),
        ("lime(sample=3)", "no setting 'sample'"),
        ("lime(samples=many)", "samples"),
        ("lime(perturbation=blur)", "blur"),
        ("lme(samples=3)", "lime"),
        ("lime(samples=3, samples=4)", "twice"),
        ("lime(samples=1)", "two samples"),
        ("kernel-shap(samples=0)", "two samples"),
        ("gradient-shap(samples=1)", "two samples"),
        ("deep-shap(samples=0)", "one sample"),
        ("lime(kernel_width=nan)", "finite"),
        ("lime(kernel_width=0)", "above zero"),
        ("integrated-gradients(steps=0)", "at least one step"),
        ("layer-conductance(steps=1, rule=trapezoid)", "at least two steps"),
        ("integrated-gradients(target_gap=-1)", "below zero"),
        ("trivial(percent=0)", "percent"),
    ],
)
def test_what_is_wrong_with_a_name_is_told(text: str, about: str) -> None:
    with pytest.raises(UserError, match=about):
        make_explainer(text)


@pytest.mark.parametrize(
    "name", ["elsewhere", "elsewhere(samples=3)", "attention (times gradient)", "lime(a=b)"]
)
def test_foreign_names_are_not_taken_for_ours(name: str) -> None:
    assert find_explainer(name) is None
    assert is_signed(name)
    assert samples(name)


@pytest.mark.parametrize(
    ("name", "signed"),
    [
        ("integrated-gradients", True),
        ("integrated-gradients(aggregation=norm)", False),
        ("gradient-norm", False),
        ("gradient-norm(aggregation=sum)", True),
        ("attention", False),
        ("lime(samples=3)", True),
    ],
)
def test_a_norm_has_no_sign(name: str, signed: bool) -> None:
    assert is_signed(name) == signed


def test_settings_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(explainers._entries, "foreign", Entry("foreign", Foreign, "of another package"))
    assert Foreign().label == "foreign"
    changed = Foreign((3, 4), ("a", "b"))
    assert changed.label == 'foreign(layers=[3, 4], words=["a", "b"])'
    assert make_explainer(changed.label) == changed
    assert make_explainer("lime", samples=np.int64(20)).label == "lime(samples=20)"
