"""Which phrases of a question mean the same as phrases of its passage? As people say, as a model attends, or at random.

Paper *teacher-student*: referential equalities are the explanations of answers. Students who cannot use the pairs see
the union of their phrases as marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from torch import Tensor

from rashomon.data import Example
from rashomon.data.batches import Batch, Encoding
from rashomon.data.example import Equality, Span
from rashomon.experiments.lessons import Mark, Marks, phrases_of, random_words
from rashomon.measures.ranks import top_count
from rashomon.models.base import Model, Output
from rashomon.models.evaluator import collect, rows_of
from rashomon.models.tasks import passage_of

Pairs = dict[str, tuple[Equality, ...]]  # by the id of the question


def marks_of_pairs(pairs: Pairs) -> Marks:
    """Equalities, and the union of their phrases as marks."""
    spans = {
        name: tuple(dict.fromkeys(phrase for equality in equalities for phrase in phrases_of(equality)))
        for name, equalities in pairs.items()
    }
    return Marks(spans, equalities=pairs)


def human_pairs(examples: Sequence[Example], dropped: float = 0.0, seed: int = 0) -> Marks:
    """What people found to mean the same, each equality dropped with a probability."""
    generator = np.random.default_rng([seed, 17])
    pairs: Pairs = {}
    for example in examples:
        equalities = example.equalities or ()
        kept = generator.random(len(equalities)) >= dropped
        pairs[example.id] = tuple(equality for equality, stays in zip(equalities, kept, strict=True) if stays)
    return marks_of_pairs(pairs)


def random_pairs(examples: Sequence[Example], share: float, seed: int) -> Marks:
    """As many words as a method would mark, anywhere; each one of the question goes with one of the passage."""
    marks = random_words(examples, share, seed)
    generator = np.random.default_rng([seed, 18])
    pairs: Pairs = {}
    for example in examples:
        question, passage = ([m for m in marks.spans[example.id] if m[0] == side] for side in (0, 1))
        drawn = generator.integers(len(passage), size=len(question)) if passage else ()
        pairs[example.id] = tuple(
            Equality(_span(word), _span(passage[int(place)]))
            for word, place in zip(question, drawn, strict=False)
        )
    return Marks(marks.spans, equalities=pairs)


def _span(mark: Mark) -> Span:
    return Span(mark[1], mark[2])


def attended_pairs(model: Model, examples: Sequence[Example], share: float) -> Marks:
    """Each word of a question goes with the word of the passage that it attends to most; the surest ``share`` of them.

    Attention is that of the teacher's last layer, heads averaged; of a word of several pieces the surest decides.
    """
    encodings = model.encode(examples)

    def read(output: Output, batch: Batch, index: Tensor) -> dict[str, Tensor]:
        assert output.layers is not None
        weights = output.layers[-1].mean(1).masked_fill(~passage_of(batch).unsqueeze(1), -1.0)
        most, place = weights.max(-1)
        return {"most": most, "place": place}

    rows = rows_of(model, examples, encodings)
    attended = collect(model, rows, read, per_token=("most", "place"), attention=True)
    found = zip(encodings, attended["most"].numpy(), attended["place"].numpy(), strict=True)
    return marks_of_pairs({e.example_id: tuple(_surest(e, most, place, share)) for e, most, place in found})


def _surest(encoding: Encoding, most: np.ndarray, place: np.ndarray, share: float) -> Iterator[Equality]:
    question = np.flatnonzero(encoding.content & (encoding.segments == 0))
    best: dict[int, int] = {}  # the surest piece of each word
    for token in question[np.argsort(-most[question], kind="stable")].tolist():
        best.setdefault(int(encoding.word_ids[token]), token)
    count = int(top_count(np.array([len(best)]), share)[0])
    for token in list(best.values())[:count]:
        yield Equality(_word_around(encoding, token), _word_around(encoding, int(place[token])))


def _word_around(encoding: Encoding, token: int) -> Span:
    """The characters of the word that a token is a piece of."""
    same = encoding.content & (encoding.segments == encoding.segments[token])
    pieces = encoding.offsets[same & (encoding.word_ids == encoding.word_ids[token])]
    return Span(int(pieces[:, 0].min()), int(pieces[:, 1].max()))
