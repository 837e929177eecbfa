"""Can an explainer learn to teach? Weights over methods, learned with one kind of student and tried with others.

Of a transformer every head of attention can be a method (``heads``): what the predicting position receives in it.

The weights are learned on the students' training and dev texts (`experiments.teaching`), kept as the explainer
``taught``, and then tried like every other explanation: students of other kinds are trained from nothing by its marks,
by those of each method that went into it and by those of their plain mean, and are tried on texts that nobody learned
by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from rashomon.data import Dataset
from rashomon.errors import DoesNotFit, UserError
from rashomon.experiments.context import Context
from rashomon.experiments.curriculum import Taught
from rashomon.experiments.judging import LEVEL
from rashomon.experiments.lessons import CONTROLS, HUMAN, NONE, RANDOM, TRIVIAL, top_words
from rashomon.experiments.simulation_tables import against_table
from rashomon.experiments.students import Lesson
from rashomon.experiments.teaching import Teaching, learn_to_teach
from rashomon.experiments.testimony import answerable
from rashomon.explainers import Explainer, Explanations, make_explainer
from rashomon.explainers.attention import Attention, heads_of
from rashomon.explainers.taught import read_weights, write_weights
from rashomon.measures.intervals import ENOUGH
from rashomon.models.base import Model
from rashomon.runs.specifications import to_plain
from rashomon.studies.base import Finding, studies
from rashomon.studies.simulation import AUDITED, Simulation, points
from rashomon.training.learning_from_marks import AttentionRegularisation
from rashomon.wording import decimal, p_value

TAUGHT, MEAN = "taught", "plain mean"
HEADS = "heads"  # among the explanations: every head of every layer
KIND = "explainers"
# Of ten trials with a head that reads the planted words and 20 to 26 dev texts, one gave it most of the weight; with 50
# all did.
FEWEST_DEV_TEXTS = 40


@studies.register("learning-to-teach")
@dataclass(frozen=True)
class LearningToTeach(Simulation):
    """Do students learn more by methods that are weighted so that students learn by them?"""

    name: ClassVar[str] = "learning-to-teach"
    question: ClassVar[str] = "Can an explainer that learns to teach beat the methods that it is made of?"
    title: ClassVar[str] = "Learning to teach"
    order: ClassVar[int] = 150
    no_methods: ClassVar[tuple[str, ...]] = (*CONTROLS, HUMAN, HEADS)

    # what it is made of (all but none and human), each also tried alone; heads: every head of a transformer
    explanations: tuple[str, ...] = (NONE, RANDOM, TRIVIAL, "attention", "gradient-x-input", "leave-one-out")
    students: tuple[str, ...] = (AUDITED,)  # who try it: of other kinds than the learner
    learning: tuple[str, ...] = (AttentionRegularisation.name,)
    learner: str = "bilstm-attention(hidden=32, embedding_dim=32)"  # the student by whom it learns
    learners: int = 3  # so many of them, one after the other
    learner_epochs: int = 5  # of each

    def __post_init__(self) -> None:
        super().__post_init__()
        kinds = {self.student(name).spec.name for name in self.students}
        if self.student(self.learner).spec.name in kinds:
            raise UserError("Students who try it must be of other kinds than the learner.")
        enough = HEADS in self.ingredients or len(self.ingredients) > 1
        if not enough or min(self.learners, self.learner_epochs) < 1:
            raise UserError(
                "An explainer learns to teach by two methods, one learner and one epoch at least."
            )

    @property
    def ingredients(self) -> tuple[str, ...]:
        """What it is made of; random and trivial marks are methods, too."""
        return tuple(dict.fromkeys(name for name in self.explanations if name not in (NONE, HUMAN)))

    def refusal(self, data: Dataset) -> str | None:
        if self.teacher == "people":
            return "Methods explain a model; what people say is not weighted."
        return super().refusal(data)

    def fits(self, model: Model, data: Dataset) -> str | None:
        if HEADS in self.explanations and (reason := Attention(layer=0).refusal(model)):
            return f"There are no heads to be weighted: {reason}."
        if reason := super().fits(model, data):
            return reason
        known, left_out = answerable(self.with_heads(model, data).ingredients, model)
        if len(known) < 2:
            return f"Fewer than two methods can explain this model: {'; '.join(left_out)}."
        return None

    def with_heads(self, model: Model, data: Dataset) -> LearningToTeach:
        """The same with every head of the model in the place of ``heads``."""
        if HEADS not in self.explanations:
            return self
        heads = heads_of(model, data[self.split][0])
        named = [heads if name == HEADS else (name,) for name in self.explanations]
        return replace(self, explanations=tuple(dict.fromkeys(chain.from_iterable(named))))

    def teach(self, context: Context, largest: int) -> Taught:
        """The lessons of all methods, and those of their learned and of their plain mean."""
        model = context.models(replace(self.subject, seeds=self.subject.seeds[:1]))[0].model
        named = self.with_heads(model, context.data_of(self.subject))
        taught = super(LearningToTeach, named).teach(context, largest)
        folder, methods = named._kept(context, taught)
        equal = (1 / len(methods),) * len(methods)
        tried = {
            TAUGHT: make_explainer(TAUGHT, path=str(folder)),
            MEAN: make_explainer(TAUGHT, methods=tuple(methods), weights=equal),
        }
        lessons = list(taught.lessons)
        for name, explainer in tried.items():
            explanations = _heard(context, taught, [explainer])
            for share in self.percents:
                marks = top_words(explanations, explainer.label, share / 100)
                lessons.append(Lesson(name, marks, share, seconds=explanations.seconds[explainer.label]))
        weights = read_weights(folder)
        heard = ", ".join(f"{method} {decimal(weight)}" for method, weight in weights.items())
        notes = [f"What was learned ({heard}) is kept: {tried[TAUGHT].label}."]
        judged_by = len(taught.course.data["dev"])
        if judged_by < FEWEST_DEV_TEXTS:
            notes.append(
                f"Weights that {judged_by} dev texts judge are much a matter of luck: give more texts."
            )
        return replace(taught, lessons=tuple(lessons), notes=(*taught.notes, *notes))

    def run(self, context: Context) -> Finding:
        finding = super().run(context)
        gains = finding.tables["gains"].set_index("explanation")["difference"]
        parts = [name for name in gains.index if name not in (TAUGHT, MEAN, HUMAN)]
        best = str(gains[parts].idxmax())
        against = against_table(finding.tables["instances"], TAUGHT, (best, MEAN))
        return replace(
            finding,
            verdict=_verdict(against.to_dict("records"), best, len(self.seeds)),
            tables={**finding.tables, "against": against},
            judgements=(),
        )

    def _kept(self, context: Context, taught: Taught) -> tuple[Path, list[str]]:
        """The folder of what is learned, and what it was learned from."""
        testimony = taught.testimony
        assert testimony is not None
        assert testimony.model is not None
        methods, _ = answerable(self.ingredients, testimony.model)
        student = self.student(self.learner)
        if not student.ways([AttentionRegularisation.name], taught.course.data):
            raise DoesNotFit(
                f"The attention of {student.name} cannot be pulled at, so nothing is learned by it."
            )
        asked = Teaching(student, self.learners, self.learner_epochs, seed=testimony.seed)
        specification = {
            "model": testimony.model.fingerprint(),
            "course": taught.course.data.fingerprint,
            "methods": methods,
            "teaching": to_plain(asked),
        }
        about = {"model": testimony.model.fingerprint(), "learner": self.learner}
        make = partial(_learn, context, taught, methods, asked, about)
        return context.store.run(specification, KIND, make), methods


def _heard(context: Context, taught: Taught, methods: Sequence[str | Explainer]) -> Explanations:
    """What methods say of the texts that students learn by."""
    testimony = taught.testimony
    assert testimony is not None
    assert testimony.model is not None
    return context.explanations(
        testimony.model, testimony.examples, methods, seed=testimony.seed, background=testimony.behind
    )


def _learn(
    context: Context, taught: Taught, methods: list[str], asked: Teaching, about: dict[str, Any], folder: Path
) -> None:
    write_weights(learn_to_teach(taught.course, _heard(context, taught, methods), asked), about, folder)


def _verdict(rows: list[dict[Any, Any]], best: str, seeds: int) -> str:
    said = {
        row["other"]: f"{points(row)} points over {name} ({p_value(row['p_holm'])})"
        for row, name in zip(rows, (f"the best of its methods, {best},", "their plain mean"), strict=True)
    }
    figures = " and ".join(said.values())
    if seeds < ENOUGH:
        return f"Under {ENOUGH} seeds nobody can tell luck from help; what was learned is {figures}."
    won = [row["difference"] > 0 and row["p_holm"] < LEVEL for row in rows]
    ruling = "beats" if all(won) else "beats one of" if any(won) else "was not shown to beat"
    return f"What was learned {ruling} its best method and their plain mean: {figures}."
