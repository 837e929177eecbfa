"""Which explanations can be held against known evidence, and how well does each find it?

Only texts with a rationale that the model classifies correctly are used, since on the others it used something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd

from rashomon.data import Example
from rashomon.data.rationales import has_rationale, marks_of, marks_of_tokens
from rashomon.explainers import Explanation, Explanations
from rashomon.explainers.record import UNKNOWN_TARGET
from rashomon.measures import measures
from rashomon.measures.base import Floats, Ints, Ragged

Ranking = Literal["magnitude", "signed"]
Pair = tuple[Explanation, Example]


def usable(
    explanations: Explanations, by_id: Mapping[str, Example], labels: Sequence[str]
) -> tuple[list[Pair], list[str]]:
    """Explanations of texts with a rationale that the model classifies correctly, and what was left out."""
    ids = explanations.aligned().example_ids
    kept = set(ids)
    strange = {i.example_id for i in explanations if not _is_of(i, by_id.get(i.example_id))} & kept
    kept -= strange
    bare = {i for i in kept if not has_rationale(by_id[i])}
    kept -= bare
    pairs = [(item, by_id[item.example_id]) for item in explanations if item.example_id in kept]
    # An explanation that does not say which class it is of is taken at its word, so it needs no label.
    unlabelled = {e.id for item, e in pairs if item.target != UNKNOWN_TARGET and e.label is None}
    kept -= unlabelled
    wrong = {e.id for item, e in pairs if e.id in kept and not _is_right(item, e, labels)}
    kept -= wrong
    why = [f"{len(bare)} have no rationale", f"{len(wrong)} are not classified correctly"]
    why += [f"{len(unlabelled)} are without a usable label"] if unlabelled else []
    why += [f"{len(strange)} do not match a text of the data"] if strange else []
    note = f"{len(kept)} of {len(ids)} texts are used: {', '.join(why)}."
    return [pair for pair in pairs if pair[1].id in kept], [note]


def _is_of(item: Explanation, example: Example | None) -> bool:
    """Ids of files are often mere numbers, so that only the text tells whether two files speak of the same."""
    return example is not None and (item.text, item.text_pair) == (example.text, example.text_pair)


def _is_right(item: Explanation, example: Example, labels: Sequence[str]) -> bool:
    """Whether the explained class is predicted and true; an explanation that does not say is taken at its word."""
    if item.target == UNKNOWN_TARGET:
        return True
    if example.label is None or (item.probabilities and int(np.argmax(item.probabilities)) != item.target):
        return False
    return (
        item.target_label == labels[example.label]
        if item.target_label in labels
        else item.target == example.label
    )


def recovered(
    seed: int, pairs: Sequence[Pair], names: Sequence[str], ranking: Ranking = "magnitude"
) -> list[pd.DataFrame]:
    """Every measure of recovery, text by text; one table a method and measure."""
    groups: dict[str, list[Pair]] = {}
    for item, example in pairs:
        groups.setdefault(item.method, []).append((item, example))
    tables = []
    for method, own in groups.items():
        found = [(item.scores, *rationale_of(item, example)) for item, example in own]
        ranked = [
            np.abs(scores[where]) if ranking == "magnitude" else scores[where] for scores, where, _ in found
        ]
        scores, marks = Ragged.from_list(ranked), Ragged.from_list([marks for _, _, marks in found])
        fields = {"seed": seed, "example": [item.example_id for item, _ in own], "method": method}
        tables += [
            pd.DataFrame({**fields, "measure": name, "value": measures.get(name)(scores, marks)})
            for name in names
        ]
    return tables


def rationale_of(explanation: Explanation, example: Example) -> tuple[Ints, Floats]:
    """Positions of the ranked tokens and their 0/1 marks; a text of the pair that nobody marked is left out of both."""
    marked = marks_of(example)
    where = np.flatnonzero(explanation.content & np.isin(explanation.segments, list(marked)))
    return where, marks_of_tokens(explanation.segments, explanation.word_ids, marked)[where]
