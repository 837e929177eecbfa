"""Which lessons does a teacher give? Every explanation that was asked for, of the largest training set, made once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from rashomon.data import Example
from rashomon.experiments.context import Context
from rashomon.experiments.lessons import (
    ATTENDED,
    CONTROLS,
    HUMAN,
    NONE,
    RANDOM,
    Course,
    Marks,
    all_scores,
    bits_a_text,
    human_words,
    random_words,
    taught_by_model,
    taught_by_people,
    top_words,
    trivial_words,
)
from rashomon.experiments.phrases import attended_pairs, human_pairs, random_pairs
from rashomon.experiments.students import Lesson
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Testimony, answerable, background
from rashomon.explainers import Explanations
from rashomon.models.tasks import SPAN, task_of
from rashomon.training.learning_from_marks import AttentionRegularisation

NO_METHODS = (*CONTROLS, HUMAN, ATTENDED)  # what no explainer is asked for
ALL_SCORES = ", all scores"  # behind a method's name: its scores are shown as they are


@dataclass(frozen=True)
class Curriculum:
    """What is to be taught, and by whom."""

    subject: Subject  # one seed
    teacher: Literal["model", "people"]
    split: str
    counts: Mapping[str, int]  # of texts by split
    shown: tuple[str, ...]
    full: tuple[str, ...] = ()
    percents: tuple[float, ...] = (10.0,)
    noise: tuple[float, ...] = ()


@dataclass(frozen=True)
class Taught:
    """A course with its lessons; where a model taught, what it said of the training texts."""

    course: Course
    lessons: tuple[Lesson, ...]
    testimony: Testimony | None
    notes: tuple[str, ...]

    def costs(self) -> pd.DataFrame:
        """What each lesson costs: seconds of computing, marks and bits for each text."""
        rows = [
            {
                "explanation": lesson.explanation,
                "percent": lesson.percent,
                "seconds": lesson.seconds,
                "marks": lesson.marks.a_text(),
                "bits": bits_a_text(lesson.marks, self.course.originals),
            }
            for lesson in self.lessons
            if lesson.marks is not None and lesson.dropped == 0
        ]
        return pd.DataFrame(rows, columns=["explanation", "percent", "seconds", "marks", "bits"])


def teach(context: Context, asked: Curriculum) -> Taught:
    """Ask the teacher for its labels and explanations, and mark the texts."""
    seed = asked.subject.seeds[0]
    data = context.data_of(asked.subject)
    testimony, notes = None, list(data.notes)
    if asked.teacher == "people":
        course = taught_by_people(data, asked.counts, seed)
    else:
        model = context.models(asked.subject)[0].model
        course = taught_by_model(context, model, data[asked.split], asked.counts, seed)
        methods = [name for name in (*asked.shown, *asked.full) if name not in NO_METHODS]
        known, left_out = answerable(methods, model)
        notes += left_out
        texts = course.originals
        behind = background(data, seed)
        explanations = context.explanations(model, texts, known, seed=seed, background=behind)
        testimony = Testimony(seed, model, texts, explanations, behind=behind)
    return Taught(course, tuple(_lessons(asked, course, testimony)), testimony, tuple(notes))


def _lessons(asked: Curriculum, course: Course, testimony: Testimony | None) -> list[Lesson]:
    lessons: list[Lesson] = []
    seed = asked.subject.seeds[0]
    explanations = Explanations() if testimony is None else testimony.explanations
    for name in (name for name in asked.shown if name in CONTROLS):
        if name == NONE:
            lessons.append(Lesson(NONE))
            continue
        lessons += [
            Lesson(name, _control(name, course.data["train"], share / 100, seed), share)
            for share in asked.percents
        ]
    for method in explanations.methods:
        own, seconds = explanations.by_method(method), explanations.seconds.get(method, float("nan"))
        lessons += [
            Lesson(method, top_words(own, method, share / 100), share, seconds=seconds)
            for share in asked.percents
        ]
        if method in asked.full:
            marks = all_scores(own, method)
            ways = (AttentionRegularisation.name,)
            lessons.append(Lesson(method + ALL_SCORES, marks, seconds=seconds, ways=ways))
    if testimony is not None and testimony.model is not None and ATTENDED in asked.shown:
        for share in asked.percents:
            pairs = attended_pairs(testimony.model, testimony.examples, share / 100)
            lessons.append(Lesson(ATTENDED, pairs, share))
    dropped = dict.fromkeys((*([0.0] if HUMAN in asked.shown else []), *asked.noise))
    of_people = human_pairs if task_of(course.data) is SPAN else human_words
    return [*lessons, *(Lesson(HUMAN, of_people(course.originals, p, seed), dropped=p) for p in dropped)]


def _control(name: str, examples: tuple[Example, ...], share: float, seed: int) -> Marks:
    if name != RANDOM:
        return trivial_words(examples, share)
    return (random_pairs if examples[0].answers else random_words)(examples, share, seed)
