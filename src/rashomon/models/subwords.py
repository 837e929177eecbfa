"""How does a tokeniser of sub-words read an example? Into ids, with the way back to words and characters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from transformers import PreTrainedTokenizerBase

from rashomon.data.batches import Encoding
from rashomon.data.example import Example
from rashomon.data.tokens import words_of
from rashomon.errors import UserError

_SIDES = ("first", "second")


@dataclass(frozen=True)
class SubwordReader:
    """``cut`` says which text gives way where both do not fit: the longer one, or always the second."""

    tokenizer: PreTrainedTokenizerBase
    max_length: int
    first_position: int
    cut: str = "longest_first"  # or "only_second"

    def read(self, examples: Sequence[Example]) -> list[Encoding]:
        """Encodings in the order of the examples, single texts and pairs mixed as they come."""
        for example in examples:
            _require_text(example)
        encodings: list[Encoding | None] = [None] * len(examples)
        for pair in (False, True):
            numbers = [number for number, example in enumerate(examples) if example.is_pair == pair]
            for number, encoding in zip(numbers, self._alike([examples[n] for n in numbers]), strict=True):
                encodings[number] = encoding
        return cast(list[Encoding], encodings)

    def _alike(self, examples: Sequence[Example]) -> list[Encoding]:
        """Examples that are all single texts, or all pairs."""
        whole = self._tokenise(examples)
        long = [number for number, read in enumerate(whole) if len(read.ids) > self.max_length]
        kept = list(whole)
        for number, read in zip(long, self._shortened([examples[number] for number in long]), strict=True):
            kept[number] = read
        return [
            self._encoding(example, read, cut=len(full.ids) - len(read.ids))
            for example, read, full in zip(examples, kept, whole, strict=True)
        ]

    def _shortened(self, examples: Sequence[Example]) -> list[Any]:
        cut = self.cut if examples and examples[0].is_pair else "longest_first"
        if cut == "only_second":
            alone = self._tokenise([Example(example.id, example.text) for example in examples])
            for example, read in zip(examples, alone, strict=True):
                if len(read.ids) >= self.max_length - 1:
                    raise UserError(
                        f"The question of {example.id!r} leaves no room for its passage "
                        f"in the {self.max_length} tokens that the model reads."
                    )
        return self._tokenise(examples, truncation=cut, max_length=self.max_length)

    def _tokenise(self, examples: Sequence[Example], **options: Any) -> list[Any]:
        if not examples:
            return []
        texts = [example.text for example in examples]
        pairs = [example.text_pair for example in examples] if examples[0].is_pair else None
        return cast(list[Any], self.tokenizer(texts, pairs, verbose=False, **options).encodings)

    def _encoding(self, example: Example, read: Any, cut: int) -> Encoding:
        special = np.array(read.special_tokens_mask, dtype=np.bool_)
        offsets = np.array(read.offsets, dtype=np.int64).reshape(-1, 2)
        segments = np.array(segments_of(read.sequence_ids), dtype=np.int64)
        word_ids = np.full(len(special), -1, dtype=np.int64)
        for side in (0, 1) if example.is_pair else (0,):
            here = ~special & (segments == side)
            if not here.any():
                raise UserError(f"No token of example {example.id!r} is left in its {_SIDES[side]} text.")
            words = words_of(example, side)
            # The word that a token begins in: the first one that ends after the token's first character.
            number = np.searchsorted([word.end for word in words], offsets[here, 0], side="right")
            indices = np.array([word.index for word in words], dtype=np.int64)
            word_ids[here] = indices[number.clip(max=len(words) - 1)]
        return Encoding(
            example_id=example.id,
            tokens=tuple(read.tokens),
            ids=np.array(read.ids, dtype=np.int64),
            segments=segments,
            special=special,
            word_ids=word_ids,
            offsets=offsets,
            positions=np.arange(len(special)) + self.first_position,
            cut=cut,
        )


def segments_of(sequence_ids: Sequence[int | None]) -> list[int]:
    """The text each token belongs to; a special token goes with the text before it."""
    segments, current = [], 0
    for side in sequence_ids:
        current = current if side is None else side
        segments.append(current)
    return segments


def _require_text(example: Example) -> None:
    for side, text in enumerate((example.text, example.text_pair)):
        if text is not None and not text.strip():
            where = f"{_SIDES[side]} text" if example.is_pair else "text"
            raise UserError(f"The {where} of example {example.id!r} has no words; leave the example out.")
