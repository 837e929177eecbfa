"""Do the methods tell the same story? (paper *disagreement*)

Magnitudes of the scores over content tokens are correlated for every pair of methods, per text. Special tokens
are left out; sign agreement alone looks at signed scores, and only between methods whose sign means something.

A method is judged by its agreement with the others, beside how well it agrees with itself when it is asked again: no
method can be expected to agree with another one better than with itself. Beside attention's agreement stands how even
its weights are: of nearly equal weights the order, and so the agreement, says little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from rashomon.data import Dataset
from rashomon.drawing.tables import SummaryTable, figure_first
from rashomon.errors import DoesNotFit, UserError
from rashomon.experiments.agreeing import agreement_table, witnesses
from rashomon.experiments.context import Context, Work
from rashomon.experiments.figures import Distributions, Matrix, Plot, Series
from rashomon.experiments.judging import Rating, counted, gauge, too_few
from rashomon.experiments.repeats import REPEATED, SAMPLING, on_fewer_texts, repeating_work, sampled_again
from rashomon.experiments.sharpness import nearly_uniform, sharpness, sharpness_table, vector_spread
from rashomon.experiments.summaries import (
    FLOOR,
    Row,
    check_measures,
    headline,
    ranked_rows,
    summarise_by,
    summary_of,
)
from rashomon.experiments.testimony import (
    Testimony,
    cautions_about,
    from_stored,
    hear,
    notes_of,
    questions,
    samples,
)
from rashomon.explainers import Explanations, find_explainer
from rashomon.measures import measures
from rashomon.models.base import Model
from rashomon.studies.base import ExplanationStudy, Finding, Judgement, studies
from rashomon.wording import capitalised, decimal, sample, with_interval

HEADLINE = "kendall"
FULL_AGREEMENT = 0.8  # tau, but for the method's own noise
MUCH_AGREEMENT = 0.6
SOME_AGREEMENT = 0.3  # tau; below it a ceiling is too low to say anything, too
# Explainers that estimate one quantity in two ways are one voice, however often it speaks.
ONE_QUANTITY = {
    "integrated-gradients": "the integral of gradients",
    "gradient-shap": "the integral of gradients",
    "lime": "the weights of a linear model of removed tokens",
    "kernel-shap": "the weights of a linear model of removed tokens",
}
UNTOLD = "was compared on too few texts to tell"
ONE_METHOD = "Agreement needs at least two methods that can explain the model."
MEASURES = (
    "kendall",
    "spearman",
    "pearson",
    "weighted-tau",
    "kendall-top-5",
    "kendall-top-10",
    "kendall-top-25pct",
    "kendall-top-50pct",
    "kendall-nonzero",
    "overlap-top-5",
    "overlap-top-25pct",
    "rank-top-5",
    "sign-agreement",
)


@studies.register("agreement")
@dataclass(frozen=True)
class Agreement(ExplanationStudy):
    """Do the methods agree with each other? Correlations of every pair, by measure and by text length."""

    name: ClassVar[str] = "agreement"
    question: ClassVar[str] = "Do the methods tell the same story?"
    title: ClassVar[str] = "Agreement between methods"
    order: ClassVar[int] = 10

    measures: tuple[str, ...] = MEASURES  # of agreement, by name (`rashomon list measures`)

    def fits(self, model: Model, data: Dataset) -> str | None:
        several = len(witnesses(self.methods, model)) + (self.beside is not None) > 1
        return super().fits(model, data) or (None if several else ONE_METHOD)

    def needed_work(self, context: Context) -> list[Work]:
        asked = () if self.stored is not None else questions(context, self.ask)
        again = [one for question in asked for one in repeating_work(context, question, REPEATED)]
        return [*super().needed_work(context), *again]

    def run(self, context: Context) -> Finding:
        check_measures(self.measures, "agreement")
        self.check_fit(context)
        heard = hear(context, self.ask, extra=(FLOOR,))
        methods = [m for m in heard[0].explanations.methods if m != FLOOR]
        if len(methods) < 2:
            raise DoesNotFit(ONE_METHOD)
        instances = pd.concat([agreement_table(t, self.measures) for t in heard], ignore_index=True)
        summary = summarise_pairs(instances)
        entropies, vectors = sharpness(heard, methods), vector_spread(heard)
        even = sharpness_table(entropies, vectors)
        main = headline(HEADLINE, self.measures)
        return self.finding(
            " ".join([_verdict(summary, methods, main), *_sharpness_words(entropies, vectors)]),
            {"summary": summary, **({"sharpness": even} if len(even) else {}), "instances": instances},
            figures=(
                _matrix(summary, methods, self.measures),
                _distributions(instances, methods, main),
                _by_length(instances, methods, main),
            ),
            warnings=notes_of(heard),
            cautions=cautions_about(heard),
            judgements=_judgements(context, heard, methods, instances, nearly_uniform(entropies))
            if HEADLINE in self.measures
            else (),
        )


def summarise_pairs(instances: pd.DataFrame) -> pd.DataFrame:
    """Mean, spread and interval of every pair and measure over texts and seeds."""
    return summarise_by(instances, ["measure", "first", "second"])


def mean_by_example(instances: pd.DataFrame) -> dict[str, float]:
    """Each text's mean tau over pairs of methods, the random control left out; undefined where every pair is."""
    means = _values(instances, HEADLINE).groupby("example")["value"].mean()
    return {str(key): float(value) for key, value in means.items()}


def agreement(
    explanations: Explanations, measures: str | Sequence[str] = ("kendall", "pearson")
) -> pd.DataFrame:
    """How much explanations that are already in hand agree.

    Args:
        explanations: of the same texts by two methods or more. Where texts were explained under several
            seeds or by several models, the intervals are over these, too.
        measures: names of agreement measures (``rashomon list measures``).

    Returns:
        A frame with a row for every measure and pair of methods: the mean over texts, its 95 % interval, n, the
        count of texts where the measure is undefined, and the standard deviation over texts.
    """
    if not isinstance(explanations, Explanations):
        raise UserError(
            "Agreement is between explanations, as explain, Explanations.load and from_scores give them."
        )
    measures = (measures,) if isinstance(measures, str) else tuple(measures)
    check_measures(measures, "agreement")
    heard = from_stored(explanations)
    if len(heard[0].explanations.methods) < 2:
        raise UserError("Agreement needs explanations by at least two methods.")
    pairs = pd.concat([agreement_table(t, measures) for t in heard], ignore_index=True)
    return SummaryTable(figure_first(summarise_pairs(pairs)))


def _judgements(
    context: Context,
    heard: Sequence[Testimony],
    methods: Sequence[str],
    instances: pd.DataFrame,
    flat: Sequence[str],
) -> tuple[Judgement, ...]:
    repeats = _repeats(context, heard, methods)
    taus, floors = _values(instances, HEADLINE), _with_chance(instances)
    judged = [
        judge(method, taus, repeats.get(method), len(methods), floors.get(method)) for method in methods
    ]
    even = ", its weights being nearly equal"
    return tuple(replace(one, words=one.words + even * (one.method in flat)) for one in judged)


def _with_chance(instances: pd.DataFrame) -> dict[str, float]:
    """Each method's mean tau with the random order, where that was asked."""
    own = instances[instances["measure"] == HEADLINE]
    random = own[(own["first"] == FLOOR) | (own["second"] == FLOOR)]
    method = random["first"].where(random["first"] != FLOOR, random["second"])
    means = random.groupby(method)["value"].mean().dropna()
    return {str(name): float(mean) for name, mean in means.items()}


def _repeats(context: Context, heard: Sequence[Testimony], methods: Sequence[str]) -> dict[str, Row]:
    """How well each method that samples agrees with itself on the same model; nothing of stored explanations."""
    noisy = [method for method in methods if samples(method) and method not in heard[0].further]
    if not noisy or any(testimony.model is None for testimony in heard):
        return {}
    few = [on_fewer_texts(testimony, REPEATED) for testimony in heard]
    rows = ranked_rows(summarise_by(sampled_again(context, few, noisy), ["method"]))
    return {row["method"]: row for row in rows}


def judge(
    method: str, taus: pd.DataFrame, repeat: Row | None, methods: int, floor: float | None = None
) -> Judgement:
    """One of so many methods, by its taus with the others and, if it samples, by its repetition."""
    row = with_others(method, taus)
    if row is None:
        return Judgement(method, "agreement", "unknown", "cannot be compared", "undefined")
    figures, ceiling = f"tau {counted(row)} with the others", None
    if not samples(method):
        ceiling, figures = 1.0, f"{figures}, 1.00 with itself, being deterministic"
    elif repeat is not None and not too_few(repeat, methods):
        ceiling, figures = float(repeat["mean"]), f"{figures}, {counted(repeat)} with itself under {SAMPLING}"
    known = not too_few(row, methods)
    rating, words = _agrees(row["mean"], ceiling) if known else ("unknown", UNTOLD)
    drawn = gauge(_named(HEADLINE), row, floor, ceiling)
    return Judgement(method, "agreement", rating, words, figures, (drawn,))


def _agrees(mean: float, ceiling: float | None) -> tuple[Rating, str]:
    """By the agreement with others that a method would have if sampling did not move its scores."""
    # What is mere noise (a low ceiling) agrees with nothing, and is not corrected.
    if ceiling and ceiling >= SOME_AGREEMENT and without_own_noise(mean, ceiling) >= FULL_AGREEMENT:
        limited = "" if ceiling == 1 else ", as far as its own noise lets it"
        return "good", f"agrees with the others{limited}"
    if mean >= SOME_AGREEMENT:
        return "mixed", f"{_how_far(mean)} agrees with the others"
    return "poor", "tells another story than the others"


def without_own_noise(tau: float, repeat: float) -> float:
    """What tau with another would be without the noise of one of the two, whose tau with its own repeat is known.

    Spearman's correction for attenuation: a correlation shrinks by the root of the reliability. Taus are taken for the
    correlations that they belong to in normal data (Greiner), and back.
    """
    shrunk = np.sin(np.pi / 2 * tau) / np.sqrt(np.sin(np.pi / 2 * repeat))
    return float(2 / np.pi * np.arcsin(np.clip(shrunk, -1, 1)))


def with_others(method: str, taus: pd.DataFrame) -> Row | None:
    """Of every text the mean tau over the other quantities that were estimated, each counted once; of those n, mean
    and interval."""
    own = _of_method(taus, method).dropna(subset=["value"])
    others = own["second"].where(own["first"] == method, own["first"])
    quantity = others.map(_quantity)
    apart = own.assign(quantity=quantity)[quantity != _quantity(method)]
    voices = apart.groupby(["seed", "example", "quantity"])["value"].mean()
    texts = voices.groupby(level=["seed", "example"]).mean().reset_index()
    return summary_of(texts, "value", (-1.0, 1.0)) if len(texts) else None


def _quantity(method: str) -> str:
    """What a method estimates; what is in no family estimates something of its own."""
    ours = find_explainer(method)
    return method if ours is None else ONE_QUANTITY.get(ours.name, method)


def _verdict(summary: pd.DataFrame, methods: Sequence[str], measure: str) -> str:
    rows = ranked_rows(_values(summary, measure))
    if not rows:
        return "Agreement is undefined on every text."
    best, worst = rows[-1], rows[0]
    overall = sum(row["mean"] for row in rows) / len(rows)
    word = f"{_how_far(overall)} agree"
    said = f"The {len(methods)} methods {word}: mean {_named(measure)} {decimal(overall)} over pairs"
    if len(rows) == 1:
        return f"{capitalised(best['first'])} and {best['second']} {word}: {_named(measure)} {with_interval(best)}."
    return (
        f"{said}, from {worst['first']} and {worst['second']} at {with_interval(worst)} "
        f"to {best['first']} and {best['second']} at {with_interval(best)}."
    )


def _sharpness_words(entropies: Mapping[str, Row], vectors: Row | None) -> list[str]:
    """How even the weights of each attention are, a sentence each; the first one says how large word vectors are."""
    flat = nearly_uniform(entropies)
    size = f", with word vectors of standard deviation {decimal(vectors['mean'])}" if vectors else ""
    said: list[str] = []
    for method, row in entropies.items():
        share = f"{with_interval(row)} of the largest possible entropy{'' if said else size}"
        if method in flat:
            said.append(f"{capitalised(method)} is nearly uniform ({share}): its ranking is close to noise.")
        else:
            said.append(f"The weights of {method} have {share}.")
    return said


def _how_far(mean: float) -> str:
    """The same word for the same tau, whether it is said of one method or of all."""
    return "mostly" if mean >= MUCH_AGREEMENT else "partly" if mean >= SOME_AGREEMENT else "hardly"


def _named(measure: str) -> str:
    return "Kendall tau" if measure == HEADLINE else measure


def _matrix(summary: pd.DataFrame, methods: Sequence[str], names: Sequence[str]) -> Matrix:
    layers: dict[str, list[list[float]]] = {}
    details: dict[str, list[list[str]]] = {}
    ranges: dict[str, tuple[float, float]] = {}
    for name in names:
        rows = ranked_rows(summary[summary["measure"] == name], defined=False)
        cells = {(row["first"], row["second"]): row for row in rows}
        layers[name], details[name] = [], []
        for a in methods:
            found = [cells[(a, b)] if (a, b) in cells else cells.get((b, a)) for b in methods]
            layers[name].append([1.0 if r is None else float(r["mean"]) for r in found])
            details[name].append(["itself" if r is None else _cell(r) for r in found])
        ranges[name] = (measures.get(name).low, measures.get(name).high)
    caption = "Mean over texts. Pick another measure to see whether the picture depends on it."
    columns = tuple(methods)
    return Matrix("Agreement of every pair", columns, columns, layers, ranges, details, caption)


def _cell(row: Row) -> str:
    undefined = f", {int(row['undefined'])} undefined" if row["undefined"] else ""
    return f"{with_interval(row)}, {sample(row['n'])}{undefined}"


def _of_method(taus: pd.DataFrame, method: str) -> pd.DataFrame:
    return taus[(taus["first"] == method) | (taus["second"] == method)]


def _values(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The rows of one measure, the random control left out."""
    return table[(table["measure"] == measure) & (table["first"] != FLOOR) & (table["second"] != FLOOR)]


def _distributions(instances: pd.DataFrame, methods: Sequence[str], measure: str) -> Distributions:
    values = _values(instances, measure)
    groups = {
        method: _of_method(values, method).groupby(["seed", "example"])["value"].mean().dropna().tolist()
        for method in methods
    }
    caption = f"For each text, a method's mean {_named(measure)} with the others."
    about = measures.get(measure)
    title = "How agreement spreads over texts"
    return Distributions(title, groups, _named(measure), caption, (about.low, about.high))


def _by_length(instances: pd.DataFrame, methods: Sequence[str], measure: str, bins: int = 5) -> Plot:
    values = _values(instances, measure).dropna(subset=["value"])
    lengths = values.drop_duplicates(["seed", "example"])["tokens"]
    inner = (
        np.unique(np.quantile(lengths, np.linspace(0, 1, bins + 1)[1:-1])) if len(lengths) else np.empty(0)
    )
    series = []
    for method in methods:
        own = _of_method(values, method).groupby(["seed", "example"])[["tokens", "value"]].mean()
        means = own.groupby(np.searchsorted(inner, own["tokens"]))[["tokens", "value"]].mean()
        series.append(Series(method, means["tokens"].tolist(), means["value"].tolist()))
    caption = f"Texts are put into up to {bins} groups of about equal size, from the shortest to the longest."
    title, y_label = "Agreement against text length", f"mean {_named(measure)} with the others"
    return Plot(title, "tokens", y_label, tuple(series), caption)
