"""How good is an answer in words? Exact match and token F1, as reading comprehension is scored (SQuAD).

Case, punctuation and English articles do not count; words are compared as a bag, so that order does not either.
"""

from __future__ import annotations

import re
import string
from collections import Counter

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised_words(text: str) -> list[str]:
    """The words that count."""
    return _ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split()


def exact_match(answer: str, gold: str) -> float:
    """1 where both are the same words, else 0."""
    return float(normalised_words(answer) == normalised_words(gold))


def token_f1(answer: str, gold: str) -> float:
    """The F1 of the words that both share; two answers without words agree."""
    mine, true = normalised_words(answer), normalised_words(gold)
    if not mine or not true:
        return float(mine == true)
    shared = sum((Counter(mine) & Counter(true)).values())
    return 2 * shared / (len(mine) + len(true))
