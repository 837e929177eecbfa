"""How much could methods agree at best? Each method against itself.

Another sampling seed shows the noise of the method, another model seed that of training. A pair of methods that
agrees as much as a method agrees with itself does not disagree in any sense that matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import pandas as pd

from rashomon.errors import DoesNotFit, UserError
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Distributions
from rashomon.experiments.judging import Rating, counted, too_few
from rashomon.experiments.repeats import REPEATED, SAMPLING, on_fewer_texts, sampled_again, self_comparison
from rashomon.experiments.subject import Subject
from rashomon.experiments.summaries import Row, ranked_rows, spread_by_method, summarise_by
from rashomon.experiments.testimony import Ask, Testimony, hear, samples, warnings_of
from rashomon.explainers import Explanations
from rashomon.studies.base import ExplanationStudy, Finding, Judgement, Study, studies
from rashomon.wording import with_interval

MODEL = "another model seed"
STABLE, SHAKY = 0.8, 0.5  # tau of a method with itself


@studies.register("noise-ceiling")
@dataclass(frozen=True)
class NoiseCeiling(ExplanationStudy):
    """How much does a method agree with itself, under another sampling seed and another model seed?"""

    name: ClassVar[str] = "noise-ceiling"
    question: ClassVar[str] = "How much does each method agree with itself?"
    title: ClassVar[str] = "Noise ceiling"
    order: ClassVar[int] = 20

    repeated: int | None = None  # how many of the texts are explained again; None: all

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        return cls.of(asked, repeated=REPEATED)

    def needed_models(self) -> tuple[Subject, ...]:
        own = super().needed_models()
        again = self.subject.checkpoint is None and self.stored is None
        return (*own, self.subject.with_another_seed) if again else own

    def run(self, context: Context) -> Finding:
        if self.repeated is not None and self.repeated < 1:
            raise UserError(f"The noise ceiling repeats at least one text, not {self.repeated}.")
        self.check_fit(context)
        first = [on_fewer_texts(testimony, self.repeated) for testimony in hear(context, self.ask)]
        notes: list[str] = []
        if self.stored is not None:
            parts = _among_stored(first, notes)
        else:
            parts = [sampled_again(context, first, first[0].told.methods)]
            if self.subject.checkpoint is None:
                parts += self._model(context, first, notes)
            else:
                notes.append("A checkpoint has one model seed, so only the sampling seed was varied.")
        instances = pd.concat(parts, ignore_index=True)
        summary = summarise_by(instances, ["against", "method"])
        return self.finding(
            _verdict(summary),
            {"summary": summary, "instances": instances},
            figures=_figures(instances),
            warnings=(*notes, *warnings_of(first)),
            judgements=judgements(summary),
        )

    def _model(self, context: Context, first: list[Testimony], notes: list[str]) -> list[pd.DataFrame]:
        parts = []
        others = context.models(self.subject.with_another_seed)
        for testimony, trained in zip(first, others, strict=True):
            methods = testimony.told.methods
            other = context.explanations(
                trained.model, testimony.examples, methods, seed=testimony.seed, background=testimony.behind
            )
            parts += _same_class(testimony.seed, testimony.told, other, notes)
        return parts


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
        self_comparison(
            seed, MODEL, *(told.by_method(method).where(example_id=same) for told in (first, second))
        )
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
                told = (first.by_method(method), second.by_method(method))
                parts.append(self_comparison(turn, SAMPLING, *told))
    parts = [part for part in parts if len(part)]
    if not parts:
        raise DoesNotFit(
            "The noise ceiling compares a method with itself: stored explanations must hold the same texts "
            "explained twice, under two seeds or of two models that predict the same classes."
        )
    return parts


def _unshared(one: Explanations, other: Explanations) -> tuple[Explanations, Explanations]:
    """Without the records that are part of both accounts: what is the same record has not been repeated."""
    shared = {id(item) for item in one} & {id(item) for item in other}
    first, second = (told.where(lambda item: id(item) not in shared) for told in (one, other))
    return first, second


def judgements(summary: pd.DataFrame) -> tuple[Judgement, ...]:
    """Every method by its agreement with itself."""
    methods = list(dict.fromkeys(summary["method"]))
    found = {(row["method"], row["against"]): row for row in ranked_rows(summary)}
    return tuple(
        _judgement(
            method, {a: found[method, a] for a in (SAMPLING, MODEL) if (method, a) in found}, len(methods)
        )
        for method in methods
    )


def _judgement(method: str, known: dict[str, Row], methods: int) -> Judgement:
    """By repetition on the same model; another model may rightly be explained in another way, which is only said.

    A method that does not sample repeats itself by definition, which is no test that it has passed.
    """

    def judged(rating: Rating, words: str, told: str) -> Judgement:
        return Judgement(method, "stability", rating, words, told)

    sampled = samples(method)
    varied = {against: row for against, row in known.items() if sampled or against == MODEL}
    said = [f"tau {counted(row)} under {against}" for against, row in varied.items()]
    told = ", ".join(said if sampled else ["deterministic", *said])
    found = {against: row["mean"] for against, row in varied.items() if not too_few(row, methods)}
    if not found and not sampled:
        return judged("unknown", "is deterministic: sampling again changes nothing", told)
    if not varied:
        return judged("unknown", "cannot be repeated", "undefined")
    if not found:
        return judged("unknown", "was repeated on too few texts to tell", told)
    again, elsewhere = found.get(SAMPLING, 1.0), found.get(MODEL, 1.0)
    if again < SHAKY:
        return judged("poor", "changes when it is sampled again", told)
    if again < STABLE:
        return judged("mixed", "partly repeats itself", told)
    if elsewhere < SHAKY:
        return judged("mixed", "changes when the model is trained again", told)
    mostly = "is deterministic and mostly stands when the model is retrained"
    return judged("good", "repeats itself" if sampled else mostly, told)


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
