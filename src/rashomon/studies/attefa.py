"""AtteFa: is there another attention for the same predictions? One score, from one adversary a seed.

A model of the base's architecture is trained to predict like the base while attending elsewhere (sTVD - sJSD). If
that works, TVD stays low while JSD grows and AtteFa = min(sTVD / sJSD, 1) is near 0: the attention was one of many.
(Paper *attefa*; PROTOCOLS 3.) Any number of classes, encoders, heads and datasets; epochs are chosen on dev, or on
test as published.

The paper tries one base model a dataset. A base can settle in several ways: over planted evidence some attend to the
words of both classes, some to those of one class only and call the rest the other. AtteFa then differs between bases
more than between adversaries, so several seeds of the subject give several bases, and the interval covers both.
A high score says that training found no other attention, not that there is none. Adversaries may give up and call every
text the same: on balanced classes that alone is a score of .5 or more, and it is said. Bases that predict alike and
attend apart are a proof that there is another attention, so they are set against each other with the same score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pandas as pd

from rashomon.experiments.adversaries import (
    ADVERSARY,
    Member,
    adversary_training,
    adversary_work,
    train_adversaries,
    usual_adversary,
)
from rashomon.experiments.alternatives import (
    APART,
    JSD_AXIS,
    TVD_AXIS,
    alternatives_in,
    beside_adversaries,
    points_beside,
    searching_work,
)
from rashomon.experiments.attefa_tables import (
    attefa_summary,
    between_bases,
    by_base,
    compare_subjects,
    seed_row,
    with_bounds,
)
from rashomon.experiments.context import Context, Work
from rashomon.experiments.figures import Distributions, Plot, Series
from rashomon.experiments.instance_search import IN_AUDITS, Search
from rashomon.experiments.judging import Rating, gauge
from rashomon.experiments.subject import DatasetSpec, Subject
from rashomon.experiments.testimony import Ask
from rashomon.experiments.trials import SelectionSplit, Trial, prepare, selecting
from rashomon.models.build import is_pretrained
from rashomon.models.model_spec import ModelSpec
from rashomon.studies.base import (
    ON_TRIAL,
    AttentionStudy,
    Finding,
    Judgement,
    Study,
    audited_adversary,
    studies,
)
from rashomon.training.adversarial import (
    AttefaAdversary,
    Reading,
)
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import default_training
from rashomon.wording import decimal, how_many, with_interval

SEEDS = (10, 50, 257, 500231, 100078, 12504, 90754789, 8988812, 2)
AUDITED_SEEDS = SEEDS[:2]
BASE = TrainingSpec(epochs=8, optimizer="adam", patience=None, select="roc-auc")
FRESH = replace(
    ADVERSARY, optimizer="adam", select="loss"
)  # how adversaries that start from nothing are trained
UNFAITHFUL, FAITHFUL = 0.1, 0.5  # where the verdict changes its words
FOUND = -0.93  # sTVD - sJSD of an adversary whose score is below .07: an audit need not look further


@studies.register("attefa")
@dataclass(frozen=True)
class Attefa(AttentionStudy):
    """Can the attention be moved away without changing the predictions? 0: freely, 1: not at all."""

    name: ClassVar[str] = "attefa"
    question: ClassVar[str] = "Can the attention be moved away without changing the predictions?"
    title: ClassVar[str] = "AtteFa: is attention faithful?"
    chapter: ClassVar[str | None] = ON_TRIAL
    order: ClassVar[int] = 100

    subject: Subject = field(default_factory=lambda: Subject(dataset=DatasetSpec(name="mock-5")))
    datasets: tuple[str, ...] = ()  # several datasets by name, instead of the subject's
    encoders: tuple[str, ...] = ()  # several encoders, instead of the subject's
    seeds: tuple[int, ...] = SEEDS  # of the adversaries; the subject's are those of the bases
    selection: SelectionSplit = "dev"  # the split that picks a model's epoch: dev, or test as some papers did
    training: TrainingSpec | None = None  # of the adversaries; None: what suits the model
    warm: bool = False  # whether adversaries start near the base instead of from nothing
    other_seeds: tuple[int, ...] = (1,)  # of ordinary models that bound the score; () leaves them out
    uniform: bool = True  # whether a model with uniform attention bounds it too
    search: Search | None = field(default_factory=Search)  # and the search text by text; None leaves it out
    instances: int = 200  # texts for that search
    reading: Reading | None = None  # what of the attention is compared; None: heads, a transformer's mean

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        """One base and two adversaries that start near it; those of what was fine-tuned take too long."""
        subject = asked.subject
        if subject.checkpoint is not None or is_pretrained(subject.model.name):
            return None
        first = replace(subject, seeds=subject.seeds[:1])
        return cls(
            first,
            seeds=AUDITED_SEEDS,
            training=audited_adversary(subject, FOUND),
            warm=True,
            other_seeds=subject.with_another_seed.seeds,
            search=IN_AUDITS,
            instances=asked.instances,
        )

    def needed_models(self) -> tuple[Subject, ...]:
        chosen = self.subjects()
        if self.subject.checkpoint is not None:
            return chosen
        others = [subject.with_seeds(self.other_seeds) for subject in chosen if self.other_seeds]
        uniform = [subject.uniform_twin for subject in chosen if self.uniform]
        return (*chosen, *others, *uniform)

    def subjects(self) -> tuple[Subject, ...]:
        """Every dataset with every encoder; how the subject is trained holds for encoders of its kind."""
        chosen, own = [], self.subject.model
        for dataset in self.datasets or (self.subject.dataset.name,):
            for encoder in self.encoders or (own.name,):
                model = replace(own, name=encoder)
                if encoder != own.name:
                    model = replace(model, layers=0)  # as many as suit the encoder
                alike = is_pretrained(model.name) == is_pretrained(own.name)
                training = (self.subject.training if alike else None) or self.base_training(model)
                data = replace(self.subject.dataset, name=dataset)
                chosen.append(replace(self.subject, dataset=data, model=model, training=training))
        return tuple(chosen)

    def run(self, context: Context) -> Finding:
        subjects = self.subjects()
        context = selecting(context, [subject.dataset for subject in subjects], self.selection)
        self.check_fit(context)
        trials = self._trials(context)
        outcomes = train_adversaries(context, self._members(trials))
        seeds = pd.DataFrame([seed_row(outcome) for outcome in outcomes])
        pairs = between_bases(trials)
        beside = [self._alternatives(context, trial) for trial in trials]
        others = pd.DataFrame([row for of_base in beside for row in of_base])
        bases = with_bounds(by_base(seeds, trials, pairs), seeds, others)
        summary = attefa_summary(seeds, bases, trials)
        tables = {"summary": summary, "bases": bases, "between-bases": pairs, "alternatives": others}
        tables["comparison"] = compare_subjects(seeds)
        tables = {name: table for name, table in tables.items() if len(table)} | {"seeds": seeds}
        return self.finding(
            _verdict(summary),
            tables,
            figures=(_figure(seeds), *_found_figures(seeds, others)),
            warnings=self._warnings(trials),
            judgements=_judgements(summary),
        )

    def needed_work(self, context: Context) -> list[Work]:
        trials = self._trials(context)
        searches = [searching_work(context, trial, self.search, self.instances) for trial in trials]
        return [*adversary_work(context, self._members(trials)), *(one for work in searches for one in work)]

    def _trials(self, context: Context) -> list[Trial]:
        return prepare(context, [base for s in self.subjects() for base in _bases(s)], self.reading)

    def _members(self, trials: Sequence[Trial]) -> list[Member]:
        return [
            Member(trial, AttefaAdversary(trial.reading), self._training(trial), seed, self.warm)
            for trial in trials
            for seed in self.seeds
        ]

    def _alternatives(self, context: Context, trial: Trial) -> list[dict[str, Any]]:
        """What ordinary models and the search text by text found against one base."""
        uniform = trial.subject.uniform_twin if self.uniform else None
        parts, _ = beside_adversaries(context, trial, self.other_seeds, uniform, self.search, self.instances)
        where = {"dataset": trial.data.name, "encoder": trial.subject.describe()}
        return [
            {
                **where,
                "base": trial.subject.seeds[0],
                "kind": a.kind,
                "tvd": a.tvd,
                "jsd": a.jsd,
                "attefa": a.score,
            }
            for a in alternatives_in(parts)
        ]

    def base_training(self, model: ModelSpec) -> TrainingSpec:
        """As in the paper, for the models that it has."""
        return default_training(model) if is_pretrained(model.name) else BASE

    def about(self, finding: Finding) -> tuple[str, str]:
        model, dataset = super().about(finding)
        return ", ".join(self.encoders) or model, ", ".join(self.datasets) or dataset

    def left_open(self) -> dict[str, object]:
        usual = usual_adversary(self.subject)
        return {"training": FRESH if usual == ADVERSARY else usual}

    def _training(self, trial: Trial) -> TrainingSpec:
        return adversary_training(trial, self.training or (FRESH if trial.fresh else None))

    def _warnings(self, trials: Sequence[Trial]) -> tuple[str, ...]:
        found = list(dict.fromkeys(note for trial in trials for note in trial.data.notes))
        for trial in trials:
            accuracy = trial.base_scores.get("accuracy")
            chance = 1 / trial.data.classes
            if accuracy is not None and accuracy < chance + 0.1:
                where = f"{trial.data.name} with {trial.subject.describe()}"
                found.append(
                    f"The base model of {where} is hardly better than chance (accuracy {decimal(accuracy)})."
                )
        return tuple(found)


def _bases(subject: Subject) -> list[Subject]:
    """One subject a seed; a checkpoint is one base however many seeds there are."""
    seeds = subject.seeds if subject.checkpoint is None else subject.seeds[:1]
    return [replace(subject, seeds=(seed,)) for seed in seeds]


def _verdict(summary: pd.DataFrame) -> str:
    rows = [{str(k): v for k, v in row.items()} for row in summary.dropna(subset="mean").to_dict("records")]
    if not rows:
        return "AtteFa is undefined: no adversary moved anything."
    rows.sort(key=lambda row: float(row["mean"]))
    low, high = rows[0], rows[-1]
    if len(rows) == 1:
        over = (
            how_many(low["n"], "seed")
            if low["bases"] == 1
            else f"{low['bases']} bases and {low['n']} adversaries"
        )
        bound = (
            f", at most {decimal(_bound(low)[0])} by what anything found"
            if _bound(low)[0] < low["mean"]
            else ""
        )
        figures = (
            f"{_words(low)}: AtteFa is {with_interval(low)} over {over} ({_where(low)}, JSD {decimal(low['jsd'])})"
            f"{bound}"
        )
    else:
        words = _words(low)
        constant = (
            ", where most adversaries gave up and call nearly every text the same" if _gave_up(high) else ""
        )
        figures = (
            f"Attention is hardest to move with {_where(high)} (AtteFa {with_interval(high)}{constant}) and "
            f"easiest with {_where(low)} ({with_interval(low)}). There, {words[0].lower()}{words[1:]}"
        )
    return f"{figures}{_refuted(rows)}."


def _refuted(rows: Sequence[Mapping[str, Any]]) -> str:
    """Where two ordinary models predict alike and attend apart although no adversary learned to."""
    found = [
        row
        for row in rows
        if row["mean"] >= UNFAITHFUL > row.get("another_base", float("nan"))
        and row["another_base_jsd"] >= APART
    ]
    if not found:
        return ""
    row = min(found, key=lambda row: float(row["another_base"]))
    return (
        f"; but with {_where(row)} two ordinary models that differ in the seed alone reach "
        f"{decimal(row['another_base'])}: another attention exists, and the adversaries did not find it"
    )


def _where(row: Mapping[str, Any]) -> str:
    return f"{row['encoder']} on {row['dataset']}"


def _gave_up(row: Mapping[str, Any]) -> bool:
    return bool(row["gave_up"] > 0.5)


def _bound(row: Mapping[str, Any]) -> tuple[float, float]:
    """The score that the words follow, with its JSD: the best alternative's, where it beats the adversaries' mean."""
    bound, jsd = row.get("bound", float("nan")), row.get("bound_jsd", float("nan"))
    return (bound, jsd) if bound < row["mean"] and jsd >= APART else (row["mean"], row["jsd"])


def _rating(row: Mapping[str, Any]) -> Rating:
    """Of the attention as the one reason: a search that found nothing, or was not finished, says nothing."""
    score, jsd = _bound(row)
    if jsd >= APART and score < UNFAITHFUL:
        return "poor"
    if jsd < APART or _gave_up(row) or row["cut_off"] > 0.5:
        return "unknown"
    return "mixed" if score < FAITHFUL else "good"


def _words(row: Mapping[str, Any]) -> str:
    score, jsd = _bound(row)
    if jsd >= APART and score < UNFAITHFUL:
        by = f" ({row['bound_by']})" if score != row["mean"] else ""
        return f"A quite different attention{by} gives the same predictions, so the weights are not the reason for them"
    if jsd < APART:
        return "The adversaries hardly moved the attention, which speaks for it only as far as training went"
    if _gave_up(row):
        return (
            "Most adversaries gave up and call nearly every text the same, so the score is that of a constant "
            "prediction and does not say how much the attention matters"
        )
    if row["cut_off"] > 0.5:
        return (
            "It cannot be told yet how much the attention matters: most adversaries were still improving in their "
            "last epoch, and longer training (`rashomon study attefa`) would tell"
        )
    if score < FAITHFUL:
        return "Attention was moved at some cost to the predictions, so the weights are part of their reason"
    return "Training did not move the attention without changing the predictions as much, which speaks for reading it"


def _judgements(summary: pd.DataFrame) -> tuple[Judgement, ...]:
    """Is attention the only account of the predictions? Of several subjects the weakest counts."""
    rows = [{str(k): v for k, v in row.items()} for row in summary.dropna(subset="mean").to_dict("records")]
    if not rows:
        return ()
    row = min(rows, key=lambda row: _bound(row)[0])
    words = {
        "poor": "is not the only account: another attention gives the same predictions",
        "mixed": "is part of the reason: moving it costs some of the predictions",
        "good": "could not be replaced by another attention",
        "unknown": "was not tried hard enough to tell whether another attention would do",
    }
    score, jsd = _bound(row)
    figure = f"AtteFa at most {decimal(score)} at JSD {decimal(jsd)}, {with_interval(row)} by adversaries"
    rating = _rating(row)
    # An interval is of the adversaries' mean; what beats that mean is one number.
    alone = {"mean": score, "low": float("nan"), "high": float("nan")}
    drawn = gauge("AtteFa", row if score == row["mean"] else alone)
    return (Judgement("attention", "exclusiveness", rating, words[rating], figure, (drawn,)),)


def _figure(seeds: pd.DataFrame) -> Distributions:
    groups = {
        f"{encoder} on {dataset}": part["attefa"].dropna().tolist()
        for (dataset, encoder), part in seeds.groupby(["dataset", "encoder"], sort=False)
    }
    caption = "One value a seed. Near 0 the attention can be moved freely; at 1 it cannot."
    return Distributions("AtteFa over seeds", groups, "AtteFa", caption, (0.0, 1.0))


def _found_figures(seeds: pd.DataFrame, others: pd.DataFrame) -> list[Plot]:
    """Of every subject what was found: the adversaries and what bounds them."""
    plots = []
    for (dataset, encoder), mine in seeds.groupby(["dataset", "encoder"], sort=False):
        beside = others
        if len(others):
            beside = others[(others["dataset"] == dataset) & (others["encoder"] == encoder)]
        adversaries = Series("adversaries", mine["jsd"].tolist(), mine["tvd"].tolist(), line=False)
        caption = "Lower and further right: more of another attention for less of a change. Means over texts."
        title = f"What other attention was found: {encoder} on {dataset}"
        plots.append(Plot(title, JSD_AXIS, TVD_AXIS, (adversaries, *points_beside(beside)), caption))
    return plots
