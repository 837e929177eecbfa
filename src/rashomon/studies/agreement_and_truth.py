"""Is higher agreement also higher truth? What conicity and tying do to agreement, to evidence found, to faithfulness.

Paper *hard-to-agree* raises agreement by training and takes it for credibility, since it has no truth to compare with.
On planted data the deciding tokens are known; everywhere else the model can be asked again without the tokens that a
method names. Base and penalties are compared on the same seeds and texts, after the last epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from rashomon.data import Dataset
from rashomon.errors import DoesNotFit
from rashomon.experiments.agreeing import agreement_table, mean_over_pairs
from rashomon.experiments.cautions import together
from rashomon.experiments.context import Context
from rashomon.experiments.erasing import NOUNS, OPERATORS, erase
from rashomon.experiments.evidence import recovered, usable
from rashomon.experiments.figures import Plot, Series
from rashomon.experiments.pairing import compare_each
from rashomon.experiments.regularised import (
    BASE,
    Asked,
    Run,
    Said,
    explain_runs,
    find_variants,
    hear_run,
    like_a_constant,
    runs_of,
)
from rashomon.experiments.summaries import FLOOR, Row, check_measures, headline, summarise_by
from rashomon.experiments.testimony import Testimony
from rashomon.explainers.perturbed_rows import Perturbation
from rashomon.measures.erasure import ERASER_FRACTIONS
from rashomon.measures.intervals import ENOUGH
from rashomon.models.base import Model
from rashomon.studies.base import Finding, studies
from rashomon.studies.regularised import RegularisedStudy
from rashomon.wording import capitalised, how_many, with_interval

HEADLINE, TRUTH, FAITH = "pearson", "average-precision", "comprehensiveness"
LEVEL = 0.05


@studies.register("agreement-and-truth")
@dataclass(frozen=True)
class AgreementAndTruth(RegularisedStudy):
    """Where a penalty makes methods agree more, do they also find more of the truth?"""

    name: ClassVar[str] = "agreement-and-truth"
    question: ClassVar[str] = "Is higher agreement also higher truth?"
    title: ClassVar[str] = "Agreement and truth"
    order: ClassVar[int] = 130

    fractions: tuple[float, ...] = ERASER_FRACTIONS  # shares of a text's tokens that are erased
    perturbations: tuple[Perturbation, ...] = OPERATORS  # how they are erased

    def fits(self, model: Model, data: Dataset) -> str | None:
        if self.subject.checkpoint is not None or not self.variants:
            return "Models with and without a penalty are compared: give a model to train, and a penalty."
        return super().fits(model, data)

    def run(self, context: Context) -> Finding:
        check_measures(self.measures, "agreement")
        self.check_fit(context)
        found = find_variants(context, self.base, self.penalties)
        said = Said(list(found.notes))
        if len(found.variants) < 2:
            raise DoesNotFit(f"There is no penalty to compare the base with: {' '.join(said.notes)}")
        data = context.dataset(self.subject.dataset)
        runs = runs_of(context, found.variants)
        said.notes += like_a_constant(data, runs).values()
        explain_runs(context, data, [(run, None) for run in runs], self._asked)
        parts = [self._of_run(context, data, run, said) for run in runs]
        methods = pd.concat([by_method for _, by_method in parts], ignore_index=True)
        instances = pd.concat([agreed for agreed, _ in parts], ignore_index=True)
        instances = pd.concat([instances, over_methods(methods)], ignore_index=True)
        summary = summarise_by(instances, ["measure", "variant"])
        comparison = compare_each(instances)
        main = headline(HEADLINE, self.measures)
        return self.finding(
            _verdict(summary, comparison, main, len(self.subject.seeds)),
            {
                "summary": summary,
                "comparison": comparison,
                "methods": summarise_by(methods, ["measure", "variant", "method"]),
                "chosen": found.chosen(),
                "grid": found.grid,
                "instances": instances,
            },
            figures=tuple(_side_by_side(summary, main, measure) for measure in _truths(summary)),
            warnings=tuple(dict.fromkeys(said.notes)),
            cautions=together(said.cautions),
        )

    @property
    def _asked(self) -> Asked:
        return replace(self.asked, methods=(*self.methods, FLOOR))

    def _of_run(
        self, context: Context, data: Dataset, run: Run, said: Said
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Each text's agreement, and what each method is worth on it, a random order among them."""
        heard = hear_run(context, data, run, self._asked)
        said.hear(heard)
        agreed = mean_over_pairs(agreement_table(heard, self.measures).drop(columns="tokens"))
        worth = [*self._found(heard, said), self._erased(heard)]
        return agreed.assign(variant=run.variant), pd.concat(worth, ignore_index=True).assign(
            variant=run.variant
        )

    def _found(self, heard: Testimony, said: Said) -> list[pd.DataFrame]:
        assert heard.model is not None
        pairs, why = usable(heard.explanations, {e.id: e for e in heard.examples}, heard.model.labels)
        if not pairs:
            said.notes.append("No text says which of its tokens matter, so truth is judged by erasure alone.")
            return []
        said.notes += why
        return recovered(heard.seed, pairs, [TRUTH])

    def _erased(self, heard: Testimony) -> pd.DataFrame:
        """The mean over thresholds, under every operator."""
        assert heard.model is not None
        table = erase(heard.model, heard, self.fractions, self.perturbations)
        named = table["measure"] + " (" + table["perturbation"].map(NOUNS) + ")"
        keys = ["seed", "example", "method", "measure"]
        return table.assign(measure=named).groupby(keys, sort=False)["value"].mean().reset_index()


def over_methods(methods: pd.DataFrame) -> pd.DataFrame:
    """Each text's mean over methods, the random order aside; what erasing costs is told beyond the random order's.

    How much a prediction can lose at all differs from model to model, and the random order knows it.
    """
    keys = ["seed", "example", "measure", "variant"]
    own = methods[methods["method"] != FLOOR].groupby(keys, sort=False)["value"].mean()
    floor = methods[methods["method"] == FLOOR].set_index(keys)["value"].reindex(own.index)
    erased = own.index.get_level_values("measure").str.contains("(", regex=False)
    return own.where(~erased, own - floor).reset_index()


def _truths(summary: pd.DataFrame) -> list[str]:
    """What stands for truth here: evidence found where it is known, and what erasing costs."""
    names = [str(name) for name in summary["measure"].unique()]
    return [name for name in names if name == TRUTH or name.startswith(FAITH)]


def _side_by_side(summary: pd.DataFrame, agreement: str, measure: str) -> Plot:
    """A point a variant: agreement across, truth up, with the interval of truth."""
    of = {name: summary[summary["measure"] == name].set_index("variant") for name in (agreement, measure)}
    series = tuple(
        Series(
            str(variant),
            [float(of[agreement]["mean"][variant])],
            [float(of[measure]["mean"][variant])],
            [float(of[measure]["low"][variant])],
            [float(of[measure]["high"][variant])],
            line=False,
            marker=("circle", "triangle", "square", "plus")[number % 4],
        )
        for number, variant in enumerate(of[agreement].index)
    )
    named = _named(measure)
    return Plot(
        f"Agreement and {named}", f"mean {agreement} agreement", named, series, "One point a kind of model."
    )


def _named(measure: str) -> str:
    beyond = " beyond a random order" if "(" in measure else ""
    return f"{measure.replace('-', ' ')}{beyond}"


def _verdict(summary: pd.DataFrame, comparison: pd.DataFrame, agreement: str, seeds: int) -> str:
    column = "p_seeds_holm" if seeds >= ENOUGH else "p_texts_holm"
    tests = comparison.set_index(["measure", "variant", "than"])[column].to_dict()
    rows = {
        (row["measure"], row["variant"]): row
        for row in ({str(k): v for k, v in r.items()} for r in summary.to_dict("records"))
    }
    truths = _truths(summary)
    sentences = [
        _of_variant(str(variant), agreement, truths, rows, tests)
        for variant in dict.fromkeys(summary["variant"])
        if variant != BASE
    ]
    caution = "" if seeds >= ENOUGH else f" With {how_many(seeds, 'seed')} this may be luck."
    return " ".join(sentences) + caution


def _of_variant(
    variant: str,
    agreement: str,
    truths: Sequence[str],
    rows: dict[tuple[str, str], Row],
    tests: dict[object, float],
) -> str:
    moves = {name: _move(name, variant, tests) for name in (agreement, *truths)}
    changes = [
        f"{_named(name)} {moves[name]} ({with_interval(rows[name, BASE])} to {with_interval(rows[name, variant])})"
        for name in truths
    ]
    figures = f"{with_interval(rows[agreement, BASE])} to {with_interval(rows[agreement, variant])}"
    return (
        f"{capitalised(variant)}: {agreement} agreement {moves[agreement]} ({figures}), {', '.join(changes)}: "
        f"{_conclusion(moves[agreement], [moves[name] for name in truths])}."
    )


def _move(measure: str, variant: str, tests: dict[object, float]) -> str:
    up, down = tests.get((measure, variant, BASE), np.nan), tests.get((measure, BASE, variant), np.nan)
    return "rises" if up < LEVEL else "falls" if down < LEVEL else "does not clearly move"


def _conclusion(agreement: str, truths: Sequence[str]) -> str:
    if agreement == "does not clearly move":
        return "agreement did not move, so nothing follows"
    other = {"rises": "falls", "falls": "rises"}[agreement]
    higher = "higher" if agreement == "rises" else "lower"
    if all(move == agreement for move in truths):
        return f"{higher} agreement came with {higher} truth"
    if other in truths and agreement not in truths:
        return f"{higher} agreement came with {'lower' if higher == 'higher' else 'higher'} truth"
    if other in truths:
        return f"{higher} agreement came with more truth in one respect and less in another"
    if agreement in truths:
        return f"{higher} agreement came with {higher} truth in some respects only"
    return f"{higher} agreement came with no clear change of truth"
