"""Training dynamics as the code of the cartography paper keeps them, read and written.

A folder holds ``dynamics_epoch_0.jsonl``, ``dynamics_epoch_1.jsonl`` and so on, one line a text: ``guid``, the logits
under ``logits_epoch_N``, and the number of the ``gold`` class. So a map can be drawn of a model trained elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rashomon.errors import UserError
from rashomon.measures.base import Floats, Ints
from rashomon.runs.files import write_bytes

_NAME = re.compile(r"dynamics_epoch_(\d+)\.jsonl")
INNER = "training_dynamics"  # the folder in which that code puts them


@dataclass(frozen=True, eq=False)
class Dynamics:
    """What was predicted of some texts after every epoch."""

    ids: tuple[str, ...]
    logits: Floats  # [epochs, N, C]
    labels: Ints  # [N]


def read_dynamics_files(folder: Path) -> Dynamics:
    """The dynamics of a folder, or of its ``training_dynamics``; texts that some epoch lacks are refused."""
    inner = folder / INNER
    found = _epochs(folder) or (_epochs(inner) if inner.is_dir() else {})
    if not found:
        raise UserError(f"There are no files such as dynamics_epoch_0.jsonl in {folder}.")
    tables, gold = [], {}
    for epoch in sorted(found):
        table: dict[str, list[float]] = {}
        for number, line in enumerate(found[epoch].read_text(encoding="utf-8").splitlines(), start=1):
            if line.strip():
                guid, logits, label = _line(line, epoch, f"{found[epoch].name}, line {number}")
                table[guid], gold[guid] = logits, label
        tables.append(table)
    ids = tuple(tables[0])
    for epoch, table in zip(sorted(found), tables, strict=True):
        if set(table) != set(ids):
            raise UserError(f"Epoch {epoch} has other texts than the first one, so they cannot be followed.")
    rows = [[table[guid] for guid in ids] for table in tables]
    if len({len(row) for of_epoch in rows for row in of_epoch}) != 1:
        raise UserError("The texts have different numbers of logits.")
    return Dynamics(ids, np.array(rows, dtype=np.float64), np.array([gold[guid] for guid in ids]))


def _epochs(folder: Path) -> dict[int, Path]:
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}.")
    named = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir())
    return {int(match[1]): path for match, path in named if match}


def _line(line: str, epoch: int, where: str) -> tuple[str, list[float], int]:
    try:
        row = json.loads(line)
        logits = [float(value) for value in row[f"logits_epoch_{epoch}"]]
        guid, label = str(row["guid"]), int(row["gold"])
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{where} is not guid, logits_epoch_{epoch} and gold.") from None
    if not 0 <= label < len(logits):
        raise UserError(f"{where}: there is no class {label} among {len(logits)} logits.")
    return guid, logits, label


def write_dynamics_files(folder: Path, dynamics: Dynamics) -> None:
    """One file an epoch, the first being 0."""
    folder.mkdir(parents=True, exist_ok=True)
    for epoch, rows in enumerate(dynamics.logits):
        lines = [
            json.dumps({"guid": guid, f"logits_epoch_{epoch}": row, "gold": int(label)}, ensure_ascii=False)
            for guid, row, label in zip(dynamics.ids, rows.tolist(), dynamics.labels, strict=True)
        ]
        text = "".join(f"{line}\n" for line in lines)
        write_bytes(folder / f"dynamics_epoch_{epoch}.jsonl", text.encode("utf-8", "replace"))


def of_texts(dynamics: Dynamics, ids: Sequence[str], notes: list[str]) -> Dynamics:
    """The dynamics of the texts that are asked for; guids are their ids or, where none fits, their row numbers."""
    known = {guid: place for place, guid in enumerate(dynamics.ids)}
    names = list(ids)
    if not any(name in known for name in names):
        names = [str(row) for row in range(len(ids))]
        if not any(name in known for name in names):
            raise UserError(
                f"None of the {len(known)} texts of the dynamics, such as {dynamics.ids[0]!r}, is among the data's, "
                f"such as {ids[0]!r}."
            )
        notes.append("The guids of the dynamics are not ids of the data, so they were taken for row numbers.")
    kept = [(text, known[name]) for text, name in zip(ids, names, strict=True) if name in known]
    if len(kept) < len(ids):
        notes.append(f"{len(ids) - len(kept)} of {len(ids)} texts have no dynamics and are not on the map.")
    places = [place for _, place in kept]
    return Dynamics(tuple(text for text, _ in kept), dynamics.logits[:, places], dynamics.labels[places])
