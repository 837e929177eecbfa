"""A study is one file: registered, it is found by the command line, the audit and the report, nothing else touched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pytest

from rashomon.audits import AuditSettings, run_audit
from rashomon.data import Dataset
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask, draw
from rashomon.models.base import Model
from rashomon.report import render
from rashomon.studies.base import Finding, Judgement, Study, in_order, studies
from tests.cli.conftest import Command
from tests.studies.planted import planted, subject_in

FEW = ("agreement", "noise-ceiling", "recovery", "necessity", "permutation", "instance-adversary")
FEW += ("performance", "model-check", "seed-variance", "attefa", "cartography", "curvature")


@dataclass(frozen=True)
class ReadingTime(Study):
    """Can a person read the texts at all?"""

    name: ClassVar[str] = "reading-time"
    question: ClassVar[str] = "Are the texts short enough to be read?"
    title: ClassVar[str] = "Time to read"
    chapter: ClassVar[str | None] = "For people"
    order: ClassVar[int] = 25

    instances: int = 500
    longest: int = 20

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        return cls(asked.subject, asked.instances)

    def fits(self, model: Model, data: Dataset) -> str | None:
        return None if "attention" in model.capabilities else "Nobody reads without attention."

    def needed_models(self) -> tuple[Subject, ...]:
        return (self.subject.with_another_seed,)

    def run(self, context: Context) -> Finding:
        self.check_fit(context)
        texts = draw(context.dataset(self.subject.dataset), "test", self.instances, 0)
        words = pd.DataFrame({"n": [len(example.text.split()) for example in texts], "undefined": 0})
        judged = Judgement("attention", "patience", "good", "asks for little patience", f"{len(texts)} texts")
        short = int((words["n"] <= self.longest).sum())
        return self.finding(f"{short} texts are short.", {"summary": words}, judgements=(judged,))


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Registered by the decorator, or announced by another package as an entry point."""
    if request.param == "decorator":
        studies.register("reading-time")(ReadingTime)
    else:
        point = EntryPoint("reading-time", f"{__name__}:ReadingTime", "rashomon.studies")
        found = {"rashomon.studies": [point]}
        monkeypatch.setattr("rashomon.registry.entry_points", lambda group: found.get(group, []))
        monkeypatch.setattr(studies, "_complete", False)
    yield
    studies._entries.pop("reading-time", None)


BOTH = pytest.mark.parametrize("announced", ["decorator", "entry point"], indirect=True)


@BOTH
@pytest.mark.usefixtures("announced")
def test_the_command_line_takes_it(rashomon: Command, tmp_path: Path) -> None:
    listed = json.loads(rashomon("list", "studies", "--json").out)["studies"]
    (entry,) = [entry for entry in listed if entry["name"] == "reading-time"]
    assert entry["summary"] == "Can a person read the texts at all? [subject, instances, longest]"
    asked = ("--dataset", "mock-1", "--encoder", "mlp", "--instances", 7, "--set", "longest=3")
    said = rashomon("study", "reading-time", *asked, "--json", "--out", tmp_path / "out")
    assert said.code == 0, said
    document = json.loads(said.out)
    assert len(document["summary"]) == 7
    assert document["configuration"]["longest"] == 3
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Time to read</h3>" in page
    assert "For people</h2>" in page


@BOTH
@pytest.mark.usefixtures("announced")
def test_the_audit_and_its_report_have_it(context: Context) -> None:
    subject = subject_in(context, planted(train=32, held_out=8))
    methods = ("attention", "leave-one-out")
    audit = run_audit(context, AuditSettings(subject, methods, 6, without=FEW))
    assert [finding.study for finding in audit.findings] == ["reading-time", "erasure"], "in its place"
    assert all(folder.is_dir() for folder in context.folders(subject.with_another_seed)), "trained for it"
    by_method = {verdict.method: verdict for verdict in audit.verdicts}
    assert "asks for little patience" in by_method["attention"].sentence
    assert "asks for little patience" not in by_method["leave-one-out"].sentence
    page = render(audit)
    assert "Time to read</h3>" in page
    assert "For people</h2>" in page
    assert '<th role="columnheader" scope="col"><span class="title">Patience</span>' in page
    left_out = run_audit(context, AuditSettings(subject, methods, 6, without=(*FEW, "reading-time")))
    assert [finding.study for finding in left_out.findings] == ["erasure"]
    assert "reading-time was left out as asked." in left_out.warnings


@pytest.mark.parametrize("announced", ["decorator"], indirect=True)
@pytest.mark.usefixtures("announced")
def test_the_audit_says_why_it_does_not_fit(
    context: Context, checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReadingTime, "fits", lambda study, model, data: f"{data.name} is poetry.")
    subject = Subject(context.adopt(planted(held_out=8)), checkpoint=str(checkpoint("bert")))
    audit = run_audit(context, AuditSettings(subject, ("leave-one-out", "attention"), 6))
    assert "reading-time was left out: tiny is poetry." in audit.warnings
    assert "reading-time" not in {finding.study for finding in audit.findings}


def test_a_study_that_does_not_say_so_is_no_part_of_an_audit() -> None:
    asked = Ask()
    assert {kind.name for kind in in_order() if kind.for_audit(asked) is None} == {
        "adversary",
        "agreement-and-truth",
        "guided-mlp",
        "regularised-agreement",
    }
