"""What is an explanation worth? As much as it helps a student to say what its teacher would say.

Students are trained on texts with the teacher's labels, some of them also on the words that an explanation marks, and
are then tried on texts of which they see no explanation (paper *teacher-student*). An explanation that says something
about the teacher makes them agree with it more often than labels alone; random marks, and marks that merely give the
label away, do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import pandas as pd

from rashomon.data import Dataset
from rashomon.data.rationales import has_rationale
from rashomon.errors import DoesNotFit, UserError, unknown_name
from rashomon.experiments.abilities import able_model
from rashomon.experiments.cautions import cautions_of
from rashomon.experiments.cheap_measures import cheap_measures, of_texts
from rashomon.experiments.context import Context
from rashomon.experiments.curriculum import NO_METHODS, Curriculum, Taught, teach
from rashomon.experiments.judging import LEVEL, Rating
from rashomon.experiments.lessons import CONTROLS, FEWEST, HUMAN, NONE, RANDOM, TRIVIAL
from rashomon.experiments.simulation_figures import ACCURACY, Measured, figures_of
from rashomon.experiments.simulation_tables import (
    accuracy_table,
    compared_rankings,
    gains_table,
    noise_table,
    price_table,
    rank_agreement,
    rank_correlations,
    rank_table,
    ranks_by_seed,
    ways_table,
)
from rashomon.experiments.students import STRATEGIES, Cell, Student, seconds_a_text, train_students
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask
from rashomon.explainers import make_explainer
from rashomon.measures.intervals import ENOUGH
from rashomon.models.base import Model
from rashomon.models.tasks import CLASSIFICATION, task_of
from rashomon.runs.executor import usual_workers
from rashomon.studies.base import Finding, Judgement, Study, studies
from rashomon.training.learning_from_marks import LearningFromMarks
from rashomon.training.settings import TrainingSpec
from rashomon.wording import duration, p_value, percent, with_interval

METHODS = (
    "attention",
    "integrated-gradients",
    "layer-conductance",
    "lime",
    "gradient-norm",
    "gradient-x-input",
    "deeplift",
)
ASPECT = "worth"
AUDITED = "mlp(hidden=64, embedding_dim=64, learning_rate=0.01)"  # an audit's student: quick, and it needs few texts


@studies.register("simulation")
@dataclass(frozen=True)
class Simulation(Study):
    """How much better do students simulate the model when they are shown its explanations?"""

    name: ClassVar[str] = "simulation"
    question: ClassVar[str] = "How much do explanations help a student to simulate the model?"
    title: ClassVar[str] = "What is it worth?"
    order: ClassVar[int] = 140
    on_request: ClassVar[bool] = True
    measured: ClassVar[Measured] = ACCURACY
    ways: ClassVar[Mapping[str, type[LearningFromMarks]]] = STRATEGIES  # to learn from marks
    no_methods: ClassVar[tuple[str, ...]] = (*CONTROLS, HUMAN)  # explanations that no explainer is asked for
    apart: ClassVar[tuple[str, ...]] = ("explanation", "percent")  # what gains are told apart by

    explanations: tuple[str, ...] = (*CONTROLS, *METHODS)  # none, random, trivial, human, and methods
    students: tuple[str, ...] = ("bilstm-attention",)  # also bilstm (no attention), mlp, minilm, any model
    learning: tuple[str, ...] = tuple(
        STRATEGIES
    )  # how students use marks; one always has labels alone (none)
    # how many texts they learn by, at most half of those that a model can teach; small sets are parts of larger ones
    sizes: tuple[int, ...] = (150, 300)
    seeds: tuple[int, ...] = (0, 1, 2)  # of the students
    percents: tuple[float, ...] = (10.0,)  # how many of 100 words an explanation marks
    noise: tuple[float, ...] = ()  # people's marks are dropped with these probabilities, too
    full: tuple[str, ...] = ()  # methods whose scores are also shown as they are, not as marks
    weights: tuple[float, ...] = (0.2, 1.0, 5.0)  # of the marks in the loss; one is chosen on dev
    teacher: Literal["model", "people"] = "model"  # whose labels: the subject's predictions, or the data's
    split: str = "test"  # of which texts a model teaches
    dev_texts: int = 500  # at most so many texts choose epoch and weight
    test_texts: int = 1000  # and so many try the students
    instances: int = 100  # texts for the measures that need no student; 0: none of these
    training: TrainingSpec | None = None  # how students are trained; None: what suits each

    def __post_init__(self) -> None:
        super().__post_init__()
        for explanation in (*self.explanations, *self.full):
            if explanation not in self.no_methods:
                make_explainer(explanation)
        for learning in self.learning:
            if learning not in (NONE, *self.ways):
                raise unknown_name("way to learn from marks", learning, self.ways)
        for student in self.students:
            self.student(student)
        for what, given in (
            ("explanation", self.explanations),
            ("student", self.students),
            ("size", self.sizes),
        ):
            if not given:
                raise UserError(f"A simulation needs at least one {what}.")
        if not (self.learning and self.seeds and self.weights):
            raise UserError("A simulation needs at least one way to learn, one seed and one weight.")
        if min(self.sizes) < 1 or min(self.weights) <= 0:
            raise UserError("Training sets have at least one text, and weights are above 0.")
        if not all(0 < share < 100 for share in self.percents) or not all(0 <= p <= 1 for p in self.noise):
            raise UserError("Percents lie between 0 and 100, and the probabilities of noise from 0 to 1.")

    @classmethod
    def for_audit(cls, asked: Ask) -> Simulation:
        """One small student, one way to learn, and three times as many texts as are explained anyway."""
        return cls(
            asked.subject,
            (NONE, RANDOM, TRIVIAL, *asked.methods),
            (AUDITED,),
            ("attention-regularisation",),
            sizes=(3 * asked.instances,),
            seeds=(0, 1, 2, 3, 4),
            weights=(1.0,),
            split=asked.split,
            instances=asked.instances,
        )

    def student(self, name: str) -> Student:
        """One of the students, and how it is trained."""
        return Student.of(name, self.training)

    def fits(self, model: Model, data: Dataset) -> str | None:
        if model.task is not CLASSIFICATION or "classes" not in model.capabilities:
            return "Students learn to choose a class, and this model does not choose between classes."
        return self.refusal(data)

    def check_fit(self, context: Context) -> None:
        """Where people teach, there is no model that would have to fit."""
        if self.teacher == "model":
            super().check_fit(context)
            return
        reason = self.refusal(context.data_of(self.subject))
        if reason is not None:
            raise DoesNotFit(reason)

    def about(self, finding: Finding) -> tuple[str, str]:
        model, data = super().about(finding)
        return "people" if self.teacher == "people" else model, data

    def refusal(self, data: Dataset) -> str | None:
        """Why nobody can learn by these data."""
        if task_of(data) is not CLASSIFICATION:
            return f"Students learn to choose a class, and {data.name} asks for answers; see qa-simulation."
        texts = data["train" if self.teacher == "people" else self.split]
        if (HUMAN in self.explanations or self.noise) and not any(map(has_rationale, texts)):
            return f"Nobody marked words in the texts of {data.name}."
        return self.too_few(data)

    def too_few(self, data: Dataset) -> str | None:
        """Why a model cannot teach by so few texts, in a sentence."""
        if self.teacher == "model" and len(data[self.split]) < 4 * FEWEST:
            few = f"{len(data[self.split]):,} texts of {data.name} are too few to learn by and to be tried on"
            return f"{few}: {4 * FEWEST} are the least."
        return None

    def needed_models(self) -> tuple[Subject, ...]:
        return () if self.teacher == "people" else (replace(self.subject, seeds=self.subject.seeds[:1]),)

    @property
    def methods(self) -> tuple[str, ...]:
        """The explanations that a teacher is asked for."""
        asked = (*self.explanations, *self.full)
        return tuple(dict.fromkeys(name for name in asked if name not in self.no_methods))

    def sizes_of(self, data: Dataset) -> tuple[int, ...]:
        """How many texts students learn by: as asked, as far as there are as many."""
        most = len(data["train"]) if self.teacher == "people" else len(data[self.split]) // 2
        return tuple(dict.fromkeys(min(size, most) for size in self.sizes))

    def cost(self, context: Context) -> str:
        """What it will take, in a sentence, before anything is done. A few steps of a student are timed."""
        data = context.dataset(self.subject.dataset)
        if not data.splits.get(self.split):  # an audit takes the largest then
            data = replace(data, splits={**data.splits, self.split: max(data.splits.values(), key=len)})
        reason = self.fits(able_model(context, self.base), data)
        if reason is not None:
            return f"There will be no simulation: {reason}"
        sizes, seconds, count = self.sizes_of(data), 0.0, 0
        shown = len(set(self.explanations) - {NONE}) * len(self.percents) + len(self.noise)
        for student in map(self.student, self.students):
            places = shown * len({*self.learning} - {NONE}) + len(self.full)
            runs = len(self.seeds) + places * (len(self.weights) + len(self.seeds) - 1)
            count += runs * len(sizes)
            each = seconds_a_text(student, data[self.split][:64])
            seconds += (
                runs * student.training.epochs * each * sum(size + self.dev_texts / 3 for size in sizes)
            )
        workers = min(count, usual_workers(context.workers))
        texts = f"explains {max(sizes):,} texts by {len(self.methods)} methods and " if self.methods else ""
        return (
            f"The simulation {texts}trains {count:,} students: at most about {duration(seconds / workers)} "
            f"of training with {workers} at a time."
        )

    def run(self, context: Context) -> Finding:
        self.check_fit(context)
        data = context.data_of(self.subject)
        sizes = self.sizes_of(data)
        taught = self.teach(context, max(sizes))
        cells, notes = self._cells(taught, sizes)
        if sizes != self.sizes:
            notes.append(
                f"There are texts for training sets of {', '.join(f'{size:,}' for size in sizes)} alone."
            )
        simulated = train_students(context, cells, self.weights, self.seeds)
        instances = simulated.instances
        measures = self._measures(context, taught)
        ranks = ranks_by_seed(instances)
        rankings = compared_rankings(ranks, measures)
        gains = gains_table(instances, self.apart)
        tables = {
            "summary": self.summary(instances, simulated.chosen),
            "gains": gains,
            "ways": ways_table(instances),
            "ranks": rank_table(ranks),
            "rank-agreement": rank_agreement(rankings),
            "rank-correlations": rank_correlations(rankings),
            "price": price_table(gains, taught.costs(), sizes),
            "noise": noise_table(instances),
            "measures": measures,
            "students": simulated.chosen,
            "instances": instances,
        }
        kept = {name: table for name, table in tables.items() if len(table)}
        return self.finding(
            _verdict(gains, len(self.seeds), self.measured.alone),
            kept,
            figures=figures_of(kept, ranks, self.measured),
            warnings=(*taught.notes, *notes, *self._limits(simulated.chosen)),
            cautions=() if taught.testimony is None else cautions_of(taught.testimony.explanations),
            judgements=judgements(gains, self.measured.called),
        )

    def summary(self, instances: pd.DataFrame, chosen: pd.DataFrame) -> pd.DataFrame:
        """How well students do at every place of the design."""
        return accuracy_table(instances, chosen)

    def teach(self, context: Context, largest: int) -> Taught:
        """The lessons of the teacher, of the largest training set."""
        return teach(context, self._curriculum(largest))

    def _curriculum(self, largest: int) -> Curriculum:
        return Curriculum(
            subject=replace(self.subject, seeds=self.subject.seeds[:1]),
            teacher=self.teacher,
            split=self.split,
            counts={"train": largest, "dev": self.dev_texts, "test": self.test_texts},
            shown=tuple(dict.fromkeys((NONE, *self.explanations))),
            full=self.full,
            percents=self.percents,
            noise=self.noise,
        )

    def _cells(self, taught: Taught, sizes: tuple[int, ...]) -> tuple[list[Cell], list[str]]:
        """Every student with every lesson in every way it can be learned, and a word for each way it cannot."""
        data = {size: taught.course.of_size(size) for size in sizes}
        cells, notes = [], []
        for student in map(self.student, self.students):
            asked = [way for way in self.learning if way != NONE]
            ways = student.ways(asked, data[min(sizes)])
            if len(ways) < len(asked):
                notes.append(
                    f"The attention of {student.name} cannot be pulled at, so it learns in other ways alone."
                )
            for lesson in taught.lessons:
                for size, of_size in data.items():
                    known = [NONE] if lesson.marks is None else [*filter(lesson.can_be_learned, ways)]
                    cells += [Cell(student, way, lesson, of_size, size) for way in known]
        return cells, notes

    def _measures(self, context: Context, taught: Taught) -> pd.DataFrame:
        nothing = pd.DataFrame(columns=["measure", "explanation", "n", "mean", "rank"])
        testimony = taught.testimony
        if testimony is None or self.instances < 1:
            return nothing
        assert testimony.model is not None
        texts = taught.course.originals[: self.instances]
        some = of_texts(testimony, texts)
        controls = [name for name in (RANDOM, TRIVIAL) if name in self.explanations]
        if controls:
            some = replace(
                some, explanations=some.explanations + context.explanations(testimony.model, texts, controls)
            )
        return cheap_measures(some, self.percents[0] / 100)

    def _limits(self, chosen: pd.DataFrame) -> list[str]:
        """What the figures do not say."""
        last = chosen["epoch"] == chosen["student"].map(lambda name: self.student(name).training.epochs)
        cut = f"{percent(float(last.mean()))} of the students were at their best in their last epoch: longer training"
        said = [f"{cut} may change the figures."] if last.mean() > 0.25 else []
        if len(self.seeds) < ENOUGH:
            said.append(f"Under {ENOUGH} seeds the luck of a training cannot be told from an effect.")
        return said


def judgements(gains: pd.DataFrame, called: str = ACCURACY.called) -> tuple[Judgement, ...]:
    """Whether a method helps students, by the test over seeds and texts."""
    judged = []
    for row in _records(gains):
        if row["explanation"] in NO_METHODS or not row["percent"]:
            continue
        rating, words = _ruling(row)
        number = f"{points(row)} points of {called}"
        judged.append(Judgement(str(row["explanation"]), ASPECT, rating, words, number))
    return tuple({judgement.method: judgement for judgement in reversed(judged)}.values())[::-1]


def _ruling(row: dict[str, Any]) -> tuple[Rating, str]:
    if row["seeds"] < ENOUGH or row["p_holm"] != row["p_holm"]:
        return "unknown", "was tried with too few students to tell what it is worth to them"
    if row["p_holm"] >= LEVEL:
        return "unknown", "was not shown to help students to simulate the model"
    if row["difference"] > 0:
        return "good", "helps students to simulate the model"
    return "poor", "makes students simulate the model worse"


def _verdict(gains: pd.DataFrame, seeds: int, alone: str) -> str:
    rows = _records(gains.sort_values("difference", ascending=False))
    if not rows:
        return f"Nothing was compared with {alone}."
    everywhere = max(row["places"] for row in rows)  # what few students saw is not set against the others
    best = next(row for row in rows if row["places"] == everywhere)
    figures = f"the best is {_called(best)}: {points(best)} points over {alone}"
    if seeds < ENOUGH:
        return f"Under {ENOUGH} seeds nobody can tell luck from help; {figures}."
    figures += f" ({p_value(best['p_holm'])})"
    helping = [row for row in rows if row["p_holm"] < LEVEL and row["difference"] > 0]
    if not helping:
        return f"No explanation was shown to help students to simulate the teacher; {figures}."
    names = ", ".join(_called(row) for row in helping)
    said = f"{len(helping)} of {len(rows)} explanations help students to simulate the teacher ({names}); {figures}."
    if not {RANDOM, TRIVIAL}.isdisjoint(row["explanation"] for row in helping):
        said += " Marks that say nothing help, too, so part of the gain is not what the explanations say."
    return said


def _called(row: dict[str, Any]) -> str:
    """``human by multitask``, ``lime (10 %)``."""
    by = f" by {row['learning']}" if "learning" in row else ""
    return str(row["explanation"]) + by + (f" ({row['percent']:g} %)" if row["percent"] else "")


def points(row: dict[str, Any]) -> str:
    """A difference with its interval, in per cent of the texts."""
    ends = {"mean": row["difference"], "low": row["difference_low"], "high": row["difference_high"]}
    return with_interval(
        {name: 100 * value for name, value in ends.items()} | {"interval": row["interval"]}, 1
    )


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]
