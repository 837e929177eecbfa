"""Integrals along paths, as fine as each text needs: integrated gradients, and conductance of the first layer.

The gap between the scores' sum and the output's change says which texts need a finer path. Signed sums are refined
stretch by stretch (``refined_paths.py``). Norms of vectors and conductance, which would need whole vectors kept at
every point, are refined as a whole: the trapezoid rule is halved, where the points that are there already keep
counting, so that a path of 33 points costs 33 evaluations, however many times it was found too rough. (Gauss-Legendre
needs fewer points on smooth paths, but shares none of them between its orders.) What is still rough then is so near
the reference: where padding is a vector of zeros, as in most decoders, RMSNorm turns all of a word on within the
first thousandth of the path. So the last points are drawn towards that end. With given steps one pass over a path
serves both methods.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from rashomon.data.batches import Ints
from rashomon.errors import UserError
from rashomon.explainers.base import Aggregation, Floats, Job, relative_gap
from rashomon.explainers.lines import Ways, ways_of
from rashomon.explainers.paths import (
    Ends,
    Point,
    gather_gradients,
    path_ends,
    values_at_inputs,
    values_at_references,
)
from rashomon.explainers.references import Reference
from rashomon.explainers.refined_paths import refined_lines
from rashomon.models.recurrence import Lines

MOST_HALVED = 65
DRAWN = 2  # the power by which the nodes of the graded rule are drawn towards the reference
Quadrature = Literal["gauss-legendre", "graded", "trapezoid", "middle", "left", "right"]


def quadrature(rule: Quadrature, steps: int) -> tuple[Floats, Floats]:
    """Nodes in [0, 1] and weights that add up to one."""
    if steps < 1:
        raise UserError(f"A path needs at least one step, not {steps}.")
    if rule in ("gauss-legendre", "graded"):
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        nodes, weights = (nodes + 1) / 2, weights / 2
        if rule == "graded":  # alpha = t ^ DRAWN
            nodes, weights = nodes**DRAWN, weights * DRAWN * nodes ** (DRAWN - 1)
        return nodes, weights
    if rule == "trapezoid":
        if steps < 2:
            raise UserError("The trapezoid rule needs at least two steps.")
        weights = np.full(steps, 1 / (steps - 1))
        weights[[0, -1]] /= 2
        return np.linspace(0, 1, steps), weights
    shift = {"left": 0.0, "middle": 0.5, "right": 1.0}[rule]
    return (np.arange(steps) + shift) / steps, np.full(steps, 1 / steps)


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Which path, and how finely. Without ``steps``, about twice as many until the gap is under ``target_gap``."""

    reference: Reference
    rule: Quadrature | None  # None: what is best for the given steps, or for finding how many are needed
    steps: int | None
    target_gap: float
    first_steps: int = 9
    most_steps: int = 257

    def __post_init__(self) -> None:
        if self.steps is not None:
            quadrature(self.rule_at(self.steps), self.steps)
        if not self.target_gap >= 0:
            raise UserError(f"The gap that a path aims at cannot be below zero, but is {self.target_gap}.")

    def rule_at(self, steps: int) -> Quadrature:
        if self.rule is not None:
            return self.rule
        if self.steps is not None:
            return "gauss-legendre"
        return "trapezoid" if self.halves_to(steps) else "graded"

    @property
    def adapts(self) -> bool:
        """Whether points may be put where a path needs them."""
        return self.rule is None and self.steps is None

    def halves_to(self, steps: int) -> bool:
        """Whether paths of so many steps are made by halving the stretches of a rougher one."""
        return self.rule is None and self.steps is None and steps <= MOST_HALVED


@dataclass(frozen=True, slots=True)
class Layer:
    """How conductance adds up what flows through the first layer."""

    trapezoid: bool
    endpoints: bool
    inputs: bool = True  # whether the path is to serve integrated gradients, too


@dataclass(frozen=True, slots=True)
class Path:
    """What one example's path told, and the change of the explained output between its ends."""

    inputs: Floats | None  # [n, D], or [n, 1] of sums: weighted gradient times difference
    layer: Floats | None  # [n]
    change: float

    def missing(self, target: float) -> bool:
        """Whether the scores, of either kind, are further from adding up than ``target``."""
        return any(self.gap(part) > target for part in (self.inputs, self.layer) if part is not None)

    def gap(self, scores: Floats) -> float:
        return float(relative_gap(scores.sum(), self.change))

    def refined(self, finer: Path, target: float) -> Path:
        """The finer path, except for the part that was fine enough: it must not depend on who else asked."""

        def finest(rough: Floats | None, fine: Floats | None) -> Floats | None:
            return rough if rough is None or self.gap(rough) <= target else fine

        return Path(finest(self.inputs, finer.inputs), finest(self.layer, finer.layer), self.change)


def resolve_paths(
    job: Job, settings: PathSettings, layer: Layer | None = None, how: Aggregation = "sum"
) -> list[Path]:
    """Paths as fine as each example needs. One pass with the layer also serves those who ask without it."""
    keys = [
        (e.ids.tobytes(), e.segments.tobytes(), t.tobytes(), job.space, settings, how)
        for e, t in zip(job.encodings, job.targets, strict=True)
    ]
    found: list[Path | None] = [job.engine.shared((key, layer)) for key in keys]
    missing = [i for i, path in enumerate(found) if path is None]
    if missing:
        started = time.perf_counter()
        made = _make_paths(sub_job(job, missing), settings, layer, how)
        seconds = (time.perf_counter() - started) / len(missing)
        for i, path in zip(missing, made, strict=True):
            found[i] = job.engine.share((keys[i], layer), path, seconds)
            if path.inputs is not None:
                job.engine.share((keys[i], None), path, seconds)
    return [path for path in found if path is not None]


def _make_paths(job: Job, settings: PathSettings, layer: Layer | None, how: Aggregation) -> list[Path]:
    if settings.adapts and layer is None and how == "sum":
        lines = refined_lines(
            job, settings.reference, settings.target_gap, settings.first_steps, settings.most_steps
        )
        return [Path(line.scores[:, None], None, line.change) for line in lines]
    starts = values_at_references(job, [settings.reference] * len(job.encodings))
    changes = values_at_inputs(job) - starts
    steps = settings.steps or settings.first_steps
    paths = _integrate(job, changes, settings, steps, layer, how)
    while settings.steps is None and 2 * steps - 1 <= settings.most_steps:
        rough = [i for i, path in enumerate(paths) if path.missing(settings.target_gap)]
        if not rough:
            break
        steps, chosen = 2 * steps - 1, sub_job(job, rough)
        if layer is None and settings.halves_to(steps):
            finer = _halved(chosen, [paths[i] for i in rough], settings.reference, steps, how)
        else:
            finer = _integrate(chosen, changes[rough], settings, steps, layer, how)
        for i, path in zip(rough, finer, strict=True):
            paths[i] = paths[i].refined(path, settings.target_gap)
    return paths


def _integrate(
    job: Job, changes: Floats, settings: PathSettings, steps: int, layer: Layer | None, how: Aggregation
) -> list[Path]:
    nodes, weights = quadrature(settings.rule_at(steps), steps)
    if layer is not None:
        return _through_layer(job, changes, nodes, weights, settings.reference, layer)
    sums = _weighted_sums(job, nodes, weights, settings.reference, how)
    return [Path(values, None, float(change)) for values, change in zip(sums, changes, strict=True)]


def _halved(
    job: Job, paths: Sequence[Path], reference: Reference, steps: int, how: Aggregation
) -> list[Path]:
    """Trapezoid sums of ``steps`` points from those of half the stretches, which lack every other point."""
    nodes, weights = quadrature("trapezoid", steps)
    added = _weighted_sums(job, nodes[1::2], weights[1::2], reference, how)
    halved = []
    for path, between in zip(paths, added, strict=True):
        assert path.inputs is not None
        halved.append(replace(path, inputs=path.inputs / 2 + between))
    return halved


def _weighted_sums(
    job: Job, nodes: Floats, weights: Floats, reference: Reference, how: Aggregation
) -> list[Floats]:
    points = [
        Point(i, alpha, weight, reference)
        for i in range(len(job.encodings))
        for alpha, weight in zip(nodes.tolist(), weights.tolist(), strict=True)
    ]
    return gather_gradients(job, points, how)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Neighbouring nodes of one example's path, evaluated together; stretches share their end nodes."""

    example: int
    nodes: Floats
    weights: Floats


def _stretches(job: Job, nodes: Floats, weights: Floats) -> list[_Stretch]:
    cut: list[_Stretch] = []
    for i, encoding in enumerate(job.encodings):
        most = max(2, job.engine.token_budget // (2 * len(encoding)))
        for start in range(0, max(1, len(nodes) - 1), most - 1):
            shares = weights[start : start + most].copy()
            shares[0] *= start == 0  # the shared node has counted already
            cut.append(_Stretch(i, nodes[start : start + most], shares))
    return cut


def _through_layer(
    job: Job, changes: Floats, nodes: Floats, weights: Floats, reference: Reference, layer: Layer
) -> list[Path]:
    if layer.endpoints and nodes[0] > 0:
        nodes, weights = np.r_[0.0, nodes], np.r_[0.0, weights]
    if layer.endpoints and nodes[-1] < 1:
        nodes, weights = np.r_[nodes, 1.0], np.r_[weights, 0.0]
    stretches = _stretches(job, nodes, weights)

    def work(index: Ints) -> list[tuple[Floats, Floats]]:
        return _layer_batch(job, [stretches[i] for i in index], reference, layer)

    lengths = np.array([len(job.encodings[stretch.example]) for stretch in stretches])
    rows = np.array([len(stretch.nodes) for stretch in stretches])
    parts = job.engine.run(lengths, work, rows=rows, gradients=True)
    sums: dict[int, tuple[Floats, Floats]] = {}
    for stretch, (inputs, through) in zip(stretches, parts, strict=True):
        before = sums.get(stretch.example, (0.0, 0.0))
        sums[stretch.example] = before[0] + inputs, before[1] + through
    return [
        Path(sums[i][0] if layer.inputs else None, sums[i][1], float(change))
        for i, change in enumerate(changes)
    ]


def _layer_batch(
    job: Job, stretches: Sequence[_Stretch], reference: Reference, layer: Layer
) -> list[tuple[Floats, Floats]]:
    pairs = [(s.example, reference) for s in stretches for _ in s.nodes]
    alphas = [alpha for s in stretches for alpha in s.nodes.tolist()]
    ends = ways_of(job, pairs) if job.model.enters else path_ends(job, pairs)
    at = ends.at(alphas)
    caught: list[Tensor] = []

    def catch(module: object, args: object, out: Tensor | tuple[Tensor, ...]) -> None:
        caught.append(out if isinstance(out, Tensor) else out[0])

    hook = job.model.first_layer().register_forward_hook(catch)
    try:
        value = job.value(job.model(ends.batch, embeddings=at), ends.targets)
    finally:
        hook.remove()
    hidden, leaf = caught[0], at.share if isinstance(at, Lines) else at
    at_layer, *at_input = torch.autograd.grad(value.sum(), (hidden, leaf) if layer.inputs else (hidden,))
    input_terms = _scores(ends, at_input[0]) if at_input else at_layer[..., :0]
    results: list[tuple[Floats, Floats]] = []
    sizes = [len(s.nodes) for s in stretches]
    parts = (tensor.detach().split(sizes) for tensor in (input_terms, at_layer, hidden))
    for stretch, inputs, slopes, heights in zip(stretches, *parts, strict=True):
        n = len(job.encodings[stretch.example])
        weighted = np.tensordot(stretch.weights, inputs[:, :n].double().cpu().numpy(), axes=1)
        slope = (slopes[:-1] + slopes[1:]) / 2 if layer.trapezoid else slopes[:-1]
        through = (slope * heights.diff(dim=0)).double().sum((0, 2))[:n].cpu().numpy()
        results.append((weighted, through))
    return results


def _scores(ends: Ends | Ways, gradient: Tensor) -> Tensor:
    """Gradient times difference, added up ``[B, T, 1]``; with respect to a share it is that already."""
    if isinstance(ends, Ways):
        return gradient.unsqueeze(-1)
    return (gradient * (ends.inputs - ends.others)).sum(-1, keepdim=True)


def sub_job(job: Job, chosen: list[int]) -> Job:
    return replace(
        job,
        encodings=[job.encodings[i] for i in chosen],
        targets=job.targets[chosen],
    )
