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
    failed: list[str] = []
    began = False  # one point is run at least: the estimate had room for it
    for number, step in enumerate(planned.steps, 1):
        if step.done:
            continue
        name, spent = step.point.name, time.monotonic() - started
        expected = estimate(step.study, all_kept(context.store)).seconds  # what ran just now counts
        if minutes is not None and began and spent + expected > 60 * minutes:
            failed.append(f"{name} was left out: the budget was used up by what came before.")
            continue
        tell(f"{number} of {len(planned.steps)}: {name}, about {duration(expected)}")
        began = True
        try:
            keep(context, specification_of(step.point, step.study, choice, context.data_dir), step.study)
        except UserError as error:
            if disk_is_full(error):
                raise
            failed.append(f"{name} is not run: {error}")
    return tuple(failed)


def _is_done(context: Context, point: Point, study: Study, choice: Choice, kept: Sequence[Kept]) -> bool:
    found = answering(point.run, point.paper, kept, choice, any_vectors=False)
    seeds, texts = len(seeds_of(study)), texts_of(study) or 0
    if found is not None and found.size > (seeds, texts) and (found.texts or 0) >= texts:
        return True  # in more than is asked
    return context.store.finished(specification_of(point, study, choice, context.data_dir), KIND)
