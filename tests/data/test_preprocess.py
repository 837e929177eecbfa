from __future__ import annotations

import pytest

from rashomon.data import (
    Dataset,
    Example,
    apply_dataset_steps,
    apply_token_steps,
    parse_step,
    steps,
    words_of,
)
from rashomon.errors import UserError

EXAMPLE = Example("x", "The 2nd FILM was, well, -- 90 minutes!", 1)


@pytest.mark.parametrize(
    ("listed", "forms"),
    [
        ([], ["The", "2nd", "FILM", "was", ",", "well", ",", "-", "-", "90", "minutes", "!"]),
        (["lowercase"], ["the", "2nd", "film", "was", ",", "well", ",", "-", "-", "90", "minutes", "!"]),
        (["alphanumeric"], ["The", "2nd", "FILM", "was", "well", "90", "minutes"]),
        (["truncate:3"], ["The", "2nd", "FILM"]),
        (["digits-to:qqq", "truncate:2"], ["The", "qqq"]),
        (["alphanumeric", "truncate:5"], ["The", "2nd", "FILM", "was", "well"]),
        (["truncate:5", "alphanumeric"], ["The", "2nd", "FILM", "was"]),
        (["min-tokens:3", "lowercase", "truncate:1"], ["the"]),
    ],
)
def test_token_steps(listed: list[str], forms: list[str]) -> None:
    words = apply_token_steps(words_of(EXAMPLE, 0), listed)
    assert [word.form for word in words] == forms


def test_words_keep_their_place() -> None:
    original = words_of(EXAMPLE, 0)
    for word in apply_token_steps(original, ["lowercase", "alphanumeric", "digits-to:qqq"]):
        source = original[word.index]
        assert (source.start, source.end) == (word.start, word.end)
        assert word.form in ("qqq", source.form.lower())
    assert original == words_of(EXAMPLE, 0)  # the words put in are left alone


def dataset(*texts: str) -> Dataset:
    split = tuple(Example(str(number), text, 0) for number, text in enumerate(texts))
    return Dataset("toy", {"train": split, "test": split[-1:]}, ("a", "b"), ("made",))


def test_length_filters_drop_and_say_so() -> None:
    kept = apply_dataset_steps(dataset("a", "a b", "a b c"), ["min-tokens:2"])
    assert [example.text for example in kept["train"]] == ["a b", "a b c"]
    assert kept.notes == ("made", "min-tokens:2 dropped 1 of 3 in train, 0 of 1 in test")
    kept = apply_dataset_steps(dataset("a b c", "a b", "a"), ["max-tokens:2"])
    assert [example.text for example in kept["train"]] == ["a b", "a"]


def test_fewer_texts_to_train_on_are_a_part_of_more_and_the_other_splits_stay() -> None:
    data = dataset(*"abcdefgh")
    five, three, all_of_them = (
        apply_dataset_steps(data, [step]) for step in ("train-texts:5", "train-texts:3", "train-texts:9")
    )
    assert len(five["train"]) == 5
    assert set(three["train"]) < set(five["train"]) < set(data["train"])
    assert [example.id for example in five["train"]] == sorted(example.id for example in five["train"])
    assert all_of_them["train"] == data["train"]
    assert five["test"] == data["test"]
    assert five.notes == ("made", "train-texts:5 dropped 3 of 8 in train")


def test_a_filter_counts_what_the_steps_before_it_leave() -> None:
    data = dataset("a . .", "a b c")
    assert len(apply_dataset_steps(data, ["min-tokens:3", "alphanumeric"])["train"]) == 2
    assert len(apply_dataset_steps(data, ["alphanumeric", "min-tokens:3"])["train"]) == 1


def test_both_texts_of_a_pair_must_fit() -> None:
    pairs = (Example("0", "a b", 0, "a"), Example("1", "a b", 0, "a b"))
    data = Dataset("toy", {"train": pairs}, ("a", "b"))
    assert apply_dataset_steps(data, ["min-tokens:2"])["train"] == pairs[1:]


def test_a_filter_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(UserError, match="'min-tokens:9' leaves no example in the train split of toy"):
        apply_dataset_steps(dataset("a", "b"), ["min-tokens:9"])


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("lowercas", "did you mean 'lowercase'"),
        ("truncate", "needs a whole number above 0, as in 'truncate:200'"),
        ("truncate:many", "needs a whole number"),
        ("truncate:0", "above 0"),
        ("min-tokens:-3", "needs a whole number"),
        ("lowercase:3", "takes no argument"),
        ("digits-to:", "needs the word to put in"),
    ],
)
def test_wrong_steps(step: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_step(step)


def test_every_step_says_what_it_does() -> None:
    assert all(entry.summary.endswith(".") for entry in steps)
