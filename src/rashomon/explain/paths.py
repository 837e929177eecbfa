"""Gradients along straight paths from a reference to the input: the engine's backward passes.

A row of the queue is one point ``reference + alpha (input - reference)`` of one example, with a weight. Rows of all
examples are packed by length into batches like forward evaluations are. Integrated gradients, gradient SHAP,
plain gradients and layer conductance are different sets of rows and different ways to add them up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rashomon.data.batches import Batch, Encoding
from rashomon.errors import UserError
from rashomon.explain.base import Floats, Job, OutputSpace, relative_gap
from rashomon.models.base import Output, without_attention
from rashomon.models.predict import evaluating

Reference = Literal["pad", "zero", "mask"]
References = Literal["pad", "zero", "mask", "training"]
Multiplier = Literal["difference", "input", "one"]
Quadrature = Literal["gauss-legendre", "trapezoid", "middle", "left", "right"]


@dataclass(frozen=True, slots=True)
class Point:
    """One evaluation: an example, a place on its path, its share of the sum, and the path's other end."""

    example: int
    alpha: float
    weight: float
    reference: Encoding | Reference = "pad"


def quadrature(rule: Quadrature, steps: int) -> tuple[Floats, Floats]:
    """Nodes in [0, 1] and weights that add up to one."""
    if steps < 1:
        raise UserError(f"A path needs at least one step, not {steps}.")
    if rule == "gauss-legendre":
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        return (nodes + 1) / 2, weights / 2
    if rule == "trapezoid":
        weights = np.full(steps, 1 / (steps - 1) if steps > 1 else 1.0)
        weights[[0, -1]] /= 2 if steps > 1 else 1
        return np.linspace(0, 1, steps), weights
    shift = {"left": 0.0, "middle": 0.5, "right": 1.0}[rule]
    return (np.arange(steps) + shift) / steps, np.full(steps, 1 / steps)


def select(output: Output, targets: Tensor, space: OutputSpace) -> Tensor:
    """The number being explained, one per row."""
    values = output.logits if space == "logit" else output.probabilities
    return values.gather(1, targets[:, None])[:, 0]


def reference_embeddings(
    job: Job, batch: Batch, inputs: Tensor, encodings: Sequence[Encoding], ends: Sequence[Encoding | Reference]
) -> Tensor:
    """Embeddings of the paths' other ends: special tokens as they are, content replaced by the reference."""
    ids = batch.ids.clone()
    content = torch.zeros_like(batch.mask)
    zeroed = torch.zeros_like(batch.mask)
    for row, (encoding, end) in enumerate(zip(encodings, ends, strict=True)):
        of_content = torch.from_numpy(np.flatnonzero(encoding.content)).to(ids.device)
        content[row, of_content] = True
        if isinstance(end, Encoding):
            other = torch.from_numpy(end.ids[end.content]).to(ids.device)[: len(of_content)]
            ids[row, of_content] = job.model.pad_id
            ids[row, of_content[: len(other)]] = other
        elif end == "zero":
            zeroed[row, of_content] = True
        else:
            ids[row, of_content] = job.model.mask_id if end == "mask" else job.model.pad_id
    replaced = job.model.embed(Batch(ids, batch.mask, batch.segments, batch.positions)).detach()
    replaced = torch.where(content[..., None], replaced, inputs)
    return replaced.masked_fill(zeroed[..., None], 0.0)


def gather_gradients(job: Job, points: Sequence[Point], multiply: Multiplier) -> list[Floats]:
    """For each example, the weighted sum over its points of gradient times multiplier: ``[n, D]``."""
    job_lengths = np.array([len(encoding) for encoding in job.encodings])
    which = np.array([point.example for point in points])
    sums: dict[int, Floats] = {}
    with evaluating(job.model), without_attention(job.model):
        for index in job.engine.batches(job_lengths[which]):
            chosen = [points[i] for i in index]
            values = _batch_gradients(job, chosen, multiply)
            for point, row in zip(chosen, values, strict=True):
                n = job_lengths[point.example]
                part = point.weight * row[:n]
                sums[point.example] = sums[point.example] + part if point.example in sums else part
    job.engine.counts.evaluated += len(points)
    return [sums[i] for i in range(len(job.encodings))]


def _batch_gradients(job: Job, points: Sequence[Point], multiply: Multiplier) -> Floats:
    encodings = [job.encodings[point.example] for point in points]
    batch = job.model.collate(encodings)
    targets = torch.from_numpy(job.targets[[point.example for point in points]]).to(batch.ids.device)
    inputs = job.model.embed(batch).detach()
    if multiply == "difference" or any(point.alpha != 1.0 for point in points):
        others = reference_embeddings(job, batch, inputs, encodings, [point.reference for point in points])
    else:
        others = torch.zeros_like(inputs)
    alphas = torch.tensor([point.alpha for point in points], dtype=inputs.dtype, device=inputs.device)
    at = others + alphas[:, None, None] * (inputs - others)
    at.requires_grad_(True)
    value = select(job.model(batch, embeddings=at), targets, job.space)
    (gradient,) = torch.autograd.grad(value.sum(), at)
    factor = {"difference": inputs - others, "input": inputs, "one": torch.ones_like(inputs)}[multiply]
    return (gradient * factor).double().cpu().numpy()


def path_values(job: Job, references: Sequence[Encoding | Reference]) -> tuple[Floats, Floats]:
    """The explained output at the input and at the reference, for each example."""
    starts, ends = np.zeros(len(job.encodings)), np.zeros(len(job.encodings))
    lengths = np.array([len(encoding) for encoding in job.encodings])
    with evaluating(job.model), torch.no_grad(), without_attention(job.model):
        for index in job.engine.batches(lengths):
            encodings = [job.encodings[i] for i in index]
            batch = job.model.collate(encodings)
            targets = torch.from_numpy(job.targets[index]).to(batch.ids.device)
            inputs = job.model.embed(batch)
            others = reference_embeddings(job, batch, inputs, encodings, [references[i] for i in index])
            ends[index] = select(job.model(batch), targets, job.space).double().cpu().numpy()
            at_reference = job.model(batch, embeddings=others)
            starts[index] = select(at_reference, targets, job.space).double().cpu().numpy()
    return ends, starts


@dataclass(frozen=True, slots=True)
class PathSettings:
    """Which path, and how finely. Without ``steps``, twice as many until the gap is under ``target_gap``."""

    reference: Reference
    rule: Quadrature
    steps: int | None
    target_gap: float
    first_steps: int = 8
    most_steps: int = 128


@dataclass(frozen=True, slots=True)
class Layer:
    """How conductance adds up what flows through the first layer."""

    trapezoid: bool
    endpoints: bool


@dataclass(frozen=True, slots=True)
class Path:
    """What one example's path told, and the explained output at its two ends."""

    inputs: Floats  # [n, D], weighted gradient times difference
    layer: Floats | None  # [n]
    end: float
    start: float

    def through_layer(self) -> Floats:
        assert self.layer is not None
        return self.layer[:, None]

    def gap(self) -> float:
        return float(relative_gap(self.inputs.sum(), np.float64(self.end - self.start)))


def resolve_paths(job: Job, settings: PathSettings, layer: Layer | None = None) -> list[Path]:
    """Paths as fine as each example needs. One pass with the layer also serves those who ask without it."""
    memory: dict[object, Path] = job.engine.memory
    keys = [
        (e.ids.tobytes(), e.segments.tobytes(), int(t), job.space, settings)
        for e, t in zip(job.encodings, job.targets, strict=True)
    ]
    found = [memory.get((key, layer)) or (None if layer else memory.get((key, "any layer"))) for key in keys]
    open_examples = [i for i, path in enumerate(found) if path is None]
    if open_examples:
        ends, starts = path_values(job, [settings.reference] * len(job.encodings))
    steps = settings.steps or settings.first_steps
    while open_examples:
        sums = _integrate(sub_job(job, open_examples), settings, steps, layer)
        for i, (inputs, through) in zip(open_examples, sums, strict=True):
            found[i] = Path(inputs, through, float(ends[i]), float(starts[i]))
        if settings.steps is not None or steps * 2 > settings.most_steps:
            break
        open_examples = [i for i in open_examples if _present(found[i]).gap() > settings.target_gap]
        steps *= 2
    for key, path in zip(keys, found, strict=True):
        memory[(key, layer)] = _present(path)
        if layer:
            memory[(key, "any layer")] = _present(path)
    return [_present(path) for path in found]


def _integrate(
    job: Job, settings: PathSettings, steps: int, layer: Layer | None
) -> list[tuple[Floats, Floats | None]]:
    nodes, weights = quadrature(settings.rule, steps)
    if layer is None:
        points = [
            Point(i, float(a), float(w), settings.reference)
            for i in range(len(job.encodings))
            for a, w in zip(nodes, weights, strict=True)
        ]
        return [(value, None) for value in gather_gradients(job, points, "difference")]
    if layer.endpoints:
        nodes, weights = np.r_[0.0, nodes, 1.0], np.r_[0.0, weights, 0.0]
    lengths = np.array([len(encoding) for encoding in job.encodings])
    results: dict[int, tuple[Floats, Floats | None]] = {}
    with evaluating(job.model), without_attention(job.model):
        for index in job.engine.batches(lengths, rows_each=len(nodes)):
            done = _layer_batch(job, index, nodes, weights, settings.reference, layer.trapezoid)
            results |= dict(zip(index.tolist(), done, strict=True))
    job.engine.counts.evaluated += len(nodes) * len(lengths)
    return [results[i] for i in range(len(lengths))]


def _layer_batch(
    job: Job,
    index: NDArray[np.int64],
    nodes: Floats,
    weights: Floats,
    reference: Reference,
    trapezoid: bool,
) -> list[tuple[Floats, Floats | None]]:
    encodings = [job.encodings[i] for i in index]
    repeated = [encoding for encoding in encodings for _ in nodes]
    batch = job.model.collate(repeated)
    targets = torch.from_numpy(np.repeat(job.targets[index], len(nodes))).to(batch.ids.device)
    inputs = job.model.embed(batch).detach()
    others = reference_embeddings(job, batch, inputs, repeated, [reference] * len(repeated))
    alphas = torch.from_numpy(np.tile(nodes, len(index))).to(inputs)
    at = (others + alphas[:, None, None] * (inputs - others)).requires_grad_(True)
    caught: list[Tensor] = []

    def catch(module: object, args: object, out: Tensor | tuple[Tensor, ...]) -> None:
        caught.append(out if isinstance(out, Tensor) else out[0])

    hook = job.model.first_layer().register_forward_hook(catch)
    try:
        value = select(job.model(batch, embeddings=at), targets, job.space)
    finally:
        hook.remove()
    hidden = caught[0]
    at_input, at_layer = torch.autograd.grad(value.sum(), (at, hidden))
    shape = (len(index), len(nodes))
    input_terms = (at_input * (inputs - others)).double().reshape(*shape, *inputs.shape[1:])
    weighted = torch.einsum("k,ektd->etd", torch.from_numpy(weights).to(input_terms), input_terms)
    layer_gradient = at_layer.double().reshape(*shape, *hidden.shape[1:])
    layer_value = hidden.detach().double().reshape(*shape, *hidden.shape[1:])
    slope = layer_gradient[:, :-1]
    if trapezoid:
        slope = (slope + layer_gradient[:, 1:]) / 2
    through = (slope * (layer_value[:, 1:] - layer_value[:, :-1])).sum((1, 3))
    return [
        (weighted[e, : len(enc)].cpu().numpy(), through[e, : len(enc)].cpu().numpy())
        for e, enc in enumerate(encodings)
    ]


def sub_job(job: Job, chosen: list[int]) -> Job:
    return replace(
        job,
        encodings=[job.encodings[i] for i in chosen],
        targets=job.targets[chosen],
        probabilities=job.probabilities[chosen],
    )


def _present(path: Path | None) -> Path:
    assert path is not None
    return path
