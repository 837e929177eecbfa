"""A paper's tables measured here: which points of its grids are run, in what extent and order, one after the other.

Every finished point is kept in the store. A replication that was killed goes on from there, and one with a larger
budget adds to an earlier one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.papers.costs import EXTENTS, Estimate, choose, cut, estimate
from rashomon.papers.grid import Choice, Grid, Point, grid_of, seeds_of, texts_of
from rashomon.papers.kept import KIND, Kept, all_kept, answering, keep, specification_of
from rashomon.papers.published import Paper
from rashomon.runs.files import disk_is_full
from rashomon.studies.base import Study
from rashomon.wording import duration


@dataclass(frozen=True)
class Step:
    """A point as it will be run, with its estimated time."""

    point: Point
    study: Study
    done: bool  # so or in more
    estimate: Estimate


@dataclass(frozen=True)
class Schedule:
    grid: Grid
    steps: tuple[Step, ...]
    left_out: tuple[str, ...]  # for want of time

    @property
    def seconds(self) -> float:
        return sum(step.estimate.seconds for step in self.steps if not step.done)


def schedule(context: Context, paper: Paper, choice: Choice, minutes: float | None = None) -> Schedule:
    """What will be run, in the order of the paper's tables; ``minutes`` are the budget."""
    if minutes is not None and not minutes > 0:
        raise UserError(f"A budget is a number of minutes above 0, not {minutes:g}.")
    grid = grid_of(paper, choice, context.data_dir)
    if not grid.points:
        why = "; ".join(sentence.rstrip(".") for sentence in grid.not_run) or "no table has such a point"
        raise UserError(f"Nothing of what was asked of {paper.name} can be run: {why}.")
    kept = all_kept(context.store)
    needed = {}
    for point in grid.points:
        for extent in EXTENTS:
            study = cut(point.study, extent)
            done = _is_done(context, point, study, choice, kept)
            needed[point, extent] = 0.0 if done else estimate(study, kept).seconds
    chosen = choose(grid.points, needed, minutes)
    steps = [
        Step(point, study, _is_done(context, point, study, choice, kept), estimate(study, kept))
        for point, study in chosen.studies.items()
    ]
    return Schedule(grid, tuple(steps), chosen.left_out)


def carry_out(
    context: Context,
    planned: Schedule,
    choice: Choice,
    minutes: float | None = None,
    tell: Callable[[str], None] = lambda sentence: None,
) -> tuple[str, ...]:
    """Run what is not done yet; returns a sentence for each point that could not be run or no longer fitted."""
    started = time.monotonic()
    failed: dict[str, str] = {}
    began = False  # one point is run at least: the estimate had room for it
    rounds = _rounds(planned.steps, minutes)
    for number, (point, study) in enumerate(rounds, 1):
        kept, spent = all_kept(context.store), time.monotonic() - started
        if _is_done(context, point, study, choice, kept):
            continue
        expected = estimate(study, kept).seconds  # what ran just now counts
        if minutes is not None and began and spent + expected > 60 * minutes:
            failed.setdefault(point.name, _used_up(point, kept, choice))
            continue
        tell(f"{number} of {len(rounds)}: {point.name}, about {duration(expected)}")
        began = True
        try:
            keep(context, specification_of(point, study, choice, context.data_dir), study)
        except UserError as error:
            if disk_is_full(error):
                raise
            failed[point.name] = f"{point.name} is not run: {error}"
    return tuple(failed.values())


def _rounds(steps: Sequence[Step], minutes: float | None) -> list[tuple[Point, Study]]:
    """What is run after what. Under a budget a little of every point first, because estimates may be far off."""
    whole = [(step.point, step.study) for step in steps]
    if minutes is None:
        return whole
    little = [(point, cut(study, EXTENTS[0])) for point, study in whole]
    return [*little, *(step for step in whole if step not in little)]


def _used_up(point: Point, kept: Sequence[Kept], choice: Choice) -> str:
    if answering(point.run, point.paper, kept, choice, any_settings=False) is None:
        return f"{point.name} was left out: the budget was used up by what came before."
    return f"{point.name} has less than was planned: the budget was used up by what came before."


def _is_done(context: Context, point: Point, study: Study, choice: Choice, kept: Sequence[Kept]) -> bool:
    found = answering(point.run, point.paper, kept, choice, any_settings=False)
    seeds, texts = len(seeds_of(study)), texts_of(study) or 0
    asked = seeds, texts
    if found is not None and (found.size > asked or (found.elsewhere and found.size == asked)):
        return (found.texts or 0) >= texts  # in more than is asked, or as asked by another store
    return context.store.finished(specification_of(point, study, choice, context.data_dir), KIND)
