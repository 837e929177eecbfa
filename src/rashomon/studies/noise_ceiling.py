"""How much could methods agree at best? Each method against itself.

Another sampling seed shows the noise of the method, another model seed that of training. A pair of methods that
agrees as much as a method agrees with itself does not disagree in any sense that matters.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import ClassVar

import numpy as np
import pandas as pd

from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Distributions
from rashomon.experiments.summaries import ranked_rows, spread_by_method, summarise_by
from rashomon.experiments.testimony import Ask, Testimony, hear, samples, warnings_of
from rashomon.explainers import Explanations
from rashomon.measures.agreement import kendall
from rashomon.measures.base import Floats, Ragged
from rashomon.studies.base import Finding, Study, configuration_of, studies
from rashomon.wording import with_interval

SAMPLING, MODEL = "another sampling seed", "another model seed"
SHIFT = 1000  # how far the second sampling seed lies from the first


@studies.register("noise-ceiling")
@dataclass(frozen=True)
class NoiseCeiling(Study):
    """How much does a method agree with itself, under another sampling seed and another model seed?"""

    name: ClassVar[str] = "noise-ceiling"
    question: ClassVar[str] = "How much does each method agree with itself?"
    ask: Ask = field(default_factory=Ask)
    repeated: int | None = None  # how many of the texts are explained again; None: all

    def run(self, context: Context) -> Finding:
        if self.repeated is not None and self.repeated < 1:
            raise UserError(f"The noise ceiling repeats at least one text, not {self.repeated}.")
        first = [_only(testimony, self.repeated) for testimony in hear(context, self.ask)]
        notes: list[str] = []
        if self.ask.stored is not None:
            parts = _among_stored(first, notes)
        else:
            parts = [self._sampling(context, first)]
            if self.ask.subject.checkpoint is None:
                parts += self._model(context, first, notes)
            else:
                notes.append("A checkpoint has one model seed, so only the sampling seed was varied.")
        instances = pd.concat(parts, ignore_index=True)
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
        parts = []
        for testimony in first:
            assert testimony.model is not None
            noisy = [method for method in testimony.told.methods if samples(method)]
            again = context.explanations(
                testimony.model,
                testimony.examples,
                noisy,
                seed=testimony.seed + SHIFT,
                background=testimony.behind,
            )
            for method in testimony.told.methods:
                told = testimony.told.by_method(method)
                second = again.by_method(method) if method in noisy else told
                parts.append(_compared(testimony.seed, SAMPLING, told, second))
        return pd.concat(parts, ignore_index=True)

    def _model(self, context: Context, first: list[Testimony], notes: list[str]) -> list[pd.DataFrame]:
        parts = []
        others = context.models(replace(self.ask.subject, seeds=other_seeds(self.ask.subject.seeds)))
        for testimony, trained in zip(first, others, strict=True):
            methods = testimony.told.methods
            other = context.explanations(
                trained.model, testimony.examples, methods, seed=testimony.seed, background=testimony.behind
            )
            parts += _same_class(testimony.seed, testimony.told, other, notes)
        return parts


def _only(testimony: Testimony, count: int | None) -> Testimony:
    """So many of the texts, evenly over the whole file, which may be sorted."""
    if count is None or testimony.model is None or count >= len(testimony.examples):
        return testimony
    places = np.linspace(0, len(testimony.examples) - 1, count).round().astype(int)
    examples = tuple(testimony.examples[place] for place in places)
    told = testimony.told.where(example_id={example.id for example in examples})
    return replace(testimony, examples=examples, told=told)


def other_seeds(seeds: tuple[int, ...]) -> tuple[int, ...]:
    """For every model another one: the subject's next, so that nothing is trained needlessly; for one, one more."""
    return (*seeds[1:], seeds[0]) if len(seeds) > 1 else (seeds[0] + 1,)


def _same_class(seed: int, first: Explanations, second: Explanations, notes: list[str]) -> list[pd.DataFrame]:
    """Two models are compared where they predict the same class: elsewhere they should be explained differently."""
    classes = {item.example_id: item.target for item in second}
    same = {item.example_id for item in first if classes.get(item.example_id) == item.target}
    notes.append(
        f"Another model predicts the same class on {len(same)} of {len(first.example_ids)} texts; "
        "only those are compared."
    )
    shared = [method for method in first.methods if method in second.methods]
    return [
        _compared(seed, MODEL, *(told.by_method(method).where(example_id=same) for told in (first, second)))
        for method in shared
        if same
    ]


def _among_stored(heard: list[Testimony], notes: list[str]) -> list[pd.DataFrame]:
    """Each account of a file against the next: of the same model under another seed, or of another model."""
    parts = []
    for turn, (one, other) in enumerate(pairwise(heard)):
        first, second = _unshared(one.told, other.told)
        if {item.model for item in first} != {item.model for item in second}:
            parts += _same_class(turn, first, second, notes)
            continue
        for method in first.methods:
            if method in second.methods:
                parts.append(_compared(turn, SAMPLING, first.by_method(method), second.by_method(method)))
    parts = [part for part in parts if len(part)]
    if not parts:
        raise UserError(
            "The noise ceiling compares a method with itself: stored explanations must hold the same texts "
            "explained twice, under two seeds or of two models that predict the same classes."
        )
    return parts


def _unshared(one: Explanations, other: Explanations) -> tuple[Explanations, Explanations]:
    """Without the records that are part of both accounts: what is the same record has not been repeated."""
    shared = {id(item) for item in one} & {id(item) for item in other}
    first, second = (told.where(lambda item: id(item) not in shared) for told in (one, other))
    return first, second


def _compared(seed: int, against: str, first: Explanations, second: Explanations) -> pd.DataFrame:
    """Self-agreement on the texts that both explain."""
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


def _verdict(summary: pd.DataFrame) -> str:
    words = []
    for against, group in summary.groupby("against", sort=False):
        if rows := ranked_rows(group):
            words.append(
                f"under {against} the least stable is {rows[0]['method']} at {with_interval(rows[0])}"
            )
    if not words:
        return "Agreement of the methods with themselves is undefined on every text."
    return f"Agreement of each method with itself (Kendall tau): {'; '.join(words)}."


def _figures(instances: pd.DataFrame) -> tuple[Distributions, ...]:
    caption = "One is perfect repetition."
    return tuple(
        spread_by_method(group, f"Against {against}", "Kendall tau", caption, (-1.0, 1.0))
        for against, group in instances.groupby("against", sort=False)
    )
