"""Files and objects that hold texts: read, or refused in a sentence; and what was written is what is read."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from rashomon.data import Columns, Dataset, load_file
from rashomon.data.files import load_files, load_whole_file
from rashomon.data.texts import as_examples
from rashomon.data.tokens import tokenise, words_of
from tests.fuzz.answering import answered, empty_folder, fuzz
from tests.fuzz.inputs import ENCODINGS, hit, json_values, scalars, spoken, texts

NAMES = [
    "text", "label", "id", "text_pair", "tokens", "tokens_pair", "rationale", "rationale_pair", "phrases",
    "question", "passage", "answers", "referential_equalities",
]  # fmt: skip
Row = dict[str, Any]


def as_jsonl(rows: list[Row]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def as_separated(rows: list[Row], separator: str) -> bytes:
    stream = io.StringIO(newline="")
    writer = csv.DictWriter(stream, list(rows[0]), delimiter=separator, quoting=csv.QUOTE_ALL)
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def as_parquet(rows: list[Row]) -> bytes:
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), stream)
    return stream.getvalue()


WRITERS: dict[str, Callable[[list[Row]], bytes]] = {
    ".jsonl": as_jsonl,
    ".csv": lambda rows: as_separated(rows, ","),
    ".tsv": lambda rows: as_separated(rows, "\t"),
    ".parquet": as_parquet,
    ".jsonl.gz": lambda rows: gzip.compress(as_jsonl(rows)),
    ".csv.gz": lambda rows: gzip.compress(as_separated(rows, ",")),
}
endings = st.sampled_from(sorted(WRITERS))
plain_rows = st.lists(st.tuples(spoken, st.sampled_from(["0", "1", "good", "bad"])), min_size=1, max_size=6)
nested_rows = st.lists(
    st.dictionaries(st.sampled_from(NAMES), json_values, min_size=1, max_size=6), min_size=1, max_size=4
)
chosen_columns = st.none() | st.builds(
    Columns,
    text=st.sampled_from(NAMES) | texts,
    pair=st.none() | st.sampled_from(NAMES),
    label=st.sampled_from(NAMES),
    rationale=st.none() | st.sampled_from(NAMES),
    id=st.none() | st.sampled_from(NAMES),
)


def rows_of(pairs: list[tuple[str, str]]) -> list[Row]:
    return [{"text": text, "label": label} for text, label in pairs]


def read_in_every_way(path: Path, columns: Columns | None = None) -> None:
    for read in (load_file, load_whole_file, load_files):
        data = answered(lambda read=read: read(path, columns=columns))  # type: ignore[operator]
        if data is not None:
            check(data)


def check(data: Dataset) -> None:
    """A dataset that was answered can be worked with: texts, labels that count, words at their places."""
    assert repr(data).isprintable()
    for split in data.splits.values():
        for example in split:
            assert example.text.strip()
            assert example.label is None or 0 <= example.label < len(data.labels)
            for segment in (0, 1) if example.is_pair else (0,):
                text = example.text if segment == 0 else example.text_pair or ""
                assert all(text[word.start : word.end] == word.form for word in words_of(example, segment))


@fuzz(60)
@given(endings, st.binary(max_size=400))
def test_any_bytes_under_any_ending(ending: str, data: bytes) -> None:
    with empty_folder() as folder:
        path = folder / f"mine{ending}"
        path.write_bytes(data)
        read_in_every_way(path)


@fuzz(150)
@given(endings, plain_rows, st.data())
def test_damaged_files(ending: str, pairs: list[tuple[str, str]], data: st.DataObject) -> None:
    with empty_folder() as folder:
        path = folder / f"mine{ending}"
        path.write_bytes(data.draw(hit(WRITERS[ending](rows_of(pairs)))))
        read_in_every_way(path)


@fuzz(60)
@given(st.sampled_from([".csv", ".tsv", ".jsonl"]), plain_rows, st.sampled_from(ENCODINGS))
def test_other_encodings(ending: str, pairs: list[tuple[str, str]], encoding: str) -> None:
    with empty_folder() as folder:
        path = folder / f"mine{ending}"
        path.write_bytes(WRITERS[ending](rows_of(pairs)).decode().encode(encoding, errors="replace"))
        read_in_every_way(path)


@fuzz(150)
@given(nested_rows, chosen_columns, st.sampled_from([".jsonl", ".csv", ".parquet"]))
def test_any_values_in_any_column(rows: list[Row], columns: Columns | None, ending: str) -> None:
    if ending == ".csv":
        rows = [{name: json.dumps(row.get(name)) for name in rows[0]} for row in rows]
    with empty_folder() as folder:
        path = folder / f"mine{ending}"
        try:
            path.write_bytes(WRITERS[ending](rows))
        except (pa.ArrowException, OverflowError, UnicodeError):
            return  # Parquet does not hold these
        read_in_every_way(path, columns)


@fuzz(80)
@given(
    st.text('[]{}:," 0123456789.eE+-\\nutf', max_size=40)
    | st.integers(1, 5000).map(lambda depth: "[" * depth + "]" * depth)
    | st.integers(1, 4500).map(lambda digits: "9" * digits),
    st.sampled_from(["label", "tokens", "rationale", "phrases", "answers", "id"]),
)
def test_json_as_nobody_writes_it(value: str, name: str) -> None:
    with empty_folder() as folder:
        path = folder / "mine.jsonl"
        other = '{"text": "a film", "label": 1}'
        path.write_text(f'{{"text": "a film", "label": 0, "{name}": {value}}}\n{other}', encoding="utf-8")
        read_in_every_way(path)


@fuzz(120)
@given(endings, plain_rows)
def test_what_was_written_is_read(ending: str, pairs: list[tuple[str, str]]) -> None:
    with empty_folder() as folder:
        path = folder / f"mine{ending}"
        path.write_bytes(WRITERS[ending](rows_of(pairs)))
        data = answered(lambda: load_whole_file(path))
        if data is None:  # only where every text is a number
            assert all(is_number(text) for text, _ in pairs)
            return
        assert [example.text for example in data["test"]] == [text for text, _ in pairs]
        assert [data.labels[example.label or 0] for example in data["test"]] == [name for _, name in pairs]


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


objects = (
    json_values
    | st.binary(max_size=5)
    | st.tuples(texts, scalars)
    | st.tuples(texts, texts, scalars)
    | st.dictionaries(st.sampled_from(NAMES), json_values, max_size=5)
)


@fuzz(120)
@given(st.lists(objects, max_size=5) | objects)
def test_objects_in_memory(given_: Any) -> None:
    for read in (lambda: Dataset.from_list(given_), lambda: as_examples(given_)):
        said = answered(read)
        if isinstance(said, Dataset):
            check(said)


@fuzz(80)
@given(
    st.dictionaries(st.sampled_from(NAMES) | scalars, st.lists(scalars, min_size=3, max_size=3), max_size=5)
)
def test_frames(columns: dict[Any, list[Any]]) -> None:
    try:
        frame = pd.DataFrame(columns)
    except (ValueError, TypeError, OverflowError):
        return  # pandas holds no such columns
    for read in (lambda: Dataset.from_pandas(frame), lambda: as_examples(frame)):
        said = answered(read)
        if isinstance(said, Dataset):
            check(said)


@fuzz(200)
@given(st.text(max_size=60) | texts)
def test_words_stand_where_they_say(text: str) -> None:
    words = tokenise(text)
    assert [text[word.start : word.end] for word in words] == [word.form for word in words]
    assert [word.index for word in words] == list(range(len(words)))
    assert all(one.end <= other.start for one, other in pairwise(words))
    covered = {place for word in words for place in range(word.start, word.end)}
    assert all(char.isspace() for place, char in enumerate(text) if place not in covered)
