from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from rashomon.data import Columns, Equality, Span, load_file, load_files, read_examples
from rashomon.errors import UserError

Rows = Sequence[dict[str, object]]


def write(path: Path, rows: Rows) -> Path:
    frame = pd.DataFrame(rows)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


def rows(labels: Sequence[object], times: int = 10) -> Rows:
    return [{"text": f"text {label} {number}", "label": label} for number in range(times) for label in labels]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet"])
@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ([0, 1], ("0", "1")),
        ([10, 9, 2], ("2", "9", "10")),
        (["neg", "pos"], ("neg", "pos")),
        (["b", "a"], ("a", "b")),
        ([10.0, 0.0, 2.0, 1.0], ("0", "1", "2", "10")),
        ([10.5, 2.5, -1.5], ("-1.5", "2.5", "10.5")),
    ],
)
def test_labels_of_every_file_type(
    tmp_path: Path, kind: str, labels: list[object], names: tuple[str, ...]
) -> None:
    path = write(tmp_path / f"reviews.{kind}", rows(labels))
    examples, found = read_examples(path)
    assert found == names
    assert all(f"text {names[example.label or 0]}" in example.text for example in examples)
    dataset = load_file(path)
    assert dataset.labels == names
    assert dataset.name == "reviews"
    assert sum(len(dataset[split]) for split in dataset) == len(examples)
    assert [len(dataset[split]) // len(labels) for split in ("train", "dev", "test")] == [8, 1, 1]


def test_columns_are_mapped(tmp_path: Path) -> None:
    table = [
        {"body": "good film", "other": "bad film", "stars": 5, "marks": "1 0", "key": "k1"},
        {"body": "a. b", "other": "c", "stars": 1, "marks": "[0,1,1]", "key": "k2"},
        {"body": "no marks", "other": "c", "stars": 1, "marks": "", "key": "k3"},
    ]
    path = write(tmp_path / "r.csv", table)
    examples, labels = read_examples(path, Columns("body", "other", "stars", "marks", "key"))
    assert labels == ("1", "5")
    assert [example.id for example in examples] == ["k1", "k2", "k3"]
    assert examples[0].text_pair == "bad film"
    assert (examples[0].label, examples[0].rationale, examples[0].tokens) == (1, (1, 0), ("good", "film"))
    assert (examples[1].rationale, examples[1].tokens) == ((0, 1, 1), ("a", ".", "b"))
    assert examples[2].rationale is None


def test_the_layout_of_the_repository_is_understood(tmp_path: Path) -> None:
    row = {
        "id": "one", "text": "a b", "text_pair": "c d", "tokens": ["a", "b"], "tokens_pair": ["c", "d"],
        "rationale": [0, 1], "rationale_pair": [1, 0], "phrases": [[0, 1, 2], [0, 2, 3]], "label": 1,
    }  # fmt: skip
    examples, _ = read_examples(write(tmp_path / "r.jsonl", [row]))
    example = examples[0]
    assert example.id == "one"
    assert example.text_pair == "c d"
    assert (example.tokens, example.tokens_pair) == (("a", "b"), ("c", "d"))
    assert (example.rationale, example.rationale_pair) == ((0, 1), (1, 0))
    assert example.phrases == ((0, 1, 2), (0, 2, 3))


def question(number: int) -> dict[str, object]:
    return {
        "question": f"who wrote it {number}",
        "passage": "Ann wrote it",
        "answers": [{"start": 0, "end": 3, "text": "Ann"}],
        "referential_equalities": [{"question": [10, 12], "passage": [10, 12], "bridge": False}],
    }


def test_questions_with_passages_need_no_labels(tmp_path: Path) -> None:
    path = write(tmp_path / "qa.jsonl", [question(number) for number in range(30)])
    examples, labels = read_examples(path)
    assert labels == ()
    assert (examples[0].text, examples[0].text_pair, examples[0].label) == (
        "who wrote it 0",
        "Ann wrote it",
        None,
    )
    assert examples[0].answers == (Span(0, 3),)
    assert examples[0].equalities == (Equality(Span(10, 12), Span(10, 12)),)
    assert {split: len(load_file(path)[split]) for split in load_file(path)} == {
        "train": 24,
        "dev": 3,
        "test": 3,
    }
    assert len(load_files(path, path, path)["test"]) == 30


def test_a_rationale_column_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [{"text": "a b", "label": 0, "rationale": "because I say so"}])
    assert read_examples(path)[0][0].rationale is None
    with pytest.raises(UserError, match=r"In line 2 of .*, the rationale \('rationale'\) is not a list"):
        read_examples(path, Columns(rationale="rationale"))


def test_labels_may_be_absent_where_they_are_optional(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [{"text": f"text {number}"} for number in range(5)])
    with pytest.raises(UserError, match=r"no column 'label' in .*r.csv; its columns are: text"):
        load_file(path)
    dataset = load_file(path, require_labels=False)
    assert list(dataset) == ["test"]
    assert len(dataset["test"]) == 5
    assert dataset.labels == ()
    assert dataset["test"][0].label is None
    path = write(
        tmp_path / "some.jsonl", [{"text": "a", "label": 1}, {"text": "b"}, {"text": "c", "label": None}]
    )
    partly = load_file(path, require_labels=False)
    assert [example.label for example in partly["test"]] == [0, None, None]
    assert partly.notes == ("some.jsonl is all in the test split: 2 of 3 examples have no label",)
    one_class = load_file(write(tmp_path / "one.csv", rows(["yes"])), require_labels=False)
    assert (list(one_class), one_class.labels) == (["test"], ("yes",))
    with pytest.raises(UserError, match="no column 'stars'"):  # asked for by name
        load_file(path, Columns(label="stars"), require_labels=False)


def test_known_labels_come_by_name_or_by_number(tmp_path: Path) -> None:
    known = ("negative", "positive")
    for first, second in (("negative", "positive"), ("0", "1"), (0, 1)):
        path = write(tmp_path / "r.jsonl", [{"text": "a", "label": second}, {"text": "b", "label": first}])
        assert [example.label for example in read_examples(path, labels=known)[0]] == [1, 0]
    path = write(tmp_path / "r.jsonl", [{"text": "a", "label": 0}])
    with pytest.raises(UserError, match="no label named '0'"):  # the names are numbers themselves
        read_examples(path, labels=("1", "2"))


def test_one_number_is_one_label_however_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"

    def read(*written: str, known: tuple[str, ...] | None = None) -> tuple[list[int | None], tuple[str, ...]]:
        path.write_text("text,label\n" + "".join(f"a,{label}\n" for label in written))
        examples, names = read_examples(path, labels=known)
        return [example.label for example in examples], names

    assert read("1", "1.0", "0.0", "2.") == ([1, 1, 0, 2], ("0", "1", "2"))
    assert read("1.5", "1", "1.0") == ([1, 0, 0], ("1", "1.5"))
    assert read("01", "1", "02") == ([0, 1, 2], ("01", "1", "02"))  # codes stay as they are
    assert read("1.0", "n/a") == ([0, 1], ("1.0", "n/a"))
    assert read("1.0", "0.0", known=("0", "1")) == ([1, 0], ("0", "1"))
    assert read("1.0", known=("1.0", "n/a")) == ([0], ("1.0", "n/a"))
    assert read("1.0", "0.0", known=("no", "yes")) == ([1, 0], ("no", "yes"))
    with pytest.raises(UserError, match="no label named '0'"):
        read("0", "1", known=("0.5", "1.5"))


def test_files_for_each_split(tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", rows(["no", "yes"]))
    test = write(tmp_path / "test.csv", rows(["yes"], 3))
    dataset = load_files(train, test, test)
    assert {split: len(dataset[split]) for split in dataset} == {"train": 20, "dev": 3, "test": 3}
    assert [example.label for example in dataset["test"]] == [1, 1, 1]
    assert len({example.id for split in dataset for example in dataset[split]}) == 26
    without_dev = load_files(train, None, test)
    assert {split: len(without_dev[split]) for split in without_dev} == {"train": 18, "dev": 2, "test": 3}
    assert "no dev split given: 2 training examples" in without_dev.notes[0]


def test_ids_counted_anew_in_each_file_are_told_apart(tmp_path: Path) -> None:
    table = [{**row, "id": number} for number, row in enumerate(rows(["no", "yes"]))]
    path = write(tmp_path / "r.csv", table)
    dataset = load_files(path, path, path)
    assert dataset["dev"][0].id == "dev-0"
    assert len({example.id for split in dataset for example in dataset[split]}) == 60


def test_repeated_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", [{**row, "id": "same"} for row in rows(["no", "yes"])])
    assert read_examples(path)[0][0].id == "r-2"
    with pytest.raises(UserError, match="'same' is there more than once"):
        read_examples(path, Columns(id="id"))


GOOD = {"text": "good", "label": 1}


@pytest.mark.parametrize(
    ("table", "columns", "message"),
    [
        (
            [GOOD],
            Columns(text="txt"),
            "no column 'txt' in .*; did you mean 'text'\\? its columns are: text, label",
        ),
        ([GOOD], Columns(pair="zzz"), "no column 'zzz' in .*; its columns are: text, label"),
        ([GOOD, {"text": 5, "label": 1}], None, "'text' should hold text, but line 2 of .* has the number 5"),
        ([GOOD, {"text": ["x"], "label": 1}], None, "line 2 of .* has something else"),
        (
            [GOOD, {"text": "  ", "label": 1}],
            None,
            "1 of 2 rows of .* has an empty text \\('text'\\): line 2. .*--empty skip",
        ),
        ([GOOD, {"label": 1}], None, "an empty text .*: line 2"),
        ([GOOD, {"text": "x"}], None, "The label \\('label'\\) in line 2 of .* is empty"),
        (
            [{"text": "x", "label": ["a"]}],
            None,
            "The label \\('label'\\) in line 1 of .* is a list or an object",
        ),
        (
            [GOOD, {"text": "x", "label": "long " * 999}],
            None,
            "line 2 of .* has 4,994 characters, which is too long for a name",
        ),
        (
            [{"text": "4", "label": 1}, {"text": "-5.0", "label": 0}],
            None,
            "'text' of .* holds numbers, not text",
        ),
        ([GOOD, {"text": "a", "label": 1, "rationale": [0, 1]}], None, "line 2 .*has 2 marks for 1 tokens"),
        ([{"text": "a", "label": 1, "rationale": [7]}], None, "is not a list of 0 and 1"),
        ([{"text": "a", "label": 1, "tokens": "a"}], None, "'tokens' is not in the layout"),
        ([{"text": "a", "label": 1, "phrases": [[0, 1]]}], None, "'phrases' is not in the layout"),
        ([{"text": "a", "label": 1, "tokens": ["b"]}], None, "does not follow in its text"),
        (
            [{**question(1), "answers": [{"start": 5, "end": 99}]}],
            None,
            "the span 5..99 is not inside of its text",
        ),
    ],
)
def test_mistakes_in_rows(tmp_path: Path, table: Rows, columns: Columns | None, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_examples(write(tmp_path / "r.jsonl", table), columns)
    assert "\n" not in str(caught.value)


def test_mistakes_in_sets(tmp_path: Path) -> None:
    one = write(tmp_path / "one.csv", rows(["yes"]))
    two = write(tmp_path / "two.csv", rows(["no", "yes"]))
    third = write(tmp_path / "third.csv", rows(["yess"]))
    numbers = write(tmp_path / "numbers.csv", [{"text": number, "label": number % 2} for number in range(20)])
    single = write(tmp_path / "single.csv", [*rows(["no", "yes"]), {"text": "alone", "label": "maybe"}])
    for call, message in (
        (lambda: load_file(one), "only one class, 'yes'; at least two"),
        (lambda: load_files(one, two, two), "only one class"),
        (
            lambda: load_files(two, third),
            r"no label named 'yess'; did you mean 'yes'\? It stands in line 2 of",
        ),
        (lambda: load_file(numbers), "holds numbers, not text"),
        (lambda: load_file(single), "'maybe' has only one text in .*single.csv, which cannot be split"),
        (lambda: load_file(tmp_path / "absent.csv"), "There is no file"),
    ):
        with pytest.raises(UserError, match=message):
            call()


def test_the_seed_of_a_split(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", rows(["no", "yes"], 40))
    assert load_file(path, seed=1).fingerprint == load_file(path, seed=1).fingerprint
    assert load_file(path, seed=1).fingerprint != load_file(path, seed=2).fingerprint
