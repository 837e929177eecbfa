"""How strong may a penalty be, and which models come of it? The variants of paper *hard-to-agree* beside their base.

Of every penalty the strongest weight is taken with which the model is within three points of F1 of the base on dev. The
search goes down from the strongest weight and stops at the first that is within the margin: that is the answer of the
rule itself, and no weaker one could be chosen any more. So what is not tried costs nothing and changes nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rashomon.data import Dataset, Example
from rashomon.errors import UserError
from rashomon.experiments.abilities import able_model
from rashomon.experiments.cautions import Caution
from rashomon.experiments.context import Context, Work, is_small
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Testimony, answerable, background, cautions_about, draw
from rashomon.models.base import Model
from rashomon.training.objectives import Objective, make_objective
from rashomon.training.regularisers import PenaltyReading
from rashomon.training.run import read_history
from rashomon.wording import decimal

BASE = "base"
GRIDS = {"conicity": (0.1, 0.3, 0.5, 1.0, 5.0, 10.0), "tying": (0.1, 0.3, 0.5, 1.0, 5.0, 10.0, 20.0)}
MARGIN = 0.03
EPOCH_MODELS = "epoch-models"
ROUNDING = 1e-9
SPARED = 0.05  # of the errors of a constant answer: what a model must spare at least to be better
TRIED, FIXED, CUT = "tried", "given", "not tried: a stronger weight is within the margin"


def dynamics_of(split: str) -> str:
    """The callback that keeps what is predicted of a split after every epoch."""
    return f"dynamics(split={split})"


@dataclass(frozen=True)
class Penalties:
    """What is tried beside the base. A variant is an objective by name; without a weight of its own, one is found."""

    variants: tuple[str, ...] = ("conicity", "tying")
    reading: PenaltyReading = "as-written"
    grid: tuple[float, ...] | None = None  # None: the paper's
    margin: float = MARGIN
    search_seeds: int = 1  # how many of the subject's seeds a weight is tried with

    def __post_init__(self) -> None:
        names = [self.objective(variant).name for variant in self.variants]
        if len(set(names)) < len(names):
            raise UserError(f"A penalty is named twice: {', '.join(self.variants)}.")
        if self.search_seeds < 1:
            raise UserError(f"A weight is tried with at least one seed, not {self.search_seeds}.")
        if self.margin < 0:
            raise UserError(f"The margin cannot be negative, but is {self.margin}.")
        if self.grid is not None and (not self.grid or min(self.grid) <= 0):
            raise UserError("The grid needs at least one weight, all above 0.")

    def objective(self, variant: str, weight: float | None = None) -> Objective:
        """The penalty in the asked reading, with this weight or its own."""
        asked = make_objective(variant)
        known = {one.name for one in fields(asked)}
        if "weight" not in known:
            raise UserError(f"{asked.name} has no weight, so it is no penalty beside the task's loss.")
        changes: dict[str, object] = {} if weight is None else {"weight": weight}
        if "reading" in known and "reading=" not in variant:
            changes["reading"] = self.reading
        return replace(asked, **changes)

    def weights(self, variant: str) -> tuple[float, ...]:
        """Those to try, the strongest first; the one that is given, where one is."""
        objective = self.objective(variant)
        if has_weight(variant):
            return (_weight(objective),)
        grid = self.grid or GRIDS.get(objective.name, GRIDS["tying"])
        return tuple(sorted(set(grid), reverse=True))


def has_weight(variant: str) -> bool:
    """Whether a weight is written behind the name, so that none has to be found."""
    return "weight=" in variant.replace(" ", "")


@dataclass(frozen=True)
class Variant:
    """A model to compare: the base, or one trained with a penalty."""

    name: str
    subject: Subject
    weight: float = math.nan
    reading: str = ""
    projected: bool = False  # whether a learned projection stood between word embeddings and hidden states


@dataclass(frozen=True)
class Found:
    """The variants that could be had, the base first; the whole grid; and what has to be said about it."""

    variants: tuple[Variant, ...]
    grid: pd.DataFrame
    notes: tuple[str, ...]

    def chosen(self) -> pd.DataFrame:
        """The weight of every penalty."""
        rows = [
            {"variant": v.name, "weight": v.weight, "reading": v.reading, "projection": v.projected}
            for v in self.variants
            if v.name != BASE
        ]
        return pd.DataFrame(rows, columns=["variant", "weight", "reading", "projection"])


def find_variants(context: Context, base: Subject, penalties: Penalties) -> Found:
    """The base and, of each penalty, the model with the strongest weight that the rule allows."""
    found, notes = [Variant(BASE, base)], []
    rows: list[dict[str, object]] = []
    if penalties.variants:
        chosen, rows = _search(context, base, penalties)
        probe = able_model(context, base)
        for text, weight in chosen.items():
            name = penalties.objective(text).name
            if weight is None:
                margin = decimal(100 * penalties.margin, 0)
                notes.append(
                    f"{name} is left out: with no weight of the grid is it within {margin} F1 points."
                )
                continue
            found.append(_variant(base, penalties.objective(text, weight), probe))
    projected = [v.name for v in found if v.projected]
    if projected:
        notes.append(
            f"{', '.join(projected)}: word embeddings and hidden states differ in width, so a learned projection "
            "stands between them, which the paper's sizes (2 x 150 = 300) do not need."
        )
    return Found(tuple(found), pd.DataFrame(rows, columns=list(_COLUMNS)), tuple(notes))


_COLUMNS = ("variant", "weight", "f1", "std", "n", "base", "difference", "within", "status")


def _search(
    context: Context, base: Subject, penalties: Penalties
) -> tuple[dict[str, float | None], list[dict[str, object]]]:
    """Stage by stage the next weaker weight of every penalty that has none yet, all of a stage side by side."""
    few = replace(base, seeds=base.seeds[: penalties.search_seeds])
    left = {variant: list(penalties.weights(variant)) for variant in penalties.variants}
    chosen: dict[str, float | None] = dict.fromkeys(left)
    rows: list[dict[str, object]] = []
    bar = math.nan if all(map(has_weight, left)) else _dev_f1(context, few)[0]
    while stage := {v: weights.pop(0) for v, weights in left.items() if weights and chosen[v] is None}:
        given = [v for v in stage if has_weight(v)]
        tried = [v for v in stage if v not in given]
        subjects = [replace(few, objective=penalties.objective(v, stage[v]).label) for v in tried]
        context.train_all(subjects)
        for variant in given:
            chosen[variant] = stage[variant]
            rows.append(_row(penalties, variant, stage[variant], FIXED))
        for variant, subject in zip(tried, subjects, strict=True):
            mean, std = _dev_f1(context, subject)
            within = mean >= bar - penalties.margin - ROUNDING
            chosen[variant] = stage[variant] if within else None
            figures = {"f1": mean, "std": std, "n": len(few.seeds), "base": bar, "difference": mean - bar}
            rows.append(_row(penalties, variant, stage[variant], TRIED, **figures, within=within))
    rows += [_row(penalties, v, weight, CUT, base=bar) for v, weights in left.items() for weight in weights]
    return chosen, rows


def _row(
    penalties: Penalties, variant: str, weight: float, status: str, **figures: object
) -> dict[str, object]:
    known = {"variant": penalties.objective(variant).name, "weight": weight, "status": status}
    return {**dict.fromkeys(_COLUMNS, math.nan), "n": 0, "within": None, **known, **figures}


def _dev_f1(context: Context, subject: Subject) -> tuple[float, float]:
    """Mean and spread over seeds of the F1 on dev at the best epoch."""
    values = [read_history(folder)[1]["dev"]["f1"] for folder in context.train_all([subject])]
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan


def _weight(objective: Objective) -> float:
    """Of a penalty, also of another package; what has none was refused when it was named."""
    return float(vars(objective)["weight"])


def _variant(base: Subject, objective: Objective, probe: Model) -> Variant:
    return Variant(
        objective.name,
        replace(base, objective=objective.label),
        _weight(objective),
        str(getattr(objective, "reading", "")),
        objective.companion(probe, 0) is not None,
    )


@dataclass
class Said:
    """What has to be said of a study, collected on the way: notes, and what to be wary of in explanations."""

    notes: list[str] = field(default_factory=list)
    cautions: list[Caution] = field(default_factory=list)

    def hear(self, testimony: Testimony) -> None:
        self.notes += testimony.notes
        self.cautions += cautions_about([testimony])


# ---- the trained variants


@dataclass(frozen=True)
class Run:
    """One trained variant under one seed; of a checkpoint there is no folder."""

    variant: str
    seed: int
    folder: Path | None
    subject: Subject


def runs_of(context: Context, variants: Sequence[Variant]) -> list[Run]:
    """Every variant under every seed, those missing trained side by side; seeds are paired over variants."""
    if variants[0].subject.checkpoint is not None:
        return [Run(BASE, variants[0].subject.seeds[0], None, variants[0].subject)]
    folders = iter(context.train_all([variant.subject for variant in variants]))
    return [
        Run(variant.name, seed, next(folders), variant.subject)
        for variant in variants
        for seed in variant.subject.seeds
    ]


def like_a_constant(data: Dataset, runs: Sequence[Run]) -> dict[str, str]:
    """The variants that are no better than a constant answer, with a word about each.

    A penalty can keep a model from its task, and F1 hardly shows it: always saying one of two equally frequent classes
    has .67. (Such a model may still rank texts better than chance, so it is not said that it has learned nothing.)
    """
    labels = [example.label for example in data.splits.get("test", ()) if example.label is not None]
    reached: dict[str, list[float]] = {}
    for run in runs:
        scores = {} if run.folder is None else read_history(run.folder)[1].get("test", {})
        if "accuracy" in scores:
            reached.setdefault(run.variant, []).append(scores["accuracy"])
    if not labels:
        return {}
    constant = Counter(labels).most_common(1)[0][1] / len(labels)
    means = {variant: float(np.mean(values)) for variant, values in reached.items()}
    return {
        variant: f"{variant} predicts no better than a constant: its accuracy on test is {decimal(mean)}, and that of "
        f"always saying the commonest class {decimal(constant)}; what is found of it may not be found of a model that "
        "does its task."
        for variant, mean in means.items()
        if mean < constant + SPARED * (1 - constant)
    }


def epochs_of(run: Run) -> list[int]:
    """The epochs that were kept; none where the model was only kept at its best."""
    if run.folder is None or EPOCH_MODELS not in run.subject.callbacks:
        return []
    return list(range(1, len(read_history(run.folder)[0].records) + 1))


def model_of(context: Context, run: Run, epoch: int | None = None) -> Model:
    """The model after an epoch, by default the last one; where epochs were not kept, the model as it is kept."""
    epochs = epochs_of(run)
    if run.folder is not None and epochs:
        return context.epoch_model(run.folder, epochs[-1] if epoch is None else epoch)
    return context.models(replace(run.subject, seeds=(run.seed,)))[0].model


@dataclass(frozen=True)
class Asked:
    """Which texts are explained by which methods."""

    methods: tuple[str, ...]
    instances: int
    split: str
    dropout: bool = False


@dataclass(frozen=True)
class _Question:
    """What is asked of a trained variant after an epoch; variants of one seed are asked about the same texts."""

    model: Model
    examples: tuple[Example, ...]
    methods: list[str]
    left_out: list[str]
    how: dict[str, Any]


def _question(context: Context, data: Dataset, run: Run, asked: Asked, epoch: int | None) -> _Question:
    model = model_of(context, run, epoch)
    methods, left_out = answerable(asked.methods, model)
    how = {"seed": run.seed, "background": background(data, run.seed), "dropout": asked.dropout}
    return _Question(model, draw(data, asked.split, asked.instances, run.seed), methods, left_out, how)


def explain_runs(
    context: Context, data: Dataset, wanted: Iterable[tuple[Run, int | None]], asked: Asked
) -> None:
    """All that ``hear_run`` will ask of these runs and epochs, side by side: one model may have too few texts."""
    work: list[Work] = []
    for run, epoch in wanted:
        q = _question(context, data, run, asked, epoch)
        if is_small(q.model):  # of others the work would hold on to every model
            work += context.explanation_work(q.model, q.examples, q.methods, **q.how)
    context.side_by_side(work, "explaining")


def hear_run(context: Context, data: Dataset, run: Run, asked: Asked, epoch: int | None = None) -> Testimony:
    """What the methods say of a trained variant after an epoch."""
    q = _question(context, data, run, asked, epoch)
    explanations = context.explanations(q.model, q.examples, q.methods, **q.how)
    return Testimony(run.seed, q.model, q.examples, explanations, tuple(q.left_out), q.how["background"])
