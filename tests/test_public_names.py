"""Can people import it? Public names, packages that are not hidden by functions, and a quick ``import rashomon``."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable

import pytest

import rashomon as ra


def _run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_no_function_hides_a_module() -> None:
    """``import rashomon.a.b as m`` gives the module, also after every public name was used."""
    code = """
import importlib, pkgutil, types
import rashomon as ra
used = [getattr(ra, name) for name in ra.__all__]
names = [m.name for m in pkgutil.walk_packages(ra.__path__, "rashomon.") if "__main__" not in m.name]
for name in names:
    importlib.import_module(name)
for name in names:
    scope = {}
    exec(f"import {name} as found", scope)
    assert isinstance(scope["found"], types.ModuleType), f"{name} is hidden by {scope['found']}"
import rashomon.explainers.engine as engine
import rashomon.explainers as explainers
assert ra.explainers is explainers and explainers.Lime and engine.Engine
assert used == [getattr(ra, name) for name in ra.__all__]
"""
    _run(code)


def test_import_stays_quick() -> None:
    loaded = _run(
        "import sys, rashomon; print([m for m in ('torch', 'pandas', 'transformers') if m in sys.modules])"
    )
    assert loaded.strip() == "[]"


@pytest.mark.parametrize("name", [name for name in ra.__all__ if name not in ("__version__", "explainers")])
def test_every_public_name_says_what_it_is(name: str) -> None:
    value = getattr(ra, name)
    said = inspect.getdoc(value)
    assert said, f"{name} has no docstring"
    if not inspect.isfunction(value):
        return
    assert "Returns:" in said
    parameters = [p.name for p in inspect.signature(value).parameters.values()]
    assert [p for p in parameters if f"{p}:" not in said] == []


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'explian'"):
        ra.explian  # noqa: B018
    assert set(ra.__all__) <= set(dir(ra))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ra.train("bilstm", ["a text"]), "A dataset is needed, not an object of type list"),
        (lambda: ra.train(object(), ra.Dataset.from_list(["a text"])), "not a model here"),
        (lambda: ra.evaluate("bilstm", ra.Dataset.from_list(["a text"])), "load_model"),
        (lambda: ra.evaluate(object(), ra.Dataset.from_list(["a text"])), "wrap"),
        (lambda: ra.explain("bilstm", "a text"), "load_model"),
        (lambda: ra.audit("bilstm", ["a text"]), "load_model"),
        (lambda: ra.audit(object(), ["a text"]), "wrap"),
        (lambda: ra.study("agreement", object(), ["a text"]), "not a model here"),
        (lambda: ra.agreement(["a text"]), "between explanations"),
        (lambda: ra.load_model("bilstm"), "not trained yet"),
        (lambda: ra.make_explainer("limes"), "did you mean 'lime'"),
    ],
)
def test_what_newcomers_try_is_answered_in_a_sentence(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ra.UserError, match=said):
        call()
