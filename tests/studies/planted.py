"""A tiny planted dataset, a model that learns it in a second, and a method that knows the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rashomon.data import Dataset, Example
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Testimony
from rashomon.explainers import Explanations
from rashomon.explainers.base import Explainer, Job, Scores
from rashomon.models.model_spec import ModelSpec
from rashomon.training.settings import TrainingSpec

OPINIONS = (("awful", "dull", "bad"), ("great", "witty", "good"), ("odd", "long", "cold"))
FILLERS = ("the", "film", "was", "a", "plot", "with", "people", "and", "movie", "one")
LABELS = ("bad", "good", "odd")

SMALL = ModelSpec(name="mlp", embedding_dim=12, hidden=12)
QUICK = TrainingSpec(epochs=6, batch_size=16, learning_rate=0.03, patience=None)


def planted(classes: int = 2, train: int = 96, held_out: int = 24, seed: int = 5) -> Dataset:
    """Texts of 5 to 12 words, one or two of which decide the label."""
    rng = np.random.default_rng(seed)
    splits = {
        name: tuple(_example(f"{name}-{i}", i % classes, rng) for i in range(size))
        for name, size in (("train", train), ("dev", held_out), ("test", held_out))
    }
    return Dataset("tiny", splits, LABELS[:classes])


def _example(key: str, label: int, rng: np.random.Generator) -> Example:
    length, count = int(rng.integers(5, 13)), int(rng.integers(1, 3))
    words = [str(word) for word in rng.choice(FILLERS, length)]
    marks = [0] * length
    for place in rng.choice(length, count, replace=False):
        words[place], marks[place] = str(rng.choice(OPINIONS[label])), 1
    return Example(key, " ".join(words), label, tokens=tuple(words), rationale=tuple(marks))


def subject_in(context: Context, data: Dataset | None = None, **changes: object) -> Subject:
    """A small model on planted data that the context already holds."""
    settings = {"model": SMALL, "training": QUICK, **changes}
    return Subject(context.adopt(data or planted()), **settings)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Oracle(Explainer):
    """Points at the opinion words."""

    name: ClassVar[str] = "oracle"

    def attribute(self, job: Job) -> list[Scores]:
        known = {word for words in OPINIONS for word in words}
        return [Scores(np.array([float(token in known) for token in e.tokens])) for e in job.encodings]


@dataclass(frozen=True, slots=True)
class Constant(Explainer):
    """Says the same of every token, and so nothing."""

    name: ClassVar[str] = "constant"
    signed: ClassVar[bool] = False

    def attribute(self, job: Job) -> list[Scores]:
        return [Scores(np.full(len(e), 0.25)) for e in job.encodings]


def sampled_later(context: Context, testimony: Testimony, methods: Sequence[str], shift: int) -> Explanations:
    """What methods say of the same model and texts under another sampling seed."""
    assert testimony.model is not None
    return context.explanations(
        testimony.model,
        testimony.examples,
        methods,
        seed=testimony.seed + shift,
        background=testimony.behind,
    )
