"""Does the output notice when attention is shuffled?

For every text the weights are dealt out to its tokens at random, a hundred times, on fixed token vectors, and the
median change of the output is kept (Jain & Wallace; PROTOCOLS 2.5). An output that does not notice is not explained
by where the weights lie. All permutations of a batch of texts are decoded at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rashomon.data import Dataset, Example
from rashomon.data.batches import Batch
from rashomon.errors import UserError
from rashomon.experiments.attention_bins import BINS, bin_violins, by_bin, overall, with_bins
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Distributions, Plot, Series
from rashomon.experiments.instance_search import refusal
from rashomon.experiments.summaries import Row
from rashomon.experiments.testimony import Ask, draw
from rashomon.experiments.trials import max_attention, with_ids
from rashomon.measures.divergence import tvd
from rashomon.models.base import Model, Output
from rashomon.models.evaluator import collect, rows_of
from rashomon.studies.base import ON_TRIAL, AttentionStudy, Finding, Study, studies
from rashomon.wording import interval_words, with_interval

TOKEN_BUDGET = 2048
NOTICED = 0.1  # a median change of the output from which the verdict calls it noticed


@studies.register("permutation")
@dataclass(frozen=True)
class Permutation(AttentionStudy):
    """Does the output change when attention weights are shuffled over the tokens?"""

    name: ClassVar[str] = "permutation"
    question: ClassVar[str] = "Does the output change when attention weights are shuffled over the tokens?"
    title: ClassVar[str] = "Shuffled attention"
    chapter: ClassVar[str | None] = ON_TRIAL
    order: ClassVar[int] = 60

    permutations: int = 100  # of each text's attention
    instances: int = 500  # how many texts are looked at
    split: str = "test"  # which split they are drawn from
    seed: int = 0  # of which texts are drawn, and of the permutations

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        return cls(asked.subject, instances=asked.instances, split=asked.split)

    def fits(self, model: Model, data: Dataset) -> str | None:
        return super().fits(model, data) or refusal(model)

    def run(self, context: Context) -> Finding:
        if self.permutations < 1:
            raise UserError("The permutation test needs at least one permutation.")
        self.check_fit(context)
        data = context.data_of(self.subject)
        examples = draw(data, self.split, self.instances, self.seed)
        parts = []
        for seed, trained in zip(self.subject.seeds, context.models(self.base), strict=False):
            told = shuffle_all(trained.model, examples, self.permutations, self.seed)
            parts.append(told.assign(seed=seed))
        table = with_bins(pd.concat(parts, ignore_index=True), data.labels)
        summary = by_bin(table, "change")
        return self.finding(
            _verdict(overall(summary), self.permutations, table["example"].nunique()),
            {"summary": summary, "instances": table},
            figures=(_violins(table), _plot(summary)),
            warnings=data.notes,
        )


def shuffle_all(model: Model, examples: Sequence[Example], permutations: int, seed: int) -> pd.DataFrame:
    """One row a text: the median and the largest change of the output (TVD) over the permutations."""

    def read(output: Output, batch: Batch, index: Tensor) -> dict[str, Tensor]:
        orders = _orders(batch, model.sides(batch), index.tolist(), permutations, seed)  # [B, K, T]
        assert output.attention is not None
        heads = output.attention.unsqueeze(1).expand(-1, permutations, -1, -1)
        weights = heads.gather(-1, orders.unsqueeze(2).expand_as(heads))
        after = model.decode_with(output.hidden, weights, batch).softmax(-1)
        change = tvd(after, output.probabilities.unsqueeze(1))
        return {
            "base_class": output.probabilities.argmax(-1),
            "max_attention": max_attention(output.attention),
            "change": change.quantile(0.5, 1),
            "largest_change": change.amax(1),
        }

    rows = rows_of(model, examples)
    found = collect(model, rows, read, attention=True, token_budget=TOKEN_BUDGET)
    return with_ids(pd.DataFrame({name: value.numpy() for name, value in found.items()}), examples)


def _orders(batch: Batch, sides: Tensor, numbers: Sequence[int], permutations: int, seed: int) -> Tensor:
    """Where each token's new weight comes from; weights stay on their side of a pair, padding in its place."""
    count, width = batch.ids.shape
    orders = np.tile(np.arange(width), (count, permutations, 1))
    for row, position in enumerate(numbers):
        generator = np.random.default_rng([seed, position])  # a text's own, whatever the batch
        for side in sides.cpu().numpy():
            places = np.flatnonzero(side[row])
            orders[row][:, places] = places[generator.random((permutations, len(places))).argsort(1)]
    return torch.from_numpy(orders).to(batch.ids.device)


def _violins(table: pd.DataFrame) -> Distributions:
    return bin_violins(
        table,
        "change",
        "Change of the output under shuffled attention",
        "median TVD over permutations",
        "Texts by the model's largest attention weight; sharp attention that can be shuffled matters least.",
        (0.0, 1.0),
    )


def _plot(summary: pd.DataFrame) -> Plot:
    rows = summary[(summary["class"] == "all") & (summary["max_attention"] != "all")]
    x = [BINS.index(name) / 4 + 0.125 for name in rows["max_attention"]]
    mean, low, high = (rows[name].tolist() for name in ("mean", "low", "high"))
    series = Series("mean of the medians", x, mean, low, high)
    return Plot(
        "Output change by sharpness of attention",
        "largest attention weight (middle of the bin)",
        "median change of the output (TVD)",
        (series,),
        f"With a {interval_words(rows['interval'])}.",
    )


def _verdict(row: Row, permutations: int, texts: int) -> str:
    if row["mean"] < NOTICED:
        words = "The output hardly notices where the attention lies, so the weights explain little of it"
    else:
        words = "The output depends on where the attention lies, which an explanation by attention needs"
    return (
        f"{words}: shuffling the weights ({permutations} times a text) changes it by a median of {with_interval(row)} "
        f"on average ({texts} texts)."
    )
