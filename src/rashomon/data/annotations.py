"""The nested values of a row (tokens, rationales, phrases, answers, referential equalities), each checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from rashomon.data.example import Equality, Example, Span
from rashomon.data.file_formats import Values
from rashomon.data.tokens import tokenise, words_of

T = TypeVar("T")
Tokens = tuple[str, ...]
Marks = tuple[int, ...]


class MalformedError(Exception):
    """What is wrong with a row: a clause, to which the reader of the table adds the place."""


def example_of(
    values: Values, key: str, text: str, pair: str | None, label: int | None, rationale: str | None
) -> Example:
    """A row as an example. ``rationale`` is the column asked for, else the layout's key is taken."""
    tokens, marks = _marked(values, "tokens", rationale or "rationale", text, rationale is not None)
    tokens_pair: Tokens | None = None
    marks_pair: Marks | None = None
    if pair is not None:
        tokens_pair, marks_pair = _marked(values, "tokens_pair", "rationale_pair", pair, False)
    example = Example(
        key,
        text,
        label,
        pair,
        tokens,
        tokens_pair,
        marks,
        marks_pair,
        phrases=_parsed(values, "phrases", _phrases),
        answers=_parsed(values, "answers", _answers) if pair is not None else None,
        equalities=_parsed(values, "referential_equalities", _equalities) if pair is not None else None,
    )
    _check_spans(example)
    for segment, given, whole in ((0, tokens, text), (1, tokens_pair, pair)):
        if given is not None and " ".join(given) != whole:
            words_of(example, segment)  # refuses tokens that are not pieces of the text
    return example


def _marked(
    values: Values, tokens_key: str, marks_key: str, text: str, asked: bool
) -> tuple[Tokens | None, Marks | None]:
    """Tokens and the 0/1 marks over them. Marks without tokens count the text's words."""
    tokens = _parsed(values, tokens_key, _tokens)
    value = values.get(marks_key)
    if asked and isinstance(value, str):
        value = _numbers_in(value, marks_key)
    if not isinstance(value, list):
        # A column that happens to have the layout's name but holds something else is not a rationale.
        if asked and value is not None:
            raise MalformedError(f"the rationale ({marks_key!r}) is not a list of 0 and 1")
        return tokens, None
    if any(mark not in (0, 1) for mark in value):
        raise MalformedError(f"the rationale ({marks_key!r}) is not a list of 0 and 1")
    marks = tuple(int(mark) for mark in value)
    for candidate in (tokens,) if tokens is not None else (tuple(text.split()), _forms(text)):
        if len(candidate) == len(marks):
            return candidate, marks
    count = len(tokens) if tokens is not None else len(text.split())
    raise MalformedError(f"the rationale ({marks_key!r}) has {len(marks)} marks for {count} tokens")


def _forms(text: str) -> Tokens:
    return tuple(word.form for word in tokenise(text))


def _numbers_in(value: str, key: str) -> list[int] | None:
    """Marks written into one field: ``0 0 1``, ``0,0,1`` or ``[0, 0, 1]``; an empty field is no rationale."""
    try:
        return [int(mark) for mark in value.strip(" []()").replace(",", " ").split()] or None
    except ValueError as error:
        raise MalformedError(f"the rationale ({key!r}) is not a list of 0 and 1") from error


def _parsed(values: Values, key: str, parse: Callable[[Any], T]) -> T | None:
    """A nested value; one that came through a flat file is JSON in a string."""
    value = values.get(key)
    if value is None or value == "":
        return None
    try:
        return parse(json.loads(value) if isinstance(value, str) else value)
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise MalformedError(f"{key!r} is not in the layout that this name stands for") from error


def _tokens(value: Any) -> Tokens:
    if not isinstance(value, list) or not all(isinstance(token, str) for token in value):
        raise ValueError(value)
    return tuple(value)


def _phrases(value: Any) -> tuple[tuple[int, int, int], ...]:
    return tuple((int(start), int(end), int(label)) for start, end, label in value)


def _span(value: Sequence[int]) -> Span:
    start, end = value
    return Span(int(start), int(end))


def _answers(value: Any) -> tuple[Span, ...]:
    return tuple(_span((answer["start"], answer["end"])) for answer in value)


def _equalities(value: Any) -> tuple[Equality, ...]:
    return tuple(Equality(_span(pair["question"]), _span(pair["passage"])) for pair in value)


def _check_spans(example: Example) -> None:
    """Spans must lie in their texts, phrases in the tokens."""
    passage = len(example.text_pair or "")
    spans = [(span, passage) for span in example.answers or ()]
    for pair in example.equalities or ():
        spans += [(pair.question, len(example.text)), (pair.passage, passage)]
    if example.phrases is not None and example.tokens is not None:
        spans += [(Span(start, end), len(example.tokens)) for start, end, _ in example.phrases]
    for span, length in spans:
        if not 0 <= span.start < span.end <= length:
            raise MalformedError(f"the span {span.start}..{span.end} is not inside of its text")
