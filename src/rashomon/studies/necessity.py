"""Does the model need its attention at all? Learned weights against frozen uniform ones.

The same model is trained twice for every seed, once as it is and once with uniform attention. Where the difference
is not significant over seeds and texts, and its interval leaves no room for one that matters, attention is not needed,
and reading it as an explanation has little to stand on (papers *not-not* and *disagreement*, appendix A).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from rashomon.data import Dataset, Example
from rashomon.errors import DoesNotFit
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Distributions
from rashomon.experiments.pairing import gaps_over_seeds
from rashomon.experiments.subject import Subject
from rashomon.experiments.summaries import summary_row
from rashomon.experiments.testimony import Ask
from rashomon.measures.intervals import ENOUGH
from rashomon.measures.significance import compare_variants, holm_bonferroni, mcnemar_test
from rashomon.models.base import Model
from rashomon.models.evaluator import evaluating, predict, rows_of
from rashomon.studies.base import AttentionStudy, Finding, Study, studies
from rashomon.training.run import Trained
from rashomon.wording import decimal, how_many, p_value, with_interval

FIGURES = ("accuracy", "f1", "roc-auc")
LEVEL = 0.05
NEGLIGIBLE = 0.05  # accuracy that attention may be worth and still be called not needed
POOLING_ONLY = (
    "Only the attention that pools was made uniform; the self-attention inside the encoder still learns."
)


@studies.register("necessity")
@dataclass(frozen=True)
class Necessity(AttentionStudy):
    """Does the model need its attention, or would uniform weights do?"""

    name: ClassVar[str] = "necessity"
    question: ClassVar[str] = "Does the model need its attention?"
    title: ClassVar[str] = "Necessity"
    order: ClassVar[int] = 50

    subject: Subject = field(default_factory=lambda: Subject(seeds=(0, 1, 2)))
    split: str = "test"  # which split the models are compared on

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        """With the model with uniform weights that the trials of attention need anyway."""
        return cls(asked.subject, asked.split)

    def fits(self, model: Model, data: Dataset) -> str | None:
        if self.subject.checkpoint is not None:
            return "Necessity trains the model anew with uniform attention: give a model to train."
        if self.subject.model.weights == "uniform":
            return "The model's attention is uniform already, so there is nothing to compare."
        if not data[self.split]:
            return f"The {self.split} split of {data.name} is empty, so nothing can be compared."
        unlabelled = next((example.id for example in data[self.split] if example.label is None), None)
        if unlabelled is not None:
            return f"Necessity needs labels, and example {unlabelled!r} has none."
        return super().fits(model, data)

    def needed_models(self) -> tuple[Subject, ...]:
        return self.base, self.base.uniform_twin

    def run(self, context: Context) -> Finding:
        self.check_fit(context)
        data = context.dataset(self.subject.dataset)
        variants = dict(zip(("learned", "uniform"), self.needed_models(), strict=True))
        trained = dict(zip(variants, context.trained(list(variants.values())), strict=True))
        model = trained["uniform"][0].model
        pools = "reweighting" in model.capabilities  # its one attention was built uniform
        if not pools:
            _check_uniform(model, data[self.split][0])
        correct = {name: self._correct(data, models) for name, models in trained.items()}
        instances = pd.concat(
            [table.assign(attention=name) for name, table in correct.items()], ignore_index=True
        )
        seeds = self._seeds(trained)
        comparison = self._compare(correct)
        return self.finding(
            _verdict(seeds, comparison),
            {
                "summary": _summary(seeds),
                "comparison": comparison,
                "gaps": gaps_over_seeds(_long(seeds), "attention", "uniform", ["figure"]),
                "seeds": seeds,
                "instances": instances,
            },
            figures=(_figure(seeds),),
            warnings=(POOLING_ONLY,) if pools and "layers" in model.capabilities else (),
        )

    def _correct(self, data: Dataset, models: list[Trained]) -> pd.DataFrame:
        labels = np.array([example.label for example in data[self.split]])
        ids = [example.id for example in data[self.split]]
        parts = []
        for seed, trained in zip(self.subject.seeds, models, strict=True):
            classes = predict(trained.model, rows_of(trained.model, data[self.split])).classes
            parts.append(
                pd.DataFrame({"seed": seed, "example": ids, "correct": (classes == labels).astype(float)})
            )
        return pd.concat(parts, ignore_index=True)

    def _seeds(self, trained: dict[str, list[Trained]]) -> pd.DataFrame:
        rows = []
        for name, models in trained.items():
            for seed, done in zip(self.subject.seeds, models, strict=True):
                scores = done.scores[self.split]
                rows.append(
                    {"attention": name, "seed": seed, **{figure: scores[figure] for figure in FIGURES}}
                )
        return pd.DataFrame(rows)

    def _compare(self, correct: dict[str, pd.DataFrame]) -> pd.DataFrame:
        """McNemar's test seed by seed (Holm-adjusted: over texts), and of all of them the test over seeds and texts.

        The difference of two trainings owes as much to their luck as to attention, which one seed cannot tell apart.
        """
        learned, uniform = (
            [part.set_index("example")["correct"] for _, part in correct[name].groupby("seed", sort=False)]
            for name in ("learned", "uniform")
        )
        rows = []
        for seed, one, other in zip(self.subject.seeds, learned, uniform, strict=True):
            test = mcnemar_test(one.to_numpy(), other.to_numpy())
            alone = compare_variants([one.to_numpy()], [other.to_numpy()], [one.index.tolist()])
            rows.append({"seed": str(seed), **alone.row(), "test": test.test, "p": test.p})
        overall = alone
        if len(learned) > 1:
            texts = [one.index.tolist() for one in learned]
            overall = compare_variants(
                [s.to_numpy() for s in learned], [s.to_numpy() for s in uniform], texts
            )
        table = pd.DataFrame([*rows, {"seed": "all", **overall.row()}])
        adjusted = holm_bonferroni(table["p"].to_numpy(dtype=np.float64)[:-1]).p
        return table.assign(p_holm=[*adjusted, overall.p])


def _check_uniform(model: Model, example: Example) -> None:
    """Some networks compute attention in a way of their own, which cannot be frozen from outside."""
    from rashomon.models.uniform_attention import (
        is_uniform,  # brings transformers, which takes seconds to load
    )

    with evaluating(model), torch.inference_mode():
        layers = model(model.collate(model.encode([example]))).layers
    if layers is None or not all(map(is_uniform, layers)):
        raise DoesNotFit("The self-attention of this network cannot be made uniform from outside.")


def _summary(seeds: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {"figure": figure, "attention": name}
        | summary_row([group["value"].to_numpy(dtype=np.float64)], bounds=(0.0, 1.0))
        for (figure, name), group in _long(seeds).groupby(["figure", "attention"], sort=False)
    ]
    return pd.DataFrame(rows)


def _long(seeds: pd.DataFrame) -> pd.DataFrame:
    return seeds.melt(id_vars=["attention", "seed"], value_vars=list(FIGURES), var_name="figure")


def _verdict(seeds: pd.DataFrame, comparison: pd.DataFrame) -> str:
    means = seeds.groupby("attention")["accuracy"].mean().to_dict()
    overall = {str(k): v for k, v in comparison[comparison["seed"] == "all"].iloc[0].items()}
    figures = (
        f"accuracy {decimal(means['learned'], 3)} with learned weights, {decimal(means['uniform'], 3)} with "
        f"uniform ones (difference {with_interval(overall | {'mean': overall['difference']}, 3)}, "
        f"{p_value(overall['p'])}, {how_many(overall['seeds'], 'seed')}, {how_many(overall['n'], 'prediction')})"
    )
    return f"{_words(overall)}: {figures}."


def _words(overall: Mapping[str, Any]) -> str:
    if not np.isfinite(overall["p"]):
        return "Too few texts to tell whether the model needs its attention"
    if overall["seeds"] < ENOUGH:
        return (
            f"Under {ENOUGH} seeds nobody can tell the training's luck from an effect of attention, whatever the "
            "texts say"
        )
    if overall["p"] >= LEVEL and overall["high"] > NEGLIGIBLE:
        return "No need for attention was shown, but a difference that matters is not ruled out either"
    if overall["p"] >= LEVEL:
        return "Attention is not needed here, so its weights have little to explain"
    if overall["difference"] > 0:
        return "The model needs its attention"
    return "Attention does harm here: uniform weights do better"


def _figure(seeds: pd.DataFrame) -> Distributions:
    groups = {str(name): group["accuracy"].tolist() for name, group in seeds.groupby("attention", sort=False)}
    return Distributions("Accuracy over seeds", groups, "accuracy", "One point a seed.")
