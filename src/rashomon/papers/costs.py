"""How long will a replication take, and what of it fits into a budget?

The time of a grid point is that of an earlier one of the same study, the nearest there is: the same point, then the
same kind of model, then any; it grows with the models that are trained and the texts that are explained. Where the
study was never run, a stated time is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from rashomon.errors import UserError
from rashomon.models.build import is_pretrained
from rashomon.papers.grid import Point, models_of, seeds_of, texts_of, with_seeds
from rashomon.papers.kept import Kept
from rashomon.studies.base import Study
from rashomon.wording import duration

TEXTS_PER_MODEL = 500  # explaining so many texts counts as much as training a model
# Of a model with so many texts, where nothing was measured: rather too little, because a budget is kept to by what
# each point took, and what was left out at the start is not thought of again.
DEFAULT_MINUTES, DEFAULT_MINUTES_PRETRAINED = 1, 10


@dataclass(frozen=True)
class Extent:
    """At most so many seeds and texts; None: as many as the paper has."""

    seeds: int | None = None
    texts: int | None = None


# From little to all. Under three seeds there is no interval over them, so nothing would be decided.
EXTENTS = (Extent(3, 50), Extent(3, 200), Extent(3, 500), Extent(5, 500), Extent())


@dataclass(frozen=True)
class Estimate:
    seconds: float
    measured: bool  # by an earlier point of the study; else the stated time


@dataclass(frozen=True)
class Chosen:
    """What a budget has room for: a study for each of some points."""

    studies: Mapping[Point, Study]
    left_out: tuple[str, ...]


def cut(study: Study, extent: Extent) -> Study:
    """The study with at most so many seeds and texts."""
    if extent.seeds is not None and len(seeds_of(study)) > extent.seeds:
        study = with_seeds(study, extent.seeds)
    texts = texts_of(study)
    if extent.texts is not None and texts is not None and texts > extent.texts:
        study = replace(study, instances=extent.texts)  # type: ignore[call-arg]  # it has the field
    return study


def work_of(models: int, texts: int | None) -> float:
    return models * (1 + (texts or 0) / TEXTS_PER_MODEL)


def estimate(study: Study, costs: Sequence[Kept]) -> Estimate:
    """How long the study will take, by what was measured of it."""
    work = work_of(models_of(study), texts_of(study))
    same = [one for one in costs if one.study == study.name and not one.resumed]
    model, dataset = study.subject.model.name, study.subject.dataset.name
    like = [one for one in same if one.encoder == model]
    nearest = [one for one in like if one.dataset == dataset] or like or same
    if nearest:
        rates = [one.seconds / work_of(one.models, one.texts) for one in nearest]
        return Estimate(work * median(rates), True)
    minutes = DEFAULT_MINUTES_PRETRAINED if is_pretrained(model) else DEFAULT_MINUTES
    return Estimate(work * 60 * minutes, False)


def fitting(
    points: Sequence[Point], needed: Mapping[tuple[Point, Extent], float], budget: float
) -> Mapping[Point, Extent]:
    """Something of every point first, then more of each, in the order of the paper, while it fits (in seconds).

    ``needed`` is the time of every point in every extent; what was done before needs none.
    """
    chosen: dict[Point, Extent] = {}
    spent = 0.0
    for extent in EXTENTS:
        for point in points:
            more = needed[point, extent] - (needed[point, chosen[point]] if point in chosen else 0.0)
            if spent + more <= budget:
                spent += more
                chosen[point] = extent
    return chosen


def choose(
    points: Sequence[Point], needed: Mapping[tuple[Point, Extent], float], minutes: float | None
) -> Chosen:
    """The studies that fit; a budget without room for any point is refused."""
    if minutes is None:
        return Chosen({point: point.study for point in points}, ())
    extents = fitting(points, needed, 60 * minutes)
    if points and not extents:
        cheapest = min(points, key=lambda point: needed[point, EXTENTS[0]])
        least = needed[cheapest, EXTENTS[0]]
        raise UserError(
            f"Nothing fits into {minutes:g} minutes: the shortest part, {cheapest.name}, takes about "
            f"{duration(least)}; give a larger --budget."
        )
    chosen = {point: cut(point.study, extents[point]) for point in points if point in extents}
    left_out = [_left_out(point, chosen.get(point)) for point in points]
    return Chosen(chosen, tuple(sentence for sentence in left_out if sentence))


def _left_out(point: Point, study: Study | None) -> str:
    if study is None:
        return f"{point.name} was left out: it does not fit into the budget."
    return less_than_asked(point.name, point.study, len(seeds_of(study)), texts_of(study))


def less_than_asked(name: str, whole: Study, seeds: int, texts: int | None) -> str:
    """In which ways a point is less than the whole; empty where it is not."""
    parts = []
    if seeds < len(seeds_of(whole)):
        parts.append(f"{seeds} of {len(seeds_of(whole))} seeds")
    all_texts = texts_of(whole)
    if texts is not None and all_texts is not None and texts < all_texts:
        parts.append(f"at most {texts} of {all_texts} texts")
    return f"{name} has {' and '.join(parts)}." if parts else ""
