"""How often is the model right? A study with one setting of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd

from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.studies import Finding, Study, studies
from rashomon.studies.base import configuration_of


@studies.register("accuracy")
@dataclass(frozen=True)
class Accuracy(Study):
    """How often is the model right?"""

    name: ClassVar[str] = "accuracy"
    question: ClassVar[str] = "How often is the model right?"
    subject: Subject = field(default_factory=Subject)
    enough: float = 0.9  # the share of right answers that is called enough

    def run(self, context: Context) -> Finding:
        rows = [
            {
                "split": split,
                "accuracy": scores["accuracy"],
                "n": len(context.dataset(self.subject.dataset)[split]),
            }
            for trained in context.models(self.subject)
            for split, scores in trained.scores.items()
        ]
        summary = pd.DataFrame(rows)
        right = summary.loc[summary["split"] == "test", "accuracy"].mean()
        return Finding(
            study=self.name,
            question=self.question,
            verdict=f"The model is right in {right:.0%} of cases, {'' if right >= self.enough else 'not '}enough.",
            configuration=configuration_of(self),
            tables={"summary": summary},
        )
