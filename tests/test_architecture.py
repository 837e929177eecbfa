"""Nothing above ``models`` looks at a model's class: it asks what the model can do."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "rashomon"
ABOVE = ("explainers", "experiments", "studies", "audits", "papers", "report", "cli")


def _concrete_models() -> set[str]:
    """The classes of ``models`` that inherit from ``Model``, directly or not."""
    bases = {
        node.name: {ast.unparse(base) for base in node.bases}
        for path in (SOURCE / "models").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    }
    found = {"Model"}
    while more := {name for name, of in bases.items() if of & found} - found:
        found |= more
    return found - {"Model"}


def _mentions(source: str, concrete: set[str]) -> list[str]:
    """Every place where the class of a model, or whether it is built in, is spoken of."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and node.id in concrete:
            found.append(f"line {node.lineno}: {node.id}")
        elif isinstance(node, ast.Attribute) and node.attr in {*concrete, "is_builtin"}:
            found.append(f"line {node.lineno}: {node.attr}")
        elif isinstance(node, ast.ImportFrom):
            found += [f"line {node.lineno}: {a.name}" for a in node.names if a.name in concrete]
        elif isinstance(node, ast.Constant) and node.value in {*concrete, "is_builtin"}:
            found.append(f"line {node.lineno}: {node.value}")
    return found


def _files() -> list[str]:
    paths = sorted(path for package in ABOVE for path in (SOURCE / package).rglob("*.py"))
    return [path.relative_to(SOURCE).as_posix() for path in paths]


def test_the_built_in_models_are_known() -> None:
    assert _concrete_models() >= {"AttentionClassifier", "HuggingFaceClassifier"}


@pytest.mark.parametrize("name", _files())
def test_nothing_looks_at_the_class_of_a_model(name: str) -> None:
    assert _mentions((SOURCE / name).read_text(encoding="utf-8"), _concrete_models()) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("isinstance(model, AttentionClassifier)", True),
        ("isinstance(model, classifier.AttentionClassifier)", True),
        ("from rashomon.models.classifier import AttentionClassifier as Own", True),
        ("type(model).__name__ == 'AttentionClassifier'", True),
        ("subject.model.is_builtin", True),
        ("getattr(spec, 'is_builtin')", True),
        ("isinstance(model, Model)", False),
        ("'reweighting' in model.capabilities", False),
    ],
)
def test_every_way_to_look_is_found(source: str, found: bool) -> None:
    assert bool(_mentions(source, {"AttentionClassifier"})) == found
