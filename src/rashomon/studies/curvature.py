"""How sharply does the model's picture of a text turn with its words, and does that go with agreement?

Paper *hard-to-agree*, section 5.1: the norm of the gradient of a text's representation with respect to its word
embeddings, and the distance to the nearest other representation, correlated with the place of the text on the map of
the training and, here, with how far methods agree on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from rashomon.data import Dataset, Example
from rashomon.experiments.agreeing import agreement_by_text, witnesses
from rashomon.experiments.cautions import together
from rashomon.experiments.context import Context
from rashomon.experiments.curvature import GradientNorms, gradient_norms, representations
from rashomon.experiments.figures import Figure, Plot, Series
from rashomon.experiments.maps import ATTRIBUTES, correlations, dynamics_of_run, map_table
from rashomon.experiments.regularised import (
    BASE,
    Run,
    Said,
    find_variants,
    hear_run,
    like_a_constant,
    model_of,
    runs_of,
)
from rashomon.experiments.summaries import Row, check_measures, headline, ranked_rows, summarise_by
from rashomon.experiments.testimony import Ask, draw
from rashomon.measures.cartography import Closeness
from rashomon.measures.curvature import nearest_distance
from rashomon.measures.relations import smooth_line
from rashomon.models.base import Model
from rashomon.models.evaluator import rows_of
from rashomon.studies.base import Finding, Study, studies
from rashomon.studies.regularised import RegularisedStudy
from rashomon.wording import percent, with_interval

NORM, NEAREST = "gradient-norm", "nearest-distance"
STATISTICS = (NORM, NEAREST)
HEADLINE = "pearson"
MOST_POINTS = 400  # of a plot; the table has all


@studies.register("curvature")
@dataclass(frozen=True)
class Curvature(RegularisedStudy):
    """How sharply do representations turn around a text, and does that go with agreement and with ease of learning?"""

    name: ClassVar[str] = "curvature"
    question: ClassVar[str] = "Do methods agree where the model's picture of a text turns sharply?"
    title: ClassVar[str] = "Curvature around the texts"
    order: ClassVar[int] = 45
    of_explanations: ClassVar[bool] = False  # it has something to say without them
    fewest_methods: ClassVar[int] = 0

    variants: tuple[str, ...] = ("tying",)  # penalties beside the base; none of a checkpoint
    projections: int | None = (
        None  # of the gradient: 0 is exact; None: exact for narrow representations, else 16
    )
    ddof: int = 0  # of the spread over epochs
    closeness: Closeness = "of-mean"  # p (1 - p) of the mean probability, or the mean of it over epochs

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        """With the model's own explanations; those from elsewhere are of texts of their own."""
        if asked.beside is not None:
            return None
        return cls(asked.subject, asked.methods, asked.instances, asked.split, variants=())

    def fits(self, model: Model, data: Dataset) -> str | None:
        if "gradients" not in model.capabilities:
            return "The model's output cannot be differentiated, so its curvature is unknown."
        too_few = len(witnesses(self.methods, model)) < 2
        if too_few and self.subject.checkpoint is not None:
            return "There is nothing to set curvature beside: neither two methods to agree nor a training."
        return super().fits(model, data)

    def run(self, context: Context) -> Finding:
        check_measures(self.measures, "agreement")
        self.check_fit(context)
        found = find_variants(context, self.base, self.penalties)
        runs, said = runs_of(context, found.variants), Said(list(found.notes))
        data = context.data_of(self.base)
        said.notes += like_a_constant(data, runs).values()
        parts = [self._of_run(context, data, run, said) for run in runs]
        table = pd.concat([part for part, _ in parts], ignore_index=True)
        attributes = [name for name in (*ATTRIBUTES, *self.measures) if name in table]
        summary = correlations(table, STATISTICS, attributes, ("statistic", "attribute"))
        main = headline(HEADLINE, self.measures)
        precision = _precision([norms for _, norms in parts])
        return self.finding(
            _verdict(summary, main),
            {
                "summary": summary,
                "statistics": _statistics(table),
                "precision": precision,
                "grid": found.grid,
                "instances": table,
            },
            figures=_figures(table, main),
            warnings=(_said(precision), *dict.fromkeys(said.notes)),
            cautions=together(said.cautions),
        )

    def _of_run(
        self, context: Context, data: Dataset, run: Run, said: Said
    ) -> tuple[pd.DataFrame, GradientNorms]:
        """The explained texts, one row each, and how exact their norms are."""
        model = model_of(context, run)
        examples = draw(data, self.split, self.instances, run.seed)
        rows = rows_of(model, examples)
        norms = gradient_norms(model, rows, self.projections, run.seed)
        nearest = self._nearest(model, data[self.split], examples)
        found = {"variant": run.variant, "seed": run.seed, "example": [e.id for e in examples]}
        table = pd.DataFrame({**found, NORM: norms.norms, "error": norms.error, NEAREST: nearest})
        if len(witnesses(self.methods, model)) > 1:
            testimony = hear_run(context, data, run, self.asked)
            said.hear(testimony)
            agreed = agreement_by_text(testimony, self.measures)
            table = table.merge(agreed, on=["seed", "example"], how="left")
        else:
            said.notes.append("Fewer than two methods can explain the model, so agreement is not looked at.")
        dynamics = dynamics_of_run(run, data, self.split)
        if dynamics is not None:
            place = map_table(dynamics, run, self.ddof, self.closeness)
            table = table.merge(place.drop(columns=["variant", "seed", "epochs"]), on="example", how="left")
        return table, norms

    def _nearest(self, model: Model, split: Sequence[Example], examples: Sequence[Example]) -> np.ndarray:
        """The distance of each explained text to the nearest other text of the whole split."""
        distances = nearest_distance(representations(model, rows_of(model, split)))
        of_text = dict(zip((example.id for example in split), distances, strict=True))
        return np.array([of_text[example.id] for example in examples])


def _statistics(table: pd.DataFrame) -> pd.DataFrame:
    long = table.melt(
        ["variant", "seed", "example"], list(STATISTICS), var_name="statistic", value_name="value"
    )
    return summarise_by(long, ["statistic", "variant"])


def _precision(norms: Sequence[GradientNorms]) -> pd.DataFrame:
    """Whether the norms are exact, and if not, how large the error of an estimate is beside the spread over texts."""
    rows: list[Row] = []
    for one in norms:
        spread = float(one.norms.std())
        error = float(np.sqrt(np.mean(one.error**2)))
        share = error / spread if spread > 0 else np.nan
        rows.append(
            {
                "exact": one.exact,
                "projections": one.projections,
                "n": len(one.norms),
                "mean": float(one.norms.mean()),
                "error": error,
                "error_of_spread": share,
            }
        )
    return pd.DataFrame(rows)


def _said(precision: pd.DataFrame) -> str:
    if precision["exact"].all():
        return "Gradient norms are exact: one backward pass for each entry of the representation."
    count, share = int(precision["projections"].max()), float(precision["error_of_spread"].max())
    return (
        f"Gradient norms are estimated from {count} random projections; their standard error is at most "
        f"{percent(share)} of their spread over texts, which draws correlations towards 0 "
        "(projections=0 is exact)."
    )


def _figures(table: pd.DataFrame, measure: str) -> tuple[Figure, ...]:
    return tuple(_against(table, statistic, measure) for statistic in STATISTICS if measure in table)


def _against(table: pd.DataFrame, statistic: str, measure: str) -> Plot:
    base = table[table["variant"] == BASE].groupby("example")[[statistic, measure]].mean()
    points = base.iloc[:: max(1, len(base) // MOST_POINTS)]
    series = [Series("texts of the base", points[statistic].tolist(), points[measure].tolist(), line=False)]
    for variant, own in table.groupby("variant", sort=False):
        texts = own.groupby("example")[[statistic, measure]].mean()
        line = smooth_line(texts[statistic], texts[measure])
        if len(line.x):
            band = (line.low.tolist(), line.high.tolist())
            series.append(Series(str(variant), line.x.tolist(), line.y.tolist(), *band))
    caption = "A locally weighted line through one point a text, with the band of 95 % of draws of the texts."
    named = statistic.replace("-", " ")
    return Plot(f"Agreement against {named}", named, f"mean {measure}", tuple(series), caption)


def _verdict(summary: pd.DataFrame, measure: str) -> str:
    """What the norm and the distance of the base go with: agreement, and variability where it is known."""
    known = {
        (row["statistic"], row["attribute"]): row
        for row in ranked_rows(summary, defined=False)
        if row["variant"] == BASE
    }
    sentences = []
    for attribute, words in ((measure, f"agreement ({measure})"), ("variability", "variability in training")):
        directions = [
            f"{statistic.replace('-', ' ')} {_direction(known[statistic, attribute])}"
            for statistic in STATISTICS
            if (statistic, attribute) in known
        ]
        if directions:
            sentences.append(f"With {words}: {', '.join(directions)}.")
    return " ".join(sentences)


def _direction(row: Row) -> str:
    if np.isnan(row["mean"]):
        return "is constant, or too few texts are known"
    if row["interval"] != "95 %" or row["low"] <= 0 <= row["high"]:
        return f"shows no clear relation (r = {with_interval(row)})"
    return f"{'rises' if row['mean'] > 0 else 'falls'} (r = {with_interval(row)})"
