"""Students: who they are, what travels with their rows, and which of them are the same."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rashomon.data import Dataset
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.lessons import Course, human_words, random_words, taught_by_people
from rashomon.experiments.students import (
    FROM_NOTHING,
    PRETRAINED,
    Cell,
    Lesson,
    Student,
    StudentRows,
    train_students,
)
from rashomon.models.build import build_model
from rashomon.runs.store import Store
from rashomon.training.learning_from_marks import MARKS
from rashomon.training.run import TrainingRun, read_history
from tests.studies.planted import planted
from tests.studies.trials import finished_runs

QUICK = "mlp(hidden=8, embedding_dim=8, epochs=2, learning_rate=0.02, patience=null)"


@pytest.fixture(scope="module")
def course() -> Course:
    data: Dataset = planted(train=60, held_out=24)
    return taught_by_people(data, {"train": 60, "dev": 24, "test": 24}, seed=0)


def cell(course: Course, lesson: Lesson, learning: str = "multitask", size: int = 60) -> Cell:
    return Cell(Student.of(QUICK), learning, lesson, course.of_size(size), size)


def test_students_by_name() -> None:
    plain, looking = Student.of("bilstm"), Student.of("bilstm-attention")
    assert (plain.spec.name, plain.spec.weights) == ("bilstm", "uniform")
    assert (looking.spec.name, looking.spec.weights) == ("bilstm", "softmax")
    assert plain.training == FROM_NOTHING
    assert Student.of("minilm").training == PRETRAINED
    set_apart = Student.of(
        "bilstm-attention(hidden=256, embedding_dim=64, batch_size=64, learning_rate=0.005)"
    )
    assert (set_apart.spec.hidden, set_apart.spec.embedding_dim) == (256, 64)
    assert (set_apart.training.batch_size, set_apart.training.learning_rate) == (64, 0.005)
    with pytest.raises(UserError, match="hiden"):
        Student.of("bilstm(hiden=3)")


def test_who_can_be_pulled_at(course: Course) -> None:
    both = ["attention-regularisation", "multitask"]
    assert Student.of("bilstm-attention").ways(both, course.data) == both
    assert Student.of("bilstm").ways(both, course.data) == ["multitask"]
    assert Student.of("bilstm-attention").ways(["attention-alignment"], course.data) == []


def test_marks_travel_with_training_rows_alone(course: Course) -> None:
    student = Student.of(QUICK)
    model = build_model(student.spec, course.data, 0)
    marked = StudentRows(course.data, student.spec, human_words(course.originals))
    bare = StudentRows(course.data, student.spec)
    assert MARKS in marked.rows(model, "train").whole.extras
    assert marked.rows(model, "train").whole.extras[MARKS].any(1).all()
    for split in ("dev", "test"):
        assert set(marked.rows(model, split).whole.extras) == {"label"}
    for split in ("train", "dev", "test"):
        rows, plain = marked.rows(model, split), bare.rows(model, split)
        assert torch.equal(rows.whole.ids, plain.whole.ids)
        assert MARKS not in plain.whole.extras  # what is shared between students stays as it was


def test_a_student_without_marks_is_one_and_the_same(course: Course) -> None:
    keys = [
        cell(course, Lesson("none"), "none").run(1.0, 0).key(),
        cell(course, Lesson("human", human_words(course.originals, 1.0)), "multitask").run(5.0, 0).key(),
        cell(course, Lesson("human", human_words(course.originals, 1.0)), "attention-regularisation")
        .run(1.0, 0)
        .key(),
    ]
    assert keys[0] == keys[1] == keys[2]
    marked = cell(course, Lesson("human", human_words(course.originals)))
    assert marked.run(1.0, 0).key() != keys[0]
    assert marked.run(1.0, 0).key() != marked.run(2.0, 0).key()


def test_only_marks_of_the_own_training_texts_count(course: Course) -> None:
    """The student of 30 texts is the same whether or not a larger set was marked, too."""
    whole, part = human_words(course.originals), human_words(course.originals[:30])
    one, other = (cell(course, Lesson("human", marks), size=30).run(1.0, 0).key() for marks in (whole, part))
    assert one == other


def test_identical_students_are_trained_once_and_none_twice(course: Course, tmp_path: Path) -> None:
    context = Context(Store(tmp_path / "store"), workers=1)
    lessons = [
        Lesson("none"),
        Lesson("random", random_words(course.data["train"], 0.2, 0), 20.0),
        Lesson("human", human_words(course.originals, 1.0), dropped=1.0),
    ]
    cells = [cell(course, lessons[0], "none"), cell(course, lessons[1]), cell(course, lessons[2])]
    found = train_students(context, cells, (0.5, 2.0), (0, 1))
    runs = finished_runs(context)
    # none: 2 seeds; random: 2 weights of the first seed and one of the second; all marks dropped: those of none
    assert len(runs) == len(found.runs) == 2 + 3
    assert not list((tmp_path / "store").rglob("model.safetensors"))  # nobody wants their weights
    again = train_students(context, cells, (0.5, 2.0), (0, 1))
    assert again.instances.equals(found.instances)
    assert finished_runs(context) == runs
    assert len(found.instances) == 3 * 2 * 24
    by_lesson = found.instances.groupby("explanation")["correct"].apply(list)
    assert by_lesson["human"] == by_lesson["none"]


def test_the_weight_is_chosen_on_dev(course: Course, tmp_path: Path) -> None:
    context = Context(Store(tmp_path / "store"), workers=1)
    place = cell(course, Lesson("human", human_words(course.originals)), "attention-regularisation")
    weights = (0.01, 1.0, 100.0)
    found = train_students(context, [place], weights, (0,))
    folders = context.train_runs([place.run(weight, 0) for weight in weights], "students")
    records = [read_history(folder)[0].best_record for folder in folders]
    best = max(range(3), key=lambda n: (records[n]["accuracy"], -records[n]["loss"]))
    assert found.chosen["weight"].tolist() == [weights[best]]
    assert found.chosen["dev"].tolist() == [records[best]["accuracy"]]


def test_a_killed_simulation_ends_with_the_same_table(
    course: Course, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = Lesson("human", human_words(course.originals))
    cells = [
        cell(course, Lesson("none"), "none"),
        cell(course, lesson),
        cell(course, lesson, "attention-regularisation"),
    ]
    wanted = train_students(Context(Store(tmp_path / "one"), workers=1), cells, (1.0,), (0, 1))
    context = Context(Store(tmp_path / "two"), workers=1)
    make, left = TrainingRun.make, [0]

    def dies(self: TrainingRun, folder: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        make(self, folder)

    monkeypatch.setattr(TrainingRun, "make", dies)
    for moment in (1, 2, 1):
        left[0] = moment
        with pytest.raises(KeyboardInterrupt):
            train_students(context, cells, (1.0,), (0, 1))
    monkeypatch.setattr(TrainingRun, "make", make)
    found = train_students(context, cells, (1.0,), (0, 1))
    assert found.instances.equals(wanted.instances)
    assert found.chosen.equals(wanted.chosen)
