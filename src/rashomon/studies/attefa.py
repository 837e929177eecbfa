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
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from rashomon.experiments.adversaries import (
    ADVERSARY,
    Member,
    Outcome,
    adversary_training,
    train_adversaries,
    usual_adversary,
)
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Distributions
from rashomon.experiments.subject import DatasetSpec, Subject
from rashomon.experiments.summaries import summary_row
from rashomon.experiments.testimony import Ask
from rashomon.experiments.trials import SelectionSplit, Trial, prepare, selecting
from rashomon.measures.divergence import LN2, attefa_score, tvd
from rashomon.measures.significance import holm_bonferroni, permutation_test
from rashomon.models.build import is_pretrained
from rashomon.models.model_spec import ModelSpec
from rashomon.studies.base import ON_TRIAL, AttentionStudy, Finding, Study, audited_adversary, studies
from rashomon.training.adversarial import (
    ATTENTION,
    PROBABILITIES,
    PUBLISHED_SCALE,
    AttefaAdversary,
    Reading,
    attention_distance,
)
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import default_training
from rashomon.wording import decimal, with_interval

SEEDS = (10, 50, 257, 500231, 100078, 12504, 90754789, 8988812, 2)
AUDITED_SEEDS = SEEDS[:2]
BASE = TrainingSpec(epochs=8, optimizer="adam", patience=None, select="roc-auc")
FRESH = replace(
    ADVERSARY, optimizer="adam", select="loss"
)  # how adversaries that start from nothing are trained
FIGURES = ("attefa", "f1", "accuracy", "tvd", "halved_tvd", "jsd", "epoch")
UNFAITHFUL, FAITHFUL = 0.1, 0.5  # where the verdict changes its words
APART = 0.25 * LN2  # attentions at least this far from each other are called different


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
    reading: Reading | None = None  # what of the attention is compared; None: heads, a transformer's mean

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        """One base and two adversaries over a few epochs; those of what was fine-tuned take too long."""
        subject = asked.subject
        if subject.checkpoint is not None or is_pretrained(subject.model.name):
            return None
        first = replace(subject, seeds=subject.seeds[:1])
        return cls(first, seeds=AUDITED_SEEDS, training=audited_adversary(subject))

    def needed_models(self) -> tuple[Subject, ...]:
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
        subjects = self.needed_models()
        context = selecting(context, [subject.dataset for subject in subjects], self.selection)
        self.check_fit(context)
        trials = prepare(context, [base for subject in subjects for base in _bases(subject)], self.reading)
        members = [
            Member(trial, AttefaAdversary(trial.reading), self._training(trial), seed)
            for trial in trials
            for seed in self.seeds
        ]
        outcomes = train_adversaries(context, members)
        seeds = pd.DataFrame([_seed_row(outcome) for outcome in outcomes])
        pairs = _between_bases(trials)
        bases = _by_base(seeds, trials, pairs)
        summary = _summary(seeds, bases, trials)
        tables = {"summary": summary, "bases": bases, "between-bases": pairs, "comparison": _compare(seeds)}
        tables = {name: table for name, table in tables.items() if len(table)} | {"seeds": seeds}
        return self.finding(
            _verdict(summary),
            tables,
            figures=(_figure(seeds),),
            warnings=self._warnings(trials),
        )

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


def _seed_row(outcome: Outcome) -> dict[str, Any]:
    trial, scores = outcome.member.trial, outcome.scores
    nothing = float("nan")
    return {
        "dataset": trial.data.name,
        "encoder": trial.subject.describe(),
        "base": trial.subject.seeds[0],
        "seed": outcome.member.seed,
        "epoch": outcome.epoch,
        "f1": scores.get("f1", nothing),
        "accuracy": scores.get("accuracy", nothing),
        "tvd": scores["tvd"],
        "halved_tvd": scores["tvd"] * PUBLISHED_SCALE,
        "jsd": scores["jsd"],
        "attefa": attefa_score(scores["tvd"], scores["jsd"]),
        "gave_up": outcome.gave_up,
    }


def _between_bases(trials: Sequence[Trial]) -> pd.DataFrame:
    """Ordinary models that differ in the seed alone, set against each other by the same score."""
    rows = []
    for first, second in combinations(trials, 2):
        if (first.data.name, first.subject.describe()) != (second.data.name, second.subject.describe()):
            continue
        one, other = first.rows("test").whole.extras, second.rows("test").whole.extras
        changed = float(tvd(one[PROBABILITIES], other[PROBABILITIES]).mean())
        moved = float(attention_distance(one[ATTENTION], other[ATTENTION]).mean())
        told: dict[str, Any] = {"dataset": first.data.name, "encoder": first.subject.describe()}
        told |= {"base": first.subject.seeds[0], "other": second.subject.seeds[0]}
        rows.append(told | {"tvd": changed, "jsd": moved, "attefa": attefa_score(changed, moved)})
    return pd.DataFrame(rows)


def _by_base(seeds: pd.DataFrame, trials: Sequence[Trial], pairs: pd.DataFrame) -> pd.DataFrame:
    """A row for every base model: how well it predicts, where it attends (if that is known), and its AtteFa.

    ``another_base`` is the lowest score that another base reaches against it, with that base's JSD.
    """
    rows = []
    for trial in trials:
        where = {"dataset": trial.data.name, "encoder": trial.subject.describe()}
        base = trial.subject.seeds[0]
        row: dict[str, Any] = where | {"base": base, "f1": trial.base_scores.get("f1", float("nan"))}
        if trial.on_evidence:
            shares = list(trial.on_evidence.values())
            row |= {"on_evidence": float(np.mean(shares)), "least_class": min(shares)}
        own = _rows_where(seeds, where | {"base": base})
        row |= summary_row([own["attefa"].to_numpy()], bounds=(0.0, 1.0))
        if len(pairs):
            alike = _rows_where(pairs, where)
            alike = alike[(alike["base"] == base) | (alike["other"] == base)].sort_values("attefa")
            row |= {"another_base": alike["attefa"].iloc[0], "another_base_jsd": alike["jsd"].iloc[0]}
        rows.append(row)
    return pd.DataFrame(rows)


def _summary(seeds: pd.DataFrame, bases: pd.DataFrame, trials: Sequence[Trial]) -> pd.DataFrame:
    """A row for every dataset and encoder: AtteFa over bases and seeds, and other figures."""
    rows = []
    for trial in {(trial.data.name, trial.subject.describe()): trial for trial in trials}.values():
        where = {"dataset": trial.data.name, "encoder": trial.subject.describe()}
        group, own = _rows_where(seeds, where), _rows_where(bases, where)
        by_base = [part["attefa"].to_numpy() for _, part in group.groupby("base", sort=False)]
        score = summary_row(by_base, bounds=(0.0, 1.0))  # adversaries of one base share its luck
        row: dict[str, Any] = where | {"bases": len(own), **score}
        row |= {"gave_up": group["gave_up"].mean(), "base_f1": own["f1"].mean()}
        if "on_evidence" in own:
            row["base_on_evidence"] = own["on_evidence"].mean()
        if "another_base" in own:
            closest = own.sort_values("another_base").iloc[0]
            row |= {name: closest[name] for name in ("another_base", "another_base_jsd")}
        for figure in FIGURES[1:]:
            row |= {figure: group[figure].mean(), f"{figure}_std": group[figure].std()}
        rows.append(row)
    return pd.DataFrame(rows)


def _rows_where(table: pd.DataFrame, values: Mapping[str, Any]) -> pd.DataFrame:
    return table[np.logical_and.reduce([table[column] == value for column, value in values.items()])]


def _compare(seeds: pd.DataFrame) -> pd.DataFrame:
    """Encoders on the same data, and datasets under the same encoder; Holm-adjusted together.

    Paired by base where there are several (adversaries of one base are not independent), else by seed.
    """
    unit = "base" if seeds["base"].nunique() > 1 else "seed"
    rows = []
    for common, varied in (("dataset", "encoder"), ("encoder", "dataset")):
        for name, group in seeds.groupby(common, sort=False):
            table = group.pivot_table("attefa", unit, varied, sort=False, dropna=False)
            for first, second in combinations(table.columns, 2):
                test = permutation_test(table[first].to_numpy(), table[second].to_numpy())
                told = {"n": test.n, "undefined": test.undefined, "difference": test.difference, "p": test.p}
                rows.append({"of": name, "first": first, "second": second, "paired_by": unit, **told})
    table = pd.DataFrame(rows)
    return table.assign(p_holm=holm_bonferroni(table["p"].to_numpy()).p) if len(table) else table


def _verdict(summary: pd.DataFrame) -> str:
    rows = [{str(k): v for k, v in row.items()} for row in summary.dropna(subset="mean").to_dict("records")]
    if not rows:
        return "AtteFa is undefined: no adversary moved anything."
    rows.sort(key=lambda row: float(row["mean"]))
    low, high = rows[0], rows[-1]
    if len(rows) == 1:
        over = (
            f"{low['n']} seeds" if low["bases"] == 1 else f"{low['bases']} bases and {low['n']} adversaries"
        )
        told = f"{_words(low)}: AtteFa is {with_interval(low)} over {over} ({_where(low)}, JSD {decimal(low['jsd'])})"
    else:
        words = _words(low)
        constant = (
            ", where most adversaries gave up and call nearly every text the same" if _gave_up(high) else ""
        )
        told = (
            f"Attention is hardest to move with {_where(high)} (AtteFa {with_interval(high)}{constant}) and "
            f"easiest with {_where(low)} ({with_interval(low)}). There, {words[0].lower()}{words[1:]}"
        )
    return f"{told}{_refuted(rows)}."


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


def _words(row: Mapping[str, Any]) -> str:
    score = row["mean"]
    if row["jsd"] < APART:
        return "The adversaries hardly moved the attention, which speaks for it only as far as training went"
    if _gave_up(row):
        return (
            "Most adversaries gave up and call nearly every text the same, so the score is that of a constant "
            "prediction and does not say how much the attention matters"
        )
    if score < UNFAITHFUL:
        return "A quite different attention gives the same predictions, so the weights are not the reason for them"
    if score < FAITHFUL:
        return "Attention was moved at some cost to the predictions, so the weights are part of their reason"
    return "Training did not move the attention without changing the predictions as much, which speaks for reading it"


def _figure(seeds: pd.DataFrame) -> Distributions:
    groups = {
        f"{encoder} on {dataset}": part["attefa"].dropna().tolist()
        for (dataset, encoder), part in seeds.groupby(["dataset", "encoder"], sort=False)
    }
    caption = "One value a seed. Near 0 the attention can be moved freely; at 1 it cannot."
    return Distributions("AtteFa over seeds", groups, "AtteFa", caption, (0.0, 1.0))
