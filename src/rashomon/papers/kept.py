"""What was replicated before? The findings of grid points, kept as runs of the store.

A finding is kept with all its tables, its figures (but for maps, which hold texts) and what it took, under the paper,
the point, the paper's settings and those that were used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from rashomon.data.data_folder import data_folder
from rashomon.experiments.context import Context
from rashomon.experiments.figures import TextMap
from rashomon.models.build import is_pretrained
from rashomon.papers.grid import (
    Choice,
    Point,
    Vectors,
    departures_for,
    models_of,
    seeds_of,
    texts_of,
    vectors_for,
)
from rashomon.papers.plan import Run
from rashomon.papers.published import Key
from rashomon.runs.executor import usual_workers
from rashomon.runs.files import write_json
from rashomon.runs.found import noting_found_runs
from rashomon.runs.integrity import damage
from rashomon.runs.specifications import to_plain
from rashomon.runs.store import RunInfo, Store
from rashomon.studies.base import Finding, Study
from rashomon.studies.finding_files import read_finding, read_more, write_finding

KIND = "replications"
ELSEWHERE = "replications-elsewhere"  # taken over from another store's ledger
BEGUN = "begun.json"


@dataclass(frozen=True)
class Replicated:
    """What a kept finding is of. Data and vectors count by their content."""

    paper: str
    study: str
    point: Mapping[str, Key]
    asked: Mapping[str, Any]  # the paper's settings, by which its tables find it again
    changes: Mapping[str, Any]
    settings: Mapping[str, Any]  # all of the study's, without the place of the vectors
    data: Path | None
    vectors: Vectors | None = None


@dataclass(frozen=True)
class Kept:
    """A finished point as it lies in the store."""

    path: Path = field(repr=False)
    created: datetime
    specification: Mapping[str, Any] = field(repr=False)
    seconds: float
    resumed: bool  # then the time is that of the last attempt alone
    models: int  # that it trained, about
    seeds: int
    texts: int | None

    @property
    def study(self) -> str:
        return str(self.specification["study"])

    @property
    def dataset(self) -> str:
        return str(self.specification["settings"]["subject"]["dataset"]["name"])

    @property
    def encoder(self) -> str:
        return str(self.specification["settings"]["subject"]["model"]["name"])

    @property
    def size(self) -> tuple[int, int]:
        return self.seeds, self.texts or 0

    @property
    def vectors(self) -> tuple[str, float | None] | None:
        given = self.specification["vectors"]
        return None if given is None else (Path(given["file"]).name, given["scale"])

    @property
    def departures(self) -> str:
        """Which settings were asked otherwise than the paper has them."""
        return named_settings(self.specification["changes"])

    @property
    def departed(self) -> int:
        """In how many settings."""
        return _count(self.specification["changes"])

    @property
    def elsewhere(self) -> bool:
        """Whether it was run by another store and taken over."""
        return self.path.parent.name == ELSEWHERE

    def finding(self) -> Finding:
        return read_finding(self.path)


def specification_of(point: Point, study: Study, choice: Choice, data_dir: Path | None) -> Replicated:
    used = study.subject.model.embeddings is not None
    plain = to_plain(replace(study, subject=study.subject.with_model(embeddings=None)))
    folder = data_folder(data_dir)
    place = None if folder is None else folder / study.subject.dataset.name
    return Replicated(
        paper=point.paper,
        study=study.name,
        point=dict(point.run.point),
        asked=to_plain(point.run.settings),
        changes=to_plain(departures_for(point.run, choice)),
        settings=plain,
        data=place if place is not None and place.is_dir() else None,
        vectors=vectors_for(point.run, choice) if used else None,
    )


def keep(context: Context, specification: Replicated, study: Study) -> None:
    """Run the study, unless its finding is in the store."""

    def make(folder: Path) -> None:
        resumed = (folder / BEGUN).exists()
        write_json(folder / BEGUN, {})
        started = perf_counter()
        with noting_found_runs() as found:
            finding = study.run(context)
        # On an empty store; what is in it was made by workers side by side.
        seconds = perf_counter() - started + sum(found.seconds.values()) / usual_workers(context.workers)
        took = {"seconds": seconds, "resumed": resumed}
        write_finding(folder, _without_texts(finding), took | _extent(study))

    context.store.run(specification, KIND, make)


def all_kept(store: Store) -> list[Kept]:
    """Every finished point of every paper, the newest first, those that were taken over among them."""
    infos = (info for kind in (KIND, ELSEWHERE) for info in store.list(kind) if info.finished)
    kept = [_kept(info) for info in infos if not damage(info.path, info.kind, info.key)]
    return sorted(kept, key=lambda one: one.created, reverse=True)


def answering(run: Run, paper: str, kept: Sequence[Kept], choice: Choice, any_settings: bool) -> Kept | None:
    """The fullest kept point of a run of a paper's plan in the chosen settings; of several the newest.

    With ``any_settings`` a point in other settings or with other vectors stands in where there is none in these: that
    with the fewest settings unlike the paper's, whatever its size.
    """
    asked, changes = to_plain(run.settings), to_plain(departures_for(run, choice))
    chosen = vectors_for(run, choice)
    vectors = None if chosen is None else (chosen.file.name, chosen.scale)
    same = [
        one
        for one in kept
        if (one.specification["paper"], one.study) == (paper, run.study)
        and one.specification["asked"] == asked
    ]
    as_chosen = [
        one
        for one in same
        if one.specification["changes"] == changes and (one.vectors == vectors or is_pretrained(one.encoder))
    ]
    found = as_chosen or (same if any_settings else [])
    return max(found, key=lambda one: (-one.departed, one.size, one.created), default=None)


def _count(settings: Mapping[str, Any]) -> int:
    return sum(_count(value) if isinstance(value, Mapping) else 1 for value in settings.values())


def named_settings(settings: Mapping[str, Any], before: str = "") -> str:
    """Nested settings by their dotted names, values as TOML has them: ``warm = true, training.epochs = 20``."""
    return ", ".join(
        named_settings(value, f"{before}{name}.")
        if isinstance(value, Mapping)
        else f"{before}{name} = {json.dumps(value)}"
        for name, value in settings.items()
    )


def _kept(info: RunInfo) -> Kept:
    more = read_more(info.path)
    created = more.pop("created", None)  # of a point that was taken over: when it was run
    when = info.created if created is None else datetime.fromisoformat(created)
    return Kept(info.path, when, info.specification, **more)


def _extent(study: Study) -> dict[str, int | None]:
    return {"models": models_of(study), "seeds": len(seeds_of(study)), "texts": texts_of(study)}


def _without_texts(finding: Finding) -> Finding:
    """Maps hold texts of datasets, which a replication does not spread."""
    figures = tuple(figure for figure in finding.figures if not isinstance(figure, TextMap))
    return replace(finding, figures=figures)
