"""The search for another attention of one text that leaves the output as it is (Jain & Wallace).

Token vectors stay fixed, and attention logits are moved by Adam from several random starts to be as far from the
model's attention as they can be while the output changes by at most a tolerance. All texts and starts of a chunk are
moved at once; chunks are searched side by side and kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rashomon.data import Example
from rashomon.data.batches import Batch
from rashomon.data.example import fingerprint
from rashomon.errors import UserError
from rashomon.experiments.context import Context, Work
from rashomon.experiments.trials import max_attention, with_ids
from rashomon.measures.divergence import tvd
from rashomon.models.attention import softmax
from rashomon.models.base import Model, Output, best_device
from rashomon.models.build import load_model
from rashomon.models.evaluator import collect, rows_of
from rashomon.runs.files import read_parquet, write_parquet
from rashomon.runs.specifications import to_plain
from rashomon.training.adversarial import attention_distance

CHUNK = 128  # texts of one task
TOKEN_BUDGET = 4096
NUDGE = 1e-3


@dataclass(frozen=True)
class Search:
    """How the other attention is looked for; the defaults are Jain & Wallace's."""

    starts: int = 5  # random places to begin from
    steps: int = 500  # of gradient descent
    learning_rate: float = 0.01  # of the descent
    tolerance: float = 0.01  # largest change of the output (TVD; for two classes that of the probability)
    penalty: float = 500.0  # on what exceeds it
    noise: float = 3.0  # of the random starts, in logits
    near_base: bool = (
        False  # one start more, close to the model's own attention, from where the output is kept
    )

    def __post_init__(self) -> None:
        if self.starts < 1 or self.steps < 1:
            raise UserError("The search for another attention needs at least one start and one step.")


# Longer steps, fewer of them: on three kinds of base they reach as far as 500 short ones (docs/measured.md).
IN_AUDITS = Search(steps=200, learning_rate=0.03, near_base=True)


def search_all(
    context: Context, base: Path, examples: Sequence[Example], search: Search, seed: int
) -> pd.DataFrame:
    """One row a text, in the order of the texts; chunks of texts are searched side by side and kept."""
    folders = context.make(*_chunks(base, examples, search, seed))
    return pd.concat([read_parquet(folder / "found.parquet") for folder in folders], ignore_index=True)


def search_work(
    context: Context, base: Path, examples: Sequence[Example], search: Search, seed: int
) -> list[Work]:
    """What ``search_all`` would have to do, for those who have other work to do beside it."""
    return context.missing(*_chunks(base, examples, search, seed))


def _chunks(
    base: Path, examples: Sequence[Example], search: Search, seed: int
) -> tuple[list[object], str, list[Callable[[Path], None]]]:
    starts = range(0, len(examples), CHUNK)
    chunks = [tuple(examples[start : start + CHUNK]) for start in starts]
    specs: list[object] = [
        {"base": base, "examples": fingerprint(c), "first": s, "search": to_plain(search), "seed": seed}
        for s, c in zip(starts, chunks, strict=True)
    ]
    makers: list[Callable[[Path], None]] = [
        partial(_make_chunk, base, chunk, start, search, seed)
        for start, chunk in zip(starts, chunks, strict=True)
    ]
    return specs, "instance-adversaries", makers


def _make_chunk(
    base: Path, examples: Sequence[Example], first: int, search: Search, seed: int, folder: Path
) -> None:
    model = load_model(base).to(best_device())
    rows = rows_of(model, examples)

    def read(output: Output, batch: Batch, index: Tensor) -> dict[str, Tensor]:
        return other_attention(model, output, batch, (index + first).tolist(), search, seed)

    found = collect(model, rows, read, attention=True, gradients=True, token_budget=TOKEN_BUDGET)
    table = pd.DataFrame({name: value.numpy() for name, value in found.items()})
    write_parquet(folder / "found.parquet", with_ids(table, examples))


def refusal(model: Model) -> str | None:
    """Why other weights cannot be tried, of a model whose output is not read from token vectors by one attention."""
    if "reweighting" not in model.capabilities:
        return (
            "This trial puts other weights on fixed token vectors, and this model has no attention layer "
            "that its output alone is read from, as the built-in models have."
        )
    return None if model.attention_parameters() else "The attention is not learned: there is nothing to try."


def other_attention(
    model: Model,
    output: Output,
    batch: Batch,
    numbers: Sequence[int],
    search: Search,
    seed: int,
) -> dict[str, Tensor]:
    """The farthest attention of each text that keeps the output; ``numbers`` seed each text's own noise."""
    assert output.attention is not None
    hidden, attention = output.hidden.detach(), output.attention.detach()
    sides = model.sides(batch)
    base = (attention / len(sides)).unsqueeze(1)  # [B, 1, heads, T]
    before = output.probabilities.detach().unsqueeze(1)
    logits = _random_starts(batch, numbers, attention.shape[1], search, seed)
    if search.near_base:
        smallest = torch.finfo(attention.dtype).tiny
        own = (
            attention.clamp_min(smallest).log() + NUDGE * logits[:, 0]
        )  # exactly there the distance has no slope
        logits = torch.cat((logits, own.unsqueeze(1)), 1)
    logits = logits.requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=search.learning_rate)
    best = torch.full(logits.shape[:2], -1.0, device=logits.device)
    best_change = torch.full_like(best, torch.nan)
    for step in range(search.steps + 1):
        weights = torch.stack([softmax(logits, side[:, None, None, :]) for side in sides]).sum(0)
        after = model.decode_with(hidden, weights, batch).softmax(-1)
        change = tvd(after, before)
        spread = weights / len(sides)
        moved = attention_distance(spread, base.expand_as(spread))
        kept = (change.detach() <= search.tolerance) & (moved.detach() > best)
        best = torch.where(kept, moved.detach(), best)
        best_change = torch.where(kept, change.detach(), best_change)
        if step < search.steps:
            excess = (change - search.tolerance).relu()
            loss = (search.penalty * excess - moved).sum() - _apart(spread).sum()
            logits.grad = torch.autograd.grad(loss, logits)[0]
            optimizer.step()
    return _farthest(best, best_change, before, attention)


def _random_starts(batch: Batch, numbers: Sequence[int], heads: int, search: Search, seed: int) -> Tensor:
    """Uniform logits with noise ``[B, starts, heads, T]``. A text's noise is its own, whatever the batch."""
    logits = torch.zeros(batch.size, search.starts, heads, batch.ids.shape[1])
    for row, (number_, length) in enumerate(zip(numbers, batch.mask.sum(1).tolist(), strict=True)):
        noise = np.random.default_rng([seed, number_]).normal(size=(search.starts, heads, length))
        logits[row, :, :, :length] = torch.from_numpy(search.noise * noise) - np.log(length)
    return logits.to(batch.ids.device)


def _apart(weights: Tensor) -> Tensor:
    """How far the starts are from each other: the sum of JSD over pairs, over k (k - 1)."""
    count = weights.shape[1]
    if count == 1:
        return weights.new_zeros(weights.shape[0])
    first, second = (list(side) for side in zip(*combinations(range(count), 2), strict=True))
    return attention_distance(weights[:, first], weights[:, second]).sum(1) / (count * (count - 1))


def _farthest(best: Tensor, change: Tensor, before: Tensor, attention: Tensor) -> dict[str, Tensor]:
    """Of every text the start that came farthest; where none kept the output, the base itself, which does."""
    farthest = best.argmax(1, keepdim=True)
    jsd = best.gather(1, farthest).squeeze(1)
    none = jsd < 0
    return {
        "base_class": before[:, 0].argmax(-1),
        "max_attention": max_attention(attention),
        "jsd": jsd.masked_fill(none, 0.0),
        "tvd": change.gather(1, farthest).squeeze(1).masked_fill(none, 0.0),
        "starts_kept": (best >= 0).sum(1),
    }
