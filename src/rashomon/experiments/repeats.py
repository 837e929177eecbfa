"""What does a method say when it is asked again? The same model and texts, under another sampling seed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rashomon.data import Example
from rashomon.experiments.context import Context, Work
from rashomon.experiments.testimony import SHIFT, Question, Testimony, is_signed, samples
from rashomon.explainers import Explanations
from rashomon.measures import measures
from rashomon.measures.base import Floats, Ragged

SAMPLING = "another sampling seed"
REPEATED = 30  # texts that are enough for a mean
KENDALL = "kendall"


def on_fewer_texts(testimony: Testimony, count: int | None) -> Testimony:
    """So many of the texts, evenly over the whole file, which may be sorted; None, or of stored ones: all."""
    if testimony.model is None:
        return testimony
    examples = evenly_chosen(testimony.examples, count)
    explanations = testimony.explanations.where(example_id={example.id for example in examples})
    return replace(testimony, examples=examples, explanations=explanations)


def evenly_chosen(examples: tuple[Example, ...], count: int | None) -> tuple[Example, ...]:
    if count is None or count >= len(examples):
        return examples
    places = np.linspace(0, len(examples) - 1, count).round().astype(int)
    return tuple(examples[place] for place in places)


def repeating_work(context: Context, question: Question, count: int | None) -> list[Work]:
    """What ``sampled_again`` would have to do, for those who have other work to do beside it."""
    return context.explanation_work(
        question.model,
        evenly_chosen(question.examples, count),
        [method for method in question.methods if samples(method)],
        seed=question.seed + SHIFT,
        space=question.space,
        background=question.behind_again,
    )


def sampled_again(
    context: Context, heard: Sequence[Testimony], methods: Collection[str], names: Sequence[str] = (KENDALL,)
) -> pd.DataFrame:
    """Methods that draw at random are asked again, also with other references; the others would say the same again."""
    parts = []
    for testimony in heard:
        assert testimony.model is not None
        asked = [method for method in testimony.explanations.methods if method in methods]
        noisy = [method for method in asked if samples(method)]
        again = context.explanations(
            testimony.model,
            testimony.examples,
            noisy,
            seed=testimony.seed + SHIFT,
            space=testimony.space,
            background=testimony.behind_again,
        )
        for method in asked:
            explanations = testimony.explanations.by_method(method)
            second = again.by_method(method) if method in noisy else explanations
            parts.append(self_comparison(testimony.seed, SAMPLING, explanations, second, names))
    return pd.concat(parts, ignore_index=True)


def self_comparison(
    seed: int, against: str, first: Explanations, second: Explanations, names: Sequence[str] = (KENDALL,)
) -> pd.DataFrame:
    """One method's agreement with itself on the texts that both accounts explain, a row a text and measure."""
    second_of = {item.example_id: item for item in second}
    pairs = [(item, second_of[item.example_id]) for item in first if item.example_id in second_of]
    one, other = Explanations(p[0] for p in pairs), Explanations(p[1] for p in pairs)
    fields = {"seed": seed, "example": [item.example_id for item in one], "against": against}
    fields["method"] = first.methods[0] if first else ""
    return pd.concat(
        [
            pd.DataFrame({**fields, "measure": name, "value": self_agreement(one, other, name)})
            for name in names
        ],
        ignore_index=True,
    )


def self_agreement(first: Explanations, second: Explanations, name: str = KENDALL) -> Floats:
    """A measure of agreement, text by text, of magnitudes; of signs where it asks for them and they mean something."""
    signs = name.startswith("sign-")
    if signs and not all(map(is_signed, first.methods)):
        return np.full(len(first), np.nan)
    rows = [
        Ragged.from_list([i.scores[i.content] if signs else np.abs(i.scores[i.content]) for i in account])
        for account in (first, second)
    ]
    return np.asarray(measures.get(name)(rows[0], rows[1]))
