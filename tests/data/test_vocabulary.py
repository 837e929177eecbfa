from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rashomon.data import Vocabulary
from rashomon.errors import UserError

LISTS = [["b", "a", "c"], ["b", "c", "d"], ["b"]]


def test_words_come_by_frequency_then_alphabet() -> None:
    vocabulary = Vocabulary.build(LISTS)
    assert vocabulary.words == ("<pad>", "<unk>", "b", "c", "a", "d")
    assert len(vocabulary) == 6
    assert "a" in vocabulary
    assert "z" not in vocabulary
    assert "<pad>" not in vocabulary


def test_size_and_count_limits() -> None:
    assert Vocabulary.build(LISTS, max_size=1).words[2:] == ("b",)
    assert Vocabulary.build(LISTS, min_count=2).words[2:] == ("b", "c")
    assert Vocabulary.build(LISTS, max_size=0).words[2:] == ()


def test_unknown_words_and_written_out_special_words_are_unknown() -> None:
    vocabulary = Vocabulary.build([*LISTS, ["<pad>", "<unk>", "<pad>"]])
    ids = vocabulary.ids(["b", "z", "<pad>", "<unk>", "d"])
    assert ids.tolist() == [2, 1, 1, 1, 5]
    assert ids.dtype == np.int64
    assert vocabulary.ids([]).shape == (0,)


@given(st.lists(st.lists(st.sampled_from("abcdefg"), max_size=9), max_size=9))
def test_counts_never_rise_along_the_vocabulary(lists: list[list[str]]) -> None:
    vocabulary = Vocabulary.build(lists)
    counts = Counter(word for words in lists for word in words)
    order = [counts[word] for word in vocabulary.words[2:]]
    assert order == sorted(order, reverse=True)
    assert set(vocabulary.words[2:]) == set(counts)
    assert vocabulary.ids(vocabulary.words[2:]).tolist() == list(range(2, len(vocabulary)))


def test_it_survives_json() -> None:
    vocabulary = Vocabulary.build(LISTS)
    assert Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary


@pytest.mark.parametrize("words", [[], ["a", "b"], ["<pad>", "<unk>", "a", "a"]])
def test_what_is_no_vocabulary_is_refused(words: list[str]) -> None:
    with pytest.raises(UserError, match="no vocabulary"):
        Vocabulary.from_json(words)
