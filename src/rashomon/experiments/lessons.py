"""What does a student get to see of a teacher? Its labels (or answers) on some texts, and the words that explain them.

Paper *teacher-student*. The texts are the teacher's test split, cut into the students' train, dev and test; the labels
are the teacher's predictions, or those of the data where people teach. Explanations are marks on words and travel by
characters, so that a student may cut texts into other tokens than its teacher. They are of training texts alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaln
from torch import Tensor

from rashomon.data import Dataset, Example, words_of
from rashomon.data.batches import Encoding
from rashomon.data.example import Equality, Span, fingerprint
from rashomon.data.rationales import marks_of
from rashomon.errors import DoesNotFit
from rashomon.experiments.context import Context
from rashomon.experiments.erasing import ranking_scores
from rashomon.explainers import Explanations
from rashomon.measures.ranks import in_top, top_count
from rashomon.models.base import Model
from rashomon.models.evaluator import predict, rows_of
from rashomon.models.tasks import SPAN, task_of
from rashomon.runs.files import read_json, write_json

NONE, RANDOM, TRIVIAL, HUMAN = "none", "random", "trivial", "human"
CONTROLS = (NONE, RANDOM, TRIVIAL)
ATTENDED = "attended-words"  # words of a question with what they attend to in the passage
FEWEST = 20  # texts to choose by, and to be tried on
Mark = tuple[int, int, int, float]  # segment, first character, the one after the last, weight


@dataclass(frozen=True)
class Course:
    """The texts that students learn by and are tried on. Their labels are the teacher's; nothing else tells of it."""

    data: Dataset  # train is the largest training set; smaller ones are its first texts
    originals: tuple[Example, ...]  # the texts of train as the data has them, with what people marked

    def of_size(self, size: int) -> Dataset:
        """The course with the first ``size`` training texts, so that 500 are a part of 1,000."""
        return replace(self.data, splits={**self.data.splits, "train": self.data["train"][:size]})


def taught_by_model(
    context: Context, model: Model, examples: Sequence[Example], counts: Mapping[str, int], seed: int
) -> Course:
    """A model teaches: ``examples`` in a random order, labelled by its predictions; equal texts occur once."""
    if model.gives_a_number:
        raise DoesNotFit("Students learn to choose a class, and this model does not choose between classes.")
    texts = _in_random_order(_without_repeats(examples), seed)
    # Held-out texts come first: with a larger training set the students of the smaller ones stay the same.
    held_out = max(0, min(counts["dev"] + counts["test"], len(texts) - counts["train"]))
    choosing = held_out * counts["dev"] // max(1, counts["dev"] + counts["test"])
    texts = texts[: held_out + counts["train"]]
    parts = {"dev": texts[:choosing], "test": texts[choosing:held_out], "train": texts[held_out:]}
    answers = iter(_predictions(context, model, texts))
    splits = {name: tuple(_as_taught(e, **next(answers)) for e in part) for name, part in parts.items()}
    return _checked(Dataset("course", splits, model.labels), parts["train"], counts["train"])


def taught_by_people(data: Dataset, counts: Mapping[str, int], seed: int) -> Course:
    """People teach: the labels (or answers) of the data, in the splits of the data."""
    field_name, known = ("answers", "answers") if task_of(data) is SPAN else ("label", "labels")
    parts = {name: _in_random_order(data[name], seed)[: counts[name]] for name in counts}
    for part in parts.values():
        missing = next((example.id for example in part if getattr(example, field_name) in (None, ())), None)
        if missing is not None:
            raise DoesNotFit(f"People teach by {known}, and example {missing!r} has none.")
    splits = {
        name: tuple(_as_taught(e, **{field_name: getattr(e, field_name)}) for e in part)
        for name, part in parts.items()
    }
    return _checked(Dataset("course", splits, data.labels), parts["train"], counts["train"])


def _checked(data: Dataset, originals: Sequence[Example], largest: int) -> Course:
    found = {split: len(data[split]) for split in data}
    if found["train"] < largest or min(found["dev"], found["test"]) < FEWEST:
        raise DoesNotFit(
            f"Students would have {found['train']:,} texts to learn by, {found['dev']:,} to choose by and "
            f"{found['test']:,} to be tried on; they need {largest:,}, {FEWEST} and {FEWEST}. Ask for smaller sizes."
        )
    return Course(data, tuple(originals))


NOTHING = dict.fromkeys(("label", "answers", "rationale", "rationale_pair", "phrases", "equalities"))


def _as_taught(example: Example, **taught: Any) -> Example:
    """A text as a student sees it: with the teacher's label or answer, and nothing else that was said of it."""
    return replace(example, **{**NOTHING, **taught})


def _without_repeats(examples: Sequence[Example]) -> list[Example]:
    return list({(example.text, example.text_pair): example for example in reversed(examples)}.values())[::-1]


def _in_random_order(examples: Sequence[Example], seed: int) -> list[Example]:
    order = np.random.default_rng([seed, 14]).permutation(len(examples))
    return [examples[place] for place in order.tolist()]


def _predictions(context: Context, model: Model, texts: Sequence[Example]) -> list[dict[str, Any]]:
    """The teacher's classes, or the places of its answers in characters, asked once."""
    specification = {"model": model.fingerprint(), "examples": fingerprint(texts)}
    keep = _keep_answers if model.task is SPAN else _keep_classes
    folder = context.store.run(specification, "teachers", partial(keep, model, texts))
    if model.task is SPAN:
        return [{"answers": (Span(*place),)} for place in read_json(folder / "answers.json")]
    return [{"label": int(label)} for label in read_json(folder / "classes.json")]


def _keep_classes(model: Model, texts: Sequence[Example], folder: Path) -> None:
    write_json(folder / "classes.json", predict(model, rows_of(model, texts)).classes.tolist())


def _keep_answers(model: Model, texts: Sequence[Example], folder: Path) -> None:
    encodings = model.encode(texts)
    logits = predict(model, rows_of(model, texts, encodings)).logits
    spans = zip(encodings, SPAN.answers(torch.from_numpy(logits)).tolist(), strict=True)
    places = [[int(e.offsets[first, 0]), int(e.offsets[last, 1])] for e, (first, last) in spans]
    write_json(folder / "answers.json", places)


@dataclass(frozen=True)
class Marks:
    """What is marked in each training text. ``graded``: words have weights, rather than a mark or none."""

    spans: Mapping[str, tuple[Mark, ...]]  # by the text's id
    graded: bool = False
    equalities: Mapping[str, tuple[Equality, ...]] = field(
        default_factory=dict
    )  # of questions, which of the marked phrases mean the same

    def digest(self, examples: Sequence[Example]) -> str:
        """What decides a student's numbers: the marks of the texts that it learns by."""
        marked: list[object] = [self.spans.get(example.id, ()) for example in examples]
        if self.equalities:
            marked += [self.equalities.get(example.id, ()) for example in examples]
        return hashlib.sha256(repr((self.graded, marked)).encode()).hexdigest()[:20]

    def onto(self, encodings: Sequence[Encoding], width: int) -> Tensor:
        """``[N, T]`` over a student's tokens."""
        marks = torch.zeros(len(encodings), width)
        for row, encoding in enumerate(encodings):
            spans = self.spans.get(encoding.example_id, ())
            marks[row, : len(encoding)] = torch.from_numpy(on_tokens(spans, encoding, self.graded))
        return marks

    def pairs_onto(self, encodings: Sequence[Encoding], width: int) -> Tensor:
        """``[N, K, 2, T]`` over a student's tokens: of each equality the question's phrase and the passage's."""
        of_texts = [self.equalities.get(encoding.example_id, ()) for encoding in encodings]
        pairs = torch.zeros(len(encodings), max(1, *map(len, of_texts)), 2, width, dtype=torch.bool)
        for row, (encoding, equalities) in enumerate(zip(encodings, of_texts, strict=True)):
            for k, equality in enumerate(equalities):
                for segment, phrase in enumerate(phrases_of(equality)):
                    pairs[row, k, segment, : len(encoding)] = (
                        torch.from_numpy(on_tokens((phrase,), encoding)) > 0
                    )
        return pairs

    def a_text(self) -> float:
        """How many words of a text are marked, on average."""
        return float(np.mean([len(spans) for spans in self.spans.values()])) if self.spans else 0.0


def phrases_of(equality: Equality) -> tuple[Mark, Mark]:
    """The phrase of the question and that of the passage, as marks."""
    question, passage = equality.question, equality.passage
    return (0, question.start, question.end, 1.0), (1, passage.start, passage.end, 1.0)


def on_tokens(spans: Sequence[Mark], encoding: Encoding, graded: bool = False) -> NDArray[np.float32]:
    """A token is marked where it has a character in common with a marked word; weights are shared out by characters."""
    if not spans:
        return np.zeros(len(encoding), dtype=np.float32)
    segment, start, end, weight = (column[:, None] for column in np.array(spans, dtype=np.float64).T)
    first, last = encoding.offsets.T
    common = np.clip(np.minimum(last, end) - np.maximum(first, start), 0, None)
    common *= (encoding.segments == segment) & encoding.content
    marks = (weight * common / np.maximum(end - start, 1)).sum(0) if graded else (common > 0).any(0)
    return np.asarray(marks, dtype=np.float32)


def top_words(explanations: Explanations, method: str, share: float) -> Marks:
    """The ``share`` of each text's words that a method ranks highest: for the class where scores have a sign."""
    words = explanations.words()
    scores = ranking_scores(words, method)
    chosen = scores.split(in_top(scores, top_count(scores.lengths, share)))
    spans = {}
    for item, top in zip(words, chosen, strict=True):
        places = np.flatnonzero(item.content)[top]
        spans[item.example_id] = tuple(
            (int(item.segments[p]), int(item.offsets[p, 0]), int(item.offsets[p, 1]), 1.0) for p in places
        )
    return Marks(spans)


def all_scores(explanations: Explanations, method: str) -> Marks:
    """Every word with its score; what speaks against the class weighs nothing."""
    words = explanations.words()
    rows = ranking_scores(words, method)
    spans = {}
    for item, scores in zip(words, rows.split(np.nan_to_num(rows.values).clip(0)), strict=True):
        places = np.flatnonzero(item.content)
        spans[item.example_id] = tuple(
            (int(item.segments[p]), int(item.offsets[p, 0]), int(item.offsets[p, 1]), float(score))
            for p, score in zip(places, scores, strict=True)
            if score > 0
        )
    return Marks(spans, graded=True)


def random_words(examples: Sequence[Example], share: float, seed: int) -> Marks:
    """As many words as a method would mark, anywhere."""
    generator = np.random.default_rng([seed, 15])
    spans = {}
    for example in examples:
        words = _words(example)
        count = _count(words, share)
        chosen = np.sort(generator.choice(len(words), count, replace=False)) if words else ()
        spans[example.id] = tuple(words[int(place)] for place in chosen)
    return Marks(spans)


def trivial_words(examples: Sequence[Example], share: float) -> Marks:
    """A place that gives the label away: the first words for class 1, the next as many for class 0, and so on."""
    spans = {}
    for example in examples:
        words = _words(example)
        count = _count(words, share)
        assert example.label is not None
        start = {0: 1, 1: 0}.get(example.label, example.label) * count
        spans[example.id] = tuple(words[start : start + count] or words[-1:])
    return Marks(spans)


def human_words(examples: Sequence[Example], dropped: float = 0.0, seed: int = 0) -> Marks:
    """What people marked (or what was planted), each mark dropped with a probability.

    The marks that are left under a higher probability are among those under a lower one.
    """
    generator = np.random.default_rng([seed, 16])
    spans = {}
    for example in examples:
        marks = marks_of(example)
        marked = [
            (segment, word.start, word.end, 1.0)
            for segment in sorted(marks)
            for word in words_of(example, segment)
            if word.index < len(marks[segment]) and marks[segment][word.index]
        ]
        kept = generator.random(len(marked)) >= dropped
        spans[example.id] = tuple(span for span, stays in zip(marked, kept, strict=True) if stays)
    return Marks(spans)


def _words(example: Example) -> list[Mark]:
    segments = (0, 1) if example.is_pair else (0,)
    return [(segment, w.start, w.end, 1.0) for segment in segments for w in words_of(example, segment)]


def _count(words: Sequence[Mark], share: float) -> int:
    return int(top_count(np.array([len(words)]), share)[0])


def bits_a_text(marks: Marks, examples: Sequence[Example]) -> float:
    """How much a set of marked words says, on average: the log2 of how many sets of so many words there are.

    Of weights, and of phrases that belong together, it is not known.
    """
    if marks.graded or marks.equalities:
        return float("nan")
    counts = [(len(_words(example)), len(marks.spans.get(example.id, ()))) for example in examples]
    n, k = np.array(counts, dtype=np.float64).T
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return float(np.mean(ways) / np.log(2))
