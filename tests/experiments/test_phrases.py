"""Which phrases mean the same: those of people, at random, and those that a model attends to."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from rashomon.data import Dataset, Example, words_of
from rashomon.data.example import Equality, Span
from rashomon.errors import DoesNotFit
from rashomon.experiments.context import Context
from rashomon.experiments.lessons import taught_by_model, taught_by_people
from rashomon.experiments.phrases import attended_pairs, human_pairs, random_pairs
from rashomon.models import load_model
from rashomon.models.evaluator import evaluating, predict, rows_of
from rashomon.models.huggingface import HuggingFaceSpanModel
from rashomon.models.tasks import SPAN, answer_text
from rashomon.runs.store import Store
from tests.models.tiny import tiny_checkpoint
from tests.studies.planted_questions import BARE, planted_questions

COUNTS = {"train": 40, "dev": 20, "test": 20}


@pytest.fixture(scope="module")
def data() -> Dataset:
    return planted_questions(held_out=100)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> HuggingFaceSpanModel:
    folder = tiny_checkpoint("bert", tmp_path_factory.mktemp("answerer") / "bert", answers=True)
    return load_model(folder)  # type: ignore[return-value]


def test_a_model_teaches_its_own_answers_and_nothing_of_the_data(
    data: Dataset, model: HuggingFaceSpanModel, tmp_path: Path
) -> None:
    context = Context(Store(tmp_path / "store"), workers=1)
    course = taught_by_model(context, model, data["test"], COUNTS, seed=0)
    originals = {example.id: example for example in data["test"]}
    for split in course.data:
        rows = rows_of(model, [originals[example.id] for example in course.data[split]])
        spans = SPAN.answers(torch.from_numpy(predict(model, rows).logits)).tolist()
        for example, (_, encoding), span in zip(course.data[split], rows.source or (), spans, strict=True):
            (answer,) = example.answers or ()
            assert (example.text_pair or "")[answer.start : answer.end] == answer_text(
                example, encoding, span
            )
            assert example.equalities is None
    assert any(example.equalities for example in course.originals)
    other = [Example(e.id, e.text, None, e.text_pair, answers=(Span(0, 1),)) for e in data["test"]]
    assert taught_by_model(context, model, other, COUNTS, seed=0).data == course.data


def test_people_teach_their_answers_without_the_equalities(data: Dataset) -> None:
    course = taught_by_people(data, COUNTS, seed=0)
    known = {example.id: example for split in data.splits.values() for example in split}
    for split in course.data:
        for example in course.data[split]:
            assert example.answers == known[example.id].answers
            assert example.equalities is None
    bare = Dataset("bare", {**data.splits, "dev": (Example("x", "is it", None, "no", answers=()),)}, ())
    with pytest.raises(DoesNotFit, match="People teach by answers, and example 'x' has none"):
        taught_by_people(bare, COUNTS, seed=0)


def test_what_people_found_is_marked_in_both_texts(data: Dataset) -> None:
    marks = human_pairs(data["train"])
    for number, example in enumerate(data["train"]):
        assert marks.equalities[example.id] == example.equalities
        marked = {
            (s, (example.text, example.text_pair or "")[s][a:b]) for s, a, b, _ in marks.spans[example.id]
        }
        asked = example.text.removeprefix("is ")
        assert marked == (set() if number % BARE == BARE - 1 else {(0, asked), (1, asked)})


def test_equalities_are_dropped_whole_and_in_order(data: Dataset) -> None:
    kept = [human_pairs(data["train"], dropped, 3) for dropped in (0.0, 0.4, 0.8, 1.0)]
    counts = [sum(map(len, marks.equalities.values())) for marks in kept]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 72
    assert counts[-1] == 0
    for more, less in pairwise(kept):
        assert all(set(less.equalities[name]) <= set(more.equalities[name]) for name in less.equalities)
    assert not any(kept[-1].spans.values())


def test_random_pairs_join_random_words(data: Dataset) -> None:
    marks = random_pairs(data["train"], 0.5, seed=0)
    assert marks == random_pairs(data["train"], 0.5, seed=0)
    assert marks != random_pairs(data["train"], 0.5, seed=1)
    for example in data["train"]:
        words = [{Span(w.start, w.end) for w in words_of(example, side)} for side in (0, 1)]
        spans = marks.spans[example.id]
        assert len(spans) == np.ceil((len(words[0]) + len(words[1])) / 2)
        for pair in marks.equalities[example.id]:
            assert pair.question in words[0]
            assert pair.passage in words[1]
            assert {(0, pair.question.start, pair.question.end, 1.0)} <= set(spans)
            assert {(1, pair.passage.start, pair.passage.end, 1.0)} <= set(spans)


def test_attended_words_by_hand(model: HuggingFaceSpanModel) -> None:
    """``warmness`` is two pieces; of three words two thirds are the surest two."""
    example = Example("q", "is the warmness", None, "people walk coldly, two run", answers=(Span(0, 6),))
    (encoding,) = model.encode([example])
    with evaluating(model), torch.no_grad():
        weights = model(model.collate([encoding])).layers[-1][0].mean(0).numpy()
    passage = np.flatnonzero(encoding.content & (encoding.segments == 1))
    best = {}
    for word in range(3):
        tokens = np.flatnonzero(encoding.content & (encoding.segments == 0) & (encoding.word_ids == word))
        row = weights[tokens][:, passage]
        best[word] = row.max(), passage[np.unravel_index(row.argmax(), row.shape)[1]]
    surest = sorted(best, key=lambda word: -best[word][0])[:2]
    asked, found = (words_of(example, side) for side in (0, 1))
    wanted = {
        Equality(
            Span(asked[word].start, asked[word].end),
            next(
                Span(w.start, w.end) for w in found if w.start <= encoding.offsets[best[word][1], 0] < w.end
            ),
        )
        for word in surest
    }
    marks = attended_pairs(model, [example], 0.6)
    assert set(marks.equalities["q"]) == wanted
    assert len(attended_pairs(model, [example], 0.05).equalities["q"]) == 1


def test_equalities_decide_which_student_it_is(data: Dataset) -> None:
    marks = human_pairs(data["train"])
    bare = type(marks)(marks.spans)
    assert bare.digest(data["train"]) != marks.digest(data["train"])
    part = human_pairs(data["train"][:40])
    assert part.digest(data["train"][:40]) == marks.digest(data["train"][:40])
