"""What students get to see: whose labels, which texts, and marks that find their characters."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rashomon.data import Dataset, Example
from rashomon.errors import DoesNotFit
from rashomon.experiments.context import Context
from rashomon.experiments.lessons import (
    Marks,
    all_scores,
    bits_a_text,
    human_words,
    on_tokens,
    random_words,
    taught_by_model,
    taught_by_people,
    top_words,
    trivial_words,
)
from rashomon.explainers import Explanations, explain
from rashomon.models.build import build_model
from rashomon.models.evaluator import predict, rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.store import Store
from tests.models.tiny import tiny_checkpoint
from tests.studies.planted import SMALL, planted

COUNTS = {"train": 40, "dev": 20, "test": 20}


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(Store(tmp_path / "store"), workers=1)


@pytest.fixture(scope="module")
def data() -> Dataset:
    return planted(held_out=100)


def text_of(example: Example, marks: Marks) -> list[str]:
    """The marked words as they stand in the text."""
    return [
        (example.text, example.text_pair or "")[s][start:end] for s, start, end, _ in marks.spans[example.id]
    ]


def test_gold_labels_and_rationales_never_reach_a_student(context: Context, data: Dataset) -> None:
    model = build_model(SMALL, data, 0)
    course = taught_by_model(context, model, data["test"], COUNTS, seed=0)
    originals = {example.id: example for example in data["test"]}
    for split in course.data:
        for example in course.data[split]:
            assert example.rationale is None
            assert example.phrases is None
            said = predict(model, rows_of(model, [originals[example.id]])).classes[0]
            assert example.label == said
    flipped = tuple(
        replace(e, label=1 - e.label, rationale=None) for e in data["test"] if e.label is not None
    )
    other = taught_by_model(context, model, flipped, COUNTS, seed=0)
    assert other.data.fingerprint == course.data.fingerprint  # nothing of the gold labels is left


def test_texts_are_apart_and_training_sets_nested(context: Context, data: Dataset) -> None:
    model = build_model(SMALL, data, 0)
    course = taught_by_model(context, model, data["test"], COUNTS, seed=0)
    ids = [{e.id for e in course.data[split]} for split in ("train", "dev", "test")]
    assert [len(part) for part in ids] == [40, 20, 20]
    assert len(set.union(*ids)) == 80
    assert course.of_size(10)["train"] == course.of_size(25)["train"][:10]
    larger = taught_by_model(context, model, data["test"], COUNTS | {"train": 50}, seed=0)
    assert larger.of_size(40).fingerprint == course.data.fingerprint
    assert [e.id for e in course.originals] == [e.id for e in course.data["train"]]
    assert all(e.rationale for e in course.originals)


def test_equal_texts_occur_once(context: Context, data: Dataset) -> None:
    model = build_model(SMALL, data, 0)
    twice = (*data["test"], *(replace(e, id=f"{e.id}-again") for e in data["test"]))
    course = taught_by_model(context, model, twice, COUNTS, seed=0)
    texts = [e.text for split in course.data for e in course.data[split]]
    assert len(set(texts)) == len(texts)


def test_too_few_texts_are_refused(context: Context, data: Dataset) -> None:
    with pytest.raises(DoesNotFit, match="Ask for smaller sizes"):
        taught_by_model(context, build_model(SMALL, data, 0), data["test"], COUNTS | {"train": 90}, seed=0)
    bare = Dataset("bare", {s: tuple(replace(e, label=None) for e in data[s]) for s in data}, data.labels)
    with pytest.raises(DoesNotFit, match="has none"):
        taught_by_people(bare, COUNTS, seed=0)


def test_people_teach_their_own_labels(data: Dataset) -> None:
    course = taught_by_people(data, COUNTS, seed=0)
    gold = {e.id: e.label for split in data for e in data[split]}
    assert all(e.label == gold[e.id] for split in course.data for e in course.data[split])
    assert {e.id for e in course.data["test"]} <= {e.id for e in data["test"]}


def test_marks_travel_by_characters_to_other_tokens(tmp_path: Path) -> None:
    """Words of a built-in teacher onto the pieces of a transformer, specials left alone."""
    texts = (
        Example("a", "An unfathomable plot, badly told!", 0, rationale=(0, 1, 0, 0, 1, 0, 0)),
        Example("b", "marvellously   quick and sharp", 1, rationale=(1, 1, 0, 0)),
    )
    data = Dataset("two", {"train": texts, "dev": texts, "test": texts}, ("bad", "good"))
    student = build_model(ModelSpec(name=str(tiny_checkpoint("bert", tmp_path / "tiny"))), data, 0)
    marks = human_words(texts)
    assert [text_of(e, marks) for e in texts] == [["unfathomable", "badly"], ["marvellously", "quick"]]
    for example, encoding in zip(texts, student.encode(texts), strict=True):
        assert not encoding.cut
        known = on_tokens(marks.spans[example.id], encoding)
        assert not known[encoding.special].any()
        assert known.sum() > 2  # words of more than one piece
        covered = "".join(example.text[a:b] for a, b in encoding.offsets[known > 0])
        assert covered == "".join(text_of(example, marks))


def test_graded_marks_are_shared_out_by_characters() -> None:
    example = Example("e", "wonderful film", 0)
    data = Dataset("d", {"train": (example,)}, ("a", "b"))
    encoding = build_model(SMALL, data, 0).encode([example])[0]
    split = replace(encoding, offsets=np.array([[0, 6], [6, 9]]))  # one word in two pieces
    assert on_tokens([(0, 0, 9, 3.0)], split, graded=True).tolist() == pytest.approx([2.0, 1.0])
    assert on_tokens([(1, 0, 9, 3.0)], split, graded=True).tolist() == [0.0, 0.0]  # of the other text


def test_top_words_are_the_methods_own(data: Dataset) -> None:
    model = build_model(SMALL, data, 0)
    examples = data["test"][:20]
    for method in ("integrated-gradients", "attention"):
        explanations = explain(model, examples, [method])
        marks = top_words(explanations, method, 0.25)
        for example, item in zip(examples, explanations, strict=True):
            count = math.ceil(0.25 * len(item))
            best = sorted(np.argsort(-item.scores, kind="stable")[:count].tolist())
            assert text_of(example, marks) == [item.surface(place) for place in best]


def test_all_scores_keep_what_speaks_for_the_class(data: Dataset) -> None:
    model = build_model(SMALL, data, 0)
    explanations: Explanations = explain(model, data["test"][:10], ["integrated-gradients"])
    marks = all_scores(explanations, "integrated-gradients")
    assert marks.graded
    for item in explanations:
        weights = [weight for *_, weight in marks.spans[item.example_id]]
        assert weights == pytest.approx([score for score in item.scores if score > 0])


def test_controls_mark_as_much_as_a_method(data: Dataset) -> None:
    examples = data["test"][:30]
    drawn, again, given = (
        random_words(examples, 0.2, 0),
        random_words(examples, 0.2, 1),
        trivial_words(examples, 0.2),
    )
    assert drawn != again
    assert random_words(examples[:7], 0.2, 0).digest(examples[:7]) == drawn.digest(examples[:7])
    for example in examples:
        words = example.text.split()
        count = math.ceil(0.2 * len(words))
        assert len(drawn.spans[example.id]) == len(set(drawn.spans[example.id])) == count
        first = 0 if example.label == 1 else count
        assert text_of(example, given) == words[first : first + count]


def test_dropped_marks_are_nested(data: Dataset) -> None:
    examples = data["train"]
    whole, some, few, none = (human_words(examples, p) for p in (0.0, 0.4, 0.8, 1.0))
    for example in examples:
        marked = [
            word for word, mark in zip(example.text.split(), example.rationale or (), strict=True) if mark
        ]
        assert text_of(example, whole) == marked
        assert set(few.spans[example.id]) <= set(some.spans[example.id]) <= set(whole.spans[example.id])
        assert not none.spans[example.id]
    kept = [sum(map(len, marks.spans.values())) for marks in (some, few)]
    total = sum(map(len, whole.spans.values()))
    assert kept == pytest.approx([0.6 * total, 0.2 * total], abs=0.1 * total)


def test_bits_of_marks() -> None:
    example = Example("e", "a b c d", 0)
    marks = Marks({"e": ((0, 0, 1, 1.0), (0, 2, 3, 1.0))})
    assert bits_a_text(marks, [example]) == pytest.approx(math.log2(6))  # two of four words
    assert marks.a_text() == 2
