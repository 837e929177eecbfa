"""Gradients along straight paths from a reference to the input: the engine's backward passes.

A row of the queue is one point ``reference + alpha (input - reference)`` of one example, with a weight. Rows of all
examples are packed by length into batches like forward evaluations are. Plain gradients, gradient SHAP and
integrated gradients (``integrate.py``) are different sets of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rashomon.data.batches import Batch, Encoding, Ints
from rashomon.errors import DoesNotFit, unknown_name
from rashomon.explainers.base import Floats, Job
from rashomon.explainers.engine import Engine
from rashomon.models.tasks import Space

Reference = Literal["pad", "zero", "mask"]
References = Literal["pad", "zero", "mask", "training"]
Targets = NDArray[np.int64]


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


def path_ends(job: Job, pairs: Sequence[tuple[int, Encoding | Reference]]) -> Ends:
    """Ends for (example, reference) pairs; equal pairs are embedded once."""
    distinct: dict[tuple[int, int | str], tuple[int, Encoding | Reference]] = {}
    for i, end in pairs:
        distinct.setdefault(_key(i, end), (i, end))
    numbers = {key: number for number, key in enumerate(distinct)}
    encodings = [job.encodings[i] for i, _ in distinct.values()]
    batch = job.model.collate(encodings)
    inputs = job.model.embed(batch).detach()
    others = _reference_embeddings(job, batch, inputs, encodings, [end for _, end in distinct.values()])
    rows = torch.tensor([numbers[_key(i, end)] for i, end in pairs], device=inputs.device)
    repeated = batch.rows(rows)
    targets = torch.from_numpy(job.targets[[i for i, _ in pairs]]).to(inputs.device)
    return Ends(repeated, inputs[rows], others[rows], targets)


def _key(example: int, end: Encoding | Reference) -> tuple[int, int | str]:
    return example, end if isinstance(end, str) else id(end)


def _reference_embeddings(
    job: Job,
    batch: Batch,
    inputs: Tensor,
    encodings: Sequence[Encoding],
    ends: Sequence[Encoding | Reference],
) -> Tensor:
    ids = batch.ids.clone()
    content = torch.zeros_like(batch.mask)
    zeroed = torch.zeros_like(batch.mask)
    for row, (encoding, end) in enumerate(zip(encodings, ends, strict=True)):
        of_content = torch.from_numpy(np.flatnonzero(encoding.content)).to(ids.device)
        content[row, of_content] = True
        if isinstance(end, Encoding):
            ids[row, : len(encoding)] = torch.from_numpy(_laid_over(encoding, end, job.model.pad_id))
        elif end == "zero":
            zeroed[row, of_content] = True
        elif end in ("pad", "mask"):
            ids[row, of_content] = job.model.mask_id if end == "mask" else job.model.pad_id
        else:
            raise unknown_name("reference", end, ("pad", "zero", "mask"))
    replaced = job.model.embed(replace(batch, ids=ids)).detach()
    replaced = torch.where(content[..., None], replaced, inputs)
    return replaced.masked_fill(zeroed[..., None], 0.0)


def _laid_over(encoding: Encoding, other: Encoding, pad_id: int) -> Ints:
    """The example's ids with another example's tokens in place of its own, text by text, cut or padded to fit."""
    ids = encoding.ids.copy()
    for segment in (0, 1):
        places = np.flatnonzero(encoding.content & (encoding.segments == segment))
        tokens = other.ids[other.content & (other.segments == segment)][: len(places)]
        ids[places] = pad_id
        ids[places[: len(tokens)]] = tokens
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
    key = looked(job.encodings, job.targets, job.space)
    if key not in job.engine.memory:
        job.engine.memory[key] = look_at_inputs(job.engine, job.encodings, job.targets, job.space)[2]
    known: list[AtInput] = job.engine.memory[key]
    return known


def looked(encodings: Sequence[Encoding], targets: Targets, space: Space) -> object:
    """Under which key an engine remembers what it saw at inputs."""
    texts = tuple(encoding.ids.tobytes() + encoding.segments.tobytes() for encoding in encodings)
    return "at inputs", texts, targets.tobytes(), space


def gather_gradients(job: Job, points: Sequence[Point]) -> list[Floats]:
    """For each example, the weighted sum over its points of gradient times difference: ``[n, D]``."""
    lengths = np.array([len(encoding) for encoding in job.encodings])
    sums: dict[int, Floats] = {}

    def work(index: Ints) -> Ints:
        chosen = [points[i] for i in index]
        _add_up(sums, chosen, weighted_terms(job, chosen), lengths)
        return index

    job.engine.run(lengths[[point.example for point in points]], work, gradients=True)
    return [sums[i] for i in range(len(job.encodings))]


def weighted_terms(job: Job, points: Sequence[Point]) -> Tensor:
    """The weighted gradient times difference at every point, of one batch: ``[B, T, D]``."""
    ends = path_ends(job, [(point.example, point.reference) for point in points])
    at = ends.at([point.alpha for point in points])
    value = job.value(job.model(ends.batch, embeddings=at), ends.targets)
    weights = torch.tensor([point.weight for point in points], dtype=value.dtype, device=value.device)
    (gradient,) = torch.autograd.grad(value, at, weights)
    return gradient * (ends.inputs - ends.others)


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

    sums: Floats  # [n, D]
    pulls: Floats  # [P, n]


def gather_pairs(
    job: Job, pairs: Sequence[tuple[Point, Point]], reduce: Callable[[Tensor], Tensor]
) -> list[Repeated]:
    """Weighted sums of gradient times difference over pairs of points that are two draws of the same.

    Half the squared distance of two draws is their variance, so the distances are the pulls; ``reduce`` makes one
    number a token of them.
    """
    lengths = np.array([len(encoding) for encoding in job.encodings])
    sums: dict[int, Floats] = {}

    def work(index: Ints) -> list[Floats]:
        chosen = [point for i in index for point in pairs[i]]
        terms = weighted_terms(job, chosen)
        _add_up(sums, chosen, terms, lengths)
        apart = reduce(terms[::2] - terms[1::2]).double().cpu().numpy()
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
        ends = path_ends(job, [(int(i), references[i]) for i in index])
        output = job.model(ends.batch, embeddings=ends.others)
        return job.value(output, ends.targets).double().cpu().numpy()

    return np.array(job.engine.run(np.array([len(encoding) for encoding in job.encodings]), work))


def draw_references(
    job: Job, kind: References, count: int, generator: np.random.Generator
) -> list[Encoding | Reference]:
    """Path ends for methods that average over several: always the same one, or training examples.

    Of the latter as many as there are, each once before any comes again.
    """
    if kind != "training":
        return [kind] * count
    if not job.background:
        raise DoesNotFit("References from training examples need `background` examples to draw from.")
    rounds = -(-count // len(job.background))
    drawn = np.concatenate([generator.permutation(len(job.background)) for _ in range(rounds)])[:count]
    return [job.background[int(j)] for j in drawn]
