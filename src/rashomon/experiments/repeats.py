"""What does a method say when it is asked again? The same model and texts, under another sampling seed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rashomon.experiments.context import Context
from rashomon.experiments.testimony import Testimony, samples
from rashomon.explainers import Explanations
from rashomon.measures.agreement import kendall
from rashomon.measures.base import Floats, Ragged

SAMPLING = "another sampling seed"
SHIFT = 1000  # how far the second sampling seed lies from the first
REPEATED = 50  # texts that are enough for a mean


def on_fewer_texts(testimony: Testimony, count: int | None) -> Testimony:
    """So many of the texts, evenly over the whole file, which may be sorted; None, or of stored ones: all."""
    if count is None or testimony.model is None or count >= len(testimony.examples):
        return testimony
    places = np.linspace(0, len(testimony.examples) - 1, count).round().astype(int)
    examples = tuple(testimony.examples[place] for place in places)
    told = testimony.told.where(example_id={example.id for example in examples})
    return replace(testimony, examples=examples, told=told)


def sampled_again(context: Context, heard: Sequence[Testimony], methods: Collection[str]) -> pd.DataFrame:
    """Methods that draw at random are asked again; the others would say the same again."""
    parts = []
    for testimony in heard:
        assert testimony.model is not None
        asked = [method for method in testimony.told.methods if method in methods]
        noisy = [method for method in asked if samples(method)]
        again = context.explanations(
            testimony.model,
            testimony.examples,
            noisy,
            seed=testimony.seed + SHIFT,
            background=testimony.behind,
        )
        for method in asked:
            told = testimony.told.by_method(method)
            second = again.by_method(method) if method in noisy else told
            parts.append(self_comparison(testimony.seed, SAMPLING, told, second))
    return pd.concat(parts, ignore_index=True)


def self_comparison(seed: int, against: str, first: Explanations, second: Explanations) -> pd.DataFrame:
    """One method's agreement with itself on the texts that both accounts explain."""
    second_of = {item.example_id: item for item in second}
    pairs = [(item, second_of[item.example_id]) for item in first if item.example_id in second_of]
    values = self_agreement(Explanations(p[0] for p in pairs), Explanations(p[1] for p in pairs))
    ids = [item.example_id for item, _ in pairs]
    method = first.methods[0] if first else ""
    return pd.DataFrame({"seed": seed, "example": ids, "method": method, "against": against, "value": values})


def self_agreement(first: Explanations, second: Explanations) -> Floats:
    """Kendall tau of magnitudes, text by text."""
    rows = [Ragged.from_list([np.abs(i.scores[i.content]) for i in told]) for told in (first, second)]
    return kendall(rows[0], rows[1])
