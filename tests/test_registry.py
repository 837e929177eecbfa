"""Names for things: what is built in, what other packages bring, and what happens when one of them is broken."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from rashomon.data.catalogue import datasets
from rashomon.errors import Caution, UserError
from rashomon.explainers.base import explainers
from rashomon.measures.base import measures
from rashomon.models.encoders import encoders
from rashomon.models.model_spec import models
from rashomon.models.tasks import tasks
from rashomon.registry import Registry
from rashomon.studies.base import studies
from rashomon.training.objectives import objectives


@pytest.mark.parametrize(
    ("registry", "group"),
    [
        (datasets, "rashomon.datasets"),
        (encoders, "rashomon.encoders"),
        (explainers, "rashomon.explainers"),
        (measures, "rashomon.measures"),
        (models, "rashomon.models"),
        (objectives, "rashomon.objectives"),
        (studies, "rashomon.studies"),
        (tasks, "rashomon.tasks"),
    ],
)
def test_groups_of_entry_points_are_the_plurals(registry: Registry[object], group: str) -> None:
    assert registry.group == group
    assert registry.names()
    assert all(entry.summary for entry in registry)


def test_a_name_is_given_once_and_a_wrong_one_gets_the_nearest() -> None:
    tools: Registry[str] = Registry("tool", "tools")
    tools.register("hammer", "for nails")("one")
    with pytest.raises(ValueError, match="two tools are named 'hammer'"):
        tools.register("hammer")("another")
    with pytest.raises(UserError, match="no tool named 'hamer'; did you mean 'hammer'"):
        tools.get("hamer")
    assert tools.get("hammer") == "one"
    assert [entry.summary for entry in tools] == ["for nails"]


def _package(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, **modules: str) -> None:
    """A package on the path for the length of a test."""
    (folder / name).mkdir()
    for module, text in {"__init__": "", **modules}.items():
        (folder / name / f"{module}.py").write_text(text, encoding="utf-8")
        monkeypatch.delitem(sys.modules, f"{name}.{module}", raising=False)
    monkeypatch.syspath_prepend(folder)


def _announced(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    found = [EntryPoint(name.replace("_", "-"), value, "rashomon.tools") for name, value in points.items()]
    monkeypatch.setattr(
        "rashomon.registry.entry_points", lambda group: found if group == found[0].group else []
    )


def test_what_cannot_be_loaded_is_named_and_the_others_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _package(tmp_path, monkeypatch, "strange_tools", good="saw = 'a saw'", bad="1 / 0")
    _announced(
        monkeypatch,
        drill="strange_tools.bad:drill",
        saw="strange_tools.good:saw",
        axe="strange_tools.good:axe",
    )
    tools: Registry[str] = Registry("tool", "tools")
    with pytest.warns(Caution, match="is left out, because") as caught:
        assert tools.names() == ["saw"]
    messages = [str(warning.message) for warning in caught]
    assert any("tool 'drill'" in text and "ZeroDivisionError" in text for text in messages)
    assert any("tool 'axe'" in text and "strange_tools.good:axe" in text for text in messages)
    assert tools.get("saw") == "a saw"


def test_what_is_built_in_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _package(tmp_path, monkeypatch, "other_tools", mine="hammer = 'theirs'")
    _announced(monkeypatch, hammer="other_tools.mine:hammer")
    tools: Registry[str] = Registry("tool", "tools")
    tools.register("hammer")("ours")
    with pytest.warns(Caution, match="another tool of this name"):
        assert tools.names() == ["hammer"]
    assert tools.get("hammer") == "ours"


def test_a_module_that_registers_itself_is_not_registered_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    """As measures do, whose decorator keeps a record and leaves the function as it was."""
    monkeypatch.setattr("rashomon.registry_under_test", Registry("tool", "tools"), raising=False)
    text = "import rashomon\nfor name in ('awl', 'rasp'):\n    rashomon.registry_under_test.register(name)(name * 2)\n"
    _package(tmp_path, monkeypatch, "busy_tools", both=text + "awl, rasp = 'plain', 'plain'")
    _announced(monkeypatch, awl="busy_tools.both:awl", rasp="busy_tools.both:rasp")
    import rashomon

    tools: Registry[str] = rashomon.registry_under_test
    assert {entry.name: entry.value for entry in tools} == {"awl": "awlawl", "rasp": "rasprasp"}
    assert not recwarn.list


def test_a_new_file_in_the_home_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "rashomon.registry_under_test", Registry("tool", "tools", "home_tools"), raising=False
    )
    text = "import rashomon\nrashomon.registry_under_test.register('chisel')('sharp')\n"
    _package(tmp_path, monkeypatch, "home_tools", one_more=text)
    import rashomon

    assert "chisel" in rashomon.registry_under_test
