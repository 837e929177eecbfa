"""Students of a teacher against the straightforward loop, side by side in one run.

Ours: explanations of the largest training set are computed once, students that are identical are trained once (those
without marks, across explainers and strategies), batches are padded to their own longest text, students train as
processes with one thread each, every epoch checkpointed. The straightforward loop: for every explainer, size, strategy
and seed a student with marks and one without, one after the other with all threads, explanations computed again for
each size, batches padded to the longest text of all, nothing kept. Both draw the same batches from the same seeds, so
that their accuracies can be compared.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from rashomon.data import load_dataset
from rashomon.data.batches import Batch, Rows
from rashomon.experiments.context import Context
from rashomon.experiments.lessons import NONE, Course, taught_by_model, top_words
from rashomon.experiments.students import STRATEGIES, Cell, Lesson, Student, train_students
from rashomon.experiments.subject import Subject
from rashomon.explainers import explain
from rashomon.models.base import Model
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.store import Store
from rashomon.training.run import RowSource, TrainingRun
from rashomon.training.settings import TrainingSpec

METHODS = ("attention", "gradient-norm", "gradient-x-input", "integrated-gradients", "deeplift", "lime")
SHARE = 0.1
Accuracies = dict[tuple[str, str, int, int], float]  # explanation, strategy, size and seed


class PaddedToAll(Rows):
    """Batches as wide as the longest text of the split."""

    def batch(self, index: Tensor) -> Batch:
        return self.whole.rows(index)


@dataclass(frozen=True)
class PaddedSource:
    """The rows of another source, padded to the longest."""

    source: RowSource

    def key(self) -> None:
        return None

    def rows(self, model: Model, split: str) -> Rows:
        rows = self.source.rows(model, split)
        return PaddedToAll(rows.whole, tuple(rows.per_token), rows.source)

    def splits(self) -> tuple[str, ...]:
        return ("test",)


def alone(run: TrainingRun) -> float:
    plain = replace(run, source=PaddedSource(run.source), callbacks=())
    return plain.train().scores["test"]["accuracy"]


def straightforward(
    model: Model, course: Course, student: Student, methods: list[str], sizes: list[int], seeds: list[int]
) -> Accuracies:
    found: Accuracies = {}
    for method in methods:
        for size in sizes:
            data = course.of_size(size)
            marks = top_words(explain(model, course.originals[:size], [method]), method, SHARE)
            for strategy in STRATEGIES:
                for seed in seeds:
                    with_marks = Cell(student, strategy, Lesson(method, marks, 100 * SHARE), data, size)
                    without = Cell(student, NONE, Lesson(NONE), data, size)
                    found[method, strategy, size, seed] = alone(with_marks.run(1.0, seed))
                    found[NONE, NONE, size, seed] = alone(without.run(1.0, seed))
    return found


def ours(
    context: Context,
    model: Model,
    course: Course,
    student: Student,
    methods: list[str],
    sizes: list[int],
    seeds: list[int],
) -> Accuracies:
    explanations = context.explanations(model, course.originals, methods)
    lessons = [
        Lesson(m, top_words(explanations.by_method(m), m, SHARE), 100 * SHARE) for m in explanations.methods
    ]
    cells = []
    for size in sizes:
        data = course.of_size(size)
        cells.append(Cell(student, NONE, Lesson(NONE), data, size))
        cells += [
            Cell(student, strategy, lesson, data, size) for lesson in lessons for strategy in STRATEGIES
        ]
    rows = train_students(context, cells, (1.0,), seeds).chosen.to_dict("records")
    return {(r["explanation"], r["learning"], r["size"], r["seed"]): r["accuracy"] for r in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="planted-reviews", help="yelp_hat with $RASHOMON_DATA")
    parser.add_argument(
        "--student", default="bilstm-attention(hidden=64, embedding_dim=64, epochs=4, patience=null)"
    )
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--sizes", nargs="+", type=int, default=[50, 100, 200])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=None)
    options = parser.parse_args()
    sizes, seeds = options.sizes, list(range(options.seeds))
    student = Student.of(options.student)
    with tempfile.TemporaryDirectory() as folder:
        context = Context(Store(Path(folder)), workers=options.workers)
        subject = Subject(
            context.adopt(load_dataset(options.dataset)), ModelSpec(hidden=64), TrainingSpec(epochs=3)
        )
        model = context.models(subject)[0].model
        texts = context.dataset(subject.dataset)["test"]
        course = taught_by_model(
            context, model, texts, {"train": max(sizes), "dev": 100, "test": 200}, seed=0
        )
        # Workers take seconds to import torch, once for everything a study does: not part of the comparison.
        train_students(
            context, [Cell(student, NONE, Lesson(NONE), course.of_size(20), 20)], (1.0,), range(90, 94)
        )
        start = time.perf_counter()
        first = ours(context, model, course, student, list(options.methods), sizes, seeds)
        fast = time.perf_counter() - start
        start = time.perf_counter()
        second = straightforward(model, course, student, list(options.methods), sizes, seeds)
        slow = time.perf_counter() - start
    apart = max(abs(first[key] - second[key]) for key in second)
    print(
        f"{options.dataset}: {len(options.methods)} explainers, sizes {sizes}, {len(seeds)} seeds, {len(STRATEGIES)} "
        f"strategies, {torch.get_num_threads()} threads: ours {fast:.1f} s for {len(first)} students, straightforward "
        f"{slow:.1f} s, {slow / fast:.2f}x; largest difference of accuracies {apart:.4f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
