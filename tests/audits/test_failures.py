"""What ends an audit and what only leaves a study out: a full disk or a dead worker is no reason to skip one."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from rashomon.audits.auditing import AuditSettings, run_audit
from rashomon.cli.main import run
from rashomon.errors import Caution, DoesNotFit, UserError
from rashomon.experiments.context import Context
from rashomon.experiments.testimony import Ask
from rashomon.studies.base import in_order
from rashomon.studies.erasure import Erasure
from tests.studies.planted import subject_in

METHODS = ("attention", "leave-one-out")
STUDIES = tuple(kind.name for kind in in_order() if kind.for_audit(Ask()) is not None and not kind.on_request)


def fill_disk_under(monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Whatever is written where the path has ``part`` in it finds no room."""
    fsync = os.fsync

    def full(descriptor: int) -> None:
        if part in Path(os.readlink(f"/proc/self/fd/{descriptor}")).parts:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)


def test_a_disk_that_fills_up_anywhere_ends_the_audit(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = ("agreement", "instance-adversary", "seed-variance", "attefa")
    others = tuple(name for name in STUDIES if name not in kept)
    settings = AuditSettings(subject_in(context), METHODS, 4, without=others)
    # in the order in which an audit comes to them: what was finished before is kept
    for kind in ("models", "attention-on-trial", "explanations", "adversaries", "instance-adversaries"):
        with monkeypatch.context() as patch:
            fill_disk_under(patch, kind)
            with pytest.raises(UserError, match=r"The disk of the run store .* is full") as error:
                run_audit(context, settings)
        assert not isinstance(error.value, DoesNotFit)
    audit = run_audit(context, settings)  # room was made
    assert sorted(finding.study for finding in audit.findings) == sorted(kept)
    assert not [warning for warning in audit.warnings if "left out:" in warning]


@pytest.mark.parametrize(
    ("error", "ends"),
    [
        (UserError("A worker process died, often for want of memory; use fewer workers."), True),
        (UserError("The disk of the run store is full."), True),
        (DoesNotFit("The model does not tell its attention."), False),
    ],
)
def test_only_what_does_not_fit_is_left_out(
    context: Context, monkeypatch: pytest.MonkeyPatch, error: UserError, ends: bool
) -> None:
    def fail(study: Erasure, context: Context) -> None:
        raise error

    monkeypatch.setattr(Erasure, "run", fail)
    others = tuple(name for name in STUDIES if name not in ("agreement", "erasure"))
    settings = AuditSettings(subject_in(context), METHODS, 4, without=others)
    if ends:
        with pytest.raises(UserError, match=str(error)):
            run_audit(context, settings)
    else:
        assert f"erasure was left out: {error}" in run_audit(context, settings).warnings


def test_a_full_disk_is_one_sentence_and_not_code_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once in the middle of the work, once under the report."""
    words = ["audit", "--model", "mlp", "--epochs", "1", "--instances", "4", "--methods", ",".join(METHODS)]
    words += ["--without", ",".join(name for name in STUDIES if name not in ("agreement", "erasure"))]
    words += ["--store", str(tmp_path / "store"), "--out", str(tmp_path / "out"), "--quiet"]
    for part, sentence in (("explanations", "run store"), ("out", "report cannot be written")):
        with monkeypatch.context() as patch:
            fill_disk_under(patch, part)
            assert run(words) == 2
        said = capsys.readouterr()
        assert said.err.count("\n") == 1
        assert sentence in said.err
        assert not (tmp_path / "out").exists()
    assert run(words) == 0
    assert (tmp_path / "out" / "report.html").is_file()


def test_cautions_reach_the_report(context: Context) -> None:
    settings = AuditSettings(
        subject_in(context), METHODS, 4, without=tuple(name for name in STUDIES if name != "agreement")
    )
    first = run_audit(context, settings)
    stored = next(context.store.root.glob("explanations/*/explanations.parquet"))
    stored.write_bytes(stored.read_bytes()[:-1])
    with pytest.warns(Caution, match="was damaged"):
        again = run_audit(context, settings)
    assert sum("was damaged (explanations.parquet has" in warning for warning in again.warnings) == 1
    assert again.findings[0].tables["summary"].equals(first.findings[0].tables["summary"])
