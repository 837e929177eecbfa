"""How much could methods agree at best? Each method against itself.

Another sampling seed shows the noise of the method, another model seed that of training. A pair of methods that
agrees as much as a method agrees with itself does not disagree in any sense that matters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from rashomon.explain import Explanations, make_explainer
from rashomon.measures.agreement import kendall
from rashomon.measures.base import Floats, Ragged
from rashomon.studies.base import Distributions, Finding, Study, studies
from rashomon.studies.context import Context
from rashomon.studies.tables import number, ranked_rows, spread_by_method, summarise_by
from rashomon.studies.witnesses import Ask, Testimony, configuration_of, hear, warnings_of

SAMPLING, MODEL = "another sampling seed", "another model seed"
SHIFT = 1000  # how far the second seed lies from the first


@studies.register("noise-ceiling")
@dataclass(frozen=True)
class NoiseCeiling(Study):
    """How much does a method agree with itself, under another sampling seed and another model seed?"""

    name: ClassVar[str] = "noise-ceiling"
    question: ClassVar[str] = "How much does each method agree with itself?"
    ask: Ask = field(default_factory=Ask)

    def run(self, context: Context) -> Finding:
        first = hear(context, self.ask)
        parts = [self._sampling(context, first)]
        notes: list[str] = []
        if self.ask.subject.checkpoint is not None:
            notes.append("A checkpoint has one model seed, so only the sampling seed was varied.")
        else:
            parts.append(self._model(context, first, notes))
        instances = pd.concat([part for part in parts if len(part)], ignore_index=True)
        summary = summarise_by(instances, ["against", "method"])
        return Finding(
            study=self.name,
            question=self.question,
            verdict=_verdict(summary),
            configuration=configuration_of(self),
            tables={"summary": summary, "instances": instances},
            figures=_figures(instances),
            warnings=(*notes, *warnings_of(first)),
        )

    def _sampling(self, context: Context, first: list[Testimony]) -> pd.DataFrame:
        """Methods that draw at random are asked again; the others would say the same again."""
        rows = []
        noisy = tuple(m for m in first[0].told.methods if make_explainer(m).stochastic)
        again = hear(context, replace(self.ask, methods=noisy), seed_shift=SHIFT) if noisy else []
        for position, testimony in enumerate(first):
            for method in testimony.told.methods:
                told = testimony.told.by_method(method)
                other = again[position].told.by_method(method) if method in noisy else told
                values = self_agreement(told, other)
                rows.append(_rows(testimony.seed, method, SAMPLING, told.example_ids, values))
        return pd.concat(rows, ignore_index=True)

    def _model(self, context: Context, first: list[Testimony], notes: list[str]) -> pd.DataFrame:
        subject = self.ask.subject
        shifted = replace(subject, seeds=tuple(seed + SHIFT for seed in subject.seeds))
        rows = []
        for testimony, trained in zip(first, context.models(shifted), strict=True):
            methods = testimony.told.methods
            other = context.explanations(
                trained.model, testimony.examples, methods, seed=testimony.seed, background=testimony.behind
            )
            classes = {item.example_id: item.target for item in other}
            same = [
                i.example_id
                for i in testimony.told.by_method(methods[0])
                if classes[i.example_id] == i.target
            ]
            notes.append(
                f"Model seed {testimony.seed + SHIFT} predicts the same class on {len(same)} of "
                f"{len(testimony.examples)} texts; only those are compared."
            )
            for method in methods:
                pair = [t.by_method(method).where(example_id=same) for t in (testimony.told, other)]
                if not pair[0]:
                    continue
                values = self_agreement(*pair)
                rows.append(_rows(testimony.seed, method, MODEL, pair[0].example_ids, values))
        return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame()


def self_agreement(first: Explanations, second: Explanations) -> Floats:
    """Kendall tau of magnitudes, text by text."""
    rows = [Ragged.from_list([np.abs(i.scores[i.content]) for i in told]) for told in (first, second)]
    return kendall(rows[0], rows[1])


def _rows(seed: int, method: str, against: str, ids: tuple[str, ...], values: Floats) -> pd.DataFrame:
    return pd.DataFrame({"seed": seed, "example": ids, "method": method, "against": against, "value": values})


def _verdict(summary: pd.DataFrame) -> str:
    words = []
    for against, group in summary.groupby("against", sort=False):
        if rows := ranked_rows(group):
            words.append(f"under {against} the least stable is {rows[0]['method']} at {number(rows[0])}")
    return (
        f"Agreement of each method with itself (Kendall tau): {'; '.join(words)}." if words else "Undefined."
    )


def _figures(instances: pd.DataFrame) -> tuple[Distributions, ...]:
    caption = "One is perfect repetition."
    return tuple(
        spread_by_method(group, f"Against {against}", "Kendall tau", caption, (-1.0, 1.0))
        for against, group in instances.groupby("against", sort=False)
    )
