"""Are the tokens a method names the ones the model uses? Erase them, or keep nothing else.

Sufficiency is what the prediction loses when only the top tokens stay (low is faithful), comprehensiveness what it
loses when they go (high is faithful), both in the probability of the predicted class and averaged over
thresholds (AOPC). A random order is the floor that a method has to beat, text by text.

A method is judged under each operator by its interval beside the random order's and the best method's, and is good
only where the operators say the same. How strange erased texts are to the model is said beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, get_args

import pandas as pd

from rashomon.data import Dataset
from rashomon.data.example import fingerprint
from rashomon.errors import DoesNotFit, UserError, unknown_name
from rashomon.experiments.context import Context
from rashomon.experiments.erasing import DOING, NOUNS, OPERATORS, erase
from rashomon.experiments.familiarity import familiarity_table, unfamiliarity
from rashomon.experiments.figures import Gauge, Plot, Series
from rashomon.experiments.further_methods import check_tokens, strangers
from rashomon.experiments.judging import LEVEL, Rating, Ruling, against_chance, gauge
from rashomon.experiments.summaries import FLOOR, Row, against_floor, beyond_others, ranked_rows
from rashomon.experiments.testimony import Ask, Testimony, background, cautions_about, hear, notes_of
from rashomon.explainers import Explanations
from rashomon.explainers.perturbed_rows import Perturbation
from rashomon.measures.erasure import ERASER_FRACTIONS
from rashomon.models.base import Model
from rashomon.runs.files import read_parquet, write_parquet
from rashomon.studies.base import ExplanationStudy, Finding, Judgement, studies
from rashomon.wording import capitalised, percent, with_interval

FLOORS = (FLOOR, "trivial")
# A difference in probability that is worth a word, to a random order as to the best method.
NOTICEABLE = 0.05
APART, LOWER_IS_BETTER = ("perturbation", "measure"), ("sufficiency",)
NO_PROBABILITY = "The model gives a number (it has a regression head), and erasure compares probabilities."
WHERE = "{where}"  # in the words of a ruling: under which operators it holds
_WORTH: dict[Rating, int] = {"good": 2, "mixed": 1, "poor": 0}
COSTS, STRANGE = "costs.parquet", "strange.parquet"


@studies.register("erasure")
@dataclass(frozen=True)
class Erasure(ExplanationStudy):
    """Is a method faithful when its top tokens are erased, or kept alone?"""

    name: ClassVar[str] = "erasure"
    question: ClassVar[str] = "Does the model use the tokens that a method names?"
    title: ClassVar[str] = "Faithfulness under erasure"
    order: ClassVar[int] = 30
    beside_stored: ClassVar[tuple[str, ...]] = ("dataset", "checkpoint", "seeds")

    fractions: tuple[float, ...] = ERASER_FRACTIONS  # shares of a text's tokens that are erased or kept
    # how tokens are erased: removed, masked or padded; a method is only good under two ways or more
    perturbations: tuple[Perturbation, ...] = OPERATORS
    other_model: bool = (
        False  # whether stored explanations may be of another model than the one they are tried on
    )

    def fits(self, model: Model, data: Dataset) -> str | None:
        if model.gives_a_number:
            return NO_PROBABILITY
        return super().fits(model, data)

    def run(self, context: Context) -> Finding:
        self._check()
        self.check_fit(context)
        heard = hear(context, self.ask, extra=FLOORS)
        if self.stored is not None:
            heard = [_with_model(context, self.ask, testimony, self.other_model) for testimony in heard]
        instances, strange = (
            pd.concat(parts, ignore_index=True)
            for parts in zip(*(self._erased(context, testimony) for testimony in heard), strict=True)
        )
        means = _means(instances)
        summary = against_floor(means, FLOORS, lower_is_better=LOWER_IS_BETTER, by=APART)
        beyond = beyond_others(means, FLOORS, lower_is_better=LOWER_IS_BETTER, by=APART)
        comparison = {"comparison": beyond} if len(beyond) else {}
        familiarity = {"familiarity": familiarity_table(strange)} if len(strange) else {}
        unknown = () if familiarity else ("There are no training texts to set the erased texts beside.",)
        return self.finding(
            " ".join([_verdict(summary), *(_strangeness(table) for table in familiarity.values())]),
            {"summary": summary, **comparison, **familiarity, "instances": instances},
            figures=tuple(
                _curve(group, str(measure), str(how))
                for measure in ("comprehensiveness", "sufficiency")
                for how, group in instances[instances["measure"] == measure].groupby(
                    "perturbation", sort=False
                )
            ),
            warnings=(*unknown, *notes_of(heard)),
            cautions=cautions_about(heard),
            judgements=judgements(summary),
        )

    def _check(self) -> None:
        if not self.fractions or not all(0 < fraction < 1 for fraction in self.fractions):
            raise UserError("Erasure takes fractions of the tokens between 0 and 1, such as 0.1 and 0.5.")
        if not self.perturbations:
            raise UserError("Erasure needs at least one way to erase tokens: remove, mask or pad.")
        for how in self.perturbations:
            if how not in get_args(Perturbation):
                raise unknown_name("perturbation", how, get_args(Perturbation))
        if self.stored is not None and self.subject.checkpoint is None:
            raise UserError(
                "Erasure asks the model again: give the model that the stored explanations are of."
            )

    def _erased(self, context: Context, testimony: Testimony) -> tuple[pd.DataFrame, pd.DataFrame]:
        """What erasing costs, text by text, and how unlike training texts the rest is; both are kept."""
        assert testimony.model is not None
        specification = {
            "model": testimony.model.fingerprint(),
            "explanations": testimony.explanations.digest(),
            "examples": fingerprint(testimony.examples),
            "behind": fingerprint(testimony.behind),
            "seed": testimony.seed,
            "fractions": self.fractions,
            "perturbations": self.perturbations,
        }
        folder = context.store.run(specification, "erasures", partial(self._make, testimony))
        return read_parquet(folder / COSTS), read_parquet(folder / STRANGE)

    def _make(self, testimony: Testimony, folder: Path) -> None:
        assert testimony.model is not None
        asked = testimony.model, testimony, self.fractions, self.perturbations
        write_parquet(folder / COSTS, erase(*asked))
        write_parquet(folder / STRANGE, unfamiliarity(*asked))


def _means(instances: pd.DataFrame) -> pd.DataFrame:
    """AOPC, the mean over thresholds, per operator, measure, method and text."""
    keys = [*APART, "method", "seed", "example"]
    return instances.groupby(keys, sort=False)["value"].mean().reset_index()


def _of_another(explanations: Explanations, model: Model, allowed: bool) -> tuple[str, ...]:
    """Refuse explanations of another model, or say it loudly where the user wants to try them all the same."""
    said = strangers(explanations, model)
    if not said:
        return ()
    if not allowed:
        raise UserError(
            f"{said}; erasure would try them on the wrong one. If that is meant, set other_model=true."
        )
    return (f"{said}: this does not say how faithful they are to their own.",)


def _with_model(context: Context, ask: Ask, testimony: Testimony, other_model: bool) -> Testimony:
    """Stored explanations beside the model and the texts they are of, and a random order to beat."""
    data = context.dataset(ask.subject.dataset)
    by_id = {example.id: example for split in data for example in data[split]}
    missing = [i for i in testimony.explanations.example_ids if i not in by_id]
    if missing:
        raise UserError(
            f"The stored explanations are of texts that {data.name} does not have, such as {missing[0]!r}."
        )
    examples = tuple(by_id[i] for i in testimony.explanations.example_ids)
    model = context.models(ask.subject)[0].model
    if model.gives_a_number:
        raise DoesNotFit(NO_PROBABILITY)
    read = dict(zip(testimony.explanations.example_ids, model.encode(examples), strict=True))
    for item in testimony.explanations:
        check_tokens(item, read[item.example_id], model, "erasure")
    notes = (*testimony.notes, *_of_another(testimony.explanations, model, other_model))
    explanations = testimony.explanations
    controls = [floor for floor in FLOORS if floor not in explanations.methods]
    if controls:
        classes = {item.example_id: item.target for item in explanations}
        asked = context.explanations(model, examples, controls, seed=ask.subject.seeds[0])
        explanations += [replace(item, target=classes[item.example_id]) for item in asked]
    behind = background(data, ask.subject.seeds[0])
    return Testimony(testimony.seed, model, examples, explanations, notes, behind)


def judgements(summary: pd.DataFrame) -> tuple[Judgement, ...]:
    """Every method but the controls, by what the prediction loses with its tokens under each operator."""
    drawn = _gauges(summary)
    return tuple(
        Judgement(method, "faithfulness", *_joined(of_method), tuple(drawn[method]))
        for method, of_method in _by_method(summary).items()
    )


def _gauges(summary: pd.DataFrame) -> dict[str, list[Gauge]]:
    """What each method's tokens cost the prediction under each operator, between a random order and the best method."""
    gone = summary[summary["measure"] == "comprehensiveness"]
    found: dict[str, list[Gauge]] = {}
    for how, table in gone.groupby("perturbation", sort=False):
        rows = ranked_rows(table)
        floor = next((float(row["mean"]) for row in rows if row["method"] == FLOOR), None)
        compared = [row for row in rows if row["method"] not in FLOORS]
        for row in compared:
            of_best = float(compared[-1]["mean"])
            drawn = gauge("comprehensiveness", row, floor, of_best, NOUNS[str(how)])
            found.setdefault(row["method"], []).append(drawn)
    return found


def _by_method(summary: pd.DataFrame) -> dict[str, dict[str, Ruling]]:
    """The ruling on each method under each operator."""
    tests = int(summary["p_holm"].notna().sum())
    found: dict[str, dict[str, Ruling]] = {}
    for how, table in summary.groupby("perturbation", sort=False):
        gone, kept = (
            {row["method"]: row for row in ranked_rows(table[table["measure"] == measure])}
            for measure in ("comprehensiveness", "sufficiency")
        )
        floor = gone.get(FLOOR)
        rows = [row for method, row in gone.items() if method not in FLOORS]
        for row in rows:
            figures = f"comprehensiveness {with_interval(row)}"
            figures += f", {with_interval(floor)} for a random order" if floor else ""
            figures += f", sufficiency {with_interval(kept[row['method']])}" if row["method"] in kept else ""
            figures = f"under {NOUNS[str(how)]} {figures}"
            found.setdefault(row["method"], {})[str(how)] = _ruling(row, floor, rows[-1], tests, figures)
    return found


def _ruling(row: Row, floor: Row | None, best: Row, tests: int, figures: str) -> Ruling:
    """Under one operator, from the test against a random order and the intervals of both and of the best method."""
    by_chance = against_chance(
        row,
        tests,
        figures,
        perhaps=f"may beat a random order{WHERE}, which more texts would tell",
        no_better=f"does not beat a random order{WHERE}",
    )
    if by_chance is not None:
        return by_chance
    assert floor is not None, "what was tested was tested against a random order"
    if row["mean"] - floor["mean"] < NOTICEABLE:
        return Ruling("mixed", f"beats a random order{WHERE}, though the model hardly minds", figures)
    if _low(row) <= _high(floor):
        return Ruling("mixed", f"beats a random order{WHERE}, though their intervals overlap", figures)
    if _high(row) < _low(best) and best["mean"] - row["mean"] >= NOTICEABLE:
        return Ruling("mixed", f"beats a random order{WHERE}, though others do better", figures)
    return Ruling("good", f"names tokens that the model uses{WHERE}", figures)


def _low(row: Row) -> float:
    return float(row["low"] if row["low"] == row["low"] else row["mean"])


def _high(row: Row) -> float:
    return float(row["high"] if row["high"] == row["high"] else row["mean"])


def _joined(rulings: Mapping[str, Ruling]) -> Ruling:
    """One ruling of those under each operator: what depends on the operator is mixed at best."""
    figures = "; ".join(ruling.number for ruling in rulings.values())
    alike: dict[
        str, list[str]
    ] = {}  # words, the most favourable first, and the operators that they hold under
    for how, ruling in sorted(rulings.items(), key=lambda item: -_WORTH.get(item[1].rating, -1)):
        alike.setdefault(ruling.words, []).append(NOUNS[how])
    ratings = [ruling.rating for ruling in rulings.values() if ruling.rating != "unknown"]
    if not ratings:
        return Ruling("unknown", next(iter(alike)), figures)
    worst: Rating = min(ratings, key=_WORTH.__getitem__)
    if len(rulings) == 1 and worst == "good":
        return Ruling("mixed", f"{_said(alike)}, and was tried in no other way", figures)
    if len(alike) == 1:
        return Ruling(worst, _said(alike), figures)
    if set(ratings) == {"good", "poor"} == {ruling.rating for ruling in rulings.values()} and len(alike) == 2:
        (words, here), (_, there) = alike.items()
        return Ruling("mixed", f"{_said({words: here})}, but not under {_and(there)}", figures)
    return Ruling("mixed" if "good" in ratings else worst, _said(alike), figures)


def _said(alike: Mapping[str, Sequence[str]]) -> str:
    parts = []
    for words, nouns in alike.items():
        open_words = words if WHERE in words else words + WHERE
        parts.append(open_words.replace(WHERE, f" under {_and(nouns)}"))
    return ", but ".join(parts)


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _verdict(summary: pd.DataFrame) -> str:
    gone = summary[summary["measure"] == "comprehensiveness"]
    of_methods = gone[~gone["method"].isin(FLOORS)]
    if not ranked_rows(of_methods):
        return "No method was tested."
    parts = [_under(str(how), table) for how, table in gone.groupby("perturbation", sort=False)]
    if (gone["method"] == FLOOR).any():
        under_all = (of_methods["p_holm"] < LEVEL).groupby(of_methods["method"]).all()
        ways = "each way of erasing" if of_methods["perturbation"].nunique() > 1 else "it"
        parts.append(f"{under_all.sum()} of {len(under_all)} methods beat the random order under {ways}.")
    torn = [
        method
        for method, rulings in _by_method(summary).items()
        if len({ruling.rating for ruling in rulings.values()}) > 1
    ]
    return " ".join(
        [*parts, *([f"How {_and(torn)} fares depends on how tokens are erased."] if torn else [])]
    )


def _under(how: str, table: pd.DataFrame) -> str:
    rows = ranked_rows(table[~table["method"].isin(FLOORS)])
    begun = f"{capitalised(DOING[how])} the top tokens"
    if not rows:
        return f"{begun} costs nothing that is defined."
    best, worst = rows[-1], rows[0]
    floor = ranked_rows(table[table["method"] == FLOOR])
    against = f", against {with_interval(floor[0])} for a random order" if floor else ""
    if len(rows) == 1:
        return f"{begun} of {best['method']} costs {with_interval(best)} of the prediction's probability{against}."
    return (
        f"{begun} costs the prediction most with {best['method']} ({with_interval(best)}) and least with "
        f"{worst['method']} ({with_interval(worst)}){against}."
    )


def _strangeness(familiarity: pd.DataFrame) -> str:
    """How many texts are strange to the model once the top tokens are gone, the controls left aside."""
    gone = familiarity[(familiarity["measure"] == "comprehensiveness") & ~familiarity["method"].isin(FLOORS)]
    shares = {
        NOUNS[str(how)]: table["mean"].mean() for how, table in gone.groupby("perturbation", sort=False)
    }
    said = _and([f"{percent(share)} under {noun}" for noun, share in shares.items()])
    return f"Of the texts without them, {said} lie farther from training texts than 95% of real texts do."


def _curve(instances: pd.DataFrame, measure: str, how: str) -> Plot:
    series = []
    for method, group in instances.groupby("method", sort=False):
        means = group.groupby("fraction")["value"].mean()
        control = method in FLOORS
        marker = {FLOOR: "square", "trivial": "triangle"}.get(str(method), "circle")
        shares = (means.index * 100).tolist()
        series.append(Series(str(method), shares, means.tolist(), marker=marker, control=control))
    good = "high is faithful" if measure == "comprehensiveness" else "low is faithful"
    caption = f"Loss of the predicted class's probability; {good}."
    title = f"{measure.capitalize()} under {NOUNS[how]}"
    return Plot(title, "top tokens, %", "loss of probability", tuple(series), caption)
