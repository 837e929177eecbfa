"""The papers' preprocessing as named steps that are put together in a list, such as
``["min-tokens:3", "lowercase", "alphanumeric", "truncate:200"]`` (paper *hard-to-agree*).

Token steps change the words a model sees; every word keeps its place in the original text. Dataset steps take
examples out and leave a note. A length filter counts the words as the token steps before it leave them, so
the order in the list is the order of work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from rashomon.data.example import Dataset, Example, Split
from rashomon.data.tokens import Word, words_of
from rashomon.errors import UserError
from rashomon.registry import Registry


@dataclass(frozen=True, slots=True)
class TokenStep:
    """Changes the words of one text."""

    text: str
    apply: Callable[[list[Word]], list[Word]]


@dataclass(frozen=True, slots=True)
class DatasetStep:
    """Keeps the examples whose texts each have a fitting number of words."""

    text: str
    keeps: Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """Keeps so many texts of the training split, and all of the others."""

    text: str
    count: int


Step = TokenStep | DatasetStep | TrainingStep
MOST_DIGITS = 18  # of a count; no text has more words

steps: Registry[Callable[[str, str], Step]] = Registry("preprocessing step", "steps")
"""Makers of steps: each takes the argument after the colon and the whole text of the step."""


@lru_cache(maxsize=256)
def parse_step(text: str) -> Step:
    """``"truncate:200"`` as a step."""
    name, _, argument = text.partition(":")
    return steps.get(name.strip())(argument.strip(), text)


def apply_token_steps(words: Sequence[Word], steps: Sequence[str]) -> list[Word]:
    """The words after the token steps of the list, in order; dataset steps in it do nothing here."""
    kept = list(words)
    for text in steps:
        step = parse_step(text)
        if isinstance(step, TokenStep):
            kept = step.apply(kept)
    return kept


def apply_dataset_steps(dataset: Dataset, steps: Sequence[str]) -> Dataset:
    """The dataset after the dataset steps of the list, in order, each with a note of what it dropped."""
    for position, text in enumerate(steps):
        step = parse_step(text)
        if isinstance(step, DatasetStep):
            dataset = _filter(dataset, step, steps[:position])
        elif isinstance(step, TrainingStep):
            dataset = _fewer_to_train_on(dataset, step)
    return dataset


def _fewer_to_train_on(dataset: Dataset, step: TrainingStep) -> Dataset:
    """The same ones every time, in their order: a smaller number is a part of a larger one."""
    examples = dataset.splits.get("train", ())
    shuffled = np.random.default_rng(0).permutation(len(examples))
    chosen = sorted(shuffled[: step.count])
    dropped = f"{step.text} dropped {len(examples) - len(chosen)} of {len(examples)} in train"
    splits = {**dataset.splits, "train": tuple(examples[place] for place in chosen)}
    return replace(dataset, splits=splits, notes=(*dataset.notes, dropped))


def _filter(dataset: Dataset, step: DatasetStep, before: Sequence[str]) -> Dataset:
    def fits(example: Example) -> bool:
        segments = (0, 1) if example.is_pair else (0,)
        return all(step.keeps(len(apply_token_steps(words_of(example, one), before))) for one in segments)

    splits: dict[str, Split] = {}
    dropped = []
    for name, examples in dataset.splits.items():
        splits[name] = tuple(example for example in examples if fits(example))
        if examples and not splits[name]:
            raise UserError(
                f"The step {step.text!r} leaves no example in the {name} split of {dataset.name}."
            )
        dropped.append(f"{len(examples) - len(splits[name])} of {len(examples)} in {name}")
    return replace(
        dataset, splits=splits, notes=(*dataset.notes, f"{step.text} dropped {', '.join(dropped)}")
    )


def _no_argument(argument: str, text: str) -> None:
    if argument:
        raise UserError(f"The step {text.partition(':')[0]!r} takes no argument, got {text!r}.")


def _count(argument: str, text: str) -> int:
    if not (argument.isdecimal() and len(argument) <= MOST_DIGITS and int(argument) > 0):
        name = text.partition(":")[0]
        raise UserError(f"The step {name!r} needs a whole number above 0, as in '{name}:200', got {text!r}.")
    return int(argument)


@steps.register("lowercase")
def _lowercase(argument: str, text: str) -> Step:
    """Every word in lower case."""
    _no_argument(argument, text)
    return TokenStep(text, lambda words: [word.spelt(word.form.lower()) for word in words])


@steps.register("alphanumeric")
def _alphanumeric(argument: str, text: str) -> Step:
    """Drop the words without any letter or digit."""
    _no_argument(argument, text)
    return TokenStep(text, lambda words: [word for word in words if any(map(str.isalnum, word.form))])


@steps.register("truncate")
def _truncate(argument: str, text: str) -> Step:
    """Keep the first N words (truncate:N)."""
    count = _count(argument, text)
    return TokenStep(text, lambda words: words[:count])


@steps.register("digits-to")
def _digits_to(argument: str, text: str) -> Step:
    """Replace every word that contains a digit (digits-to:qqq)."""
    if not argument:
        raise UserError("The step 'digits-to' needs the word to put in, as in 'digits-to:qqq'.")
    return TokenStep(
        text,
        lambda words: [word.spelt(argument) if any(map(str.isdigit, word.form)) else word for word in words],
    )


@steps.register("min-tokens")
def _min_tokens(argument: str, text: str) -> Step:
    """Drop examples with a text of fewer than N words (min-tokens:N)."""
    count = _count(argument, text)
    return DatasetStep(text, lambda length: length >= count)


@steps.register("max-tokens")
def _max_tokens(argument: str, text: str) -> Step:
    """Drop examples with a text of more than N words (max-tokens:N)."""
    count = _count(argument, text)
    return DatasetStep(text, lambda length: length <= count)


@steps.register("train-texts")
def _train_texts(argument: str, text: str) -> Step:
    """Train on N texts drawn from the training split (train-texts:N); the other splits stay whole."""
    return TrainingStep(text, _count(argument, text))
