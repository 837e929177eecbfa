"""Could students with a hopeless weight of the marks be stopped early? Rules are tried on whole trainings.

Students learn planted words with every weight to the end; the weight whose student is best on dev is the choice. Each
rule then goes over what was recorded: the middle weight is trained to the end, and the others stop where the rule says
that they are behind it. Printed is how many epochs that saves, how often another weight is chosen, and what that costs.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial

from rashomon.data import load_dataset
from rashomon.experiments.lessons import human_words, random_words, taught_by_people, trivial_words
from rashomon.experiments.students import STRATEGIES, Cell, Lesson, Student
from rashomon.training.loop import History

WEIGHTS, FIRST = (0.2, 1.0, 5.0), 1.0
STUDENTS = (
    "mlp(hidden=32, embedding_dim=32, learning_rate=0.01)",
    "bilstm-attention(hidden=16, embedding_dim=32)",
)
DATASETS = ("planted-reviews", "mock-5")
TEXTS = {"train": 150, "dev": 200, "test": 50}
MARGINS = (0.02, 0.05, 0.1, 0.2)
LOOKS = 3  # so many epochs are always trained
Tried = dict[float, History]  # of one place of the design, by weight
Rule = Callable[[list[float], list[float]], bool]  # dev accuracies so far, and all of the first weight


def places(name: str, seeds: int) -> Iterator[tuple[Cell, int]]:
    data = load_dataset(name, train_size=400, dev_size=TEXTS["dev"], test_size=TEXTS["test"])
    course = taught_by_people(data, TEXTS, seed=0)
    train = course.data["train"]
    lessons = [
        Lesson("random", random_words(train, 0.1, 0), 10.0),
        Lesson("trivial", trivial_words(train, 0.1), 10.0),
        *(Lesson("human", human_words(course.originals, p), dropped=p) for p in (0.0, 0.5)),
    ]
    for student in map(Student.of, STUDENTS):
        for seed in range(seeds):
            for lesson in lessons:
                for way in STRATEGIES:
                    yield Cell(student, way, lesson, course.data, len(train)), seed


def behind_at_the_same_epoch(margin: float, so_far: list[float], first: list[float]) -> bool:
    return max(so_far) < max(first[: len(so_far)]) - margin


def behind_the_best(margin: float, so_far: list[float], first: list[float]) -> bool:
    return max(so_far) < max(first) - margin


def behind_the_best_and_slow(margin: float, so_far: list[float], first: list[float]) -> bool:
    """And three epochs without a gain, where a student may usually have five."""
    return behind_the_best(margin, so_far, first) and len(so_far) - so_far.index(max(so_far)) > 3


def accuracies(history: History) -> list[float]:
    return [record["accuracy"] for record in history.records]


def choice(tried: Tried) -> float:
    """As the study chooses."""
    merits = {w: (h.best_record["accuracy"], -h.best_record["loss"]) for w, h in tried.items()}
    return max(merits, key=lambda weight: merits[weight])


def stops_after(history: History, first: list[float], rule: Rule) -> int:
    """After how many epochs the rule stops a training; all of them where it does not."""
    all_of_it = accuracies(history)
    epochs = range(LOOKS, len(all_of_it))
    return next((epoch for epoch in epochs if rule(all_of_it[:epoch], first)), len(all_of_it))


def outcome(design: list[Tried], rule: Rule) -> str:
    whole = trained = changed = 0
    lost = 0.0
    for tried in design:
        first = accuracies(tried[FIRST])
        ends = {w: len(first) if w == FIRST else stops_after(h, first, rule) for w, h in tried.items()}
        left = {w: h for w, h in tried.items() if ends[w] == len(h.records)}
        whole += sum(len(history.records) for history in tried.values())
        trained += sum(ends.values())
        wanted, found = (tried[choice(some)].best_record["accuracy"] for some in (tried, left))
        changed += choice(tried) != choice(left)
        lost += wanted - found
    cost = 100 * lost / max(1, changed)
    return (
        f"{1 - trained / whole:6.1%} of the epochs saved, another weight in {changed} of {len(design)}, "
        f"{cost:.1f} points of dev accuracy lost there"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    design = [
        {weight: cell.run(weight, seed).train().history for weight in WEIGHTS}
        for name in options.datasets
        for cell, seed in places(name, options.seeds)
    ]
    epochs = [len(history.records) for tried in design for history in tried.values()]
    print(f"{len(epochs)} trainings of {sum(epochs) / len(epochs):.1f} epochs in the mean")
    for rule in (behind_at_the_same_epoch, behind_the_best, behind_the_best_and_slow):
        for margin in MARGINS:
            print(f"{rule.__name__:26} {margin:4}: {outcome(design, partial(rule, margin))}")


if __name__ == "__main__":
    main()
