"""Does a method point at what is known to matter? Scores against planted or human rationales.

Planted data says which tokens decide the label; people mark theirs (yelp_hat, snli highlights); for sst the words
whose own sentiment lies on the side of the sentence's label stand in. Only texts that the model classifies
correctly are used, since on the others it used something else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from rashomon.data import Dataset
from rashomon.data.rationales import has_rationale
from rashomon.errors import DoesNotFit
from rashomon.experiments.context import Context
from rashomon.experiments.evidence import Ranking, recovered, usable
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
from rashomon.measures import measures
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
    ranking: Ranking = "magnitude"  # whether scores against the class count

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
            pairs, why = usable(testimony.explanations, {e.id: e for e in examples}, labels)
            notes += why
            parts += recovered(testimony.seed, pairs, self.measures, self.ranking)
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
