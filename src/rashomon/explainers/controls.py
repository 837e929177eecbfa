"""Explanations that know nothing: floors that every method must beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rashomon.errors import UserError
from rashomon.explainers.base import Explainer, Job, Scores, explainers
from rashomon.explainers.perturbation import on_content


@explainers.register("random")
@dataclass(frozen=True, slots=True)
class Random(Explainer):
    """Scores drawn at random, signed."""

    name: ClassVar[str] = "random"
    stochastic: ClassVar[bool] = True

    def attribute(self, job: Job) -> list[Scores]:
        drawn = [
            job.generator(i, self.name).uniform(-1, 1, int(encoding.content.sum()))
            for i, encoding in enumerate(job.encodings)
        ]
        return [Scores(values) for values in on_content(job, drawn)]


@explainers.register("trivial")
@dataclass(frozen=True, slots=True)
class Trivial(Explainer):
    """Points at a place that gives the class away: the first k % of tokens for class 1, the next for class 0, ..."""

    name: ClassVar[str] = "trivial"
    needs: ClassVar[frozenset[str]] = frozenset({"classes"})
    signed: ClassVar[bool] = False
    percent: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.percent <= 100:
            raise UserError(
                f"{self.name} marks above 0 and at most 100 percent of a text, not {self.percent}."
            )

    def attribute(self, job: Job) -> list[Scores]:
        marked = []
        for encoding, target in zip(job.encodings, job.targets, strict=True):
            n = int(encoding.content.sum())
            width = max(1, round(n * self.percent / 100))
            # Class 1 comes first, as in the teacher-student paper; further classes follow in order.
            turn = {0: 1, 1: 0}.get(int(target), int(target))
            start = min(turn * width, n - 1)
            scores = np.zeros(n)
            scores[start : start + width] = 1.0
            marked.append(scores)
        return [Scores(values) for values in on_content(job, marked)]
