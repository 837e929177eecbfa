"""Which words are known to matter? Marks of people, planted evidence, or words with the sentence's own sentiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rashomon.data.batches import Ints
from rashomon.data.example import Example

NEUTRAL = 2  # sst's middle label of five


def marks_of(example: Example) -> dict[int, tuple[int, ...]]:
    """0/1 marks over the words of every text that someone marked, by segment."""
    marks = {0: example.rationale or _from_phrases(example), 1: example.rationale_pair}
    return {segment: of_segment for segment, of_segment in marks.items() if of_segment}


def has_rationale(example: Example) -> bool:
    return bool(marks_of(example))


def marks_of_tokens(
    segments: Ints, word_ids: Ints, marked: Mapping[int, Sequence[int]]
) -> NDArray[np.float64]:
    """0/1 for every token: whether the word that it belongs to is marked."""
    marks = np.zeros(len(word_ids))
    for position, (segment, word) in enumerate(zip(segments, word_ids, strict=True)):
        of_segment = marked.get(int(segment), ())
        marks[position] = of_segment[word] if 0 <= word < len(of_segment) else 0
    return marks


def _from_phrases(example: Example) -> tuple[int, ...] | None:
    """Words whose own sentiment is on the side of the whole sentence's, which its longest phrase tells."""
    if not example.phrases or example.tokens is None:
        return None
    whole = {label for start, end, label in example.phrases if (start, end) == (0, len(example.tokens))}
    side = np.sign(whole.pop() - NEUTRAL) if whole else 0
    if side == 0:
        return None
    leaves = {start: label for start, end, label in example.phrases if end == start + 1}
    return tuple(int(np.sign(leaves.get(i, NEUTRAL) - NEUTRAL) == side) for i in range(len(example.tokens)))
