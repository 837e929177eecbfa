from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rashomon.data.example import Example
from rashomon.data.splits import split_off, split_three
from rashomon.errors import UserError

LABELS = ("a", "b", "c", "d")
counts_strategy = st.lists(st.integers(3, 60), min_size=2, max_size=4)


def examples(counts: list[int]) -> list[Example]:
    return [Example(f"{c}-{n}", f"text {c} {n}", c) for c, count in enumerate(counts) for n in range(count)]


@given(counts_strategy, st.integers(0, 5))
def test_splits_are_a_partition_stratified_by_class(counts: list[int], seed: int) -> None:
    whole = examples(counts)
    splits = split_three(whole, LABELS, seed, "toy")
    ids = [example.id for split in splits.values() for example in split]
    assert sorted(ids) == sorted(example.id for example in whole)
    assert len(set(ids)) == len(ids)
    for split, share in (("train", 0.8), ("dev", 0.1), ("test", 0.1)):
        by_class = Counter(example.label for example in splits[split])
        for label, count in enumerate(counts):
            assert by_class[label] >= 1
            assert abs(by_class[label] - share * count) <= 1.5


def test_the_seed_decides() -> None:
    whole = examples([30, 30])
    assert split_three(whole, LABELS, 1, "toy") == split_three(whole, LABELS, 1, "toy")
    assert split_three(whole, LABELS, 1, "toy") != split_three(whole, LABELS, 2, "toy")


@given(st.lists(st.tuples(st.sampled_from("uvwxyz"), st.integers(0, 1)), min_size=12, max_size=60))
def test_equal_texts_stay_together(drawn: list[tuple[str, int]]) -> None:
    """Whatever their labels: a text of both classes is on one side too."""
    whole = [Example(str(n), text, label) for n, (text, label) in enumerate(drawn)]
    try:
        splits = split_three(whole, LABELS, 0, "toy")
    except UserError:  # too few different texts
        assert min(len({e.text for e in whole if e.label == label}) for label in (0, 1)) < 3
        return
    texts = [text for split in splits.values() for text in {example.text for example in split}]
    assert len(texts) == len(set(texts))
    assert {example.label for example in splits["train"]} == {example.label for example in whole}


@pytest.mark.parametrize("labels_of_repeated", [(0,), (0, 1)])
@pytest.mark.parametrize("seed", range(5))
def test_a_text_repeated_too_often_stays_in_train(seed: int, labels_of_repeated: tuple[int, ...]) -> None:
    often = [
        Example(f"often-{n}", "n/a", labels_of_repeated[n % len(labels_of_repeated)]) for n in range(100)
    ]
    splits = split_three([*examples([40, 40]), *often], LABELS, seed, "toy")
    assert {name: len(split) for name, split in splits.items()} == {"train": 144, "dev": 18, "test": 18}


def test_a_class_of_repeated_texts_alone_is_still_tested() -> None:
    repeated = [Example(f"r-{n}", f"repeated {n % 3}", 1) for n in range(30)]
    splits = split_three([*examples([30]), *repeated], LABELS, 0, "toy")
    assert [sum(e.label == 1 for e in split) for split in splits.values()] == [10, 10, 10]


def test_a_label_that_appears_once_cannot_be_split() -> None:
    with pytest.raises(UserError, match="The label 'b' has only one text in toy, which cannot be split"):
        split_three(examples([5, 1]), LABELS, 0, "toy")
    with pytest.raises(UserError, match="too few examples for three splits"):
        split_three(examples([2, 2]), LABELS, 0, "toy")


def test_a_label_that_appears_twice_is_learned_and_tested() -> None:
    splits = split_three(examples([10, 2]), LABELS, 0, "toy")
    assert [sum(example.label == 1 for example in split) for split in splits.values()] == [1, 0, 1]


def test_a_share_is_set_aside() -> None:
    rest, off = split_off(examples([50, 100]), LABELS, 0.1, np.random.default_rng(0), "toy")
    assert Counter(example.label for example in off) == {0: 5, 1: 10}
    assert len(rest) == 135
