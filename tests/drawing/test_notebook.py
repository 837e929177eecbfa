"""A finding in a notebook: everything that matters, and nothing that runs."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pandas as pd

from rashomon.drawing.notebook import MOST_ROWS, finding_html
from rashomon.experiments.figures import Distributions, Matrix, Plot, Series
from rashomon.studies.base import Finding

HOSTILE = "</style><script>alert(1)</script><img src=x onerror=alert(1)>"
TABLE = pd.DataFrame({"method": [HOSTILE] * 30, "n": 9, "mean": 0.5, "low": 0.4, "high": 0.6})
FIGURES = (
    Matrix(HOSTILE, (HOSTILE,), ("b",), {"tau": [[0.5]]}, {"tau": (-1, 1)}, {"tau": [[HOSTILE]]}, HOSTILE),
    Distributions(HOSTILE, {HOSTILE: [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "b": [0.5]}, HOSTILE),
    Plot(HOSTILE, HOSTILE, HOSTILE, (Series(HOSTILE, [1, 2], [3, 4]),)),
)


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}


def finding() -> Finding:
    return Finding("erasure", HOSTILE, HOSTILE, {}, {"summary": TABLE}, FIGURES, (HOSTILE,))


def test_nothing_runs_and_nothing_is_fetched() -> None:
    read = _Elements()
    page = finding()._repr_html_()
    read.feed(page)
    assert not {"script", "img", "iframe", "link", "object"} & set(read.names)
    assert not {name for name in read.attributes if name.startswith("on") or name in ("src", "href")}
    assert "url(" not in page
    assert page.count("</style>") == 1


def test_question_verdict_table_figures_and_warnings_are_there() -> None:
    page = finding_html("Why so?", "Because.", TABLE.assign(method="lime"), FIGURES, ("Beware.",))
    assert all(said in page for said in ("Why so?", "Because.", "Beware.", "<svg", 'class="p5"'))
    columns = re.findall(r'<th scope="col"[^>]*>([^<]*)</th>', page)
    assert columns[:5] == ["method", "mean", "low", "high", "n"]
    assert f"{30 - MOST_ROWS} more rows" in page
    assert page.count("<figure") == 3


def test_ids_differ_between_findings_and_not_between_showings() -> None:
    def ids(page: str) -> set[str]:
        return set(re.findall(r'id="([^"]+)"', page))

    first, again = (finding_html("a", "b", None, FIGURES) for _ in range(2))
    assert ids(first) == ids(again)
    assert ids(first)
    assert not ids(first) & ids(finding_html("a", "c", None, FIGURES))


def test_a_finding_is_a_line_and_prints_its_summary(monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = Finding(
        "erasure", "Why so?", "Because.", {}, {"summary": TABLE.assign(method="lime")}, (), ("Beware.",)
    )
    assert repr(said) == "Finding(erasure: Because.)"
    lines = str(said).split("\n")
    assert lines[:2] == ["Why so?", "Because."]
    assert lines[3].split() == ["method", "mean", "low", "high", "n"]
    assert lines[-1] == "note: Beware."
    assert list(said.summary.columns) == ["method", "mean", "low", "high", "n"]
