"""What an audit found is read by the next one, as long as nothing that it follows from has changed."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rashomon.audits import kept_findings
from rashomon.audits.auditing import AuditSettings, run_audit
from rashomon.audits.record import Audit
from rashomon.errors import Caution, DoesNotFit
from rashomon.experiments.context import Context
from rashomon.experiments.subject import GIVEN, DatasetSpec, Subject
from rashomon.report.export import findings_data
from rashomon.studies.agreement import Agreement
from rashomon.studies.base import Finding
from rashomon.studies.permutation import Permutation
from tests.studies.planted import QUICK, SMALL, planted

LEFT_OUT = ("noise-ceiling", "necessity", "attefa", "seed-variance", "instance-adversary", "cartography")


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    return _subject(tmp_path, seed=5)


def _subject(folder: Path, seed: int) -> Subject:
    path = folder / "reviews.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["text", "label"])
        examples = planted(seed=seed)["train"]
        rows.writerows([e.text, e.label] for e in examples)
    return Subject(DatasetSpec(file=str(path)), SMALL, replace(QUICK, epochs=1))


@pytest.fixture
def agreements(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """How often agreement was studied."""
    run, counted = Agreement.run, []

    def count(study: Agreement, context: Context) -> Finding:
        counted.append(study.name)
        warnings.warn("the study heard something", Caution, stacklevel=1)
        return run(study, context)

    monkeypatch.setattr(Agreement, "run", count)
    return counted


def _audit(context: Context, subject: Subject, **settings: object) -> Audit:
    chosen = AuditSettings(subject, ("attention", "leave-one-out"), 6, without=LEFT_OUT)
    return run_audit(replace(context, _datasets={}), replace(chosen, **settings))  # type: ignore[arg-type]


@pytest.mark.filterwarnings("always::rashomon.errors.Caution")
def test_the_second_audit_reads_and_says_the_same(
    context: Context, subject: Subject, agreements: list[str]
) -> None:
    first, second = (_audit(context, subject) for _ in range(2))
    assert agreements == ["agreement"]
    assert findings_data(replace(first, seconds=0)) == findings_data(replace(second, seconds=0))
    assert [w for w in second.warnings if "heard something" in w] == ["the study heard something"]
    kinds = {info.kind for info in context.store.list() if info.finished}
    assert "findings" in kinds


@pytest.mark.filterwarnings("ignore::rashomon.errors.Caution")
def test_workers_find_the_same(context: Context, subject: Subject, tmp_path: Path) -> None:
    alone = _audit(context, subject)
    store = replace(context.store, root=tmp_path / "shared")
    shared = _audit(replace(context, store=store, workers=2), subject)
    assert [f.verdict for f in alone.findings] == [f.verdict for f in shared.findings]
    for one, other in zip(alone.findings, shared.findings, strict=True):
        assert one.summary.equals(other.summary)


@pytest.mark.filterwarnings("ignore::rashomon.errors.Caution")
@pytest.mark.parametrize("changed", ["settings", "data", "code"])
def test_what_changed_is_studied_again(
    changed: str,
    context: Context,
    subject: Subject,
    agreements: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _audit(context, subject)
    if changed == "data":
        subject = _subject(tmp_path, seed=6)  # another file of the same name
    if changed == "code":
        monkeypatch.setattr(kept_findings, "_code", lambda: "mended")
    _audit(context, subject, instances=5 if changed == "settings" else 6)
    assert len(agreements) == 2


def test_a_study_that_does_not_fit_is_told_and_not_kept(
    context: Context, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(study: Permutation, context: Context) -> Finding:
        raise DoesNotFit("It makes no sense here.")

    monkeypatch.setattr(Permutation, "run", refuse)
    audit = _audit(context, subject)
    assert "permutation was left out: It makes no sense here." in audit.warnings
    monkeypatch.undo()
    assert "permutation" in [finding.study for finding in _audit(context, subject).findings]
    assert all(info.finished for info in context.store.list())


def test_what_is_in_memory_is_never_kept(context: Context) -> None:
    given = Subject(context.adopt(planted()), SMALL, QUICK)
    assert not kept_findings.can_be_kept(Agreement(given))
    assert not kept_findings.can_be_kept(Agreement(replace(Subject(), checkpoint="folder")))
    assert not kept_findings.can_be_kept(Agreement(beside=f"{GIVEN}-0"))
    assert kept_findings.can_be_kept(Agreement())
    assert kept_findings.can_be_kept(Agreement(beside="further.parquet"))
