"""Methods by name: settings behind the name, and the name that tells them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rashomon.errors import UserError
from rashomon.explain import explainers, kind_of, make_explainer

OTHER: dict[str, Any] = {
    "samples": 77,
    "perturbation": "mask",
    "reference": "zero",
    "references": "zero",
    "steps": 12,
    "target_gap": 0.5,
    "variance_reduction": False,
    "layer": 0,
}


@pytest.mark.parametrize("name", explainers.names())
def test_a_label_tells_the_settings_and_is_read_back(name: str) -> None:
    usual = make_explainer(name)
    assert usual.label == name
    changes = {key: value for key, value in OTHER.items() if key in usual.settings()}
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
    ],
)
def test_what_is_wrong_with_a_name_is_told(text: str, about: str) -> None:
    with pytest.raises(UserError, match=about):
        make_explainer(text)


def test_the_kind_of_a_name() -> None:
    assert kind_of("lime(samples=3)") is kind_of("lime") is explainers.get("lime")
    assert kind_of("elsewhere(samples=3)") is None
