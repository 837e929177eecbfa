"""Where do the tokens of others stand in a text, and which word does each belong to?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rashomon.explainers.record import Ints


def placed(tokens: Sequence[str], text: str | None) -> tuple[str, Ints, list[str]]:
    """The text of a segment and where its tokens stand in it."""
    if text is not None:
        offsets = _located(tokens, text)
        lost = int((offsets[:, 0] == offsets[:, 1]).sum())
        note = f"{lost} of {len(tokens)} tokens were not found in the text and are not coloured there."
        return text, offsets, [note] if lost else []
    joined, spans = "", []
    plain, starts_word = _plain_tokens(tokens)
    for token, starts in zip(plain, starts_word, strict=True):
        joined += " " if starts and joined else ""
        spans.append((len(joined), len(joined) + len(token)))
        joined += token
    note = "The original text is not known; it is put together from the tokens."
    return joined, np.array(spans, dtype=np.int64).reshape(-1, 2), [note]


def _located(tokens: Sequence[str], text: str) -> Ints:
    """Each token's characters, found from left to right; ``(0, 0)`` rather than a guess.

    Only white space may lie between a token and the one before. After a token that was not found, the next
    is looked for at the beginning of a later word.
    """
    lower = text.lower() if len(text.lower()) == len(text) else text
    spans, cursor, lost = [], 0, False
    for token in _plain_tokens(tokens)[0]:
        start = _next(text, token, cursor, lost)
        if start < 0 and len(token.lower()) == len(token):
            start = _next(lower, token.lower(), cursor, lost)
        lost = start < 0
        spans.append((0, 0) if lost else (start, start + len(token)))
        cursor = cursor if lost else start + len(token)
    return np.array(spans, dtype=np.int64).reshape(-1, 2)


def _next(text: str, token: str, cursor: int, after_lost: bool) -> int:
    if not token:
        return -1
    start = text.find(token, cursor)
    if not after_lost:
        return start if start >= 0 and not text[cursor:start].strip() else -1
    while start > 0 and not text[start - 1].isspace():
        start = text.find(token, start + 1)
    return start


def _plain_tokens(tokens: Sequence[str]) -> tuple[list[str], list[bool]]:
    """Tokens without the marks of WordPiece, byte-level BPE and SentencePiece; and which begin a word."""
    opens = next((mark for mark in "Ġ▁" if any(token.startswith(mark) for token in tokens)), None)
    plain, starts = [], []
    for position, token in enumerate(tokens):
        if opens:
            plain.append(token.lstrip(opens))
            starts.append(position == 0 or token.startswith(opens))
        else:
            continues = token.startswith("##") and len(token) > 2
            plain.append(token[2:] if continues else token)
            starts.append(not continues)
    return plain, starts


def word_ids_of(tokens: Sequence[str], segments: Ints, special: Sequence[bool]) -> list[int]:
    """Position among the words of the own segment, read from the marks of sub-words."""
    ids = [-1] * len(tokens)
    for segment in (0, 1):
        here = [k for k in np.flatnonzero(segments == segment).tolist() if not special[k]]
        starts = _plain_tokens([tokens[k] for k in here])[1]
        for k, word in zip(here, np.cumsum(starts).tolist(), strict=True):
            ids[k] = max(word - 1, 0)
    return ids
