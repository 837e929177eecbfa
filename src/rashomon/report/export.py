"""What can a program read of a report? ``findings.json`` and one Parquet file for each table.

The JSON holds every finding with its tables as records and its figures as data; numbers that JSON does not
have are null. Values of any other kind become their text, so that the file can always be written.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import pandas as pd

from rashomon.audits.record import ReportContent
from rashomon.experiments.figures import Distributions, Figure, Matrix, Plot, TextMap
from rashomon.runs.frames import is_missing, tidy
from rashomon.studies.base import Finding

TEXTS = (
    "explanations",
    "gold_labels",
    "rationales",
)  # what belongs to the texts, which have a file of their own


def findings_data(report: ReportContent) -> dict[str, Any]:
    """The report without its explanations, in plain JSON types."""
    names = [field.name for field in dataclasses.fields(report) if field.name not in TEXTS]
    return {
        name: [_finding(finding) for finding in report.findings]
        if name == "findings"
        else plain(getattr(report, name))
        for name in names
    }


def tables(findings: Sequence[Finding]) -> dict[str, pd.DataFrame]:
    """Every table of every finding under the name of its file, without the ending."""
    named: dict[str, pd.DataFrame] = {}
    for finding in findings:
        for table, frame in finding.tables.items():
            name = first = f"{slug(finding.study)}-{slug(table)}"
            count = 1
            while name in named:  # one study may be run twice with two configurations
                count += 1
                name = f"{first}-{count}"
            named[name] = tidy(frame)
    return named


def slug(name: str) -> str:
    """A name for files and anchors: small letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


def plain(value: Any) -> Any:
    """Anything as JSON types; not-a-number and infinity as null, what is unknown as its text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return (
            value if value.isascii() else value.encode("utf-8", "replace").decode()
        )  # half a surrogate pair cannot be written
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray | pd.Series | pd.Index):
        value = value.tolist()
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, date) and not is_missing(value):
        return value.isoformat()
    return None if is_missing(value) else str(value)


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "study": finding.study,
        "title": finding.title,
        "chapter": finding.chapter,
        "question": finding.question,
        "verdict": finding.verdict,
        "judgements": plain(finding.judgements),
        "configuration": plain(finding.configuration),
        "tables": {name: _records(tidy(frame)) for name, frame in finding.tables.items()},
        "figures": [_figure(figure) for figure in finding.figures],
        "warnings": list(finding.warnings),
        "cautions": plain(finding.cautions),
    }


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table; its columns are made plain as a whole, because most hold numbers of one kind."""
    columns = [_plain_column(frame.iloc[:, place]) for place in range(frame.shape[1])]
    names = [str(name) for name in frame.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _plain_column(values: pd.Series) -> list[Any]:
    kind = (
        values.dtype.kind if isinstance(values.dtype, np.dtype) else "other"
    )  # some of pandas' own have gaps
    if kind in "iub":
        return values.tolist()
    if kind == "f":
        finite = np.isfinite(values.to_numpy()).tolist()
        return [value if real else None for value, real in zip(values.tolist(), finite, strict=True)]
    return [plain(value) for value in values.tolist()]


def _figure(figure: Figure) -> dict[str, Any]:
    kinds = {Matrix: "matrix", Plot: "plot", Distributions: "distributions", TextMap: "map"}
    data: dict[str, Any] = plain(figure)
    return {"kind": kinds[type(figure)], **data}
