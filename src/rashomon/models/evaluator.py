"""One way to evaluate a model on many rows: packed by length under a token budget, smaller when memory runs out.

Engine, training scores, trials of attention and permutations all come here, so each survives running out of memory and
gets batches of alike length. What a row gets does not depend on the rows beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rashomon.data.batches import Batch, Encoding, Ints, Rows, collate
from rashomon.data.example import Example
from rashomon.models.base import Model, Output, without_attention
from rashomon.models.tasks import OUTSIDE, passage_of
from rashomon.progress import Advance

Floats = NDArray[np.float64]
T = TypeVar("T")
_DROPOUT: ContextVar[bool] = ContextVar("dropout", default=False)
# How much of a batch may be padding, and up to which share of the budget it is too small for that to matter. A step
# of a recurrent network, or a call on a GPU, costs about the same for few rows as for many; on a CPU a transformer pays
# for every token.
PADDING, CHEAP_PADDING = (0.02, 1 / 16), (0.1, 1 / 8)
TOKEN_BUDGET = 8192


@dataclass
class Counts:
    """What was asked of the model, and what it was spared."""

    asked: int = 0
    evaluated: int = 0
    tokens: int = 0


@dataclass
class Evaluator:
    """Evaluations of one model. ``token_budget`` bounds the padded tokens of a batch."""

    model: Model
    token_budget: int = TOKEN_BUDGET
    counts: Counts = field(default_factory=Counts)

    def run(
        self,
        lengths: Ints,
        work: Callable[[Ints], Sequence[T] | NDArray[Any]],
        *,
        rows: Ints | None = None,
        gradients: bool = False,
        attention: bool = False,
        advance: Advance | None = None,
    ) -> list[T]:
        """``work`` on batches of positions of alike length; its results in the order of the positions.

        A position stands for one row of a batch, or for as many as ``rows`` says. When memory runs out, this
        and all later batches are made smaller.
        """
        order = np.argsort(lengths, kind="stable")
        heights = np.ones_like(order) if rows is None else rows
        results: list[Any] = [None] * len(order)
        start = 0
        with self._ready(gradients, attention):
            while start < len(order):
                index = order[start : start + self._fitting(lengths, heights, order[start:])]
                size = int(lengths[index].max() * heights[index].sum())
                try:
                    answers = work(index)
                except (MemoryError, RuntimeError) as error:
                    if len(index) == 1 or not out_of_memory(error):
                        raise
                    self.token_budget = size // 2
                    continue
                for position, result in zip(index.tolist(), answers, strict=True):
                    results[position] = result
                start += len(index)
                self.counts.evaluated += int(heights[index].sum())
                self.counts.tokens += int((lengths[index] * heights[index]).sum())
                if advance:
                    advance(len(index))
        return results

    def _fitting(self, lengths: Ints, heights: Ints, order: Ints) -> int:
        """How many of the next positions, whose lengths ascend, make a batch; at least one.

        It stays under the budget and, once it is large enough to be worth a call, mixes lengths only as far as
        padding stays a small share of it.
        """
        order = order[: self.token_budget // max(1, int(lengths[order[0]])) + 1]
        padded = lengths[order] * np.cumsum(heights[order])
        real = np.cumsum(lengths[order] * heights[order])
        dear = self.model.device.type == "cpu" and "layers" in self.model.capabilities
        share, small = PADDING if dear else CHEAP_PADDING
        dense = (padded <= (1 + share) * real) | (padded <= self.token_budget * small)
        if self.model.equal_lengths:
            dense = lengths[order] == lengths[order[0]]
        good = np.flatnonzero((padded <= self.token_budget) & dense)
        return int(good[-1]) + 1 if len(good) else 1

    @contextmanager
    def _ready(self, gradients: bool, attention: bool) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(evaluating(self.model))
            if not attention:
                stack.enter_context(without_attention(self.model))
            stack.enter_context(torch.inference_mode(not gradients))
            if gradients:  # with respect to embeddings alone, whatever the caller's own mode is
                stack.enter_context(torch.enable_grad())
                stack.enter_context(_frozen(self.model))
            yield


def collect(
    model: Model,
    rows: Rows,
    read: Callable[[Output, Batch, Tensor], Mapping[str, Tensor]],
    *,
    per_token: Sequence[str] = (),
    attention: bool = False,
    gradients: bool = False,
    token_budget: int = TOKEN_BUDGET,
) -> dict[str, Tensor]:
    """What ``read(output, batch, index)`` takes from every row, as whole tensors on the CPU, in the order of the rows.

    Values whose last dimension runs over tokens are named in ``per_token`` and padded with zeros to the widest row.
    """
    gathered: dict[str, Tensor] = {}
    width = rows.whole.ids.shape[1]

    def work(index: Ints) -> Ints:
        where = torch.from_numpy(index)
        batch = rows.batch(where)
        for name, value in read(model(batch), batch, where).items():
            value = value.detach().cpu()
            shape = (*value.shape[1:-1], width) if name in per_token else value.shape[1:]
            if name not in gathered:
                with torch.inference_mode(False):  # so that a loss may be taken against it
                    gathered[name] = torch.zeros(len(rows), *shape, dtype=value.dtype)
            target = gathered[name]
            target[(where, ..., slice(value.shape[-1])) if name in per_token else where] = value
        return index

    Evaluator(model, token_budget).run(rows.lengths.numpy(), work, attention=attention, gradients=gradients)
    return gathered


@dataclass(frozen=True)
class Predictions:
    """``attention`` is padded to the widest example: ``[N, heads, T]``, zero beyond an example's length."""

    logits: Floats  # [N, C], or [N, T, 2] of spans
    attention: Tensor | None
    lengths: Ints

    @property
    def probabilities(self) -> Floats:
        """``[N, C]``."""
        return np.asarray(torch.from_numpy(self.logits).softmax(-1).numpy())

    @property
    def classes(self) -> Ints:
        return np.asarray(self.logits.argmax(-1), dtype=np.int64)


def predict(
    model: Model, rows: Rows, attention: bool = False, token_budget: int = TOKEN_BUDGET
) -> Predictions:
    """Logits (and attention on request) of every row."""

    def read(output: Output, batch: Batch, index: Tensor) -> dict[str, Tensor]:
        logits = output.logits.double()
        fields = {"logits": logits.transpose(1, 2) if model.task.per_token else logits}
        if attention and output.attention is not None:
            fields["attention"] = output.attention.float()
        return fields

    over_tokens = ("logits", "attention") if model.task.per_token else ("attention",)
    found = collect(model, rows, read, per_token=over_tokens, attention=attention, token_budget=token_budget)
    logits = found.get("logits", torch.zeros(0, max(model.classes, 2), dtype=torch.float64))
    if model.task.per_token:
        logits = logits.transpose(1, 2).masked_fill(~passage_of(rows.whole).cpu().unsqueeze(-1), OUTSIDE)
    return Predictions(logits.numpy(), found.get("attention"), rows.lengths.numpy())


def scores_of(model: Model, rows: Rows) -> dict[str, float]:
    """Loss and figures of a model on rows that carry their targets."""
    return model.task.scores(predict(model, rows).logits, rows)


def rows_of(model: Model, examples: Sequence[Example], encodings: Sequence[Encoding] | None = None) -> Rows:
    """Examples (encoded already, perhaps) as tensors on the model's device, with their targets when all have one."""
    read = model.encode(examples) if encodings is None else encodings
    targets = model.task.targets(examples, read)
    whole = collate(read, model.pad_id).with_extras(**targets).to(model.device)
    return Rows(whole, source=list(zip(examples, read, strict=True)))


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Eval mode inside, whatever it was before outside, even after an exception."""
    was_training = model.training
    model.train(_DROPOUT.get())
    try:
        yield
    finally:
        model.train(was_training)


@contextmanager
def with_dropout(seed: int) -> Iterator[None]:
    """Inside, models are evaluated as if they were training, as some public code explains them; drawn from the seed."""
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    token = _DROPOUT.set(True)
    try:
        with torch.random.fork_rng(devices=devices):
            torch.manual_seed(seed)
            yield
    finally:
        _DROPOUT.reset(token)


@contextmanager
def _frozen(model: Model) -> Iterator[None]:
    """Parameters without gradients inside, which spares the graph what only they would need."""
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in learning:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)


def out_of_memory(error: BaseException) -> bool:
    """CPU allocators say it in words only."""
    words = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or any(w in str(error) for w in words)
