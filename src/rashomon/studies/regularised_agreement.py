"""Do methods agree more when the model is trained to keep its token vectors apart? (paper *hard-to-agree*, section 4)

The base, and models trained with conicity and with tying, are explained after every epoch. Agreement is told by Kendall
and by Pearson side by side, for each pair of methods and in the mean over pairs. Beside the paper's test, Wilcoxon's
over texts with Holm's correction, stands one over seeds and texts: what a reader has is another training of the model.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from rashomon.data import Dataset
from rashomon.experiments.agreeing import agreement_table, mean_over_pairs
from rashomon.experiments.cautions import together
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Plot, Series
from rashomon.experiments.pairing import compare_each, gaps_over_seeds
from rashomon.experiments.regularised import (
    BASE,
    Run,
    Said,
    epochs_of,
    explain_runs,
    find_variants,
    hear_run,
    like_a_constant,
    runs_of,
)
from rashomon.experiments.summaries import Row, check_measures, headline, summarise_by, summary_row
from rashomon.measures.intervals import ENOUGH
from rashomon.models.base import Model
from rashomon.studies.base import Finding, studies
from rashomon.studies.regularised import RegularisedStudy
from rashomon.training.run import read_history
from rashomon.wording import capitalised, decimal, how_many, p_value, with_interval

HEADLINE = "pearson"
LEVEL = 0.05
FIGURES = ("f1", "accuracy")


@studies.register("regularised-agreement")
@dataclass(frozen=True)
class RegularisedAgreement(RegularisedStudy):
    """Do methods agree more on a model trained with conicity or tying, and what does that cost?"""

    name: ClassVar[str] = "regularised-agreement"
    question: ClassVar[str] = "Do methods agree more when the model keeps its token vectors apart?"
    title: ClassVar[str] = "Agreement of regularised models"
    order: ClassVar[int] = 120
    over_epochs: ClassVar[bool] = True
    adding: ClassVar[tuple[str, ...]] = ("each_epoch",)

    each_epoch: bool = True  # whether the models are explained after every epoch, or after the last alone

    def fits(self, model: Model, data: Dataset) -> str | None:
        if self.subject.checkpoint is not None:
            return "The model is trained anew with every penalty and followed over epochs: give a model to train."
        return super().fits(model, data)

    def run(self, context: Context) -> Finding:
        check_measures(self.measures, "agreement")
        self.check_fit(context)
        found = find_variants(context, self.base, self.penalties)
        runs = runs_of(context, found.variants)
        no_better = like_a_constant(context.dataset(self.subject.dataset), runs)
        said = Said([*found.notes, *no_better.values()])
        pairs, instances = self._hear(context, runs, said)
        last = instances[instances["last"]].drop(columns="last")
        comparison = compare_each(last)
        each_score = scores_of(runs)
        scores = score_table(each_score)
        main = headline(HEADLINE, self.measures)
        summary = with_marks(summarise_by(last, ["measure", "variant"]), comparison)
        return self.finding(
            _verdict(summary, comparison, scores, main, len(self.subject.seeds), no_better),
            {
                "summary": summary,
                "pairs": summarise_by(pairs, ["measure", "variant", "first", "second"]),
                "comparison": comparison,
                "measures": compare_each(last, "measure", "variant"),
                "scores": scores,
                "score-gaps": gaps_over_seeds(each_score, "variant", BASE, ["split", "figure"]),
                "chosen": found.chosen(),
                "grid": found.grid,
                "epochs": summarise_by(instances, ["measure", "variant", "epoch"]),
                "instances": last,
            },
            figures=tuple(_over_epochs(instances, measure) for measure in self.measures),
            warnings=tuple(dict.fromkeys(said.notes)),
            cautions=together(said.cautions),
        )

    def _hear(self, context: Context, runs: Sequence[Run], said: Said) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Pairs of methods after the last epoch; of every epoch each text's mean over pairs."""
        data = context.dataset(self.subject.dataset)
        kept = {run: epochs_of(run) for run in runs}
        wanted = [
            (run, e) for run, epochs in kept.items() for e in (epochs if self.each_epoch else epochs[-1:])
        ]
        explain_runs(context, data, wanted, self.asked)
        pairs, means = [], []
        for run, epoch in wanted:
            testimony = hear_run(context, data, run, self.asked, epoch)
            table = agreement_table(testimony, self.measures).assign(variant=run.variant)
            last = epoch == kept[run][-1]
            means.append(mean_over_pairs(table.drop(columns="tokens")).assign(epoch=epoch, last=last))
            if last:
                pairs.append(table)
                said.hear(testimony)
        return pd.concat(pairs, ignore_index=True), pd.concat(means, ignore_index=True)


def with_marks(summary: pd.DataFrame, comparison: pd.DataFrame) -> pd.DataFrame:
    """``marked`` as the paper's dagger: higher than each other variant over texts; ``marked_over_seeds`` over seeds."""
    marks: dict[str, list[bool]] = {"marked": [], "marked_over_seeds": []}
    for measure, variant in summary[["measure", "variant"]].itertuples(index=False):
        own = comparison[(comparison["measure"] == measure) & (comparison["variant"] == variant)]
        for name, column in (("marked", "p_texts_holm"), ("marked_over_seeds", "p_seeds_holm")):
            marks[name].append(bool(len(own)) and bool((own[column] < LEVEL).all()))
    return summary.assign(**marks)


def scores_of(runs: Sequence[Run]) -> pd.DataFrame:
    """How good every model is at its best epoch on dev."""
    return pd.DataFrame(
        [
            {"variant": run.variant, "seed": run.seed, "split": split, "figure": figure, "value": of[figure]}
            for run in runs
            if run.folder is not None
            for split, of in read_history(run.folder)[1].items()
            for figure in FIGURES
        ]
    )


def score_table(scores: pd.DataFrame) -> pd.DataFrame:
    """How good the variants are, over seeds."""
    keys = ["variant", "split", "figure"]
    return pd.DataFrame(
        [
            dict(zip(keys, names, strict=True)) | summary_row([group.to_numpy()], bounds=(0.0, 1.0))
            for names, group in scores.groupby(keys, sort=False)["value"]
        ]
    )


def _over_epochs(instances: pd.DataFrame, measure: str) -> Plot:
    table = summarise_by(instances[instances["measure"] == measure], ["measure", "variant", "epoch"])
    series = tuple(
        Series(
            str(variant),
            part["epoch"].astype(float).tolist(),
            part["mean"].tolist(),
            part["low"].tolist(),
            part["high"].tolist(),
        )
        for variant, part in table.groupby("variant", sort=False)
    )
    caption = "Mean over texts, seeds and pairs of methods, with its interval."
    return Plot(f"Agreement over epochs, by {measure}", "epoch", f"mean {measure}", series, caption)


def _verdict(
    summary: pd.DataFrame,
    comparison: pd.DataFrame,
    scores: pd.DataFrame,
    measure: str,
    seeds: int,
    no_better: Collection[str] = (),
) -> str:
    rows = {str(r["variant"]): r for r in summary[summary["measure"] == measure].to_dict("records")}
    named = {name: {str(k): v for k, v in row.items()} for name, row in rows.items()}
    f1 = scores[(scores["figure"] == "f1") & (scores["split"] == "test")].set_index("variant")["mean"]
    if len(named) < 2:
        return (
            f"Only the base could be trained: its mean {measure} agreement is {with_interval(named[BASE])}."
        )
    parts = [
        _effect(name, named, comparison[comparison["measure"] == measure], f1, seeds)
        if name not in no_better
        else f"{name} predicts no better than a constant, so nothing follows from its {with_interval(named[name])}."
        for name in named
        if name != BASE
    ]
    return (
        f"Mean {measure} agreement of the base is {with_interval(named[BASE])}. "
        f"{' '.join(map(capitalised, parts))}"
    )


def _effect(
    name: str, rows: dict[str, Row], comparison: pd.DataFrame, f1: pd.Series[float], seeds: int
) -> str:
    """What one penalty does, by the test over seeds where there are enough of them."""
    column = "p_seeds_holm" if seeds >= ENOUGH else "p_texts_holm"
    tests = comparison.set_index(["variant", "than"])[column]
    up, down = float(tests[(name, BASE)]), float(tests[(BASE, name)])
    word = "raises it" if up < LEVEL else "lowers it" if down < LEVEL else "does not clearly move it"
    over = (
        "over seeds and texts"
        if seeds >= ENOUGH
        else f"over the texts of {how_many(seeds, 'seed')}, too few to tell luck"
    )
    over = over if seeds > 1 else "over the texts of one training, which may be its luck"
    cost = 100 * (float(f1.get(name, np.nan)) - float(f1.get(BASE, np.nan)))
    return (
        f"{name} {word}: {with_interval(rows[name])} ({p_value(min(up, down))} {over}), "
        f"and F1 on test changes by {decimal(cost, 1)} points."
    )
