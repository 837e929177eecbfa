"""A finding as files: its words as JSON, its tables as Parquet, so that what was found once can be read again.

What is undefined in a figure or a gauge is NaN, which Python's own JSON keeps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rashomon.experiments.cautions import Caution
from rashomon.experiments.figures import Distributions, Figure, Gauge, Matrix, Plot, Series, TextMap
from rashomon.runs.files import read_parquet, write_bytes, write_parquet
from rashomon.runs.frames import storable, tidy
from rashomon.studies.base import Finding, Judgement

FINDING, TABLES = "finding.json", "tables"
FIGURE_KINDS = {"matrix": Matrix, "distributions": Distributions, "plot": Plot, "text-map": TextMap}
WORDS = ("study", "question", "verdict", "configuration", "title", "chapter")


def write_finding(folder: Path, finding: Finding, more: Mapping[str, Any] | None = None) -> None:
    """Write it into ``folder``; ``more`` are values of the writer's own, kept beside it."""
    (folder / TABLES).mkdir(exist_ok=True)
    for at, frame in enumerate(finding.tables.values()):
        write_parquet(folder / TABLES / f"{at}.parquet", storable(tidy(frame)))
    kinds = {kind: name for name, kind in FIGURE_KINDS.items()}
    data = {name: getattr(finding, name) for name in WORDS} | {
        "tables": list(finding.tables),
        "warnings": finding.warnings,
        "cautions": [asdict(caution) for caution in finding.cautions],
        "judgements": [asdict(judgement) for judgement in finding.judgements],
        "figures": [{"kind": kinds[type(figure)], **asdict(figure)} for figure in finding.figures],
        "more": dict(more or {}),
    }
    text = json.dumps(data, default=lambda value: value.tolist())  # arrays and numbers of NumPy
    write_bytes(folder / FINDING, text.encode())


def read_finding(folder: Path) -> Finding:
    data = _data(folder)
    frames = {name: read_parquet(folder / TABLES / f"{at}.parquet") for at, name in enumerate(data["tables"])}
    return Finding(
        **{name: data[name] for name in WORDS},
        tables=frames,
        figures=tuple(map(_figure, data["figures"])),
        warnings=tuple(data["warnings"]),
        cautions=tuple(Caution(**one) for one in data["cautions"]),
        judgements=tuple(map(_judgement, data["judgements"])),
    )


def read_more(folder: Path) -> dict[str, Any]:
    """What its writer kept beside it."""
    more: dict[str, Any] = _data(folder)["more"]
    return more


def _data(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / FINDING).read_text(encoding="utf-8"))
    return data


def _figure(data: dict[str, Any]) -> Figure:
    kind = FIGURE_KINDS[data.pop("kind")]
    if kind is Plot:
        data["series"] = tuple(Series(**one) for one in data["series"])
    made: Figure = kind(**data)
    return made


def _judgement(data: dict[str, Any]) -> Judgement:
    gauges = tuple(Gauge(**{**one, "ends": tuple(one["ends"])}) for one in data.pop("gauges"))
    return Judgement(**data, gauges=gauges)
