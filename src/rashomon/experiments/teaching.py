"""Which explanations should a teacher give? Weights over methods, learned so that students simulate it better.

After Fernandes et al. 2022. A student takes one step on texts whose explanation is the weighted mean of what the
methods say; how badly it then predicts the teacher on other texts is what the weights descend, through that step. They
go through sparsemax, so that methods that teach nothing drop out. How the step depends on them is taken by a central
difference along the slope of the other texts (Liu et al. 2019), so that nothing is differentiated twice and any student
will do. Several students are begun anew, one after the other; none of them is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from rashomon.data.batches import Batch, Rows
from rashomon.experiments.lessons import Course, all_scores
from rashomon.experiments.students import Student
from rashomon.explainers import Explanations
from rashomon.models.attention import sparsemax
from rashomon.models.base import Model
from rashomon.models.build import build_model
from rashomon.models.evaluator import rows_of
from rashomon.training.learning_from_marks import attended, attention_loss, normalised, pulled_attention
from rashomon.training.loop import seeded
from rashomon.training.optimizers import make_optimizer

SHARES = "shares"  # travel with the rows: what each method says of each token [N, M, T], adding up to one
SMALL_STEP = 0.01  # of the central difference, along a direction of length one


@dataclass(frozen=True)
class Teaching:
    """How the weights are learned."""

    student: Student
    students: int = 3  # begun anew so many times
    epochs: int = 5  # of each
    pull: float = 1.0  # of the explanations in the student's loss
    rate: float = 0.02  # of the weights
    seed: int = 0


def learn_to_teach(course: Course, explanations: Explanations, asked: Teaching) -> dict[str, float]:
    """The weight of every method that was heard on the training texts; they add up to one."""
    methods = explanations.methods
    scores = torch.zeros(len(methods), requires_grad=True)
    teacher = torch.optim.Adam([scores], lr=asked.rate)
    for number in range(asked.students):
        with seeded(asked.seed, number) as generator:
            model = build_model(asked.student.spec, course.data, asked.seed + number)
            rows = _with_shares(rows_of(model, course.data["train"]), explanations)
            held_out = rows_of(model, course.data["dev"])
            optimizer = make_optimizer(model, asked.student.training, None)
            model.train()
            for batch, other in _pairs(rows, held_out, asked, generator):
                teacher.zero_grad()
                optimizer.zero_grad()
                (_task_loss(model, batch) + asked.pull * _lesson(model, batch, scores.detach())).backward()
                scores.grad = asked.pull * slope(
                    model, batch, other, scores, asked.student.training.learning_rate
                )
                optimizer.step()
                teacher.step()
    return dict(zip(methods, weights_of(scores).tolist(), strict=True))


def weights_of(scores: Tensor) -> Tensor:
    return sparsemax(scores, torch.ones_like(scores, dtype=torch.bool))


def _with_shares(rows: Rows, explanations: Explanations) -> Rows:
    assert rows.source is not None
    encodings, width = [encoding for _, encoding in rows.source], rows.whole.ids.shape[1]
    each = [
        all_scores(explanations.by_method(method), method).onto(encodings, width)
        for method in explanations.methods
    ]
    return rows.with_extras((SHARES,), shares=normalised(torch.stack(each, 1)))


def _pairs(
    rows: Rows, held_out: Rows, asked: Teaching, generator: torch.Generator
) -> Iterator[tuple[Batch, Batch]]:
    """Texts to take a step by, and others to be tried on after it."""
    size = asked.student.training.batch_size
    for _ in range(asked.epochs):
        for index in rows.shuffled(size, generator):
            tried = torch.randperm(len(held_out), generator=generator)[:size]
            yield rows.batch(index), held_out.batch(tried)


def _task_loss(model: Model, batch: Batch) -> Tensor:
    return model.task.loss(model(batch).logits, batch)


def _lesson(model: Model, batch: Batch, scores: Tensor) -> Tensor:
    """KL(explanation || attention), a mean over texts."""
    marks = torch.einsum("m,bmt->bt", weights_of(scores), batch.extras[SHARES])
    attention = pulled_attention(model, model(batch))
    return attention_loss(attention, marks, attended(model, batch)).mean()


@contextmanager
def _moved(parameters: Sequence[nn.Parameter], by: Sequence[Tensor], times: float) -> Iterator[None]:
    """Inside, the parameters stand elsewhere; afterwards exactly where they stood."""
    before = [parameter.detach().clone() for parameter in parameters]
    with torch.no_grad():
        for parameter, step in zip(parameters, by, strict=True):
            parameter.add_(step, alpha=times)
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, old in zip(parameters, before, strict=True):
                parameter.copy_(old)


def slope(model: Model, batch: Batch, other: Batch, scores: Tensor, rate: float) -> Tensor:
    """How the loss on other texts, after the step whose slopes the model carries, changes with the scores.

    The step is -rate times the slope of the student's loss, of which the weights move the lesson alone; its change
    along the slope of the other texts is the difference of the lesson's own slopes at two points.
    """
    known = [p for p in model.parameters() if p.grad is not None]
    steps = [-rate * p.grad for p in known if p.grad is not None]
    with _moved(known, steps, 1.0):
        towards = torch.autograd.grad(_task_loss(model, other), known, allow_unused=True)
    direction = [torch.zeros_like(p) if g is None else g for p, g in zip(known, towards, strict=True)]
    length = torch.stack([g.norm() for g in direction]).norm().clamp_min(1e-10)
    unit = [g / length for g in direction]
    ends = []
    for sign in (1.0, -1.0):
        with _moved(known, unit, sign * SMALL_STEP):
            ends.append(torch.autograd.grad(_lesson(model, batch, scores), scores)[0])
    return cast(Tensor, -rate * length * (ends[0] - ends[1]) / (2 * SMALL_STEP))
