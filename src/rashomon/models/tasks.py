"""What is a model asked for? A class of the text, or a span of the passage that answers a question.

A task owns everything that differs between the two: what travels with the rows as target, the loss, what counts as the
answer, how good it is, and the one number that an explanation explains. Training, evaluation, the choice of the epoch
and the explainers go through it and are written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from rashomon.data.batches import Batch, Encoding, Rows
from rashomon.data.example import Dataset, Example
from rashomon.errors import UserError
from rashomon.measures.answers import exact_match, token_f1
from rashomon.measures.classification import accuracy, f1, roc_auc
from rashomon.registry import Registry

Space = Literal["logit", "probability", "centred"]  # centred: the logit above the mean over the classes
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LABEL, START, END = "label", "start", "end"  # names under which targets travel
NO_TARGET = -100  # the answer was cut off, so the row teaches nothing
LONGEST_ANSWER = 30  # tokens
OUTSIDE = (
    -1e9
)  # the logit of a place where no answer can begin or end; finite, so that gradients stay numbers


class Task(ABC):
    """One kind of question. ``figures`` are the scores of a model, the first being the one to quote."""

    name: ClassVar[str]
    figures: ClassVar[tuple[str, ...]]
    right_figures: ClassVar[tuple[str, ...]]  # those that single answers have
    per_token: ClassVar[bool]  # whether a model's logits have a row for each token
    keeps_positions: ClassVar[bool]  # whether tokens must be masked rather than taken out
    spaces: ClassVar[tuple[Space, ...]]  # in which the explained number can be had

    @abstractmethod
    def check_example(self, example: Example) -> None:
        """Refuse an example that asks for something else."""

    @abstractmethod
    def targets(self, examples: Sequence[Example], encodings: Sequence[Encoding]) -> dict[str, Tensor]:
        """What training pulls towards, a tensor ``[N]`` by name; empty where an example has none."""

    @abstractmethod
    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """The mean cross-entropy of a batch that carries its targets."""

    @abstractmethod
    def scores(self, logits: Floats, rows: Rows) -> dict[str, float]:
        """``loss`` and the figures, from the logits of all rows."""

    @abstractmethod
    def right(self, answer: Ints, example: Example, encoding: Encoding) -> dict[str, float]:
        """How right one answer is, by the names of ``right_figures``; NaN where the right one is not known."""

    @abstractmethod
    def answers(self, logits: Tensor) -> Tensor:
        """The predicted target of every row: a class ``[B]``, or a span's first and last token ``[B, 2]``."""

    @abstractmethod
    def value(self, logits: Tensor, targets: Tensor, space: Space) -> Tensor:
        """The number that is explained, one a row ``[B]``."""

    @abstractmethod
    def probabilities(self, logits: Floats, target: Ints) -> tuple[float, ...]:
        """What a record keeps of one row's prediction."""

    @abstractmethod
    def describe(self, target: Ints, encoding: Encoding, example: Example, labels: Sequence[str]) -> str:
        """A target in words: the label's name, the answer's text."""

    def values(self, logits: Floats, target: Ints, space: Space) -> Floats:
        """``value`` of many rows that share one target, as arrays."""
        tensor = torch.from_numpy(logits)
        targets = torch.from_numpy(np.asarray(target)).expand(len(tensor), *np.shape(target))
        return np.asarray(self.value(tensor, targets, space).numpy())

    @abstractmethod
    def check_target(self, target: Any, classes: int, encoding: Encoding) -> None:
        """Refuse a target that a user asked for and that is not there."""


tasks: Registry[Task] = Registry("task", "tasks")


class Classification(Task):
    """Which class does the text (or pair) belong to?"""

    name: ClassVar[str] = "classification"
    figures: ClassVar[tuple[str, ...]] = ("accuracy", "f1", "roc-auc")
    right_figures: ClassVar[tuple[str, ...]] = ("accuracy",)
    per_token: ClassVar[bool] = False
    keeps_positions: ClassVar[bool] = False
    spaces: ClassVar[tuple[Space, ...]] = ("logit", "probability", "centred")

    def check_example(self, example: Example) -> None:
        if example.answers is not None:
            raise UserError(
                f"Example {example.id!r} is a question with its passage, and this model chooses between classes."
            )

    def targets(self, examples: Sequence[Example], encodings: Sequence[Encoding]) -> dict[str, Tensor]:
        labels = [example.label for example in examples if example.label is not None]
        return {LABEL: torch.tensor(labels, dtype=torch.long)} if len(labels) == len(examples) else {}

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(logits, batch.extras[LABEL])

    def scores(self, logits: Floats, rows: Rows) -> dict[str, float]:
        labels = rows.whole.extras[LABEL].cpu().numpy()
        return class_scores(softmax(logits, axis=-1), labels)

    def right(self, answer: Ints, example: Example, encoding: Encoding) -> dict[str, float]:
        return {"accuracy": float("nan") if example.label is None else float(int(answer) == example.label)}

    def answers(self, logits: Tensor) -> Tensor:
        return logits.argmax(-1)

    def value(self, logits: Tensor, targets: Tensor, space: Space) -> Tensor:
        outputs = logits.softmax(-1) if space == "probability" else logits
        if space == "centred":  # what raises all classes alike moves no probability
            outputs = logits - logits.mean(-1, keepdim=True)
        return outputs.gather(1, targets[:, None])[:, 0]

    def probabilities(self, logits: Floats, target: Ints) -> tuple[float, ...]:
        return tuple(softmax(logits, axis=-1).tolist())

    def describe(self, target: Ints, encoding: Encoding, example: Example, labels: Sequence[str]) -> str:
        return labels[int(target)]

    def check_target(self, target: Any, classes: int, encoding: Encoding) -> None:
        if not 0 <= int(target) < classes:
            raise UserError(f"There is no class {target}; the model has the classes 0 to {classes - 1}.")


class SpanPrediction(Task):
    """Which span of the passage answers the question? Logits ``[B, T, 2]``, very low outside of the passage."""

    name: ClassVar[str] = "span"
    figures: ClassVar[tuple[str, ...]] = ("f1", "exact-match")
    right_figures: ClassVar[tuple[str, ...]] = ("exact-match", "f1")
    per_token: ClassVar[bool] = True
    keeps_positions: ClassVar[bool] = True
    # Its classes are the places of a text, and a mean over them would compare texts of different lengths.
    spaces: ClassVar[tuple[Space, ...]] = ("logit", "probability")

    def check_example(self, example: Example) -> None:
        if not example.is_pair:
            raise UserError(
                f"Example {example.id!r} has no passage, and this model looks for answers in one: "
                "give a question with its passage."
            )

    def targets(self, examples: Sequence[Example], encodings: Sequence[Encoding]) -> dict[str, Tensor]:
        if not all(example.answers for example in examples):
            return {}
        spans = [
            answer_tokens(example, encoding) for example, encoding in zip(examples, encodings, strict=True)
        ]
        start, end = zip(*(span or (NO_TARGET, NO_TARGET) for span in spans), strict=True)
        return {START: torch.tensor(start), END: torch.tensor(end)}

    def loss(self, logits: Tensor, batch: Batch) -> Tensor:
        known = (batch.extras[START] != NO_TARGET).sum().clamp_min(1)
        losses = [
            F.cross_entropy(logits[..., side], batch.extras[name], ignore_index=NO_TARGET, reduction="sum")
            for side, name in enumerate((START, END))
        ]
        return (losses[0] + losses[1]) / (2 * known)

    def scores(self, logits: Floats, rows: Rows) -> dict[str, float]:
        if rows.source is None:
            raise UserError("Answers can be scored only where their texts are known.")
        whole = torch.from_numpy(logits)
        loss = self.loss(whole, rows.whole.to("cpu"))
        each = [
            self.right(span, example, encoding)
            for (example, encoding), span in zip(rows.source, self.answers(whole).numpy(), strict=True)
        ]
        return {
            "loss": float(loss),
            **{n: float(np.mean([right[n] for right in each])) for n in self.figures},
        }

    def right(self, answer: Ints, example: Example, encoding: Encoding) -> dict[str, float]:
        """The best over the answers that are known; there may be several."""
        mine = answer_text(example, encoding, answer.tolist())
        golds = [_cut(example, a.start, a.end) for a in example.answers or ()]
        return {
            "exact-match": max((exact_match(mine, gold) for gold in golds), default=float("nan")),
            "f1": max((token_f1(mine, gold) for gold in golds), default=float("nan")),
        }

    def answers(self, logits: Tensor) -> Tensor:
        """The best span of at most ``LONGEST_ANSWER`` tokens whose end is not before its start."""
        start, end = logits.unbind(-1)
        width = start.shape[1]
        best = torch.full_like(start[:, 0], -torch.inf)
        chosen = torch.zeros(len(start), 2, dtype=torch.long, device=start.device)
        for length in range(min(LONGEST_ANSWER, width)):
            sums = start[:, : width - length] + end[:, length:]
            value, first = sums.max(1)
            better = value > best
            best = torch.where(better, value, best)
            chosen[better] = torch.stack((first, first + length), 1)[better]
        return chosen

    def value(self, logits: Tensor, targets: Tensor, space: Space) -> Tensor:
        """The sum of the start's and the end's logit, or the product of their probabilities."""
        outputs = logits if space == "logit" else logits.softmax(1)
        start, end = (outputs[..., side].gather(1, targets[:, side, None])[:, 0] for side in (0, 1))
        return start + end if space == "logit" else start * end

    def probabilities(self, logits: Floats, target: Ints) -> tuple[float, ...]:
        return (float(self.values(logits[None], target, "probability")[0]),)

    def describe(self, target: Ints, encoding: Encoding, example: Example, labels: Sequence[str]) -> str:
        return answer_text(example, encoding, target.tolist())

    def check_target(self, target: Any, classes: int, encoding: Encoding) -> None:
        start, end = (int(place) for place in target)
        inside = encoding.content & (encoding.segments == 1)
        if not (0 <= start <= end < len(inside) and inside[start] and inside[end]):
            raise UserError(f"Tokens {start} to {end} are no span of the passage of {encoding.example_id!r}.")


CLASSIFICATION = tasks.register("classification")(Classification())
SPAN = tasks.register("span")(SpanPrediction())


def task_of(data: Dataset) -> Task:
    """What the dataset's examples ask for."""
    first = next((example for split in data.splits.values() for example in split), None)
    return SPAN if first is not None and first.answers is not None and not data.labels else CLASSIFICATION


def class_scores(probabilities: Floats, labels: Ints) -> dict[str, float]:
    """The figures that every classification is reported with."""
    gold = probabilities[np.arange(len(labels)), labels]
    return {
        "loss": float(-np.log(np.maximum(gold, 1e-12)).mean()),
        "accuracy": accuracy(probabilities, labels),
        "f1": f1(probabilities, labels),
        "roc-auc": roc_auc(probabilities, labels),
    }


def passage_of(batch: Batch) -> Tensor:
    """The tokens that an answer may consist of: those of the second text."""
    return batch.content & (batch.segments == 1)


def answer_tokens(example: Example, encoding: Encoding) -> tuple[int, int] | None:
    """First and last token of the first answer that lies in the encoded passage whole; None if all were cut off."""
    inside = np.flatnonzero(encoding.content & (encoding.segments == 1))
    starts, ends = encoding.offsets[inside].T
    for answer in example.answers or ():
        touched = inside[(starts < answer.end) & (ends > answer.start)]
        if len(touched) and encoding.offsets[touched[-1], 1] >= answer.end:
            return int(touched[0]), int(touched[-1])
    return None


def answer_text(example: Example, encoding: Encoding, span: Sequence[int]) -> str:
    """The characters of the passage from a first to a last token."""
    return _cut(example, int(encoding.offsets[span[0], 0]), int(encoding.offsets[span[1], 1]))


def _cut(example: Example, start: int, end: int) -> str:
    return (example.text_pair or "")[start:end]
