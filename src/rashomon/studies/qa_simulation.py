"""What is an explanation of an answer worth? As much as it helps a student to answer as its teacher would.

The simulation of questions (paper *teacher-student*): students look for answers in passages, and explanations say which
phrases of the question and of the passage mean the same. Students use them as marks, or learn to attend from the one
phrase to the other. Teachers are people (QED) or a model that answers questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from rashomon.data import Dataset
from rashomon.errors import UserError
from rashomon.experiments.lessons import ATTENDED, HUMAN, NONE, RANDOM, TRIVIAL
from rashomon.experiments.simulation_figures import TOKEN_F1, Measured
from rashomon.experiments.simulation_tables import accuracy_table
from rashomon.experiments.students import ANSWERERS, ON_QUESTIONS, Student
from rashomon.experiments.testimony import Ask
from rashomon.models.base import Model
from rashomon.models.tasks import SPAN, task_of
from rashomon.studies.base import studies
from rashomon.studies.simulation import Simulation
from rashomon.training.learning_from_marks import AttentionRegularisation, LearningFromMarks


@studies.register("qa-simulation")
@dataclass(frozen=True)
class QaSimulation(Simulation):
    """How much better do students answer like the model when they are shown its explanations?"""

    name: ClassVar[str] = "qa-simulation"
    question: ClassVar[str] = (
        "How much do explanations help a student to answer questions as its teacher does?"
    )
    title: ClassVar[str] = "What is it worth to who must answer?"
    order: ClassVar[int] = 145
    measured: ClassVar[Measured] = TOKEN_F1
    ways: ClassVar[Mapping[str, type[LearningFromMarks]]] = ON_QUESTIONS
    no_methods: ClassVar[tuple[str, ...]] = (NONE, RANDOM, HUMAN, ATTENDED)
    apart: ClassVar[tuple[str, ...]] = ("learning", "explanation", "percent")

    explanations: tuple[str, ...] = (
        NONE,
        RANDOM,
        ATTENDED,
        "attention",
    )  # also human (equalities), any method
    students: tuple[str, ...] = ("minilm",)  # or any other that can be fine-tuned to answer
    learning: tuple[str, ...] = tuple(
        ON_QUESTIONS
    )  # alignment needs equalities; one has answers alone (none)
    sizes: tuple[int, ...] = (
        50,
        100,
    )  # how many questions they learn by; small sets are parts of larger ones
    dev_texts: int = 200  # at most so many questions choose epoch and weight
    test_texts: int = 500  # and so many try the students

    def __post_init__(self) -> None:
        super().__post_init__()
        if TRIVIAL in self.explanations:
            raise UserError("Trivial marks give a class away, and an answer is none; take random ones.")

    @classmethod
    def for_audit(cls, asked: Ask) -> QaSimulation:
        """One student, one way to learn, and as many questions as are explained anyway."""
        return cls(
            asked.subject,
            (NONE, RANDOM, *asked.methods),
            learning=(AttentionRegularisation.name,),
            sizes=(asked.instances,),
            weights=(1.0,),
            split=asked.split,
            instances=asked.instances,
        )

    def student(self, name: str) -> Student:
        return Student.of(name, self.training or ANSWERERS)

    def left_open(self) -> dict[str, object]:
        return {"training": ANSWERERS}

    def fits(self, model: Model, data: Dataset) -> str | None:
        if model.task is not SPAN:
            return "Students learn to answer questions, and this model does not look for answers."
        if ATTENDED in self.explanations and "layers" not in model.capabilities:
            return "The model does not tell what its words attend to, so it has no attended-words."
        return self.refusal(data)

    def refusal(self, data: Dataset) -> str | None:
        if task_of(data) is not SPAN:
            return f"Students learn to answer questions, and {data.name} has none; see simulation."
        if self.teacher == "people" and (self.methods or ATTENDED in self.explanations):
            return "People teach by none, random and human explanations; methods explain a model's answers."
        texts = data["train" if self.teacher == "people" else self.split]
        if (HUMAN in self.explanations or self.noise) and not any(text.equalities for text in texts):
            return f"Nobody said which phrases mean the same in the questions of {data.name}."
        return self.too_few(data)

    def summary(self, instances: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
        """Token F1 and exact match; the tests of each are Holm-adjusted over its own rows."""
        figures = [instances.assign(correct=instances[figure]) for figure in SPAN.figures]
        return pd.concat(
            [accuracy_table(one, chosen, name) for one, name in zip(figures, SPAN.figures, strict=True)],
            ignore_index=True,
        )


def simulation_for(model: Model, asked: Ask) -> Simulation:
    """What an audit asks of this model's explanations when it asks what they are worth."""
    kind = QaSimulation if model.task is SPAN else Simulation
    return kind.for_audit(asked)
