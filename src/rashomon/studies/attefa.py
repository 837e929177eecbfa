"""AtteFa: is there another attention for the same predictions? One score, from one adversary a seed.

A model of the base's architecture is trained to predict like the base while attending elsewhere (sTVD - sJSD). If
that works, TVD stays low while JSD grows and AtteFa = min(sTVD / sJSD, 1) is near 0: the attention was one of many.
(Paper *attefa*; PROTOCOLS 3.) Any number of classes, encoders, heads and datasets; epochs are chosen on dev, or on
test as published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, ClassVar

import pandas as pd

from rashomon.measures.divergence import attefa_score
from rashomon.measures.significance import holm_bonferroni, permutation_test, summarise
from rashomon.papers import published
from rashomon.studies.adversaries import (
    ADVERSARY,
    Member,
    Outcome,
    Selection,
    Trial,
    prepare,
    selecting,
    train_adversaries,
)
from rashomon.studies.base import Distributions, Finding, Study, studies
from rashomon.studies.context import Context
from rashomon.studies.subject import DatasetSpec, Subject
from rashomon.studies.tables import number
from rashomon.studies.witnesses import configuration_of
from rashomon.training.adversarial import PUBLISHED_SCALE, AttefaAdversary, Reading
from rashomon.training.spec import TrainingSpec

SEEDS = (10, 50, 257, 500231, 100078, 12504, 90754789, 8988812, 2)
BASE = TrainingSpec(epochs=8, optimiser="adam", patience=None, select="roc-auc")
FIGURES = ("attefa", "f1", "accuracy", "tvd", "halved_tvd", "jsd", "epoch")
UNFAITHFUL, FAITHFUL = 0.1, 0.5  # where the verdict changes its words


@studies.register("attefa")
@dataclass(frozen=True)
class Attefa(Study):
    """Can the attention be moved away without changing the predictions? 0: freely, 1: not at all."""

    name: ClassVar[str] = "attefa"
    question: ClassVar[str] = "Can the attention be moved away without changing the predictions?"
    subject: Subject = field(default_factory=lambda: Subject(dataset=DatasetSpec(name="mock-5")))
    datasets: tuple[str, ...] = ()  # several datasets by name, instead of the subject's
    encoders: tuple[str, ...] = ()  # several encoders, instead of the subject's
    seeds: tuple[int, ...] = SEEDS  # of the adversaries; the base has the subject's
    selection: Selection = "dev"
    training: TrainingSpec | None = None  # of the adversaries; None: what suits the model
    reading: Reading | None = None

    def run(self, context: Context) -> Finding:
        subjects = self._subjects()
        context = selecting(context, [subject.dataset for subject in subjects], self.selection)
        trials = prepare(context, subjects, self.reading)
        members = [
            Member(trial, AttefaAdversary(trial.reading), self._training(trial), seed)
            for trial in trials
            for seed in self.seeds
        ]
        outcomes = train_adversaries(context, members)
        seeds = pd.DataFrame([_seed_row(outcome) for outcome in outcomes])
        summary = _summary(seeds, trials)
        tables = {"summary": summary, "seeds": seeds}
        comparison = _compare(seeds)
        if len(comparison):
            tables["comparison"] = comparison
        return Finding(
            study=self.name,
            question=self.question,
            verdict=_verdict(summary),
            configuration=configuration_of(self),
            tables=tables,
            figures=(_figure(seeds),),
            warnings=self._warnings(trials),
        )

    def _subjects(self) -> list[Subject]:
        """Every dataset with every encoder; a built-in base is trained as in the paper unless told otherwise."""
        chosen = []
        for dataset in self.datasets or (self.subject.dataset.name,):
            for encoder in self.encoders or (self.subject.model.name,):
                model = replace(self.subject.model, name=encoder)
                if encoder != self.subject.model.name:
                    model = replace(model, layers=0)  # as many as suit the encoder
                training = self.subject.training or (BASE if model.is_builtin else None)
                data = replace(self.subject.dataset, name=dataset)
                chosen.append(replace(self.subject, dataset=data, model=model, training=training))
        return chosen

    def _training(self, trial: Trial) -> TrainingSpec:
        asked = self.training or (replace(ADVERSARY, optimiser="adam") if trial.fresh else None)
        return trial.adversary_training(asked)

    def _warnings(self, trials: Sequence[Trial]) -> tuple[str, ...]:
        found = []
        if self.selection == "test":
            found.append("Epochs are chosen on the test split, as published: the scores are optimistic.")
        for trial in trials:
            accuracy = trial.base_scores.get("accuracy")
            chance = 1 / trial.data.classes
            if accuracy is not None and accuracy < chance + 0.1:
                where = f"{trial.data.name} with {trial.subject.describe()}"
                found.append(
                    f"The base model of {where} is hardly better than chance (accuracy {accuracy:.2f})."
                )
        return tuple(found)


def _seed_row(outcome: Outcome) -> dict[str, Any]:
    trial, scores = outcome.member.trial, outcome.scores
    nothing = float("nan")
    return {
        "dataset": trial.data.name,
        "encoder": trial.subject.describe(),
        "seed": outcome.member.seed,
        "epoch": outcome.epoch,
        "f1": scores.get("f1", nothing),
        "accuracy": scores.get("accuracy", nothing),
        "tvd": scores["tvd"],
        "halved_tvd": scores["tvd"] * PUBLISHED_SCALE,
        "jsd": scores["jsd"],
        "attefa": attefa_score(scores["tvd"], scores["jsd"]),
    }


def _summary(seeds: pd.DataFrame, trials: Sequence[Trial]) -> pd.DataFrame:
    """A row for every dataset and encoder: AtteFa over seeds, the other figures' means, and what was published."""
    rows = []
    for trial in trials:
        name, encoder = trial.data.name, trial.subject.describe()
        group = seeds[(seeds["dataset"] == name) & (seeds["encoder"] == encoder)]
        score = summarise(group["attefa"].to_numpy())
        row: dict[str, Any] = {
            "dataset": name,
            "encoder": encoder,
            "n": score.n,
            "undefined": score.undefined,
            "mean": score.mean,
            "std": score.std,
            "low": score.low,
            "high": score.high,
            "base_f1": trial.base_scores.get("f1", float("nan")),
        }
        for figure in FIGURES[1:]:
            row |= {figure: group[figure].mean(), f"{figure}_std": group[figure].std()}
        rows.append(row | published_figures(trial))
    return pd.DataFrame(rows)


def published_figures(trial: Trial) -> dict[str, float]:
    """What the paper reports for this dataset and encoder; its TVD is the halved one."""
    subject = trial.subject
    if subject.checkpoint is not None or subject.dataset.planted_options():
        return {}
    for row in published("attefa")["results"]:
        if row["dataset"] == trial.data.name and row["encoder"] == subject.model.name:
            figures = {"attefa": row["attefa"], "attefa_std": row["attefa_std"], "base_f1": row["base_f1"]}
            figures |= {"f1": row["f1"], "halved_tvd": row["tvd"], "jsd": row["jsd"]}
            return {f"published_{figure}": value for figure, value in figures.items()}
    return {}


def _compare(seeds: pd.DataFrame) -> pd.DataFrame:
    """Encoders on the same data, and datasets under the same encoder, paired by seed; Holm-adjusted together."""
    rows = []
    for common, varied in (("dataset", "encoder"), ("encoder", "dataset")):
        for name, group in seeds.groupby(common, sort=False):
            scores = {key: part["attefa"].to_numpy() for key, part in group.groupby(varied, sort=False)}
            for first, second in combinations(scores, 2):
                test = permutation_test(scores[first], scores[second])
                told = {"n": test.n, "undefined": test.undefined, "difference": test.difference, "p": test.p}
                rows.append({"of": name, "first": first, "second": second, "test": test.test, **told})
    table = pd.DataFrame(rows)
    return table.assign(p_holm=holm_bonferroni(table["p"].to_numpy()).p) if len(table) else table


def _verdict(summary: pd.DataFrame) -> str:
    rows = [{str(k): v for k, v in row.items()} for row in summary.dropna(subset="mean").to_dict("records")]
    if not rows:
        return "AtteFa is undefined: no adversary moved anything."
    rows.sort(key=lambda row: float(row["mean"]))
    low, high = rows[0], rows[-1]
    if len(rows) == 1:
        return f"{_words(low['mean'])}: AtteFa is {number(low)} over {low['n']} seeds ({_where(low)})."
    return (
        f"Attention is hardest to move with {_where(high)} (AtteFa {number(high)}) and easiest with {_where(low)} "
        f"({number(low)}); {_words(low['mean'])[0].lower()}{_words(low['mean'])[1:]} in the latter."
    )


def _where(row: dict[str, Any]) -> str:
    return f"{row['encoder']} on {row['dataset']}"


def _words(score: float) -> str:
    if score < UNFAITHFUL:
        return "A quite different attention gives the same predictions, so the weights are not the reason for them"
    if score < FAITHFUL:
        return (
            "Attention can be moved at some cost to the predictions, so the weights are part of their reason"
        )
    return "Attention cannot be moved without changing the predictions, so the weights may be read as their reason"


def _figure(seeds: pd.DataFrame) -> Distributions:
    groups = {
        f"{encoder} on {dataset}": part["attefa"].dropna().tolist()
        for (dataset, encoder), part in seeds.groupby(["dataset", "encoder"], sort=False)
    }
    caption = "One value a seed. Near 0 the attention can be moved freely; at 1 it cannot."
    return Distributions("AtteFa over seeds", groups, "AtteFa", caption, (0.0, 1.0))
