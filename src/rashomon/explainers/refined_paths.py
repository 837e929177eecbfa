"""Integrals along paths with their points where they are needed.

Scores add up to the change of the output on every stretch of a path, not on the whole alone, and the output at a point
comes with its gradient. So of every stretch it is known by how much a rule misses it, and only those that are missed
are halved. The rule is Simpson's, over both ends and the middle of a stretch: halved where it misses, it needs fewer
points than trapezoids, and its scores are nearer to those of very many. A path that turns within a thousandth of its
length gets its points there; a smooth one makes do with the first few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rashomon.data.batches import Ints
from rashomon.explainers.base import Floats, Job, relative_gap
from rashomon.explainers.paths import Point, terms_and_values
from rashomon.explainers.references import Reference

LEFT = 0.25  # of what is missed, in stretches that are not halved this time
SHARE = 0.5  # of the gap that is allowed: stretches that miss less together can stay as they are


@dataclass(frozen=True, slots=True)
class Line:
    """One example's path as far as it was looked at, from the reference (0) to the input (1).

    Every other place is the middle of a stretch, those around it are its ends.
    """

    places: Floats  # [K], ascending; K is odd
    outputs: Floats  # [K]
    slopes: Floats  # [K, n] gradient times difference, token by token

    @property
    def stretches(self) -> Floats:
        """What every token adds to the output's change on each stretch ``[S, n]``, by Simpson's rule."""
        lengths = np.diff(self.places[::2])
        ends, middles = self.slopes[::2], self.slopes[1::2]
        return np.asarray(lengths[:, None] * (ends[:-1] + 4 * middles + ends[1:]) / 6)

    @property
    def scores(self) -> Floats:
        """The same on the whole path ``[n]``."""
        return np.asarray(self.stretches.sum(0))

    @property
    def change(self) -> float:
        return float(self.outputs[-1] - self.outputs[0])

    def is_missing(self, target: float) -> bool:
        return bool(relative_gap(self.scores.sum(), self.change) > target)

    def missed(self) -> Floats:
        """By how much the scores of each stretch miss the output's change on it ``[S]``."""
        return np.asarray(np.abs(self.stretches.sum(1) - np.diff(self.outputs[::2])))

    def next_places(self, target: float, most: int) -> Floats:
        """The middles of both halves of the stretches that are missed most; the others together miss little.

        At most ``most`` places, which is two at least.
        """
        missed = self.missed()
        order = np.argsort(-missed, kind="stable")
        left = missed.sum() - np.cumsum(missed[order])
        allowed = max(LEFT * missed.sum(), SHARE * target * abs(self.change))
        count = 1 + int(np.argmax(left <= allowed))
        chosen = np.sort(order[: min(count, most // 2)])
        middles = self.places[1::2][chosen]
        ends = self.places[::2][chosen], self.places[::2][chosen + 1]
        return np.stack([(end + middles) / 2 for end in ends], axis=1).ravel()

    def with_points(self, places: Floats, outputs: Floats, slopes: Floats) -> Line:
        at = np.searchsorted(self.places, places)
        return Line(
            np.insert(self.places, at, places),
            np.insert(self.outputs, at, outputs),
            np.insert(self.slopes, at, slopes, axis=0),
        )


def refined_lines(job: Job, reference: Reference, target: float, first: int, most: int) -> list[Line]:
    """The path of every example, from ``first`` points on, until its gap is under ``target`` or ``most`` are used.

    ``first`` is an odd number: the ends of stretches and their middles.
    """
    everyone = list(range(len(job.encodings)))
    start = np.linspace(0, 1, first)
    lines = [
        Line(start, outputs, slopes)
        for outputs, slopes in _looks(job, everyone, [start] * len(everyone), reference)
    ]
    while rough := [i for i in everyone if len(lines[i].places) + 2 <= most and lines[i].is_missing(target)]:
        asked = [lines[i].next_places(target, most - len(lines[i].places)) for i in rough]
        for i, places, found in zip(rough, asked, _looks(job, rough, asked, reference), strict=True):
            lines[i] = lines[i].with_points(places, *found)
    return lines


def _looks(
    job: Job, examples: Sequence[int], places: Sequence[Floats], reference: Reference
) -> list[tuple[Floats, Floats]]:
    """Outputs ``[P]`` and slopes ``[P, n]`` at each example's places."""
    points = [
        Point(i, alpha, 1.0, reference)
        for i, of_example in zip(examples, places, strict=True)
        for alpha in of_example.tolist()
    ]
    lengths = np.array([len(job.encodings[point.example]) for point in points])

    def work(index: Ints) -> list[tuple[float, Floats]]:
        terms, values = terms_and_values(job, [points[i] for i in index], "sum")
        rows = terms[..., 0].double().cpu().numpy()
        return [
            (value, row[: lengths[i]])
            for value, row, i in zip(values.double().tolist(), rows, index, strict=True)
        ]

    found = iter(job.engine.run(lengths, work, gradients=True))
    seen = []
    for of_example in places:
        looks = [next(found) for _ in of_example]
        seen.append((np.array([look[0] for look in looks]), np.stack([look[1] for look in looks])))
    return seen
