"""Explainers that differentiate: gradients, integrated gradients, gradient SHAP, layer conductance.

Integrated gradients here start at the word embedding; positions, types and norms are the same at both ends of
the path. That is a different method from starting at the embedding layer's output, and the name says which.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rashomon.explainers.base import Aggregation, Explainer, Floats, Job, Scores, explainers, relative_gap
from rashomon.explainers.path_integrals import Layer, PathSettings, Quadrature, resolve_paths, sub_job
from rashomon.explainers.paths import (
    Point,
    Repeated,
    aggregate,
    at_inputs,
    gather_gradients,
    gather_pairs,
    values_at_inputs,
    values_at_references,
)
from rashomon.explainers.references import Reference, References, draw_references
from rashomon.explainers.settling import Samples, check_samples, unsettled
from rashomon.models.base import Model

NEEDS_GRADIENTS = frozenset({"gradients"})
GAP_WARNING = 0.05
FIRST_STRATA = 4  # of gradient SHAP's first round


@explainers.register("gradient-norm")
@dataclass(frozen=True, slots=True)
class GradientNorm(Explainer):
    """Norm of the output's gradient at each word embedding: how much, not for or against."""

    name: ClassVar[str] = "gradient-norm"
    at_inputs_alone: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    signed: ClassVar[bool] = False
    aggregation: Aggregation = "norm"

    def attribute(self, job: Job) -> list[Scores]:
        return [Scores(aggregate(at.gradient, self.aggregation)) for at in at_inputs(job)]


@explainers.register("gradient-x-input")
@dataclass(frozen=True, slots=True)
class GradientInput(Explainer):
    """Gradient times word embedding."""

    name: ClassVar[str] = "gradient-x-input"
    at_inputs_alone: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    aggregation: Aggregation = "sum"

    def attribute(self, job: Job) -> list[Scores]:
        products = (at.gradient * at.embeddings for at in at_inputs(job))
        return [Scores(aggregate(product, self.aggregation)) for product in products]


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
        values = gather_gradients(job, points, self.aggregation)
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
    rule: Quadrature | None = None  # None: Gauss-Legendre for given steps, else Simpson's, finer as needed
    target_gap: float = 0.01
    reference: Reference = "pad"
    aggregation: Aggregation = "sum"

    def __post_init__(self) -> None:
        self.path()

    def path(self) -> PathSettings:
        return PathSettings(self.reference, self.rule, self.steps, self.target_gap)

    def attribute(self, job: Job) -> list[Scores]:
        paths = resolve_paths(job, self.path(), how=self.aggregation)
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
        shared = not settings.adapts and any(
            isinstance(e, IntegratedGradients) and e.path() == settings and e.aggregation == "sum"
            for e in job.asked
        )
        paths = resolve_paths(job, settings, Layer(self.trapezoid, self.endpoints, inputs=shared), "sum")
        through = [path.layer[:, None] for path in paths if path.layer is not None]
        return complete(through, "sum", [path.change for path in paths])


@explainers.register("gradient-shap")
@dataclass(frozen=True, slots=True)
class GradientShap(Explainer):
    """Gradients at random points between random references and the input, averaged.

    The path is cut into strata with two points in each, which takes most of the noise out of small samples and tells
    how much is left. ``samples`` are as many as it takes to settle the top tokens, at most ``most``, or a number.
    """

    name: ClassVar[str] = "gradient-shap"
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    stochastic: ClassVar[bool] = True
    samples: Samples = "auto"
    references: References = "pad"
    aggregation: Aggregation = "sum"
    most: int = 120

    def __post_init__(self) -> None:
        check_samples(self.name, self.samples, self.most)

    def attribute(self, job: Job) -> list[Scores]:
        rounds = self._rounds()
        drawn: list[list[Repeated]] = [[] for _ in job.encodings]
        found: dict[int, Scores] = {}
        while pending := [i for i in range(len(drawn)) if i not in found]:
            number = len(drawn[pending[0]])
            estimates = self._draw(sub_job(job, pending), number, rounds[number])
            for i, repeated in zip(pending, estimates, strict=True):
                drawn[i].append(repeated)
                scores = self._scores(drawn[i], rounds)
                if not scores.warnings or number + 1 == len(rounds):
                    found[i] = scores
        return [found[i] for i in range(len(drawn))]

    def _rounds(self) -> list[int]:
        """How many strata each round has, twice as many as the one before."""
        if self.samples != "auto":
            return [self.samples // 2]
        rounds = [FIRST_STRATA]
        while 2 * (sum(rounds) + 2 * rounds[-1]) <= self.most:
            rounds.append(2 * rounds[-1])
        return rounds if self.most >= 2 * FIRST_STRATA else [self.most // 2]

    def _draw(self, job: Job, number: int, strata: int) -> list[Repeated]:
        pairs: list[tuple[Point, Point]] = []
        for i in range(len(job.encodings)):
            generator = job.generator(i, f"{self.name} {number}")
            alphas = (np.arange(strata)[:, None] + generator.random((strata, 2))) / strata
            ends = draw_references(job, self.references, 2 * strata, generator)
            weight = 1 / (2 * strata)
            for (one, other), at, to in zip(alphas.tolist(), ends[::2], ends[1::2], strict=True):
                pairs.append((Point(i, one, weight, at), Point(i, other, weight, to)))
        return gather_pairs(job, pairs, self.aggregation)

    def _scores(self, drawn: Sequence[Repeated], rounds: Sequence[int]) -> Scores:
        # The variance of stratified points falls faster than their number rises, so finer rounds weigh more.
        weights = np.square(rounds[: len(drawn)]) / np.square(rounds[: len(drawn)]).sum()
        mean = sum(weight * estimate.sums for weight, estimate in zip(weights, drawn, strict=True))
        pulls = np.concatenate(
            [weight * estimate.pulls for weight, estimate in zip(weights, drawn, strict=True)]
        )
        scores, spread = aggregate(mean, self.aggregation), np.linalg.norm(pulls, axis=0)
        used = 2 * sum(rounds[: len(drawn)])
        return Scores(scores, warnings=unsettled(scores, spread, used), spread=spread, used=used)


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
