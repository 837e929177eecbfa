"""Mock data whose evidence is known: opinion words planted among "something" (paper *attefa*; PROTOCOLS 3).

A text is 50 to 100 words long; a fixed number or share of its positions hold words of its label's list, all
others say nothing. The planted positions are kept as the rationale, so that an explanation can be checked
against the truth. Beyond the paper: more classes, evidence in one place, strong or weak words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rashomon.data.batches import Ints
from rashomon.data.example import Dataset, Example, Split
from rashomon.data.lexicon import Lexicon, load_lexicon
from rashomon.errors import UserError, unknown_name

FILLER = "something"
SHORTEST, LONGEST = 50, 100
PLACEMENTS = ("scattered", "start", "middle", "end")


@dataclass(frozen=True, slots=True)
class Evidence:
    """How many positions are planted: a number of them, or a share of the text."""

    count: int | None = None
    share: float | None = None

    def __str__(self) -> str:
        if self.count is not None:
            return "one word" if self.count == 1 else f"{self.count} words"
        return f"{self.share:.0%} of the words"

    def counts(self, lengths: Ints) -> Ints:
        if self.count is not None:
            return np.full_like(lengths, self.count)
        counts: Ints = np.rint((self.share or 0.0) * lengths).astype(np.int64)
        return counts


MOCKS = {
    "mock-1": Evidence(count=1),
    "mock-2": Evidence(count=2),
    "mock-5": Evidence(count=5),
    "mock-10": Evidence(count=10),
    "mock-1q": Evidence(share=0.25),
    "mock-2q": Evidence(share=0.5),
    "mock-3q": Evidence(share=0.75),
    "mock-4q": Evidence(share=1.0),
}


def mock(
    name: str,
    seed: int = 0,
    lexicon: Lexicon | None = None,
    classes: int = 2,
    placement: str = "scattered",
    strength: str = "any",
    train_size: int = 8000,
    dev_size: int = 1000,
    test_size: int = 1000,
) -> Dataset:
    """A mock dataset of the paper, with a dev split drawn like the test split."""
    if name not in MOCKS:
        raise unknown_name("mock dataset", name, MOCKS)
    if placement not in PLACEMENTS:
        raise unknown_name("placement", placement, PLACEMENTS)
    lexicon = lexicon or load_lexicon()
    chosen = lexicon.choose(classes, strength)
    splits = {}
    for number, (split, size) in enumerate((("train", train_size), ("dev", dev_size), ("test", test_size))):
        if size < classes:
            raise UserError(f"The {split} split needs at least one example of {classes} classes, not {size}.")
        generator = np.random.default_rng([seed, number])  # a split is the same whatever the others' sizes
        words = [words for _, words in chosen]
        splits[split] = _draw(split, size, MOCKS[name], words, placement, generator)
    note = f"evidence of {strength} strength, {placement}, words from {lexicon.source}; seed {seed}"
    return Dataset(name, splits, tuple(label for label, _ in chosen), (note,))


def _draw(
    split: str,
    size: int,
    evidence: Evidence,
    lists: list[tuple[str, ...]],
    placement: str,
    generator: np.random.Generator,
) -> Split:
    labels = generator.permutation(np.arange(size) % len(lists))
    lengths = generator.integers(SHORTEST, LONGEST + 1, size)
    planted = _positions(lengths, evidence.counts(lengths), placement, generator)
    sizes = np.array([len(words) for words in lists])
    picks = generator.integers(0, sizes[labels][:, None], (size, LONGEST))
    examples = []
    for row in range(size):
        words = lists[labels[row]]
        length = int(lengths[row])
        marks = planted[row, :length].tolist()
        tokens = tuple(
            words[pick] if mark else FILLER
            for pick, mark in zip(picks[row, :length].tolist(), marks, strict=True)
        )
        examples.append(
            Example(
                f"{split}-{row}",
                " ".join(tokens),
                int(labels[row]),
                tokens=tokens,
                rationale=tuple(map(int, marks)),
            )
        )
    return tuple(examples)


def _positions(
    lengths: Ints, counts: Ints, placement: str, generator: np.random.Generator
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Which positions are planted ``[size, LONGEST]``: drawn at random, or one run of them."""
    columns = np.arange(LONGEST)[None, :]
    if placement == "scattered":
        keys = generator.random((len(lengths), LONGEST))
        keys[columns >= lengths[:, None]] = 2.0  # behind the end: drawn last, that is never
        ranks = keys.argsort(axis=1).argsort(axis=1)
        return ranks < counts[:, None]
    free = lengths - counts
    first = {"start": np.zeros_like(free), "middle": free // 2, "end": free}[placement]
    return (columns >= first[:, None]) & (columns < (first + counts)[:, None])
