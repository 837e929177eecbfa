"""Can a colleague read the findings? One HTML page that needs nothing but a browser, and the numbers beside it.

Everything that comes from a text, a model or a study is escaped: by jinja2 in the page, and as JSON without
``<`` for the examples, which the script puts on the page as text nodes only. A content security policy
admits no request at all and no script but the page's own, by its hash.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rashomon.audits.record import Audit, ReportContent, cautions_in
from rashomon.drawing.charts import draw, figure_css
from rashomon.drawing.gauges import gauge_key
from rashomon.drawing.scales import colour_css
from rashomon.drawing.tables import cells_of
from rashomon.report.examples import NO_EXAMPLES, example_data
from rashomon.report.export import findings_data, plain, slug, tables
from rashomon.report.verdict_table import RATINGS, verdict_table
from rashomon.runs.files import write_bytes, write_json, write_parquet
from rashomon.runs.folders import write_folder
from rashomon.runs.frames import storable, tidy
from rashomon.studies.base import Finding
from rashomon.wording import DASH, duration

REPORT, EXPLANATIONS, TABLES = "report.html", "explanations.parquet", "tables"
SHORT = 12  # rows of a table that are shown without being asked for
Warned = tuple[str, list[tuple[str, str]]]  # a warning, and the titles and anchors of the sections concerned
MOST = 60  # rows of a table that the page holds; the Parquet file has all


@dataclass(frozen=True)
class ReportFiles:
    """What ``save_report`` wrote."""

    report: Path
    findings: Path
    explanations: Path | None  # of an audit
    tables: tuple[Path, ...]


def render(report: ReportContent) -> str:
    """The whole page."""
    audit = report if isinstance(report, Audit) else None
    script = _asset("script.js")
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    chapters = _chapters(report.findings)
    examples = NO_EXAMPLES if audit is None else example_data(audit)
    return _ENVIRONMENT.get_template("page.html.jinja").render(
        report=report,
        took=duration(report.seconds),
        verdicts=verdict_table(() if audit is None else audit.verdicts),
        ratings=RATINGS,
        key=gauge_key(),
        chapters=chapters,
        shared=_shared(examples, audit),
        examples=_json_for_html(examples),
        warnings=_tell_once(report, chapters),
        configuration=list(_flat(plain(report.configuration))),
        colours=Markup(colour_css()),
        style=Markup(f"{figure_css()}\n{_asset('style.css')}"),
        script=Markup(script),
        digest=digest,
    )


def save_report(report: ReportContent, out: Path) -> ReportFiles:
    """Write the page, its numbers as JSON, ``tables/*.parquet`` and, of an audit, ``explanations.parquet``.

    A folder with other files is refused; an earlier report in it is replaced whole.
    """
    out = Path(out)
    frames = tables(report.findings)
    page = render(report).encode("utf-8", "replace")  # half a surrogate pair in a text must not stop a report
    explanations = report.explanations if isinstance(report, Audit) else None

    def write(folder: Path) -> None:
        (folder / TABLES).mkdir()
        for name, frame in frames.items():
            write_parquet(folder / TABLES / f"{name}.parquet", storable(frame))
        if explanations is not None:
            explanations.save(folder / EXPLANATIONS)
        write_json(folder / report.numbers, findings_data(report), compact=True)
        write_bytes(folder / REPORT, page)

    write_folder(out, "report", write)
    return ReportFiles(
        out / REPORT,
        out / report.numbers,
        None if explanations is None else out / EXPLANATIONS,
        tuple(out / TABLES / f"{name}.parquet" for name in frames),
    )


# ---- findings


def _chapters(findings: tuple[Finding, ...]) -> list[dict[str, Any]]:
    """Neighbouring findings of one chapter under one heading; any other finding is a chapter of its own."""
    chapters: list[dict[str, Any]] = []
    used: dict[str, int] = {}
    stored = iter(tables(findings))  # names of files, in the same order
    for finding in findings:
        name = f"study-{slug(finding.study)}"
        used[name] = used.get(name, 0) + 1
        name = name if used[name] == 1 else f"{name}-{used[name]}"
        view = {
            "id": name,
            "title": title_of(finding),
            "finding": finding,
            "figures": [draw(figure, f"{name}-f{index}") for index, figure in enumerate(finding.figures)],
            "tables": [_table(table, frame, next(stored)) for table, frame in finding.tables.items()],
            "configuration": list(_flat(plain(finding.configuration))),
        }
        chapter = finding.chapter
        if chapter is not None and chapters and chapters[-1]["title"] == chapter:
            chapters[-1]["findings"].append(view)
        elif chapter is not None:
            chapters.append({"id": f"chapter-{name}", "title": chapter, "findings": [view], "nested": True})
        else:
            chapters.append({"id": name, "title": view["title"], "findings": [view], "nested": False})
    return chapters


def title_of(finding: Finding) -> str:
    """What the study calls itself, else its name as a heading."""
    readable = finding.study.replace("-", " ").replace("_", " ").strip().capitalize()
    return finding.title or readable or "Study"


def _table(name: str, frame: pd.DataFrame, file: str) -> dict[str, Any]:
    flat = tidy(frame)
    table = cells_of(flat, MOST)
    return {
        "name": name.replace("_", " ").replace("-", " "),
        "table": table,
        "open": name == "summary" and len(flat) <= SHORT,
        "length": len(flat),
        "file": f"tables/{file}.parquet",
    }


# ---- the rest


def _shared(examples: Mapping[str, Any], audit: Audit | None) -> dict[str, Any]:
    """What the controls above the examples must know."""
    shown = examples["examples"]
    marked = {} if audit is None else audit.rationales
    return {
        "count": len(shown),
        "methods": examples["methods"],
        "gold": any(example["right"] is not None for example in shown),
        "rationales": any(marked.get(example["id"]) for example in shown),
        "agreement": any(example["agreement"] is not None for example in shown),
        "cut": audit is not None and any(item.unseen for item in audit.explanations),
    }


def _tell_once(report: ReportContent, chapters: list[dict[str, Any]]) -> list[Warned]:
    """Warnings of the whole page or of several sections; what concerns one section alone is put into its view."""
    views = [view for chapter in chapters for view in chapter["findings"]]
    own = [warning for view in views for warning in view["finding"].warnings]
    views_of = {
        warning: [view for view in views if warning in view["finding"].warnings]
        for warning in dict.fromkeys((*report.warnings, *own))
    }
    for view in views:
        view["warnings"] = [
            warning for warning, where in views_of.items() if [one["id"] for one in where] == [view["id"]]
        ]
    listed = [(warning, where) for warning, where in views_of.items() if len(where) != 1]
    listed += [
        (str(caution), [view for view in views if any(view["finding"] is one for one in concerned)])
        for caution, concerned in cautions_in(report)
    ]
    return [(warning, [(view["title"], view["id"]) for view in where]) for warning, where in listed]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested settings as dotted names with their values."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    elif name:
        yield name, _setting(value)


def _setting(value: Any) -> str:
    """A setting as one would type it."""
    if value is None or value in ([], {}):
        return "none"
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return ", ".join(_setting(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json_for_html(data: Any) -> Markup:
    """JSON that may stand inside a script element: no text in it can end the element or open another."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _asset(name: str) -> str:
    return files("rashomon.report").joinpath(name).read_text(encoding="utf-8").strip()


_ENVIRONMENT = Environment(
    loader=PackageLoader("rashomon.report", ""),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.globals["undefined_sign"] = DASH
