from __future__ import annotations

import time
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from rashomon.data import load_lexicon, mock, words_of
from rashomon.data.planted import FILLER, MOCKS, PLACEMENTS
from rashomon.errors import UserError

COUNTS = {"mock-1": 1, "mock-2": 2, "mock-5": 5, "mock-10": 10}
SHARES = {"mock-1q": 0.25, "mock-2q": 0.5, "mock-3q": 0.75, "mock-4q": 1.0}
SMALL = {"train_size": 400, "dev_size": 40, "test_size": 40}


@pytest.mark.parametrize("name", MOCKS)
def test_texts_are_as_the_protocol_says(name: str) -> None:
    dataset = mock(name, seed=3)
    lists = dict(load_lexicon().choose(2))
    assert {split: len(dataset[split]) for split in dataset} == {"train": 8000, "dev": 1000, "test": 1000}
    assert dataset.labels == ("negative", "positive")
    for split in dataset:
        assert Counter(example.label for example in dataset[split]) == dict.fromkeys(
            (0, 1), len(dataset[split]) // 2
        )
    lengths = set()
    own = {label: set(lists[label]) for label in dataset.labels}
    for example in dataset["train"]:
        assert example.tokens is not None
        assert example.rationale is not None
        lengths.add(len(example.tokens))
        planted = COUNTS.get(name) or round(SHARES[name] * len(example.tokens))
        assert sum(example.rationale) == planted == len(example.tokens) - example.tokens.count(FILLER)
        words = own[dataset.labels[example.label or 0]]
        assert all(
            (token in words) == bool(mark)
            for token, mark in zip(example.tokens, example.rationale, strict=True)
        )
        assert " ".join(example.tokens) == example.text
    assert lengths == set(range(50, 101))


def test_lengths_positions_and_words_are_uniform() -> None:
    dataset = mock("mock-1", seed=0)
    train = dataset["train"]
    lengths = np.bincount([len(example.tokens or ()) for example in train])[50:]
    assert stats.chisquare(lengths).pvalue > 1e-3
    relative = [
        ((example.rationale or ()).index(1) + 0.5) / len(example.rationale or ()) for example in train
    ]
    assert stats.kstest(relative, "uniform").pvalue > 1e-3
    words = Counter(
        token for example in train if example.label for token in example.tokens or () if token != FILLER
    )
    listed = dict(load_lexicon().choose(2))["positive"]
    assert stats.chisquare([words[word] for word in listed]).pvalue > 1e-3


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("name", ["mock-5", "mock-2q"])
def test_placement(name: str, placement: str) -> None:
    for example in mock(name, placement=placement, **SMALL)["train"]:
        marks = example.rationale or ()
        first, count, free = marks.index(1), sum(marks), len(marks) - sum(marks)
        run = marks == (0,) * first + (1,) * count + (0,) * (free - first)
        if placement == "scattered":
            assert not run  # so improbable that it would be a mistake
        else:
            assert run
            assert first == {"start": 0, "middle": free // 2, "end": free}[placement]


@pytest.mark.parametrize("classes", [2, 3, 6, 8])
def test_more_classes_are_balanced_and_keep_apart(classes: int) -> None:
    dataset = mock("mock-5", classes=classes, train_size=400, dev_size=40, test_size=40)
    counts = Counter(example.label for example in dataset["train"])
    assert set(counts) == set(range(classes))
    assert max(counts.values()) - min(counts.values()) <= 1
    seen: dict[str, int] = {}
    for example in dataset["train"]:
        for token in set(example.tokens or ()) - {FILLER}:
            assert seen.setdefault(token, example.label or 0) == (example.label or 0)


def test_strength() -> None:
    strong = dict(load_lexicon().choose(2, "strong"))
    for example in mock("mock-5", strength="strong", **SMALL)["train"]:
        words = set(example.tokens or ()) - {FILLER}
        assert words <= set(strong["positive" if example.label else "negative"])


def test_the_seed_decides_and_splits_are_drawn_apart() -> None:
    first = mock("mock-2", seed=5, **SMALL)
    assert first.fingerprint == mock("mock-2", seed=5, **SMALL).fingerprint
    assert first.fingerprint != mock("mock-2", seed=6, **SMALL).fingerprint
    assert first["test"] == mock("mock-2", seed=5, train_size=10, dev_size=40, test_size=40)["test"]
    assert [example.text for example in first["dev"]] != [example.text for example in first["test"]]
    assert len({example.id for split in first for example in first[split]}) == 480


def test_words_lie_in_the_text() -> None:
    example = mock("mock-5", **SMALL)["train"][0]
    assert tuple(word.form for word in words_of(example, 0)) == example.tokens


def test_it_is_fast() -> None:
    start = time.process_time()
    mock("mock-4q")
    assert time.process_time() - start < 1.5  # about .3 s; the margin is for slow machines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "mock-3"}, "no mock dataset named 'mock-3'; did you mean"),
        ({"placement": "strat"}, "did you mean 'start'"),
        ({"classes": 1}, "words for 2 to"),
        ({"classes": 99}, "words for 2 to"),
        ({"dev_size": 1}, "The dev split needs at least one example of 2 classes, not 1"),
    ],
)
def test_wrong_options(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        mock(**{"name": "mock-1", **arguments})  # type: ignore[arg-type]
