"""Rows without a text: a few are left out and told of, many are refused, and every way in follows the same rule."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from rashomon.data import Columns, Dataset, Example, load_file, load_files
from rashomon.data.blank_texts import Empty
from rashomon.data.files import load_whole_file
from rashomon.errors import Caution, UserError

Rows = list[dict[str, object]]
BLANKS = (None, "", "  \t", float("nan"))


def rows(count: int, blank: set[int] | frozenset[int] = frozenset()) -> Rows:
    """So many rows; those numbered (from 1) in ``blank`` have no text."""
    return [
        {"text": BLANKS[n % 4] if n in blank else f"text {n}", "label": "no" if n % 2 else "yes"}
        for n in range(1, count + 1)
    ]


def jsonl(folder: Path, table: Rows) -> Path:
    path = folder / "reviews.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in table), encoding="utf-8")
    return path


def from_file(folder: Path, table: Rows, empty: Empty) -> Dataset:
    return load_file(jsonl(folder, table), empty=empty)


def from_whole_file(folder: Path, table: Rows, empty: Empty) -> Dataset:
    return load_whole_file(jsonl(folder, table), empty=empty)


def from_files(folder: Path, table: Rows, empty: Empty) -> Dataset:
    return load_files(jsonl(folder, table), empty=empty)


def from_frame(folder: Path, table: Rows, empty: Empty) -> Dataset:
    return Dataset.from_pandas(pd.DataFrame(table), empty=empty)


def from_split_frame(folder: Path, table: Rows, empty: Empty) -> Dataset:
    return Dataset.from_pandas(pd.DataFrame(table).assign(part="test"), split="part", empty=empty)


def from_dicts(folder: Path, table: Rows, empty: Empty) -> Dataset:
    return Dataset.from_list(table, empty=empty)


def from_examples(folder: Path, table: Rows, empty: Empty) -> Dataset:
    texts = [row["text"] if isinstance(row["text"], str) else "" for row in table]
    return Dataset.from_list([Example(str(n), text, n % 2) for n, text in enumerate(texts)], empty=empty)


WAYS = [from_file, from_whole_file, from_files, from_frame, from_split_frame, from_dicts, from_examples]
Way = Callable[[Path, Rows, Empty], Dataset]


def texts_of(data: Dataset) -> list[str]:
    return [example.text for split in data for example in data[split]]


@pytest.mark.parametrize("way", WAYS)
def test_a_few_are_left_out_and_told_of(way: Way, tmp_path: Path) -> None:
    with pytest.warns(Caution, match="rows of .* have an empty text .* and were left out") as caught:
        data = way(tmp_path, rows(60, {3, 17, 18, 19}), "few")
    said = str(caught[0].message)
    assert "4 of 60 rows" in said
    assert said.endswith(" 3 and 17-19.")
    assert said in data.notes
    assert {f"text {n}" for n in range(1, 61)} - set(texts_of(data)) == {f"text {n}" for n in (3, 17, 18, 19)}
    assert all(text.strip() for text in texts_of(data))


@pytest.mark.parametrize("way", WAYS)
def test_all_are_listed_where_they_are_refused(way: Way, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"2 of 60 rows of .* 3 and 18. Mend or remove them"):
        way(tmp_path, rows(60, {3, 18}), "error")


@pytest.mark.parametrize("way", WAYS)
def test_any_number_is_left_out_when_asked(way: Way, tmp_path: Path) -> None:
    with pytest.warns(Caution, match="30 of 60 rows"):
        data = way(tmp_path, rows(60, set(range(1, 31))), "skip")
    kept = [text for text in texts_of(data) if int(text.split()[1]) > 30]
    assert len(kept) == 30
    with pytest.raises(UserError, match=r"No row of .* has a text"):
        way(tmp_path, rows(60, set(range(1, 61))), "skip")


@pytest.mark.parametrize(
    ("count", "blank", "fine"),
    [
        (9, 1, False),  # more than a tenth
        (10, 1, True),
        (50, 5, True),
        (50, 6, False),
        (100, 10, True),
        (900, 10, True),
        (900, 11, False),
        (2000, 20, True),  # one in a hundred
        (2000, 21, False),
    ],
)
def test_how_few_are_few(count: int, blank: int, fine: bool) -> None:
    table = rows(count, set(range(1, blank + 1)))
    if fine:
        with pytest.warns(Caution):
            assert len(texts_of(Dataset.from_list(table))) == count - blank
    else:
        with pytest.raises(UserError, match="--empty skip"):
            Dataset.from_list(table)


def test_nothing_is_said_where_nothing_is_blank() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = Dataset.from_list(rows(20))
    assert not any("empty" in note for note in data.notes)


def test_a_pair_needs_both_sides(tmp_path: Path) -> None:
    table = [{**row, "other": f"other {n}"} for n, row in enumerate(rows(40, {5}), start=1)]
    table[8]["other"] = ""
    path = jsonl(tmp_path, table)
    with pytest.warns(Caution, match=r"2 of 40 rows of .* \('text' or 'other'\) .*: lines 5 and 9"):
        data = load_file(path, Columns(pair="other"))
    assert len(texts_of(data)) == 38
    with pytest.warns(Caution, match=": line 5."):
        assert len(texts_of(load_file(path))) == 39  # the column is not asked for


def test_a_question_needs_its_passage(tmp_path: Path) -> None:
    table: Rows = [{"question": f"who {n}", "passage": "Ann wrote", "answers": []} for n in range(30)]
    table[3]["passage"] = None
    with pytest.warns(
        Caution, match=r"1 of 30 rows of .* \('question' or 'passage'\) and was left out: line 4"
    ):
        data = load_file(jsonl(tmp_path, table))
    assert len(texts_of(data)) == 29


def test_a_pair_among_single_texts_made_by_hand() -> None:
    examples = [Example(str(n), f"text {n}", n % 2) for n in range(20)]
    examples[4] = Example("4", "text 4", 0, text_pair=" ")
    with pytest.warns(Caution, match="1 of 20 rows .*: item 5"):
        assert len(texts_of(Dataset.from_list(examples))) == 19
