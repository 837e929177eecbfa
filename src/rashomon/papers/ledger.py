"""What was replicated on other machines? Finished points as a file that travels, and that a store can take over.

A store stays on its machine. The ledger holds what the papers' tables and conclusions are read from: the tables of each
finished point, its settings, its extent and its time, but no texts, no figures and no places of files. That data of
the same name are the same everywhere is taken on trust.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from rashomon.errors import UserError
from rashomon.papers.kept import ELSEWHERE, Kept
from rashomon.papers.reading import load
from rashomon.runs.frames import is_missing
from rashomon.runs.store import Store
from rashomon.studies.base import Finding
from rashomon.studies.finding_files import write_finding

FORMAT = "rashomon replications"
DIGITS = 7
WORDS = ("study", "question", "verdict", "title", "chapter")


def ledger(kept: Sequence[Kept]) -> str:
    """The points as a JSON document; of several in the same settings the fullest."""
    fullest: dict[str, Kept] = {}
    for one in sorted(kept, key=lambda one: (one.size, one.created)):
        asked = {name: one.specification[name] for name in ("paper", "study", "asked", "changes")}
        fullest[json.dumps({**asked, "vectors": one.vectors}, sort_keys=True)] = one
    entries = [_entry(fullest[key]) for key in sorted(fullest)]
    return json.dumps({"format": FORMAT, "points": entries}, indent=1, ensure_ascii=False) + "\n"


def take_over(store: Store, text: str, name: str) -> int:
    """Put the points of a ledger into the store, each once; returns how many there are. ``name`` is the file's."""
    try:
        document = json.loads(text)
        entries = document["points"] if document["format"] == FORMAT else None
    except (ValueError, TypeError, KeyError):
        entries = None
    if entries is None:
        raise UserError(f"{name} is no record of replications, as `rashomon replicate --write` makes one.")
    for at, entry in enumerate(entries, 1):
        try:
            _check(entry)
            make = partial(write_finding, finding=_finding(entry), more=entry["more"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(f"Point {at} of {name} cannot be read: {error!r}.") from error
        store.run(entry["specification"], ELSEWHERE, make)
    return len(entries)


def _check(entry: Mapping[str, Any]) -> None:
    """Everything that is later asked of a kept point; what lacks something must not get into a store."""
    more = dict(entry["more"])
    one = Kept(Path(), datetime.fromisoformat(more.pop("created")), entry["specification"], **more)
    load(one.specification["paper"])
    for name in ("point", "asked", "changes"):
        one.specification[name].items()
    _ = (one.study, one.dataset, one.encoder, one.size, one.vectors, one.departures, one.seconds + one.models)


def _entry(one: Kept) -> dict[str, Any]:
    finding, paper = one.finding(), load(one.specification["paper"])
    read = {
        source.table
        for table in paper.tables.values()
        if table.study == one.study
        for source in table.ours.values()
    }
    vectors = None if one.vectors is None else dict(zip(("file", "scale"), one.vectors, strict=True))
    extent = {name: getattr(one, name) for name in ("seconds", "resumed", "models", "seeds", "texts")}
    return {
        "specification": {**one.specification, "data": None, "vectors": vectors},
        "more": {**extent, "created": one.created.isoformat(timespec="seconds")},
        "finding": {name: getattr(finding, name) for name in WORDS}
        | {"configuration": _without_places(finding.configuration)}
        | {"tables": {name: _plain_table(finding.tables[name]) for name in finding.tables if name in read}},
    }


def _without_places(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration in which the vectors are a name, not a place on some machine."""
    plain: dict[str, Any] = json.loads(json.dumps(configuration, default=str))
    model = plain.get("subject", {}).get("model", {})
    if model.get("embeddings"):
        model["embeddings"] = Path(model["embeddings"]).name
    return plain


def _plain_table(frame: pd.DataFrame) -> dict[str, list[Any]]:
    return {str(name): [_plain_value(value) for value in frame[name]] for name in frame.columns}


def _plain_value(value: Any) -> Any:
    if is_missing(value):
        return None
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return value if isinstance(value, bool | int | str) else str(value)


def _finding(entry: Mapping[str, Any]) -> Finding:
    recorded = entry["finding"]
    tables = {name: pd.DataFrame(columns) for name, columns in recorded["tables"].items()}
    return Finding(
        **{name: recorded[name] for name in WORDS}, configuration=recorded["configuration"], tables=tables
    )
