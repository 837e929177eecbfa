"""What a model says about many examples: probabilities and attention, in the order they were given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rashomon.data.batches import Encoding, Rows
from rashomon.data.example import Example
from rashomon.models.base import Model, without_attention


@dataclass(frozen=True)
class Predictions:
    """``attention`` is padded to the widest example: ``[N, heads, T]``, zero beyond an example's length."""

    probabilities: NDArray[np.float64]  # [N, C]
    attention: Tensor | None
    lengths: NDArray[np.int64]

    @property
    def classes(self) -> NDArray[np.int64]:
        return np.asarray(self.probabilities.argmax(1), dtype=np.int64)


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Eval mode inside, whatever it was before outside, even after an exception."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def predict(model: Model, rows: Rows, attention: bool = False, token_budget: int = 8192) -> Predictions:
    """Probabilities (and attention on request) for every row, in batches of similar length."""
    count, width = rows.whole.ids.shape
    probabilities = torch.zeros(count, model.classes, dtype=torch.float64)
    weights: Tensor | None = None
    telling = nullcontext() if attention else without_attention(model)
    with evaluating(model), torch.inference_mode(), telling:
        for index in rows.in_order(token_budget):
            output = model(rows.batch(index))
            probabilities[index] = output.probabilities.double().cpu()
            if attention and output.attention is not None:
                if weights is None:
                    with torch.inference_mode(False):  # so that a loss may be taken against it
                        weights = torch.zeros(count, output.attention.shape[1], width)
                weights[index, :, : output.attention.shape[2]] = output.attention.float().cpu()
    return Predictions(probabilities.numpy(), weights, rows.lengths.numpy())


def rows_of(model: Model, examples: Sequence[Example], encodings: Sequence[Encoding] | None = None) -> Rows:
    """Examples (encoded already, perhaps) as tensors on the model's device, with their labels when all have one."""
    labels = [example.label for example in examples if example.label is not None]
    return Rows(
        model.encode(examples) if encodings is None else encodings,
        model.pad_id,
        labels=labels if len(labels) == len(examples) else None,
        device=model.device,
    )
