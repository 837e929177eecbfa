"""Which studies does a replication consist of? The points of the chosen tables' grids, each a study ready to run.

Tables of one paper often come from the same runs: equal settings are one point, whichever tables ask for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rashomon.data import known_names
from rashomon.data.data_folder import data_folder
from rashomon.errors import UserError, unknown_name
from rashomon.experiments.subject import Subject
from rashomon.models.build import is_pretrained
from rashomon.papers.plan import Run, merged, plan_of
from rashomon.papers.published import Key, Paper, Table
from rashomon.runs.specifications import to_plain
from rashomon.studies.asking import so_many, with_settings
from rashomon.studies.base import Study, studies

VARIED = ("lambdas", "variants", "guides")  # settings that have a model for each of their values
ENCODERS = ("encoder", "student")  # keys that name a kind of model


@dataclass(frozen=True)
class Vectors:
    """A file of word vectors, and the standard deviation that they are scaled to in place of the paper's."""

    file: Path
    scale: float | None = None


@dataclass(frozen=True)
class Choice:
    """What of a paper is replicated, and how it departs from the paper's settings; empty: all of it."""

    tables: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    encoders: tuple[str, ...] = ()
    seeds: int | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)  # settings of the studies, as nested tables
    vectors: Vectors | None = None
    insists: bool = False  # on these vectors, also where a configuration has its own width

    def __post_init__(self) -> None:
        if self.seeds is not None and self.seeds < 1:
            raise UserError(f"A replication needs at least one seed, not {self.seeds}.")


@dataclass(frozen=True, eq=False)
class Point:
    """One study of a replication, in full: with as many seeds and texts as the paper has, or as was asked."""

    paper: str
    tables: tuple[str, ...]
    run: Run
    study: Study

    @property
    def name(self) -> str:
        return f"{self.run.study} on {', '.join(str(value) for value in self.run.point.values())}"


@dataclass(frozen=True)
class Grid:
    points: tuple[Point, ...]
    not_run: tuple[str, ...]  # a sentence for everything that cannot be run here


def tables_of(paper: Paper, choice: Choice) -> list[Table]:
    """The chosen tables; a wrong number gets the nearest right one."""
    return [paper.table(id) for id in choice.tables or paper.tables]


def grid_of(
    paper: Paper, choice: Choice, data_dir: Path | None = None, *, wherever_run: bool = False
) -> Grid:
    """The points of the chosen tables that can be run here, and what cannot be, with the reason.

    ``wherever_run`` asks for no data, because the points were run already, here or elsewhere.
    """
    _check_names(paper, choice)
    here = None if wherever_run else set(known_names(data_dir))
    _check_changes(paper, choice)
    found: dict[str, Point] = {}
    not_run: list[str] = []
    for table in tables_of(paper, choice):
        if table.study is None:
            not_run.append(f"{heading(table.id)} is not run: no study measures what it holds.")
            continue
        if table.study not in studies:
            not_run.append(f"{heading(table.id)} is not run: the study {table.study} does not exist yet.")
            continue
        not_run += _not_to_be_had(paper, table, choice)
        for run in runs_of(paper, table, choice):
            name = dataset_of(run)
            if here is not None and name not in here:
                not_run.append(_no_data(paper, run, name, data_dir))
                continue
            key = f"{run.study} {to_plain(run.settings)}"
            same = found.get(key) or Point(paper.name, (), run, study_of(run, choice))
            found[key] = replace(same, tables=(*same.tables, table.id))
    return Grid(tuple(found.values()), tuple(dict.fromkeys(not_run)))


def runs_of(paper: Paper, table: Table, choice: Choice) -> list[Run]:
    """The chosen runs behind a table."""
    if table.study not in studies:
        return []
    return [run for run in plan_of(paper, table).runs if _is_chosen(paper, choice, run)]


def study_of(run: Run, choice: Choice) -> Study:
    """The study in the paper's configuration, with what was asked beside it."""
    study = studies.get(run.study)()
    subject = {key: value for key, value in run.settings.get("subject", {}).items() if key != "training"}
    study = with_settings(study, {"subject": subject})  # the usual training depends on the model
    study = with_settings(study, merged(run.settings, changes_for(run, choice)))
    if not is_pretrained(study.subject.model.name):
        vectors = _vector_settings(study, vectors_for(run, choice))
        study = replace(study, subject=study.subject.with_model(**vectors))
    return study if choice.seeds is None else with_seeds(study, choice.seeds)


def changes_for(run: Run, choice: Choice) -> dict[str, Any]:
    """The changed settings that the run's study has: a paper's tables come from several studies."""
    known = {*_settings_of(run.study)}
    return {name: value for name, value in choice.changes.items() if name in known}


def departures_for(run: Run, choice: Choice) -> dict[str, Any]:
    """Those of them that may change a figure of the paper's."""
    adding = studies.get(run.study).adding
    return {name: value for name, value in changes_for(run, choice).items() if name not in adding}


def _settings_of(study: str) -> list[str]:
    """What can be set of a study, and of its subject without naming it."""
    return [one.name for kind in (studies.get(study), Subject) for one in fields(kind)]


def vectors_for(run: Run, choice: Choice) -> Vectors | None:
    """The chosen ones; none where a configuration has a width of its own, unless just these were asked for."""
    has_width = "embedding_dim" in run.settings.get("subject", {}).get("model", {})
    return None if has_width and not choice.insists else choice.vectors


def _vector_settings(study: Study, vectors: Vectors | None) -> dict[str, object]:
    """The paper's scale stays unless another is asked; without vectors there is nothing to scale."""
    if vectors is None:
        return {"embeddings": None, "embedding_scale": None}
    usual = study.subject.model.embedding_scale
    return {
        "embeddings": str(vectors.file),
        "embedding_scale": usual if vectors.scale is None else vectors.scale,
    }


def seeds_of(study: Study) -> tuple[int, ...]:
    """The seeds that a study varies: of the models it trains beside the base, else of the bases."""
    seeds: tuple[int, ...] = getattr(study, _varied(study) or "", study.subject.seeds)
    return seeds


def models_of(study: Study) -> int:
    """About how many models a study trains: for each seed one, or one for each value that it varies."""
    count = len(seeds_of(study))
    for name in VARIED:
        count *= max(1, len(getattr(study, name, ())))
    return count


def with_seeds(study: Study, count: int) -> Study:
    """The study with so many seeds: its first ones, and further ones where it has fewer."""
    seeds, varied = so_many(seeds_of(study), count), _varied(study)
    if varied is None:
        return replace(study, subject=replace(study.subject, seeds=seeds))
    return replace(study, **{varied: seeds})  # type: ignore[arg-type]  # the field holds seeds


def texts_of(study: Study) -> int | None:
    """How many texts a study looks at, where that is a setting of it."""
    texts = getattr(study, "instances", None)
    return texts if isinstance(texts, int) else None


def dataset_of(run: Run) -> str:
    name: str = run.settings["subject"]["dataset"]["name"]
    return name


def usual_vectors(data_dir: Path | None) -> Vectors | None:
    """The word vectors of the data folder, where it has one file of them."""
    folder = data_folder(data_dir)
    files = sorted((folder / "embeddings").glob("*.npz")) if folder is not None else []
    return Vectors(files[0]) if len(files) == 1 else None


def heading(table: str) -> str:
    """``Table 2``, ``Figure 5 instance``."""
    readable = table.replace("-", " ").replace("_", " ")
    return readable.capitalize() if table[0].isalpha() else f"Table {readable}"


def _varied(study: Study) -> str | None:
    known = {one.name for one in fields(study)}
    return next((name for name in ("seeds", "other_seeds") if name in known and getattr(study, name)), None)


def _check_names(paper: Paper, choice: Choice) -> None:
    stand_ins = {key: other.name for key, other in paper.stand_ins.items()}
    datasets = {*paper.datasets, *(other for key, other in stand_ins.items() if key in paper.datasets)}
    for name in choice.datasets:
        if name not in datasets:
            raise unknown_name(f"dataset of {paper.name}", name, datasets)
    encoders = {
        str(value)
        for table in paper.tables.values()
        for key in ENCODERS
        for value in (*table.values_of(key), *table.also.get(key, ()))
    }
    encoders |= {other for key, other in stand_ins.items() if key in encoders}
    for name in choice.encoders:
        if name not in encoders:
            raise unknown_name(f"encoder of {paper.name}", name, encoders)


def _check_changes(paper: Paper, choice: Choice) -> None:
    """Every changed setting is one of some study behind the chosen tables."""
    asked = {run.study for table in tables_of(paper, choice) for run in runs_of(paper, table, choice)}
    known = {name for study in asked for name in _settings_of(study)}
    for name in choice.changes:
        if asked and name not in known:
            raise unknown_name(f"setting of {' and '.join(sorted(asked))}", name, known)


def _is_chosen(paper: Paper, choice: Choice, run: Run) -> bool:
    datasets = [run.point[key] for key in ("dataset",) if key in run.point]
    encoders = [run.point[key] for key in ENCODERS if key in run.point]
    return _any_of(paper, datasets, choice.datasets) and _any_of(paper, encoders, choice.encoders)


def _not_to_be_had(paper: Paper, table: Table, choice: Choice) -> list[str]:
    """A sentence for each of the chosen datasets that nobody has here."""
    chosen = tuple(paper.datasets[name].printed for name in choice.datasets if name in paper.datasets)
    left_out = plan_of(paper, table).left_out
    return [sentence for sentence in left_out if not choice.datasets or sentence.startswith(chosen)]


def _any_of(paper: Paper, keys: Iterable[Key], chosen: Sequence[str]) -> bool:
    asked = {paper.printed_name(name) for name in chosen}
    return not chosen or any(key in asked for key in keys)


def _no_data(paper: Paper, run: Run, name: str, data_dir: Path | None) -> str:
    folder = data_folder(data_dir)
    place = "no data folder is named (--data-dir)" if folder is None else f"{folder} has no folder {name}"
    known = paper.datasets.get(str(run.point.get("dataset")))
    return f"{known.printed if known else name} is not run: {place}."
