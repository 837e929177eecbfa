from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

from rashomon.data.file_formats import read_table
from rashomon.errors import UserError

ROWS = [
    {"text": 'He said "no", twice', "label": "a"},
    {"text": "two\nlines", "label": "b"},
    {"text": "tab\tinside, naïve", "label": "c"},
]


def write(path: Path, content: str) -> Path:
    raw = content.encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


@pytest.mark.parametrize(
    "kind", ["r.jsonl", "r.jsonl.gz", "r.csv", "r.csv.gz", "r.tsv", "r.tsv.gz", "r.parquet"]
)
def test_every_kind_reads_what_pandas_writes(tmp_path: Path, kind: str) -> None:
    frame = pd.DataFrame(ROWS)
    path = tmp_path / kind
    if ".jsonl" in kind:
        frame.to_json(path, orient="records", lines=True)
    elif kind == "r.parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in kind else ",")
    table = read_table(path)
    assert [values for _, values in table.rows] == ROWS
    assert table.columns == ("text", "label")


def test_rows_know_the_line_they_begin_in(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "r.csv", 'text,label\n"a\nb\nc",1\n\nd,2\n'))
    assert [number for number, _ in table.rows] == [2, 6]
    assert table.where(6) == f"line 6 of {tmp_path / 'r.csv'}"
    table = read_table(write(tmp_path / "r.jsonl", '{"text": "a"}\n\n{"text": "b\u2028c"}\n'))
    assert [number for number, _ in table.rows] == [1, 3]


def test_a_lone_quote_in_unquoted_tsv_swallows_nothing(tmp_path: Path) -> None:
    table = read_table(
        write(tmp_path / "r.tsv", 'text\tlabel\n"Open quote\t1\nplain "word"\t0\n"all quoted"\t1\n')
    )
    assert [values["text"] for _, values in table.rows] == ['"Open quote', 'plain "word"', "all quoted"]


def test_only_line_ends_end_a_line_of_tsv(tmp_path: Path) -> None:
    text = '"one\u2028two\x85three\x0bfour\x1cfive'  # the lone quote would swallow what follows
    table = read_table(write(tmp_path / "r.tsv", f"text\tlabel\r\n{text}\t1\n{text}\t2\rplain\t3\n"))
    assert [(number, values["text"]) for number, values in table.rows] == [(2, text), (3, text), (4, "plain")]


def test_half_a_surrogate_pair_is_replaced(tmp_path: Path) -> None:
    line = r'{"text": "cut \ud83d", "tokens": ["cut", "\udE00"], "whole": "\ud83d\ude00", "plain\ud83d": 1}'
    ((_, values),) = read_table(write(tmp_path / "r.jsonl", line)).rows
    assert values == {
        "text": "cut \ufffd",
        "tokens": ["cut", "\ufffd"],
        "whole": "\U0001f600",
        "plain\ufffd": 1,
    }


def test_long_fields_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = write(tmp_path / "r.csv", "\ufefftext,label\n" + "x" * 200_000 + ",1\n")
    assert read_table(path).columns == ("text", "label")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.jsonl", '{"text": "a"}\n{"text": \n', "Line 2 of .*r.jsonl is not valid JSON: Expecting value"),
        ("r.jsonl", '{"text": "a"}\n[1, 2]\n', "Line 2 of .* is not a JSON object"),
        ("r.jsonl", "\n\n", "holds no examples"),
        ("r.jsonl", f'{{"label": {"[" * 9000}{"]" * 9000}}}', "Line 1 of .* is nested too deeply"),
        ("r.jsonl", f'{{"label": {"9" * 5000}}}', "Line 1 of .* holds a number with too many digits"),
        ("r.csv", "", "holds no examples"),
        ("r.csv", "text,label\n", "holds no examples"),
        ("r.csv", "text,label\na,1\nb,c,2\n", "Line 3 of .*r.csv has 3 fields where the header has 2"),
        ("r.csv", "text,text\na,b\n", "same name"),
        ("r.xlsx", "x", "unknown type '.xlsx'; known are .jsonl, .csv, .tsv, .parquet"),
        ("r", "x", "unknown type ''"),
        ("r.parquet", "x", "cannot be read as Parquet"),
    ],
)
def test_mistakes_end_in_one_sentence(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_table(write(tmp_path / name, content))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"There is no file .*absent.csv"):
        read_table(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UserError, match="is a folder"):
        read_table(tmp_path / "folder.csv")
    (tmp_path / "latin.csv").write_bytes("text\nnaïve\n".encode("latin-1"))
    with pytest.raises(UserError, match="not UTF-8"):
        read_table(tmp_path / "latin.csv")
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(json.dumps(ROWS[0]).encode())[:-9])
    with pytest.raises(UserError, match="cannot be read"):
        read_table(tmp_path / "cut.jsonl.gz")
    pd.DataFrame({"text": ["a\u20acb"]}).to_parquet(tmp_path / "bad.parquet", compression=None)
    raw = (tmp_path / "bad.parquet").read_bytes()
    (tmp_path / "bad.parquet").write_bytes(raw.replace("a\u20acb".encode(), b"a\xe2\x82zb"))
    with pytest.raises(UserError, match=r"bad.parquet holds text that is not UTF-8"):
        read_table(tmp_path / "bad.parquet")
    pd.DataFrame({"text": []}).to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(UserError, match="holds no examples"):
        read_table(tmp_path / "empty.parquet")
