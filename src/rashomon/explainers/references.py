"""The other end of a path: which reference a text is compared with, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from rashomon.data.batches import Encoding, Ints
from rashomon.errors import DoesNotFit, unknown_name
from rashomon.explainers.base import Job
from rashomon.models.base import Model

Reference = Literal["pad", "zero", "mask"]
References = Literal["pad", "zero", "mask", "training"]
Pair = tuple[int, Encoding | Reference]  # an example by its place, and its reference


def reference_ids(model: Model, encoding: Encoding, end: Encoding | Reference) -> Ints:
    """The text's ids with the reference's in place of its content; those of ``zero`` stay, as it has none."""
    if isinstance(end, Encoding):
        return _laid_over(encoding, end, model.pad_id)
    if end not in ("pad", "zero", "mask"):
        raise unknown_name("reference", end, ("pad", "zero", "mask"))
    if end == "zero":
        return encoding.ids
    return np.where(encoding.content, model.mask_id if end == "mask" else model.pad_id, encoding.ids)


def _laid_over(encoding: Encoding, other: Encoding, pad_id: int) -> Ints:
    """The example's ids with another example's tokens in place of its own, text by text, cut or padded to fit."""
    ids = encoding.ids.copy()
    for segment in (0, 1) if encoding.segments.any() else (0,):
        places = np.flatnonzero(encoding.content & (encoding.segments == segment))
        tokens = other.ids[other.content & (other.segments == segment)][: len(places)]
        ids[places] = pad_id
        ids[places[: len(tokens)]] = tokens
    return ids


def numbered_pairs(pairs: Sequence[Pair]) -> tuple[list[Pair], Ints]:
    """The pairs that differ, and which of them each one is."""
    numbers: dict[tuple[int, int | str], int] = {}
    distinct: list[Pair] = []
    which = np.empty(len(pairs), dtype=np.int64)
    for place, (i, end) in enumerate(pairs):
        key = i, end if isinstance(end, str) else id(end)
        if key not in numbers:
            numbers[key] = len(distinct)
            distinct.append((i, end))
        which[place] = numbers[key]
    return distinct, which


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
