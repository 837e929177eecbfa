"""Which number does a word have? Built from training texts, most frequent words first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rashomon.data.batches import Ints
from rashomon.errors import UserError

PAD, UNKNOWN = "<pad>", "<unk>"
PAD_ID, UNKNOWN_ID = 0, 1


@dataclass(frozen=True)
class Vocabulary:
    """Words by id: padding 0, unknown 1, then words by frequency, ties in alphabetical order."""

    words: tuple[str, ...]

    @classmethod
    def build(
        cls, word_lists: Iterable[Sequence[str]], max_size: int | None = None, min_count: int = 1
    ) -> Vocabulary:
        """The words that occur ``min_count`` times, at most ``max_size`` (the first two not counted)."""
        counts = Counter(word for words in word_lists for word in words)
        for special in (PAD, UNKNOWN):
            del counts[special]  # written out in a text, they are no words of their own
        frequent = (word for word, count in counts.items() if count >= min_count)
        ranked = sorted(frequent, key=lambda word: (-counts[word], word))
        return cls((PAD, UNKNOWN, *ranked[:max_size]))

    def extended(self, words: Iterable[str]) -> Vocabulary:
        """The same ids, and further ones for new words in alphabetical order."""
        return Vocabulary((*self.words, *sorted(set(words) - set(self.words))))

    @cached_property
    def _index(self) -> dict[str, int]:
        index = {word: number for number, word in enumerate(self.words)}
        index[PAD] = UNKNOWN_ID  # a text may say "<pad>"; it must not vanish behind the padding
        return index

    def ids(self, words: Sequence[str]) -> Ints:
        index = self._index
        return np.array([index.get(word, UNKNOWN_ID) for word in words], dtype=np.int64)

    def to_json(self) -> list[str]:
        return list(self.words)

    @classmethod
    def from_json(cls, words: Sequence[str]) -> Vocabulary:
        if tuple(words[:2]) != (PAD, UNKNOWN) or len(set(words)) != len(words):
            raise UserError(f"This is no vocabulary: it must start with {PAD}, {UNKNOWN} and repeat no word.")
        return cls(tuple(words))

    def __contains__(self, word: object) -> bool:
        return word in self._index and word not in (PAD, UNKNOWN)

    def __len__(self) -> int:
        return len(self.words)
