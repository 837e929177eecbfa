"""How much could methods agree at best? Each method against itself.

Another sampling seed shows the noise of the method, another model seed that of training. A pair of methods that
agrees as much as a method agrees with itself does not disagree in any sense that matters.

A method is judged by the five tokens that it names first, beyond what chance makes two orders share. Over all tokens
the order of those that matter to nobody decides: Kendall's tau, and weighted tau on long texts, call unstable what puts
the same weight on the same words. Pearson's r looks at the weight alone, so a method whose r is high is not called
unstable when only one or two tokens carry it and the rest of its five are noise. All of them are shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import pandas as pd

from rashomon.errors import DoesNotFit, UserError
from rashomon.experiments.context import Context, Work
from rashomon.experiments.figures import Distributions, Gauge
from rashomon.experiments.judging import Rating, counted, gauge, too_few
from rashomon.experiments.repeats import (
    REPEATED,
    SAMPLING,
    evenly_chosen,
    on_fewer_texts,
    repeating_work,
    sampled_again,
    self_comparison,
)
from rashomon.experiments.subject import Subject
from rashomon.experiments.summaries import Row, check_measures, ranked_rows, spread_by_method, summarise_by
from rashomon.experiments.testimony import Ask, Testimony, cautions_about, hear, notes_of, questions, samples
from rashomon.explainers import Explanations
from rashomon.measures import measures
from rashomon.studies.base import ExplanationStudy, Finding, Judgement, Study, studies
from rashomon.wording import decimal, with_interval

MODEL = "another model seed"
VARIANTS = {SAMPLING: "sampled again", MODEL: "trained again"}
MEASURES = ("kappa-top-5", "overlap-top-5", "weighted-tau", "pearson", "kendall")
HEADLINE = "kappa-top-5"
STABLE, SHAKY = 0.7, 0.4  # about four of five tokens beyond chance, and about two
WEIGHT, SAME_WEIGHT = "pearson", 0.9  # the weight lies where it lay, whatever the order of the rest


@studies.register("noise-ceiling")
@dataclass(frozen=True)
class NoiseCeiling(ExplanationStudy):
    """How much does a method agree with itself, under another sampling seed and another model seed?"""

    name: ClassVar[str] = "noise-ceiling"
    question: ClassVar[str] = "How much does each method agree with itself?"
    title: ClassVar[str] = "Noise ceiling"
    order: ClassVar[int] = 20

    repeated: int | None = None  # how many of the texts are explained again; None: all
    measures: tuple[str, ...] = MEASURES  # of agreement, by name (`rashomon list measures`)
    headline: str = HEADLINE  # the one that methods are judged by

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        return cls.of(asked, repeated=REPEATED)

    def needed_models(self) -> tuple[Subject, ...]:
        own = super().needed_models()
        again = self.subject.checkpoint is None and self.stored is None
        return (*own, self.subject.with_another_seed) if again else own

    def needed_work(self, context: Context) -> list[Work]:
        work = super().needed_work(context)
        if self.stored is not None:
            return work
        asked = list(questions(context, self.ask))
        work += [one for question in asked for one in repeating_work(context, question, self.repeated)]
        if self.subject.checkpoint is None:
            for question, other in zip(asked, context.models(self.subject.with_another_seed), strict=True):
                texts = evenly_chosen(question.examples, self.repeated)
                work += context.explanation_work(other.model, texts, question.methods, **question.how)
        return work

    def run(self, context: Context) -> Finding:
        if self.repeated is not None and self.repeated < 1:
            raise UserError(f"The noise ceiling repeats at least one text, not {self.repeated}.")
        check_measures(self._measured, "agreement")
        self.check_fit(context)
        first = [
            on_fewer_texts(testimony, self.repeated)
            for testimony in hear(context, self.ask, with_further=False)
        ]
        notes: list[str] = []
        if self.stored is not None:
            parts = _among_stored(first, notes, self._measured)
        else:
            parts = [sampled_again(context, first, first[0].explanations.methods, self._measured)]
            if self.subject.checkpoint is None:
                parts += self._model(context, first, notes)
            else:
                notes.append("A checkpoint has one model seed, so only the sampling seed was varied.")
        instances = pd.concat(parts, ignore_index=True)
        summary = summarise_by(instances, ["measure", "against", "method"])
        return self.finding(
            _verdict(summary, self.headline),
            {"summary": summary, "instances": instances},
            figures=_figures(instances, self.headline),
            warnings=(*notes, *notes_of(first)),
            cautions=cautions_about(first),
            judgements=judgements(summary, self.headline),
        )

    @property
    def _measured(self) -> tuple[str, ...]:
        """What is judged by comes first, whether it was named among the measures or not."""
        return tuple(dict.fromkeys((self.headline, *self.measures)))

    def _model(self, context: Context, first: list[Testimony], notes: list[str]) -> list[pd.DataFrame]:
        parts = []
        others = context.models(self.subject.with_another_seed)
        for testimony, trained in zip(first, others, strict=True):
            methods = testimony.explanations.methods
            other = context.explanations(
                trained.model,
                testimony.examples,
                methods,
                seed=testimony.seed,
                space=testimony.space,
                background=testimony.behind,
            )
            parts += _same_class(testimony.seed, testimony.explanations, other, notes, self._measured)
        return parts


def _same_class(
    seed: int, first: Explanations, second: Explanations, notes: list[str], names: Sequence[str]
) -> list[pd.DataFrame]:
    """Two models are compared where they predict the same class: elsewhere they should be explained differently."""
    classes = {item.example_id: item.target for item in second}
    same = {item.example_id for item in first if classes.get(item.example_id) == item.target}
    notes.append(
        f"Another model predicts the same class on {len(same)} of {len(first.example_ids)} texts; "
        "only those are compared."
    )
    shared = [method for method in first.methods if method in second.methods]
    parts = []
    for method in shared if same else ():
        one, other = (account.by_method(method).where(example_id=same) for account in (first, second))
        parts.append(self_comparison(seed, MODEL, one, other, names))
    return parts


def _among_stored(heard: list[Testimony], notes: list[str], names: Sequence[str]) -> list[pd.DataFrame]:
    """Each account of a file against the next: of the same model under another seed, or of another model."""
    parts = []
    for turn, (one, other) in enumerate(pairwise(heard)):
        first, second = _unshared(one.explanations, other.explanations)
        if {item.model for item in first} != {item.model for item in second}:
            parts += _same_class(turn, first, second, notes, names)
            continue
        for method in first.methods:
            if method in second.methods:
                explanations = (first.by_method(method), second.by_method(method))
                parts.append(self_comparison(turn, SAMPLING, *explanations, names))
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
    first, second = (account.where(lambda item: id(item) not in shared) for account in (one, other))
    return first, second


def judgements(summary: pd.DataFrame, headline: str = HEADLINE) -> tuple[Judgement, ...]:
    """Every method by its agreement with itself."""
    methods = list(dict.fromkeys(summary["method"]))
    found: dict[tuple[str, str], dict[str, Row]] = {}
    order = list(dict.fromkeys(summary["measure"]))
    for row in sorted(ranked_rows(summary), key=lambda row: order.index(row["measure"])):
        found.setdefault((row["method"], row["against"]), {})[row["measure"]] = row
    judged = []
    for method in methods:
        known = {a: found[method, a] for a in (SAMPLING, MODEL) if headline in found.get((method, a), {})}
        judged.append(_judgement(method, known, headline, len(methods)))
    return tuple(judged)


def _judgement(method: str, known: Mapping[str, Mapping[str, Row]], headline: str, methods: int) -> Judgement:
    """By repetition on the same model; another model may rightly be explained in another way, which is only said.

    A method that does not sample repeats itself by definition, which is no test that it has passed.
    """

    sampled = samples(method)
    varied = {against: rows for against, rows in known.items() if sampled or against == MODEL}
    drawn = tuple(_gauge(rows[headline], headline, against) for against, rows in varied.items())

    def judged(rating: Rating, words: str, figures: str) -> Judgement:
        return Judgement(method, "stability", rating, words, figures, drawn)

    said = [_number(rows, headline, against) for against, rows in varied.items()]
    figures = "; ".join(said if sampled else ["deterministic", *said])
    found = {a: rows[headline]["mean"] for a, rows in varied.items() if not too_few(rows[headline], methods)}
    if not found and not sampled:
        return judged("unknown", "is deterministic: sampling again changes nothing", figures)
    if not varied:
        return judged("unknown", "cannot be compared with itself", "undefined")
    if not found:
        return judged("unknown", "was repeated on too few texts to tell", figures)
    again, elsewhere = found.get(SAMPLING, 1.0), found.get(MODEL, 1.0)
    if again < SHAKY and _same_weight(varied[SAMPLING]):
        return judged(
            "mixed", "puts its weight where it did before, though its other top tokens change", figures
        )
    if again < SHAKY:
        return judged("poor", f"changes when it is sampled again, {_by(headline)}", figures)
    if again < STABLE:
        return judged("mixed", f"partly repeats itself, {_by(headline)}", figures)
    if elsewhere < SHAKY:
        return judged("mixed", f"changes when the model is trained again, {_by(headline)}", figures)
    mostly = "mostly stands when the model is retrained"
    return judged("good", f"{'repeats itself' if sampled else mostly}, {_by(headline)}", figures)


def _gauge(row: Row, headline: str, against: str) -> Gauge:
    """Between chance, which kappa counts as nothing, and perfect repetition."""
    chance = 0.0 if headline.startswith("kappa") else None
    return gauge(headline, row, chance, float(measures.get(headline).high), VARIANTS[against])


def _same_weight(rows: Mapping[str, Row]) -> bool:
    return WEIGHT in rows and rows[WEIGHT]["mean"] >= SAME_WEIGHT


def _by(headline: str) -> str:
    """What a judgement looks at, within its sentence."""
    return "by its top five tokens" if headline == HEADLINE else f"by {headline}"


def _number(rows: Mapping[str, Row], headline: str, against: str) -> str:
    """``kappa-top-5 0.73 [0.70, 0.76] (n = 50), pearson 0.98 under another sampling seed``."""
    others = [f"{name} {decimal(row['mean'])}" for name, row in rows.items() if name != headline]
    return f"{', '.join([f'{headline} {counted(rows[headline])}', *others])} under {against}"


def _verdict(summary: pd.DataFrame, headline: str) -> str:
    words = []
    for against, group in summary[summary["measure"] == headline].groupby("against", sort=False):
        if rows := ranked_rows(group):
            words.append(
                f"under {against} the least stable is {rows[0]['method']} at {with_interval(rows[0])}"
            )
    if not words:
        return f"Agreement of the methods with themselves ({headline}) is undefined on every text."
    return f"Agreement of each method with itself ({headline}): {'; '.join(words)}."


def _figures(instances: pd.DataFrame, headline: str) -> tuple[Distributions, ...]:
    about, caption = measures.get(headline), "One is perfect repetition."
    return tuple(
        spread_by_method(group, f"Against {against}", headline, caption, (about.low, about.high))
        for against, group in instances[instances["measure"] == headline].groupby("against", sort=False)
    )
