"""How sharply does a text's representation turn with its words? Norms of d(pooled) / d(word embeddings).

Paper *hard-to-agree* reads the norm of this Jacobian, and the distance to the nearest other representation, as the
curvature of the space around a text. The exact Frobenius norm takes a backward pass for each entry of the
representation; a few random projections estimate its square without bias, and say how far off they may be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rashomon.data.batches import Batch, Rows
from rashomon.errors import DoesNotFit, UserError
from rashomon.measures.base import Floats
from rashomon.models.base import Model, Output
from rashomon.models.evaluator import Evaluator, collect

EXACT_UP_TO = 32  # entries of the representation for which exactness costs about what an estimate does
PROJECTIONS = 16
TOKEN_BUDGET = 4096


@dataclass(frozen=True)
class GradientNorms:
    """One norm a text. ``error`` is the standard error of an estimate, 0 where the norm is exact."""

    norms: Floats
    error: Floats
    exact: bool
    projections: int  # backward passes a text


def representations(model: Model, rows: Rows) -> Floats:
    """The vector that the prediction is read from, of every row ``[N, P]``."""

    def read(output: Output, batch: Batch, index: Tensor) -> dict[str, Tensor]:
        return {"pooled": output.pooled.double()}

    return np.asarray(collect(model, rows, read)["pooled"].numpy())


def gradient_norms(model: Model, rows: Rows, projections: int | None = None, seed: int = 0) -> GradientNorms:
    """Frobenius norms of each row's Jacobian, exact with ``projections=0``, or estimated from that many.

    Without ``projections`` small representations are taken exactly and others from ``PROJECTIONS``. A row's random
    signs depend on the seed and its place alone, never on the batch it is in.
    """
    if projections is not None and projections != 0 and projections < 2:
        raise UserError(f"An estimate needs at least two projections, not {projections}; 0 is exact.")
    if "gradients" not in model.capabilities:
        raise DoesNotFit("The model's output cannot be differentiated, so its curvature is unknown.")
    width = _pooled_width(model, rows)
    exact = projections == 0 or (projections is None and width <= EXACT_UP_TO)
    count = width if exact else (projections or PROJECTIONS)
    squares = np.zeros((len(rows), count))

    def work(index: np.ndarray) -> np.ndarray:
        batch = rows.batch(torch.from_numpy(index))
        embedded = model.embed(batch).detach().requires_grad_(True)
        pooled = model(batch, embeddings=embedded).pooled
        for number, direction in enumerate(_directions(index, width, count, exact, seed)):
            ahead = torch.tensor(direction).to(pooled)
            (gradient,) = torch.autograd.grad(
                (pooled * ahead).sum(), embedded, retain_graph=number + 1 < count
            )
            norms = (gradient.double() ** 2 * batch.mask.unsqueeze(-1)).sum((1, 2))
            squares[index, number] = norms.cpu().numpy()
        return index

    Evaluator(model, TOKEN_BUDGET).run(rows.lengths.numpy(), work, gradients=True)
    if exact:
        return GradientNorms(np.sqrt(squares.sum(1)), np.zeros(len(rows)), True, count)
    norms = np.sqrt(squares.mean(1))
    # By the delta method: the error of a root is that of what is under it over twice the root.
    spread = squares.std(1, ddof=1) / np.sqrt(count)
    error = np.divide(spread, 2 * norms, out=np.zeros_like(norms), where=norms > 0)
    return GradientNorms(norms, error, False, count)


def _directions(index: np.ndarray, width: int, count: int, exact: bool, seed: int) -> np.ndarray:
    """``[count, B, P]``: every axis in turn, or random signs of each row's own."""
    if exact:
        axes = np.eye(width, dtype=np.float32)
        return np.broadcast_to(axes[:, None, :], (width, len(index), width))
    signs = [
        np.random.default_rng([seed, int(row)]).integers(0, 2, (count, width)) * 2.0 - 1 for row in index
    ]
    return np.stack(signs, 1).astype(np.float32)


def _pooled_width(model: Model, rows: Rows) -> int:
    with torch.no_grad():
        return int(model(rows.batch(torch.tensor([0]))).pooled.shape[-1])
