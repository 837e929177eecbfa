from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rashomon.data import Example, Word, tokenise, words_of
from rashomon.errors import UserError


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("A gorgeous, witty movie!", ["A", "gorgeous", ",", "witty", "movie", "!"]),
        ("It wasn't well-made.", ["It", "wasn't", "well-made", "."]),
        ("the author’s 3.5 of 1,000", ["the", "author’s", "3.5", "of", "1,000"]),
        ("in 2004. Yes", ["in", "2004", ".", "Yes"]),
        ("'quoted' -- so...", ["'", "quoted", "'", "-", "-", "so", ".", ".", "."]),
        ("naïve café", ["naïve", "café"]),
        ("cafe\u0301 हिन्दी", ["cafe\u0301", "हिन्दी"]),  # accents and vowel signs as characters of their own
        ("映画 👍", ["映画", "👍"]),
        (" \n\t ", []),
    ],
)
def test_tokenise(text: str, forms: list[str]) -> None:
    assert [word.form for word in tokenise(text)] == forms


@given(st.text(max_size=60))
def test_words_stand_where_they_say_and_leave_only_white_space(text: str) -> None:
    words = tokenise(text)
    assert [word.index for word in words] == list(range(len(words)))
    assert all(text[word.start : word.end] == word.form for word in words)
    edges = [0, *(edge for word in words for edge in (word.start, word.end)), len(text)]
    gaps = [text[edges[i] : edges[i + 1]] for i in range(0, len(edges), 2)]
    assert all(not gap.strip() for gap in gaps)


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_a_plain_text_has_the_same_words_whatever_stands_beside_it(text: str) -> None:
    """ASCII has a pattern of its own; a word of another script behind the text brings in the other one."""
    assert [*tokenise(text), "é"] == [*tokenise(f"{text}\né")[:-1], "é"]


@given(st.lists(st.text(alphabet="ab.'", min_size=1, max_size=4), min_size=1, max_size=8))
def test_given_tokens_are_placed_exactly(tokens: list[str]) -> None:
    text = " ".join(tokens)
    words = words_of(Example("x", text, tokens=tuple(tokens)), 0)
    assert [word.form for word in words] == tokens
    assert all(text[word.start : word.end] == word.form for word in words)


def test_tokens_that_were_glued_are_searched_in_order() -> None:
    example = Example("x", "No, it's no good.", tokens=("No", ",", "it's", "no", "good", "."))
    assert [(word.start, word.end) for word in words_of(example, 0)] == [
        (0, 2), (2, 3), (4, 8), (9, 11), (12, 16), (16, 17),
    ]  # fmt: skip


def test_empty_tokens_have_no_word_but_keep_their_place_in_the_count() -> None:
    assert words_of(Example("x", "a  b", tokens=("a", "", "b")), 0) == [
        Word("a", 0, 1, 0),
        Word("b", 3, 4, 2),
    ]


def test_the_second_text_has_its_own_tokens() -> None:
    example = Example("x", "one", text_pair="two three", tokens_pair=("two three",))
    assert [word.form for word in words_of(example, 0)] == ["one"]
    assert [word.form for word in words_of(example, 1)] == ["two three"]
    assert words_of(Example("x", "one"), 1) == []


def test_a_token_that_is_not_in_the_text_is_refused() -> None:
    with pytest.raises(UserError, match="Token 1 of example 'x', 'cat', does not follow in its text"):
        words_of(Example("x", "the dog", tokens=("the", "cat")), 0)
