"""Does a method point at what is known to matter? Scores against planted or human rationales.

Planted data says which tokens decide the label; people mark theirs (yelp_hat, snli highlights); for sst the words
whose own sentiment lies on the side of the sentence's label stand in. Only texts that the model classifies
correctly are used, since on the others it used something else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from rashomon.data import Example
from rashomon.errors import UserError
from rashomon.explain import Explanation
from rashomon.measures import measures
from rashomon.measures.base import Floats, Ragged
from rashomon.studies.base import Distributions, Finding, Study, studies
from rashomon.studies.context import Context
from rashomon.studies.tables import FLOOR, against_floor, number, ranked_rows, spread_by_method
from rashomon.studies.witnesses import Ask, Testimony, configuration_of, hear, warnings_of

MEASURES = (
    "average-precision",
    "precision-at-1",
    "precision-at-5",
    "perfect-top-k",
    "token-f1",
    "iou-f1",
    "auprc",
)
NEUTRAL = 2  # sst's middle label of five


@studies.register("recovery")
@dataclass(frozen=True)
class Recovery(Study):
    """Does a method rank first the tokens that are planted, or that people marked?"""

    name: ClassVar[str] = "recovery"
    question: ClassVar[str] = "Does a method point at the tokens that are known to matter?"
    ask: Ask = field(default_factory=Ask)
    measures: tuple[str, ...] = MEASURES
    ranking: Literal["magnitude", "signed"] = "magnitude"

    def run(self, context: Context) -> Finding:
        heard = hear(context, self.ask, extra=() if self.ask.stored else (FLOOR,))
        data = context.dataset(self.ask.subject.dataset)
        by_id = {example.id: example for split in data for example in data[split]}
        instances = pd.concat([self._instances(t, by_id) for t in heard], ignore_index=True)
        if instances.empty:
            raise UserError(f"No correctly classified text of {data.name} has a rationale to recover.")
        summary = against_floor(instances)
        used = instances[["seed", "example"]].drop_duplicates()
        asked = sum(len(t.told.example_ids) for t in heard)
        note = f"{len(used)} of {asked} texts have a rationale and are classified correctly; the others are left out."
        return Finding(
            study=self.name,
            question=self.question,
            verdict=_verdict(summary),
            configuration=configuration_of(self),
            tables={"summary": summary, "instances": instances},
            figures=(_figure(instances),),
            warnings=(note, *warnings_of(heard)),
        )

    def _instances(self, testimony: Testimony, by_id: dict[str, Example]) -> pd.DataFrame:
        parts = []
        for method in testimony.told.methods:
            rows: list[tuple[str, Floats, Floats]] = []
            for item in testimony.told.by_method(method):
                example = by_id.get(item.example_id)
                if example is None or example.label != item.target:
                    continue
                truth = rationale_of(item, example)
                if truth is None:
                    continue
                where, marks = truth
                scores = item.scores[where]
                rows.append(
                    (item.example_id, np.abs(scores) if self.ranking == "magnitude" else scores, marks)
                )
            if rows:
                parts.append(self._measured(testimony.seed, method, rows))
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def _measured(self, seed: int, method: str, rows: Sequence[tuple[str, Floats, Floats]]) -> pd.DataFrame:
        scores = Ragged.from_list([row[1] for row in rows])
        marks = Ragged.from_list([row[2] for row in rows])
        tables = [
            pd.DataFrame(
                {
                    "seed": seed,
                    "example": [row[0] for row in rows],
                    "method": method,
                    "measure": name,
                    "value": measures.get(name)(scores, marks),
                }
            )
            for name in self.measures
        ]
        return pd.concat(tables, ignore_index=True)


def has_rationale(example: Example) -> bool:
    return bool(example.rationale or example.rationale_pair or example.phrases)


def rationale_of(explanation: Explanation, example: Example) -> tuple[np.ndarray, Floats] | None:
    """Positions of the ranked tokens and their 0/1 marks; segments that nobody marked are left out of both."""
    marks_by_segment = {0: example.rationale or _from_phrases(example), 1: example.rationale_pair}
    annotated = [segment for segment, marks in marks_by_segment.items() if marks is not None]
    where = np.flatnonzero(explanation.content & np.isin(explanation.segments, annotated))
    if not len(where):
        return None
    marks = np.zeros(len(where))
    for row, position in enumerate(where):
        of_segment = marks_by_segment[int(explanation.segments[position])]
        word = int(explanation.word_ids[position])
        marks[row] = 0 if of_segment is None or not 0 <= word < len(of_segment) else of_segment[word]
    return where, marks


def _from_phrases(example: Example) -> tuple[int, ...] | None:
    """Words whose own label is on the side of the whole text's label."""
    if example.phrases is None or example.tokens is None or example.label is None:
        return None
    leaves = {start: label for start, end, label in example.phrases if end == start + 1}
    positive = example.label == 1
    return tuple(
        int(leaves.get(i, NEUTRAL) > NEUTRAL if positive else leaves.get(i, NEUTRAL) < NEUTRAL)
        for i in range(len(example.tokens))
    )


def _verdict(summary: pd.DataFrame) -> str:
    table = summary[summary["measure"] == "average-precision"]
    rows = ranked_rows(table[table["method"] != FLOOR])
    if not rows:
        return "No method was tested."
    best, worst = rows[-1], rows[0]
    floor = ranked_rows(table[table["method"] == FLOOR])
    against = f"; a random order reaches {number(floor[0])}" if floor else ""
    return (
        f"The known tokens are found best by {best['method']} (average precision {number(best)}) and worst by "
        f"{worst['method']} ({number(worst)}){against}."
    )


def _figure(instances: pd.DataFrame) -> Distributions:
    of_measure = instances[instances["measure"] == "average-precision"]
    caption = "One means that every known token is ranked above every other token."
    title, label = "Recovery of the known tokens", "average precision"
    return spread_by_method(of_measure, title, label, caption, (0.0, 1.0))
