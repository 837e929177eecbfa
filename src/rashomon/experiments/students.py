"""Students of a teacher, trained side by side through the store: with marks, with others, and without any.

A student is a ``TrainingRun`` like any other. Its training rows carry the marks, its other rows do not. One that learns
without marks is the same whatever the explanation and the way of learning, and is trained once. The weight of the marks
is chosen on dev by the first seed; the other seeds take it over.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from rashomon.data import Dataset, Example
from rashomon.data.batches import Rows
from rashomon.errors import unknown_name
from rashomon.experiments.context import Context
from rashomon.experiments.lessons import NONE, Marks
from rashomon.models.base import Model
from rashomon.models.build import build_model, is_pretrained
from rashomon.models.evaluator import rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.models.tasks import task_of
from rashomon.runs.by_name import name_and_settings
from rashomon.runs.files import read_parquet
from rashomon.runs.specifications import Plain, from_plain, to_plain
from rashomon.training.alignment import EQUALITIES, AttentionAlignment
from rashomon.training.callbacks import CORRECT, CorrectAnswers
from rashomon.training.learning_from_marks import MARKS, AttentionRegularisation, LearningFromMarks, Multitask
from rashomon.training.loop import fit
from rashomon.training.objectives import CrossEntropy, Objective
from rashomon.training.run import NewModel, TrainingRun, read_history
from rashomon.training.settings import ANSWERING, FINE_TUNING, TrainingSpec

KIND = "students"
STRATEGIES: dict[str, type[LearningFromMarks]] = {
    one.name: one for one in (AttentionRegularisation, Multitask)
}
ON_QUESTIONS: dict[str, type[LearningFromMarks]] = {**STRATEGIES, AttentionAlignment.name: AttentionAlignment}
# What a model must tell for a student to learn in some way.
NEEDS = {AttentionRegularisation.name: "attention", AttentionAlignment.name: "layers"}
# A BiLSTM whose attention is uniform takes the mean of its states: the paper's BiLSTM without attention.
ALIASES = {"bilstm": {"weights": "uniform"}, "bilstm-attention": {"name": "bilstm"}}
FROM_NOTHING = TrainingSpec(epochs=20, batch_size=16, learning_rate=2.5e-3, patience=5, select="accuracy")
PRETRAINED = replace(FINE_TUNING, epochs=5, batch_size=16)
ANSWERERS = replace(ANSWERING, epochs=8)  # students have few questions, and a head for answers much to learn


@dataclass(frozen=True)
class Student:
    """One kind of student: what it is, and how it learns."""

    name: str
    spec: ModelSpec
    training: TrainingSpec

    @classmethod
    def of(cls, text: str, training: TrainingSpec | None = None) -> Student:
        """By name, with settings of the model and of its training behind it: ``bilstm(hidden=64, batch_size=8)``."""
        name, settings = name_and_settings(text)
        for_model = {field.name for field in fields(ModelSpec)}
        for_training = {field.name for field in fields(TrainingSpec)}
        unknown = sorted({*settings} - for_model - for_training)
        if unknown:
            raise unknown_name("setting of a student", unknown[0], for_model | for_training)
        asked = {"name": name, **ALIASES.get(name, {})}
        asked |= {key: value for key, value in settings.items() if key in for_model}
        spec = from_plain(ModelSpec, asked)
        usual = training or (PRETRAINED if is_pretrained(spec.name) else FROM_NOTHING)
        how = {key: value for key, value in settings.items() if key in for_training}
        return cls(text, spec, from_plain(TrainingSpec, {**to_plain(usual), **how}))

    def ways(self, asked: Sequence[str], data: Dataset) -> list[str]:
        """The ways to learn that are open to it: some need an attention that can be pulled at."""
        if NEEDS.keys().isdisjoint(asked):
            return list(asked)
        has = build_model(self.spec.without_vectors(), data, 0).capabilities
        can = frozenset() if self.spec.weights == "uniform" else has
        return [way for way in asked if way not in NEEDS or NEEDS[way] in can]


@dataclass(frozen=True)
class StudentRows:
    """The texts of a course with the teacher's labels; beside the training texts their marks, beside no others."""

    data: Dataset
    spec: ModelSpec
    marks: Marks | None = None

    def key(self) -> Plain:
        marks = None if self.marks is None else self.marks.digest(self.data["train"])
        return {"dataset": self.data.fingerprint, "marks": marks}

    def rows(self, model: Model, split: str) -> Rows:
        rows = self._encoded(model, split)
        if split != "train" or self.marks is None:
            return rows
        assert rows.source is not None
        encodings, width = [encoding for _, encoding in rows.source], rows.whole.ids.shape[1]
        marked = rows.with_extras((MARKS,), marks=self.marks.onto(encodings, width))
        if not self.marks.equalities:
            return marked
        return marked.with_extras((EQUALITIES,), equalities=self.marks.pairs_onto(encodings, width))

    def splits(self) -> Sequence[str]:
        return ()  # of the test texts each answer is kept, which tells how many are right

    def _encoded(self, model: Model, split: str) -> Rows:
        """Students that cut the same texts into the same tokens share their tensors."""
        key = (self.data.fingerprint, self.spec, split)
        if key not in _shared:
            while len(_shared) >= MOST_SHARED:
                del _shared[next(iter(_shared))]
            _shared[key] = rows_of(model, self.data[split])
        return _shared[key]


MOST_SHARED = 12  # splits of courses, in one worker
_shared: dict[tuple[str, ModelSpec, str], Rows] = {}


@dataclass(frozen=True)
class Lesson:
    """One explanation as it is shown to students; without marks there is nothing but labels."""

    explanation: str  # none, random, trivial, human, or a method
    marks: Marks | None = None
    percent: float = 0.0  # of a text's words that are marked; 0 where nobody said how many
    dropped: float = 0.0  # with which probability each mark was dropped
    seconds: float = 0.0  # that it took to explain one text
    ways: tuple[str, ...] = tuple(STRATEGIES)  # in which its marks can be learned from

    def can_be_learned(self, way: str) -> bool:
        """Only equalities can be aligned."""
        if way == AttentionAlignment.name:
            return self.marks is not None and bool(self.marks.equalities)
        return way in self.ways

    @property
    def teaches(self) -> bool:
        """Whether any text that it explains has a mark."""
        return self.marks is not None and any(self.marks.spans.values())


@dataclass(frozen=True)
class Cell:
    """One place of the design: who learns, how, from what, by how many texts."""

    student: Student
    learning: str  # a strategy, or none
    lesson: Lesson
    data: Dataset
    size: int

    @property
    def keys(self) -> dict[str, Any]:
        return {
            "student": self.student.name,
            "learning": self.learning,
            "explanation": self.lesson.explanation,
            "percent": self.lesson.percent,
            "dropped": self.lesson.dropped,
            "size": self.size,
        }

    def run(self, weight: float, seed: int) -> TrainingRun:
        spec, marks = self.student.spec, self.lesson.marks
        objective: Objective = CrossEntropy()
        if self.learning == NONE or not self.lesson.teaches:
            marks = None  # where nothing is marked there is nothing to learn but the labels
        else:
            objective = ON_QUESTIONS[self.learning](weight=weight)
        return TrainingRun(
            NewModel(spec, self.data),
            StudentRows(self.data, spec, marks),
            self.student.training,
            seed,
            objective,
            (CorrectAnswers(),),
            title=f"a {spec.name} student",
            keeps_weights=False,
        )


@dataclass(frozen=True)
class Simulated:
    """What became of all students."""

    # a row for each test text of each student: correct is 1 where it says what its teacher says; of answers, their F1
    instances: pd.DataFrame
    chosen: (
        pd.DataFrame
    )  # a row a place of the design: which weight was chosen on dev, and how long students learned
    runs: tuple[Path, ...]  # in the store; students that are identical are one


def train_students(
    context: Context, cells: Sequence[Cell], weights: Sequence[float], seeds: Sequence[int]
) -> Simulated:
    """Every place of the design under every seed. What is not in the store is trained side by side."""
    tried = [
        (cell, weight) for cell in cells for weight in (weights if cell.learning != NONE else weights[:1])
    ]
    folders = context.train_runs([cell.run(weight, seeds[0]) for cell, weight in tried], KIND)
    best: dict[int, tuple[tuple[float, float], float]] = {}
    for (cell, weight), folder in zip(tried, folders, strict=True):
        record = read_history(folder)[0].best_record
        merit = record[task_of(cell.data).figures[0]], -record["loss"]
        if id(cell) not in best or merit > best[id(cell)][0]:
            best[id(cell)] = merit, weight
    planned = [(cell, best[id(cell)][1], seed) for cell in cells for seed in seeds]
    kept = context.train_runs([cell.run(weight, seed) for cell, weight, seed in planned], KIND)
    parts, chosen = [], []
    for (cell, weight, seed), folder in zip(planned, kept, strict=True):
        history, _ = read_history(folder)
        figure = task_of(cell.data).figures[0]
        answers = read_parquet(folder / CORRECT)
        correct = answers["correct" if "correct" in answers else figure]
        parts.append(answers.assign(correct=correct, seed=seed, **cell.keys))
        chosen.append(
            cell.keys
            | {"seed": seed, "weight": weight if cell.learning != NONE else float("nan")}
            | {"epoch": history.best, "epochs": len(history.records)}
            | {"dev": history.best_record[figure], figure: float(correct.mean())}
        )
    return Simulated(pd.concat(parts, ignore_index=True), pd.DataFrame(chosen), tuple({*folders, *kept}))


def seconds_a_text(student: Student, texts: Sequence[Example]) -> float:
    """How long a student takes to learn from one text once: an epoch of some texts, timed after one to warm up."""
    answers = all(text.answers for text in texts)
    sample = tuple(text if answers else replace(text, label=place % 2) for place, text in enumerate(texts))
    labels = () if answers else ("no", "yes")
    data = Dataset("sample", {"train": sample, "dev": sample[:1]}, labels)
    model = build_model(student.spec.without_vectors(), data, 0)
    rows, held_out = rows_of(model, sample), rows_of(model, sample[:1])
    for _ in range(2):
        started = time.monotonic()
        fit(model, rows, held_out, CrossEntropy(), replace(student.training, epochs=1), seed=0)
    return (time.monotonic() - started) / len(sample)
