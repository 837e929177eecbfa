"""Which methods can be asked of the model, and is anything of the texts not seen? What probing found out, in one table.

It is what `rashomon check` prints, without the time that an answer takes: that is another on every machine and in every
run, and what each method costs is among an audit's verdicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from rashomon.data import Example
from rashomon.experiments.context import Context
from rashomon.experiments.testimony import Ask, draw
from rashomon.explainers.model_check import ModelCheck, check_model
from rashomon.models.base import Model
from rashomon.studies.base import Finding, Study, studies
from rashomon.wording import percent


@studies.register("model-check")
@dataclass(frozen=True)
class ModelChecked(Study):
    """Which methods can be asked of the model, and does it read the texts whole?"""

    name: ClassVar[str] = "model-check"
    question: ClassVar[str] = "Which methods can be asked of the model, and does it read the texts whole?"
    title: ClassVar[str] = "What can be asked of it"
    order: ClassVar[int] = 7
    of_explanations: ClassVar[bool] = False

    texts: int = 1000  # how many texts are tried for length, at most
    split: str = "test"  # which split they are drawn from

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        return cls(asked.subject, asked.instances, asked.split)

    def run(self, context: Context) -> Finding:
        model = context.models(self.subject)[0].model
        found = check_model(model, timed=False)
        examples = draw(context.data_of(self.subject), self.split, self.texts, self.subject.seeds[0])
        lengths = _lengths(model, examples)
        rows = [row for row in found.rows() if row[0] != "task"]  # of which a report has spoken before
        return self.finding(
            f"{_asked(found)} {_seen(lengths, model)}",
            {"summary": pd.DataFrame(rows, columns=["what", "found"]), "instances": lengths},
            warnings=(found.caution,) if found.caution else (),
        )


def _lengths(model: Model, examples: Sequence[Example]) -> pd.DataFrame:
    """One row a text: how many of its tokens are read, and the share that is not."""
    return pd.DataFrame(
        {"example": read.example_id, "tokens": int(read.content.sum()), "unseen": read.unseen}
        for read in model.encode(examples)
    )


def _asked(found: ModelCheck) -> str:
    known = len(found.answered) + len(found.refused)
    if not found.refused:
        return f"All of {known} methods can be asked."
    said = "; ".join(f"{', '.join(methods)} ({why})" for why, methods in found.by_reason().items())
    return f"{len(found.answered)} of {known} methods can be asked, but not {said}."


def _seen(lengths: pd.DataFrame, model: Model) -> str:
    cut = lengths.loc[lengths["unseen"] > 0, "unseen"]
    if cut.empty:
        return f"All of {len(lengths):,} texts are read whole."
    return (
        f"{len(cut):,} of {len(lengths):,} texts are longer than the {model.max_length} tokens that it reads: "
        f"{percent(cut.mean())} of such a text is not seen on average, {percent(cut.max())} at most."
    )
