"""A data folder with a few texts under the names of papers' datasets, and settings with which a study takes seconds."""

from __future__ import annotations

import json
from pathlib import Path

from rashomon.experiments.context import Context
from rashomon.papers.grid import Choice
from rashomon.runs.store import Store

SMALL = {"subject": {"model": {"hidden": 4, "embedding_dim": 4}, "training": {"epochs": 1}}}
SIZES = {"train": 24, "dev": 12, "test": 12}


def data_folder_of(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir(parents=True)
        for split, size in SIZES.items():
            rows = (
                {"text": f"a {('dull', 'fine')[at % 2]} {split} film number {at}", "label": at % 2}
                for at in range(size)
            )
            lines = "\n".join(map(json.dumps, rows))
            (folder / name / f"{split}.jsonl").write_text(lines + "\n", encoding="utf-8")
    return folder


def small_context(folder: Path, *names: str) -> Context:
    data = data_folder_of(folder / "data", *names)
    return Context(Store(folder / "store"), data, workers=1, backend="serial")


def necessity(*datasets: str, seeds: int = 2) -> Choice:
    """Table 2 of not_not on some datasets."""
    return Choice(tables=("2",), datasets=datasets, seeds=seeds, changes=SMALL)
