"""How much does attention change with nothing but the random seed?

Eight further models are trained like the base, each from another seed; for every text the largest JSD between the
base's attention and theirs is kept (paper *not-not*, section 3.3). That is the spread that is normal, and that an
adversary must beat before its distance means anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from rashomon.data import Dataset
from rashomon.errors import DoesNotFit
from rashomon.experiments.attention_bins import bin_violins, by_bin, with_bins
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Distributions
from rashomon.experiments.subject import Subject
from rashomon.experiments.summaries import Row, summary_of
from rashomon.experiments.testimony import Ask
from rashomon.experiments.trials import (
    OTHER_SEEDS,
    SelectionSplit,
    Trial,
    other_models,
    pairwise_distance,
    prepare,
    selecting,
)
from rashomon.measures.divergence import LN2
from rashomon.models.base import Model
from rashomon.models.build import is_pretrained
from rashomon.studies.base import ON_TRIAL, AttentionStudy, Finding, Study, studies
from rashomon.training.adversarial import Reading
from rashomon.wording import percent, with_interval

FEWEST = 4  # models, from which on a verdict is given


@studies.register("seed-variance")
@dataclass(frozen=True)
class SeedVariance(AttentionStudy):
    """How far does attention move when only the random seed changes?"""

    name: ClassVar[str] = "seed-variance"
    question: ClassVar[str] = "How far does attention move when only the random seed changes?"
    title: ClassVar[str] = "Attention under other seeds"
    chapter: ClassVar[str | None] = ON_TRIAL
    order: ClassVar[int] = 80

    other_seeds: tuple[int, ...] = OTHER_SEEDS  # beside the subject's first, which is the base's
    selection: SelectionSplit = "dev"  # the split that picks a model's epoch: dev, or test as some papers did
    reading: Reading | None = None  # None: each head of an attention layer, the mean of a transformer's heads

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        """With the seeds that the noise ceiling trains anyway; fine-tuning again and again takes too long."""
        if asked.subject.checkpoint is None and is_pretrained(asked.subject.model.name):
            return None
        return cls(asked.subject, other_seeds=asked.subject.with_another_seed.seeds)

    def fits(self, model: Model, data: Dataset) -> str | None:
        if self.subject.checkpoint is not None:
            return "Seed variance trains the model anew from other seeds: give a model to train."
        return super().fits(model, data)

    def needed_models(self) -> tuple[Subject, ...]:
        return self.first_base, self.base.with_seeds(self.other_seeds)

    def run(self, context: Context) -> Finding:
        context = selecting(context, [self.subject.dataset], self.selection)
        self.check_fit(context)
        trial = prepare(context, [self.base], self.reading)[0]
        others = other_models(context, trial, self.other_seeds)
        if others.empty:
            raise DoesNotFit("Seed variance needs at least one seed besides the base's.")
        worst = _largest(others, trial)
        bins = by_bin(worst, "jsd")
        models = 1 + others["seed"].nunique()
        worst["pairwise_jsd"] = pairwise_distance(context, trial, self.other_seeds)
        between = summary_of(worst, "pairwise_jsd", (0.0, LN2))
        return self.finding(
            _verdict(between, models),
            {
                "summary": bins,
                "between": pd.DataFrame([{"models": models, **between}]),
                "seeds": _by_seed(others),
                "instances": worst,
            },
            figures=(
                bin_violins(
                    worst,
                    "jsd",
                    "Largest distance of attention over seeds",
                    "JSD from the base's attention",
                    "Texts by the base's largest attention weight; the largest of each text's distances.",
                    (0.0, LN2),
                ),
                Distributions(
                    "Distance of attention, seed by seed",
                    {f"seed {seed}": part["jsd"].tolist() for seed, part in others.groupby("seed")},
                    "JSD from the base's attention",
                    "One value a text.",
                    (0.0, LN2),
                ),
            ),
            warnings=trial.data.notes,
        )


def _largest(others: pd.DataFrame, trial: Trial) -> pd.DataFrame:
    """The largest and the mean distance of every text over the seeds."""
    grouped = others.groupby("position")
    table = grouped[["label", "base_class", "max_attention"]].first()
    table = table.assign(
        jsd=grouped["jsd"].max(), mean_jsd=grouped["jsd"].mean(), tvd=grouped["tvd"].max(), seed=0
    ).reset_index()
    ids = [trial.data["test"][position].id for position in table["position"]]
    return with_bins(table.assign(example=ids), trial.data.labels).drop(columns="position")


def _by_seed(others: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for seed, group in others.groupby("seed"):
        for figure in ("jsd", "tvd"):
            rows.append(
                {
                    "seed": seed,
                    "figure": figure,
                    **summary_of(group.assign(example=group["position"]), figure),
                }
            )
    return pd.DataFrame(rows)


def _verdict(row: Row, models: int) -> str:
    """By the mean distance of every two models: the largest distance from one of them grows with their number."""
    share = row["mean"] / LN2
    if models < FEWEST:
        words = (
            f"{models} models are too few to tell how much of the attention is an accident of the seed; "
            "`rashomon study seed-variance` trains enough of them"
        )
    elif share < 0.25:
        words = "Attention is stable over seeds, so another model's distant attention would mean something"
    elif share < 0.5:
        words = "Attention moves noticeably with the seed, so smaller distances than this prove nothing"
    else:
        words = (
            "Attention is largely an accident of the seed, so one model's weights are weak as an explanation"
        )
    return (
        f"{words}: between every two of {models} models the JSD is {with_interval(row)} on average "
        f"({percent(share)} of the possible ln 2, {int(row['n'])} texts)."
    )
