"""Gradients along straight paths from a reference to the input: the engine's backward passes.

A row of the queue is one point ``reference + alpha (input - reference)`` of one example, with a weight. Rows of all
examples are packed by length into batches like forward evaluations are. Plain gradients, gradient SHAP and
integrated gradients (``integrate.py``) are different sets of rows.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rashomon.data.batches import Batch, Encoding, Ints
from rashomon.explainers.base import Aggregation, Floats, Job
from rashomon.explainers.engine import Engine
from rashomon.explainers.lines import ways_of
from rashomon.explainers.references import Pair, Reference, numbered_pairs, reference_ids
from rashomon.models.base import Output
from rashomon.models.tasks import Space

Targets = NDArray[np.int64]


Values = TypeVar("Values", Floats, Tensor)


def aggregate(values: Values, how: Aggregation) -> Values:
    """Embedding-wise values ``[..., D]`` to one score a token: the signed sum, or the norm, which has no sign."""
    scores: Values = values.sum(-1) if how == "sum" else (values**2).sum(-1) ** 0.5
    return scores


@dataclass(frozen=True, slots=True)
class Point:
    """One evaluation: an example, a place on its path, its share of the sum, and the path's other end."""

    example: int
    alpha: float
    weight: float
    reference: Encoding | Reference = "pad"


@dataclass(frozen=True, slots=True)
class Ends:
    """Both ends of the paths of a batch, row by row."""

    batch: Batch
    inputs: Tensor  # [B, T, D] word embeddings
    others: Tensor  # [B, T, D] the same at special tokens, the reference's at content tokens
    targets: Tensor  # [B] classes, or [B, 2] spans

    def at(self, alphas: Sequence[float]) -> Tensor:
        """The points at ``alphas`` of each row's path, ready to be differentiated."""
        share = torch.tensor(alphas, dtype=self.inputs.dtype, device=self.inputs.device)[:, None, None]
        return (self.others + share * (self.inputs - self.others)).requires_grad_(True)


def path_ends(job: Job, pairs: Sequence[Pair]) -> Ends:
    """Ends for (example, reference) pairs; equal pairs are embedded once."""
    distinct, which = numbered_pairs(pairs)
    encodings = [job.encodings[i] for i, _ in distinct]
    batch = job.model.collate(encodings)
    inputs = job.model.embed(batch).detach()
    others = _reference_embeddings(job, batch, inputs, encodings, [end for _, end in distinct])
    rows = torch.from_numpy(which).to(inputs.device)
    repeated = batch.rows(rows)
    targets = torch.from_numpy(job.targets[[i for i, _ in pairs]]).to(inputs.device)
    return Ends(repeated, inputs[rows], others[rows], targets)


def _reference_embeddings(
    job: Job,
    batch: Batch,
    inputs: Tensor,
    encodings: Sequence[Encoding],
    ends: Sequence[Encoding | Reference],
) -> Tensor:
    ids = _reference_rows(job, batch, encodings, ends)
    replaced = job.model.embed(replace(batch, ids=ids)).detach()
    replaced = torch.where(batch.content[..., None], replaced, inputs)
    zeros = torch.tensor([end == "zero" for end in ends], device=inputs.device)
    return replaced.masked_fill((batch.content & zeros[:, None])[..., None], 0.0)


def _reference_rows(
    job: Job, batch: Batch, encodings: Sequence[Encoding], ends: Sequence[Encoding | Reference]
) -> Tensor:
    """The ids ``[B, T]`` of a batch's references, cut or padded to its texts."""
    ids = batch.ids.clone()
    for row, (encoding, end) in enumerate(zip(encodings, ends, strict=True)):
        ids[row, : len(encoding)] = torch.from_numpy(reference_ids(job.model, encoding, end))
    return ids


@dataclass(frozen=True, slots=True)
class AtInput:
    """One text as it is: its word embeddings ``[n, D]`` and the gradient of the explained output there."""

    embeddings: Floats
    gradient: Floats


def look_at_inputs(
    engine: Engine, encodings: Sequence[Encoding], targets: Targets | None, space: Space
) -> tuple[list[Floats], Targets, list[AtInput]]:
    """Logits, targets (those predicted, unless given) and gradients of texts as they are, in one pass for all three."""
    model, task = engine.model, engine.model.task

    def work(index: Ints) -> list[tuple[Floats, Targets, AtInput]]:
        batch = model.collate([encodings[i] for i in index])
        at = model.embed(batch).detach().requires_grad_(True)
        logits = model(batch, embeddings=at).logits
        asked = task.answers(logits.detach()) if targets is None else torch.from_numpy(targets[index])
        (gradient,) = torch.autograd.grad(task.value(logits, asked.to(at.device), space).sum(), at)
        lengths = [len(encodings[i]) for i in index]
        found = zip(*map(_rows_on_cpu, (logits, at, gradient)), asked.cpu().numpy(), lengths, strict=True)
        return [
            (row[:n] if task.per_token else row, target, AtInput(word[:n], slope[:n]))
            for row, word, slope, target, n in found
        ]

    looks = engine.run(np.array([len(encoding) for encoding in encodings]), work, gradients=True)
    return [look[0] for look in looks], np.stack([look[1] for look in looks]), [look[2] for look in looks]


def _rows_on_cpu(values: Tensor) -> Floats:
    return np.asarray(values.detach().double().cpu().numpy())


def at_inputs(job: Job) -> list[AtInput]:
    """Embeddings and gradients of the job's texts, unless they were seen when it was made."""
    key, started = looked(job.encodings, job.targets, job.space), time.perf_counter()
    known: list[AtInput] | None = job.engine.shared(key)
    if known is not None:
        return known
    found = look_at_inputs(job.engine, job.encodings, job.targets, job.space)[2]
    return job.engine.share(key, found, time.perf_counter() - started)


def looked(encodings: Sequence[Encoding], targets: Targets, space: Space) -> object:
    """Under which key an engine remembers what it saw at inputs."""
    texts = tuple(encoding.ids.tobytes() + encoding.segments.tobytes() for encoding in encodings)
    return "at inputs", texts, targets.tobytes(), space


def gather_gradients(job: Job, points: Sequence[Point], how: Aggregation = "norm") -> list[Floats]:
    """For each example, the weighted sum over its points of gradient times difference: ``[n, D]``, or ``[n, 1]``."""
    lengths = np.array([len(encoding) for encoding in job.encodings])
    sums: dict[int, Floats] = {}

    def work(index: Ints) -> Ints:
        chosen = [points[i] for i in index]
        _add_up(sums, chosen, weighted_terms(job, chosen, how), lengths)
        return index

    job.engine.run(lengths[[point.example for point in points]], work, gradients=True)
    return [sums[i] for i in range(len(job.encodings))]


def weighted_terms(job: Job, points: Sequence[Point], how: Aggregation) -> Tensor:
    """The weighted gradient times difference at every point of one batch: ``[B, T, D]``, or ``[B, T, 1]`` of sums."""
    return terms_and_values(job, points, how)[0]


def terms_and_values(job: Job, points: Sequence[Point], how: Aggregation) -> tuple[Tensor, Tensor]:
    """``weighted_terms``, and the explained output at every point ``[B]``."""
    pairs = [(point.example, point.reference) for point in points]
    alphas, shares = [point.alpha for point in points], [point.weight for point in points]
    if how == "sum" and job.model.enters:
        ways = ways_of(job, pairs)
        lines = ways.at(alphas)
        value = job.value(job.model(ways.batch, embeddings=lines), ways.targets)
        (scores,) = torch.autograd.grad(value, lines.share, torch.tensor(shares, dtype=value.dtype))
        return scores.unsqueeze(-1), value.detach()
    ends = path_ends(job, pairs)
    at = ends.at(alphas)
    value = job.value(job.model(ends.batch, embeddings=at), ends.targets)
    weights = torch.tensor(shares, dtype=value.dtype, device=value.device)
    (gradient,) = torch.autograd.grad(value, at, weights)
    terms = gradient * (ends.inputs - ends.others)
    return terms.sum(-1, keepdim=True) if how == "sum" else terms, value.detach()


def _add_up(sums: dict[int, Floats], points: Sequence[Point], terms: Tensor, lengths: Ints) -> None:
    """An example's points are summed up in the batch, so that only one array for each leaves it."""
    examples, row = np.unique([point.example for point in points], return_inverse=True)
    total = torch.zeros(len(examples), *terms.shape[1:], dtype=torch.float64, device=terms.device)
    total.index_add_(0, torch.from_numpy(row).to(terms.device), terms.double())
    for i, part in zip(examples.tolist(), total.cpu().numpy(), strict=True):
        kept = part[: lengths[i]]
        sums[i] = sums[i] + kept if i in sums else kept


@dataclass(frozen=True, slots=True)
class Repeated:
    """Sums over pairs of points, and what each pair's disagreement adds to the error of every token."""

    sums: Floats  # [n, D], or [n, 1] of sums
    pulls: Floats  # [P, n]


def gather_pairs(job: Job, pairs: Sequence[tuple[Point, Point]], how: Aggregation) -> list[Repeated]:
    """Weighted sums of gradient times difference over pairs of points that are two draws of the same.

    Half the squared distance of two draws is their variance, so the distances are the pulls.
    """
    lengths = np.array([len(encoding) for encoding in job.encodings])
    sums: dict[int, Floats] = {}

    def work(index: Ints) -> list[Floats]:
        chosen = [point for i in index for point in pairs[i]]
        terms = weighted_terms(job, chosen, how)
        _add_up(sums, chosen, terms, lengths)
        apart = aggregate(terms[::2] - terms[1::2], how).double().cpu().numpy()
        return [row[: lengths[pairs[i][0].example]] for row, i in zip(apart, index, strict=True)]

    examples = np.array([pair[0].example for pair in pairs])
    pulls = job.engine.run(lengths[examples], work, rows=np.full(len(pairs), 2), gradients=True)
    return [
        Repeated(sums[i], np.stack([pulls[place] for place in np.flatnonzero(examples == i)]))
        for i in range(len(job.encodings))
    ]


def values_at_inputs(job: Job) -> Floats:
    """The explained output of each example as it is."""
    whole = [np.ones((1, len(encoding)), dtype=np.bool_) for encoding in job.encodings]
    return np.concatenate(job.values(job.engine.logits(job.encodings, whole)))


def values_at_references(job: Job, references: Sequence[Encoding | Reference]) -> Floats:
    """The explained output at the other end of each example's path."""

    def work(index: Ints) -> Floats:
        pairs = [(int(i), references[i]) for i in index]
        output, targets = _read_references(job, pairs)
        return job.value(output, targets).double().cpu().numpy()

    return np.array(job.engine.run(np.array([len(encoding) for encoding in job.encodings]), work))


def _read_references(job: Job, pairs: Sequence[Pair]) -> tuple[Output, Tensor]:
    """What the model says of the other ends.

    A model that enters reads them as texts, each distinct token once. Others may take a padding id for a text's end.
    """
    if not job.model.enters or any(end == "zero" for _, end in pairs):
        ends = path_ends(job, pairs)
        return job.model(ends.batch, embeddings=ends.others), ends.targets
    encodings = [job.encodings[i] for i, _ in pairs]
    batch = job.model.collate(encodings)
    ids = _reference_rows(job, batch, encodings, [end for _, end in pairs])
    targets = torch.from_numpy(job.targets[[i for i, _ in pairs]]).to(ids.device)
    return job.model(replace(batch, ids=ids)), targets
