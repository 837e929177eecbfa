"""From a real model to the page; the page itself has tests of its own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import rashomon as ra
from rashomon.data import Example
from rashomon.errors import UserError
from rashomon.models.base import Model
from rashomon.report.reporting import Report
from tests.models.tiny import tiny_checkpoint
from tests.studies.planted import planted

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)> a good film"
METHODS = ("attention", "leave-one-out")
STUDIES_OF_A_GIVEN_MODEL = [
    "performance",
    "model-check",
    "agreement",
    "noise-ceiling",
    "erasure",
    "curvature",
    "permutation",
    "instance-adversary",
]


@pytest.fixture(scope="module")
def model() -> Model:
    return ra.train("mlp", planted(), embedding_dim=8, hidden=8, epochs=2, learning_rate=0.03)


@pytest.fixture(scope="module")
def report(model: Model, tmp_path_factory: pytest.TempPathFactory) -> Report:
    texts = [Example(str(i), e.text) for i, e in enumerate(planted()["test"][:5])]
    data = [*texts, Example("hostile", HOSTILE)]
    return ra.audit(model, data, methods=METHODS, store=tmp_path_factory.mktemp("store"))


def test_a_plain_list_without_labels(report: Report) -> None:
    audit = report.audit
    assert [finding.study for finding in audit.findings] == STUDIES_OF_A_GIVEN_MODEL
    assert audit.title == "your model on texts"
    assert audit.gold_labels == {}
    assert len(audit.explanations.example_ids) == 6


def test_one_page_or_a_folder(report: Report, tmp_path: Path) -> None:
    page = report.save(tmp_path / "deep" / "page.html")
    assert page.read_text(encoding="utf-8").lstrip().startswith("<!doctype html>")
    assert report.save(tmp_path / "folder") == tmp_path / "folder" / "report.html"
    found = json.loads((tmp_path / "folder" / "findings.json").read_text(), parse_constant=_refuse)
    assert [finding["study"] for finding in found["findings"]] == STUDIES_OF_A_GIVEN_MODEL
    assert set(found["verdicts"][0]) == {"method", "sentence", "judgements"}
    table = pd.read_parquet(tmp_path / "folder" / "tables" / "agreement-summary.parquet")
    assert list(table.columns) == [
        *("measure", "first", "second", "mean", "low", "high", "interval", "n", "undefined", "std")
    ]
    explanations = ra.Explanations.load(tmp_path / "folder" / "explanations.parquet")
    assert explanations.methods == METHODS


def _refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is not JSON")


def test_hostile_text_is_inert(report: Report, tmp_path: Path) -> None:
    page = report.save(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "alert(" in page
    assert "<img" not in page
    assert not re.search(r"<script[^>]*>\s*alert", page)
    assert "onerror=alert" not in re.sub(r'<script type="application/json".*?</script>', "", page, flags=re.S)


def test_in_a_notebook(report: Report) -> None:
    hostile = replace(report.audit.verdicts[0], sentence="<b>x</b>")
    shown = Report(replace(report.audit, verdicts=(hostile,)))._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown


def test_texts_and_pairs_of_a_transformer(tmp_path: Path) -> None:
    model = ra.load_model(tiny_checkpoint("bert", tmp_path / "bert", 3))
    audit = ra.audit(
        model, ["a good film", "the plot is bad"], methods=METHODS, store=tmp_path / "store"
    ).audit
    assert audit.explanations.example_ids == ("0", "1")
    pairs = [Example("p", "people walk", 2, "people sleep"), Example("q", "a film", 0, "one two")]
    audit_of_pairs = ra.audit(model, pairs, methods=METHODS, store=tmp_path / "store").audit
    assert audit_of_pairs.gold_labels == {"p": model.labels[2], "q": model.labels[0]}


def test_mistakes(model: Model, report: Report, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="empty"):
        ra.audit(model, [], methods=METHODS, store=tmp_path)
    with pytest.raises(UserError, match="the id 'a'"):
        ra.audit(model, [Example("a", "good"), Example("a", "bad")], methods=METHODS, store=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        report.save(tmp_path / "file" / "page.html")
