"""Is there, for each text on its own, another attention that leaves the output as it is?

Jain & Wallace's adversary (PROTOCOLS 2.5): the token vectors stay fixed, and attention logits are moved by Adam from
several random starts to be as far from the model's attention as they can be while the output changes by at most
0.01. It treats weights as free numbers that no model need be able to produce, so it bounds what a real adversary
(study ``adversary``) could do. All texts and starts of a chunk are moved at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import pandas as pd

from rashomon.data import Dataset
from rashomon.experiments.alternatives import APART
from rashomon.experiments.attention_bins import bin_violins, by_bin, overall, with_bins
from rashomon.experiments.context import Context
from rashomon.experiments.instance_search import IN_AUDITS, Search, refusal, search_all
from rashomon.experiments.summaries import Row
from rashomon.experiments.testimony import Ask, draw
from rashomon.experiments.trials import base_folders
from rashomon.measures.divergence import LN2
from rashomon.models.base import Model
from rashomon.studies.base import ON_TRIAL, AttentionStudy, Finding, Study, studies
from rashomon.wording import percent, with_interval


@studies.register("instance-adversary")
@dataclass(frozen=True)
class InstanceAdversary(AttentionStudy):
    """Text by text, how far can attention be moved while the output stays?"""

    name: ClassVar[str] = "instance-adversary"
    question: ClassVar[str] = "Text by text, how far can attention be moved while the output stays?"
    title: ClassVar[str] = "An adversary for each example"
    chapter: ClassVar[str | None] = ON_TRIAL
    order: ClassVar[int] = 70

    search: Search = field(default_factory=Search)
    instances: int = 500  # how many texts are looked at
    split: str = "test"  # which split they are drawn from
    seed: int = 0  # of which texts are drawn, and of the search

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        return cls(asked.subject, search=IN_AUDITS, instances=asked.instances, split=asked.split)

    def fits(self, model: Model, data: Dataset) -> str | None:
        return super().fits(model, data) or refusal(model)

    def run(self, context: Context) -> Finding:
        self.check_fit(context)
        data = context.data_of(self.subject)
        examples = draw(data, self.split, self.instances, self.seed)
        parts = []
        for seed in self.subject.seeds if self.subject.checkpoint is None else self.subject.seeds[:1]:
            base = base_folders(context, [replace(self.base, seeds=(seed,))])[0]
            parts.append(search_all(context, base, examples, self.search, self.seed).assign(seed=seed))
        table = with_bins(pd.concat(parts, ignore_index=True), data.labels)
        summary = by_bin(table, "jsd")
        return self.finding(
            _verdict(overall(summary), self.search.tolerance, float((table["starts_kept"] > 0).mean())),
            {"summary": summary, "output": by_bin(table, "tvd"), "instances": table},
            figures=(
                bin_violins(
                    table,
                    "jsd",
                    "How far attention can be moved, text by text",
                    f"largest JSD with an output within {self.search.tolerance:g}",
                    "Texts by the model's largest attention weight.",
                    (0.0, LN2),
                ),
            ),
            warnings=(*data.notes, *_warnings(table, self.search)),
        )


def _verdict(row: Row, tolerance: float, found: float) -> str:
    """``found`` is the share of texts for which any start kept the output; the others count with JSD 0."""
    if found < 0.5:
        words = "For most texts the search found no other weights that keep the output, so it decides nothing"
    elif row["mean"] >= 0.5 * LN2:
        words = "Taken text by text, very different weights give the same output, so weights alone do not explain it"
    elif row["mean"] >= APART:
        words = "Taken text by text, other weights give the same output, so weights alone do not explain it"
    else:
        words = (
            "Even taken text by text, this search could not move attention far without changing the output"
        )
    return (
        f"{words}: JSD {with_interval(row)} of at most ln 2 with an output within {tolerance:g} "
        f"({int(row['n'])} texts, none found for {percent(1 - found)}); no model need be able to produce them."
    )


def _warnings(table: pd.DataFrame, search: Search) -> tuple[str, ...]:
    none = int((table["starts_kept"] == 0).sum())
    if not none:
        return ()
    words = "they count with a distance of 0, since the model's own attention keeps it"
    return (
        f"For {none} of {len(table)} texts no start kept the output within {search.tolerance:g}; {words}.",
    )
