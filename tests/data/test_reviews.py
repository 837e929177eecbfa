from __future__ import annotations

import re
from collections import Counter

import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression

from rashomon.data import Dataset, Example, planted_reviews, tokenise, words_of
from rashomon.data.reviews import _grammar
from rashomon.errors import UserError

DENIALS = {"not", "never", "hardly", "far", "from", "no", "isn't", "aren't", "wasn't", "weren't"}


@pytest.fixture(scope="module")
def reviews() -> Dataset:
    return planted_reviews()


@pytest.fixture(scope="module")
def everything(reviews: Dataset) -> list[Example]:
    return [example for split in reviews for example in reviews[split]]


def polarity_of_words() -> dict[str, int]:
    grammar = _grammar()
    sorts = [*grammar["opinions"].values(), *grammar["kinds"].values()]
    return {
        form: label
        for sort in sorts
        for grade in ("strong", "degree")
        for label, polarity in enumerate(("negative", "positive"))
        for word in sort[grade][polarity]
        for form in word.split(":")
    }


def marked(example: Example) -> list[str]:
    pairs = zip(example.tokens or (), example.rationale or (), strict=True)
    return [token for token, mark in pairs if mark]


def test_sizes_balance_and_no_text_twice(reviews: Dataset, everything: list[Example]) -> None:
    assert {split: len(reviews[split]) for split in reviews} == {"train": 2400, "dev": 400, "test": 600}
    for split in reviews:
        assert Counter(example.label for example in reviews[split])[1] == len(reviews[split]) // 2
    assert len({example.text for example in everything}) == len(everything)
    assert len({example.id for example in everything}) == len(everything)


def test_length_sentences_and_spelling(everything: list[Example]) -> None:
    for example in everything:
        text = example.text
        assert 12 <= len(example.tokens or ()) <= 45
        assert 1 <= len(re.findall(r"\.(?: |$)", text)) <= 3
        assert all(sentence[0].isupper() for sentence in text.split(". "))
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]|[{}*()]|  | [.,]|,\.|\.\.|\b(\w+) \1\b", text), text


def test_agreement_of_number(everything: list[Example]) -> None:
    plural = [
        aspect.split("|")[0]
        for domain in ("film", "book", "hotel", "restaurant", "gadget")
        for aspect in _grammar()[domain]["aspects"]
        if "|plural" in aspect
    ]
    singular_verb = re.compile(
        rf"the (?:{'|'.join(plural)})(?: \w+ this [\w -]+)? (?:is|was|isn't|wasn't)\b", re.I
    )
    wrong = [example.text for example in everything if singular_verb.search(example.text)]
    assert not wrong
    assert not [
        e.text for e in everything if re.search(r"\b[Ww]e was\b|\bI were\b|\b[Ii]t (are|were)\b", e.text)
    ]


def test_tokens_are_those_of_the_tokeniser(everything: list[Example]) -> None:
    for example in everything:
        assert tuple(word.form for word in tokenise(example.text)) == example.tokens
        assert [word.index for word in words_of(example, 0)] == list(range(len(example.tokens or ())))


def test_the_rationale_decides(everything: list[Example]) -> None:
    polarity = polarity_of_words()
    for example in everything:
        words = marked(example)
        opinions = [word for word in words if word in polarity]
        denials = [word for word in words if word not in polarity]
        assert len(opinions) == 1, example.text
        assert set(denials) <= DENIALS
        assert (polarity[opinions[0]] != bool(denials)) == bool(example.label), example.text


def test_shares_of_negation_and_hearsay(everything: list[Example]) -> None:
    polarity = polarity_of_words()
    for label in (0, 1):
        mine = [example for example in everything if example.label == label]
        negated = sum(len(marked(example)) > 1 for example in mine) / len(mine)
        heard = sum(sum(token in polarity for token in example.tokens or ()) > 1 for example in mine) / len(
            mine
        )
        assert negated == pytest.approx(0.3, abs=0.04)
        assert heard == pytest.approx(0.35, abs=0.04)


def accuracy_of_words(reviews: Dataset, keep_rationale: bool) -> float:
    def words(example: Example) -> list[str]:
        pairs = zip(example.tokens or (), example.rationale or (), strict=True)
        return [token.lower() for token, mark in pairs if keep_rationale or not mark]

    counter = CountVectorizer(analyzer=words)
    train, test = reviews["train"], reviews["test"]
    model = LogisticRegression(C=0.1, max_iter=1000)
    model.fit(counter.fit_transform(train), [example.label for example in train])
    return float(model.score(counter.transform(test), [example.label for example in test]))


def test_single_words_are_not_enough_and_the_rest_says_nothing(reviews: Dataset) -> None:
    assert 0.55 < accuracy_of_words(reviews, keep_rationale=True) < 0.8
    assert 0.43 < accuracy_of_words(reviews, keep_rationale=False) < 0.57


def test_every_test_word_was_in_training(reviews: Dataset) -> None:
    train = {token.lower() for example in reviews["train"] for token in example.tokens or ()}
    assert {token.lower() for example in reviews["test"] for token in example.tokens or ()} <= train


def test_the_seed_decides() -> None:
    def make(seed: int) -> Dataset:
        return planted_reviews(seed, 60, 10, 10)

    assert make(1).fingerprint == make(1).fingerprint
    assert make(1).fingerprint != make(2).fingerprint


def test_options() -> None:
    plain = planted_reviews(0, 200, 10, 10, negated=0, hearsay=0)
    assert all(len(marked(example)) == 1 for example in plain["train"])
    denied = planted_reviews(0, 200, 10, 10, negated=1)
    assert all(len(marked(example)) > 1 for example in denied["train"])
    with pytest.raises(UserError, match="'negated' of planted reviews must lie between 0 and 1"):
        planted_reviews(negated=1.5)
    with pytest.raises(UserError, match="at least two examples"):
        planted_reviews(test_size=1)
