"""Which words does a text have, and where in it do they stand?

Models and explanations count in words; people read the original text. A ``Word`` keeps both ends together:
its form (which preprocessing may change), its characters in the text, and its position among the text's
original words (which rationales and phrases count in).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rashomon.data.example import Example
from rashomon.errors import UserError

# Accents written as characters of their own, and the vowel signs of many scripts, are no letters to `re`.
_MARKS = "".join(char for char in map(chr, range(0x300, 0x10000)) if unicodedata.category(char)[0] == "M")
_LETTER = rf"[\w{_MARKS}]"


def _token(letter: str) -> re.Pattern[str]:
    return re.compile(rf"\d+(?:[.,]\d+)+|{letter}+(?:['’\-]{letter}+)*|[^\w\s]")


_TOKEN = _token(_LETTER)
_ASCII_TOKEN = _token(r"\w")  # the long class of letters is slow, and ASCII has no marks


@dataclass(slots=True)  # not frozen: long texts have millions, and freezing triples their cost
class Word:
    """One word: characters ``start`` to ``end`` of its text, the ``index``-th of the original words."""

    form: str
    start: int
    end: int
    index: int

    def spelt(self, form: str) -> Word:
        """The same word in another form."""
        return Word(form, self.start, self.end, self.index)


def words_of(example: Example, segment: int) -> list[Word]:
    """The words of an example's first (0) or second (1) text: its own tokens, else ``tokenise``."""
    text = example.text if segment == 0 else example.text_pair
    tokens = example.tokens if segment == 0 else example.tokens_pair
    if text is None:
        return []
    if tokens is None:
        return tokenise(text)
    return _place(tokens, text, example.id)


def tokenise(text: str) -> list[Word]:
    """Words with inner apostrophes and hyphens, numbers, and single punctuation marks."""
    pattern = _ASCII_TOKEN if text.isascii() else _TOKEN
    return [
        Word(match.group(), match.start(), match.end(), index)
        for index, match in enumerate(pattern.finditer(text))
    ]


def _place(tokens: Sequence[str], text: str, example_id: str) -> list[Word]:
    """Given tokens at their characters. Empty tokens have none; they are left out but still counted."""
    joined = " ".join(tokens) == text
    words = []
    end = 0
    for index, token in enumerate(tokens):
        start = end + (index > 0) if joined else text.find(token, end)
        if start < 0:
            raise UserError(
                f"Token {index} of example {example_id!r}, {token!r}, does not follow in its text; "
                "tokens must be pieces of the text, in order."
            )
        end = start + len(token)
        if token:
            words.append(Word(token, start, end, index))
    return words
