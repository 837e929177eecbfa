"""Does a method point at what is known to matter? Scores against planted or human rationales.

Planted data says which tokens decide the label; people mark theirs (yelp_hat, snli highlights); for sst the words
whose own sentiment lies on the side of the sentence's label stand in. Only texts that the model classifies
correctly are used, since on the others it used something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pandas as pd

from rashomon.data import Dataset, Example
from rashomon.data.rationales import has_rationale, marks_of, marks_of_tokens
from rashomon.errors import DoesNotFit
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Distributions
from rashomon.experiments.judging import Ruling, against_chance, gauge
from rashomon.experiments.summaries import (
    FLOOR,
    Row,
    against_floor,
    check_measures,
    headline,
    ranked_rows,
    spread_by_method,
)
from rashomon.experiments.testimony import cautions_about, draw, hear, notes_of
from rashomon.explainers import Explanation, Explanations
from rashomon.explainers.record import UNKNOWN_TARGET
from rashomon.measures import measures
from rashomon.measures.base import Floats, Ints, Ragged
from rashomon.models.base import Model
from rashomon.studies.base import ExplanationStudy, Finding, Judgement, studies
from rashomon.wording import capitalised, with_interval

HEADLINE = "average-precision"
MEASURES = (
    "average-precision",
    "precision-at-1",
    "precision-at-5",
    "perfect-top-k",
    "token-f1",
    "iou-f1",
    "auprc",
)
FOUND, PARTLY_FOUND = 0.7, 0.3  # of the way from a random order's average precision to a perfect one


@studies.register("recovery")
@dataclass(frozen=True)
class Recovery(ExplanationStudy):
    """Does a method rank first the tokens that are planted, or that people marked?"""

    name: ClassVar[str] = "recovery"
    question: ClassVar[str] = "Does a method point at the tokens that are known to matter?"
    title: ClassVar[str] = "Recovery of the evidence"
    order: ClassVar[int] = 40
    beside_stored: ClassVar[tuple[str, ...]] = ("dataset",)

    measures: tuple[str, ...] = MEASURES  # of recovery, by name (`rashomon list measures`)
    ranking: Literal["magnitude", "signed"] = "magnitude"  # whether scores against the class count

    def fits(self, model: Model, data: Dataset) -> str | None:
        drawn = (draw(data, self.split, self.instances, seed) for seed in self.subject.seeds)
        if not any(has_rationale(example) for texts in drawn for example in texts):
            return f"No text of {data.name} that would be explained says which of its tokens matter."
        return super().fits(model, data)

    def run(self, context: Context) -> Finding:
        check_measures(self.measures, "recovery")
        self.check_fit(context)
        heard = hear(context, self.ask, extra=(FLOOR,))
        data = context.dataset(self.subject.dataset)
        parts, notes = [], []
        for testimony in heard:
            examples = testimony.examples or [example for split in data for example in data[split]]
            labels = testimony.model.labels if testimony.model is not None else data.labels
            usable, why = _usable(testimony.explanations, {e.id: e for e in examples}, labels)
            notes += why
            parts += [self._instances(testimony.seed, of_method) for of_method in _by_method(usable)]
        if not parts:
            raise DoesNotFit(f"Recovery has nothing to use of {data.name}: {' '.join(dict.fromkeys(notes))}")
        instances = pd.concat(parts, ignore_index=True)
        summary = against_floor(instances)
        main = headline(HEADLINE, self.measures)
        return self.finding(
            _verdict(summary, main),
            {"summary": summary, "instances": instances},
            figures=(_figure(instances, main),),
            warnings=(*dict.fromkeys(notes), *notes_of(heard)),
            cautions=cautions_about(heard),
            judgements=judgements(summary),
        )

    def _instances(self, seed: int, pairs: Sequence[tuple[Explanation, Example]]) -> pd.DataFrame:
        rows = []
        for item, example in pairs:
            where, marks = rationale_of(item, example)
            scores = item.scores[where]
            rows.append((item.example_id, np.abs(scores) if self.ranking == "magnitude" else scores, marks))
        return self._measured(seed, pairs[0][0].method, rows)

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


Pair = tuple[Explanation, Example]


def _usable(
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


def _by_method(pairs: Sequence[Pair]) -> list[list[Pair]]:
    groups: dict[str, list[Pair]] = {}
    for item, example in pairs:
        groups.setdefault(item.method, []).append((item, example))
    return list(groups.values())


def rationale_of(explanation: Explanation, example: Example) -> tuple[Ints, Floats]:
    """Positions of the ranked tokens and their 0/1 marks; a text of the pair that nobody marked is left out of both."""
    marked = marks_of(example)
    where = np.flatnonzero(explanation.content & np.isin(explanation.segments, list(marked)))
    return where, marks_of_tokens(explanation.segments, explanation.word_ids, marked)[where]


def judgements(summary: pd.DataFrame) -> tuple[Judgement, ...]:
    """Every method but the control, by how far it gets from a random order to a perfect one."""
    table = summary[summary["measure"] == HEADLINE]
    rows = {row["method"]: row for row in ranked_rows(table)}
    floor = rows.get(FLOOR)
    tests = int(summary["p_holm"].notna().sum())
    judged = []
    for method in table["method"]:
        if method == FLOOR:
            continue
        row = rows.get(method)
        ruling = _ruling(row, floor, tests)
        if ruling is not None:
            by_chance = None if floor is None else float(floor["mean"])
            drawn = () if row is None else (gauge("average precision", row, by_chance, 1.0),)
            judged.append(Judgement(method, "truth", *ruling, drawn))
    return tuple(judged)


def _ruling(row: Row | None, floor: Row | None, tests: int) -> Ruling | None:
    """None where there is no random order to set the method against."""
    if row is None:
        return Ruling("unknown", "was not compared with the known tokens", "undefined")
    figures = f"average precision {with_interval(row)}" + (
        f", {with_interval(floor)} for a random order" if floor else ""
    )
    by_chance = against_chance(
        row,
        tests,
        figures,
        perhaps="may find the tokens known to matter, which more texts would tell",
        no_better="finds the tokens known to matter no better than a random order",
    )
    if by_chance is not None or floor is None:
        return by_chance
    way = (row["mean"] - floor["mean"]) / (1 - floor["mean"]) if floor["mean"] < 1 else 0.0
    if way >= FOUND:
        return Ruling("good", "finds the tokens known to matter", figures)
    if way >= PARTLY_FOUND:
        return Ruling("mixed", "finds some of the tokens known to matter", figures)
    return Ruling("poor", "finds few of the tokens known to matter", figures)


def _verdict(summary: pd.DataFrame, measure: str) -> str:
    table = summary[summary["measure"] == measure]
    rows = ranked_rows(table[table["method"] != FLOOR])
    if not rows:
        return f"Recovery is undefined on every text: {measures.get(measure).undefined}."
    best, worst = rows[-1], rows[0]
    floor = ranked_rows(table[table["method"] == FLOOR])
    beaten = sum(row["p_holm"] < 0.05 for row in rows)
    against = (
        f"; a random order reaches {with_interval(floor[0])}, which {beaten} of {len(rows)} beat"
        if floor
        else ""
    )
    named = measure.replace("-", " ")
    if len(rows) == 1:
        return f"{capitalised(best['method'])} finds the known tokens with {named} {with_interval(best)}{against}."
    return (
        f"The known tokens are found best by {best['method']} ({named} {with_interval(best)}) and worst by "
        f"{worst['method']} ({with_interval(worst)}){against}."
    )


def _figure(instances: pd.DataFrame, measure: str) -> Distributions:
    of_measure = instances[instances["measure"] == measure]
    caption = "One means that every known token is ranked above every other token."
    title = "Recovery of the known tokens"
    return spread_by_method(of_measure, title, measure.replace("-", " "), caption, (0.0, 1.0))
