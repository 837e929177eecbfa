from __future__ import annotations

import json
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from rashomon.errors import UserError
from rashomon.explainers.record import Explanation, merge_words


def explanation(**changes: Any) -> Explanation:
    """[CLS] un ##believ ##able acting [SEP], with a word of three pieces."""
    facts: dict[str, Any] = {
        "example_id": "a",
        "text": "Unbelievable acting",
        "text_pair": None,
        "tokens": ("[CLS]", "un", "##believ", "##able", "acting", "[SEP]"),
        "offsets": np.array([[0, 0], [0, 2], [2, 8], [8, 12], [13, 19], [0, 0]]),
        "word_ids": np.array([-1, 0, 0, 0, 1, -1]),
        "segments": np.zeros(6, dtype=np.int64),
        "special": np.array([True, False, False, False, False, True]),
        "scores": np.array([9.0, 1.0, -3.0, 0.5, 2.0, -9.0]),
        "method": "lime",
        "configuration": {"samples": 10, "widths": (1, 2)},
        "seed": 3,
        "target": 1,
        "target_label": "positive",
        "probabilities": (0.1, 0.9),
        "output_space": "logit",
        "model": "abc",
        "gap": None,
        "versions": {"torch": "2"},
    }
    return Explanation(**{**facts, **changes})


def of_scores(scores: list[float]) -> Explanation:
    """Single letters, each a word."""
    n = len(scores)
    return explanation(
        text="x" * n,
        tokens=("x",) * n,
        offsets=np.stack([np.arange(n), np.arange(1, n + 1)], axis=1),
        word_ids=np.arange(n),
        segments=np.zeros(n),
        special=np.zeros(n, dtype=bool),
        scores=scores,
    )


def test_special_tokens_are_no_content_and_never_ranked() -> None:
    record = explanation()
    assert record.content.tolist() == [False, True, True, True, True, False]
    assert record.ranked().tolist() == [2, 4, 1, 3]
    assert record.ranked(2, by="signed").tolist() == [4, 1]
    assert record.magnitude.tolist() == [9, 1, 3, 0.5, 2, 9]


@given(st.lists(st.integers(-3, 3).map(float), max_size=30), st.integers(0, 8))
def test_ties_go_to_the_earlier_token(scores: list[float], n: int) -> None:
    expected = sorted(range(len(scores)), key=lambda i: (-abs(scores[i]), i))
    assert of_scores(scores).ranked(n).tolist() == expected[:n]


def test_scores_that_are_not_finite_are_said_and_rank_last() -> None:
    record = of_scores([1.0, float("nan"), 3.0, float("inf")])
    assert record.ranked().tolist() == [2, 0, 1, 3]
    assert record.warnings == ("2 of 4 scores are not finite numbers; they rank last.",)
    assert replace(record).warnings == record.warnings  # not said twice


def test_the_record_cannot_be_changed_and_leaves_the_callers_arrays_alone() -> None:
    offsets, scores = np.array([[0, 1]]), np.array([2.0])
    record = replace(of_scores([1.0]), offsets=offsets, scores=scores)
    with pytest.raises(FrozenInstanceError):
        record.seed = 4  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        record.scores[0] = 0
    scores[0] = 7
    offsets[0] = 0
    assert record.scores.tolist() == [2.0]


def test_equal_by_content_and_after_pickling_for_worker_processes() -> None:
    assert explanation() == explanation()
    assert explanation() != explanation(scores=np.zeros(6))
    assert explanation() != explanation(configuration={})
    assert of_scores([float("nan")]) == of_scores([float("nan")])
    assert pickle.loads(pickle.dumps(explanation())) == explanation()


def test_to_dict_is_plain_json_without_nan() -> None:
    item = of_scores([1.0, float("nan")])
    record = json.loads(json.dumps(item.to_dict(), allow_nan=False))
    assert record["scores"] == [1.0, None]
    assert record["configuration"] == {"samples": 10, "widths": [1, 2]}
    assert record["offsets"] == [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scores": np.zeros(5)}, "6 tokens and scores of shape 5"),
        ({"scores": np.zeros((6, 2))}, "scores of shape 6x2"),
        ({"offsets": np.zeros(12)}, "offsets of shape 12"),
        ({"special": np.zeros(7)}, "special of shape 7"),
        ({"segments": np.full(6, 2)}, "neither 0"),
        ({"segments": np.ones(6)}, "outside its text"),  # no second text to point into
        ({"text": "short"}, "outside its text"),
        ({"configuration": {"generator": np.random.default_rng(0)}}, "plain JSON"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        explanation(**changes)


@pytest.mark.parametrize(
    ("how", "score"),
    [("sum", -1.5), ("max", -3.0), ("mean", -0.5)],
)
def test_sub_words_merge_to_words_of_the_original_text(how: Any, score: float) -> None:
    merged = merge_words(explanation(), how)
    assert merged.tokens == ("[CLS]", "Unbelievable", "acting", "[SEP]")
    assert merged.scores.tolist() == [9.0, score, 2.0, -9.0]
    assert merged.special.tolist() == [True, False, False, True]
    assert merged.offsets.tolist() == [[0, 0], [0, 12], [13, 19], [0, 0]]
    assert merged.word_ids.tolist() == [-1, 0, 1, -1]
    assert (merged.unit, merged.merged_by) == ("word", how)
    assert merge_words(merged, how) is merged


def test_merging_is_not_done_twice_in_different_ways() -> None:
    with pytest.raises(UserError, match="already in words"):
        merge_words(merge_words(explanation(), "mean"), "sum")
    with pytest.raises(UserError, match="did you mean 'mean'"):
        merge_words(explanation(), "meen")  # type: ignore[arg-type]


def test_word_ids_of_a_pair_count_in_each_segment() -> None:
    """The last word of the first text and the first of the second may share their number."""
    record = explanation(
        text="big",
        text_pair="bigger",
        tokens=("big", "big", "##ger"),
        offsets=[[0, 3], [0, 3], [3, 6]],
        word_ids=[0, 0, 0],
        segments=[0, 1, 1],
        special=[False] * 3,
        scores=[1, 2, 3],
    )
    assert merge_words(record).tokens == ("big", "bigger")
    assert merge_words(record).scores.tolist() == [1, 5]


def test_tokens_without_a_word_stay_alone() -> None:
    record = replace(of_scores([1, 2, 3]), word_ids=[-1, -1, 0])
    assert merge_words(record).scores.tolist() == [1, 2, 3]


def test_no_tokens_at_all() -> None:
    for how in ("sum", "max", "mean"):
        assert len(merge_words(of_scores([]), how)) == 0  # type: ignore[arg-type]
    assert of_scores([]).ranked().tolist() == []


@given(st.lists(st.tuples(st.integers(0, 2), st.floats(-5, 5)), max_size=20))
def test_a_sum_over_words_is_the_sum_over_tokens(pieces: list[tuple[int, float]]) -> None:
    words = np.cumsum([step for step, _ in pieces]).astype(np.int64) if pieces else []
    record = replace(of_scores([score for _, score in pieces]), word_ids=words)
    merged = merge_words(record)
    assert merged.scores.sum() == pytest.approx(record.scores.sum(), abs=1e-9)
    for word in set(merged.word_ids.tolist()):
        assert merged.scores[merged.word_ids == word].sum() == pytest.approx(
            record.scores[record.word_ids == word].sum(), abs=1e-9
        )


def test_words_of_a_byte_level_tokeniser_are_the_original_words() -> None:
    """Leading spaces and characters of several bytes, from a real tokeniser that keeps spaces in offsets."""
    text = "  a naïve 🙂 film,  truly"
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(["a film"], trainers.BpeTrainer(vocab_size=258, initial_alphabet=alphabet))
    encoded = tokenizer.encode(text)
    n = len(encoded.ids)
    record = explanation(
        text=text,
        tokens=tuple(encoded.tokens),
        offsets=encoded.offsets,
        word_ids=encoded.word_ids,
        segments=np.zeros(n),
        special=np.zeros(n),
        scores=np.ones(n),
    )
    merged = merge_words(record)
    shown = [word for word in merged.tokens if word.strip()]
    assert shown == ["a", "naïve", "🙂", "film", ",", "truly"]
    assert merged.scores.sum() == n
