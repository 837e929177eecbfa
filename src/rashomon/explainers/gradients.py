"""Explainers that differentiate: gradients, integrated gradients, gradient SHAP, layer conductance.

Integrated gradients here start at the word embedding; positions, types and norms are the same at both ends of
the path. That is a different method from starting at the embedding layer's output, and the name says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rashomon.errors import UserError
from rashomon.explainers.base import Aggregation, Explainer, Floats, Job, Scores, explainers, relative_gap
from rashomon.explainers.path_integrals import Layer, PathSettings, Quadrature, resolve_paths, sub_job
from rashomon.explainers.paths import (
    Point,
    Reference,
    References,
    draw_references,
    gather_gradients,
    values_at_inputs,
    values_at_references,
)
from rashomon.models.base import Model

NEEDS_GRADIENTS = frozenset({"gradients"})
GAP_WARNING = 0.05
NOISE_WARNING = 0.1


def aggregate(values: Floats, how: Aggregation) -> Floats:
    """Embedding-wise values ``[n, D]`` to one score a token: the signed sum, or the norm, which has no sign."""
    if how == "sum":
        return np.asarray(values.sum(1))
    return np.asarray(np.linalg.norm(values, axis=1), dtype=np.float64)


@explainers.register("gradient-norm")
@dataclass(frozen=True, slots=True)
class GradientNorm(Explainer):
    """Norm of the output's gradient at each word embedding: how much, not for or against."""

    name: ClassVar[str] = "gradient-norm"
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    signed: ClassVar[bool] = False
    aggregation: Aggregation = "norm"

    def attribute(self, job: Job) -> list[Scores]:
        points = [Point(i, 1.0, 1.0) for i in range(len(job.encodings))]
        return [Scores(aggregate(v, self.aggregation)) for v in gather_gradients(job, points, "one")]


@explainers.register("gradient-x-input")
@dataclass(frozen=True, slots=True)
class GradientInput(Explainer):
    """Gradient times word embedding."""

    name: ClassVar[str] = "gradient-x-input"
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    aggregation: Aggregation = "sum"

    def attribute(self, job: Job) -> list[Scores]:
        points = [Point(i, 1.0, 1.0) for i in range(len(job.encodings))]
        return [Scores(aggregate(v, self.aggregation)) for v in gather_gradients(job, points, "input")]


@explainers.register("gradient-x-delta")
@dataclass(frozen=True, slots=True)
class GradientDelta(Explainer):
    """Gradient times (input - reference): what DeepLIFT becomes where none of its rules apply."""

    name: ClassVar[str] = "gradient-x-delta"
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    reference: Reference = "pad"
    aggregation: Aggregation = "sum"

    def attribute(self, job: Job) -> list[Scores]:
        points = [Point(i, 1.0, 1.0, self.reference) for i in range(len(job.encodings))]
        values = gather_gradients(job, points, "difference")
        changes = values_at_inputs(job) - values_at_references(job, [self.reference] * len(values))
        return complete(values, self.aggregation, changes)


@explainers.register("integrated-gradients")
@dataclass(frozen=True, slots=True)
class IntegratedGradients(Explainer):
    """Gradients averaged on the path from a reference to the input; the scores add up to the output's change.

    Without ``steps`` it takes as many as each text needs for a gap under ``target_gap``.
    """

    name: ClassVar[str] = "integrated-gradients"
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    steps: int | None = None
    rule: Quadrature | None = None  # None: Gauss-Legendre for given steps, else the trapezoid rule, halved
    target_gap: float = 0.01
    reference: Reference = "pad"
    aggregation: Aggregation = "sum"

    def __post_init__(self) -> None:
        self.path()

    def path(self) -> PathSettings:
        return PathSettings(self.reference, self.rule, self.steps, self.target_gap)

    def attribute(self, job: Job) -> list[Scores]:
        paths = resolve_paths(job, self.path())
        values = [path.inputs for path in paths if path.inputs is not None]
        return complete(values, self.aggregation, [path.change for path in paths])


@explainers.register("layer-conductance")
@dataclass(frozen=True, slots=True)
class LayerConductance(Explainer):
    """What flows through the first encoder layer at each position, along the path of integrated gradients."""

    name: ClassVar[str] = "layer-conductance"
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    steps: int | None = None
    rule: Quadrature | None = None  # None: Gauss-Legendre for given steps, else the trapezoid rule, halved
    target_gap: float = 0.01
    trapezoid: bool = True  # average the layer's gradient over each stretch; otherwise take its left end
    endpoints: bool = True  # include input and reference, so that no stretch of the path is missed
    reference: Reference = "pad"

    def __post_init__(self) -> None:
        self.path()

    def path(self) -> PathSettings:
        return PathSettings(self.reference, self.rule, self.steps, self.target_gap)

    def refusal(self, model: Model) -> str | None:
        return Explainer.refusal(self, model) or model.lacks.get("first-layer")

    def attribute(self, job: Job) -> list[Scores]:
        settings = self.path()
        shared = any(isinstance(e, IntegratedGradients) and e.path() == settings for e in job.asked)
        paths = resolve_paths(job, settings, Layer(self.trapezoid, self.endpoints, inputs=shared))
        through = [path.layer[:, None] for path in paths if path.layer is not None]
        return complete(through, "sum", [path.change for path in paths])


@explainers.register("gradient-shap")
@dataclass(frozen=True, slots=True)
class GradientShap(Explainer):
    """Gradients at random points between random references and the input, averaged.

    The points are stratified along the path, which takes most of the noise out of small samples.
    """

    name: ClassVar[str] = "gradient-shap"
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    stochastic: ClassVar[bool] = True
    samples: int = 24
    references: References = "pad"
    aggregation: Aggregation = "sum"

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise UserError(f"{self.name} needs at least two samples, not {self.samples}.")

    def attribute(self, job: Job) -> list[Scores]:
        count = len(job.encodings)
        twice = sub_job(job, [*range(count), *range(count)])  # one queue for both halves
        sums = gather_gradients(twice, self._points(twice, count), "difference")
        return [self._scores(one, other) for one, other in zip(sums[:count], sums[count:], strict=True)]

    def _points(self, job: Job, second: int) -> list[Point]:
        count = self.samples // 2
        points: list[Point] = []
        for i in range(len(job.encodings)):
            generator = job.generator(i, f"{self.name} {i // second}")
            alphas = (np.arange(count) + generator.random(count)) / count
            others = draw_references(job, self.references, count, generator)
            points += [
                Point(i, alpha, 1 / count, o) for alpha, o in zip(alphas.tolist(), others, strict=True)
            ]
        return points

    def _scores(self, first: Floats, second: Floats) -> Scores:
        mean = aggregate((first + second) / 2, self.aggregation)
        # The two halves are independent estimates, so half their distance is the standard error.
        apart = aggregate(first, self.aggregation) - aggregate(second, self.aggregation)
        noise = float(np.abs(apart).mean() / 2 / max(np.abs(mean).max(initial=0.0), 1e-12))
        warning = f"sampling noise is {noise:.0%} of the largest score; raise samples"
        return Scores(mean, warnings=(warning,) if noise > NOISE_WARNING else ())


def complete(values: Sequence[Floats], how: Aggregation, changes: Floats | Sequence[float]) -> list[Scores]:
    """Scores with their completeness gap, and a warning where it is large."""
    gaps = relative_gap(np.array([value.sum() for value in values]), np.asarray(changes))
    return [
        Scores(aggregate(value, how), float(gap), gap_warning(float(gap)))
        for value, gap in zip(values, gaps, strict=True)
    ]


def gap_warning(gap: float) -> tuple[str, ...]:
    if gap <= GAP_WARNING:
        return ()
    return (f"the scores miss the output's change by {gap:.0%}",)
