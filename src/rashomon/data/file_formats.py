"""What rows does a file hold? JSONL, CSV, TSV (each also gzipped) and Parquet, read into one plain form.

Every row remembers its line, so that an error further on can say where it is.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from rashomon.errors import UserError

Values = dict[str, object]

# Not splitlines(): fields may hold the other line separators of Unicode as they are.
_LINE_END = re.compile(r"\r\n|\n|\r")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under named columns. ``unit`` is what the row numbers count: lines of a file, or rows."""

    source: str
    columns: tuple[str, ...]
    rows: tuple[tuple[int, Values], ...]
    unit: str = "line"
    notes: tuple[str, ...] = ()  # what was done to it

    def where(self, number: int) -> str:
        return f"{self.unit} {number} of {self.source}"

    def require(self, column: str) -> None:
        """Refuse a column that is not there, with the nearest one that is."""
        if column not in self.columns:
            close = get_close_matches(column, self.columns, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]!r}? " if close else ""
            listed = ", ".join(self.columns) or "none"
            raise UserError(
                f"There is no column {column!r} in {self.source}; {hint}its columns are: {listed}."
            )

    def require_all(self, columns: Iterable[str]) -> None:
        for column in columns:
            self.require(column)


def read_table(path: Path) -> Table:
    """The rows of a file, by the ending of its name."""
    if not path.is_file():
        raise UserError(
            f"There is no file {path}." if not path.exists() else f"{path} is a folder, not a file."
        )
    compressed = path.suffix.lower() == ".gz"
    ending = (path.with_suffix("").suffix if compressed else path.suffix).lower()
    if ending == ".parquet":
        return _read_parquet(path)
    if ending not in _READERS:
        known = ", ".join([*_READERS, ".parquet"])
        raise UserError(
            f"{path} is of an unknown type {ending!r}; known are {known}, the text types also as .gz."
        )
    rows = tuple(_READERS[ending](_read_text(path), str(path)))
    if not rows:
        raise UserError(f"{path} holds no examples.")
    columns = dict.fromkeys(column for _, values in rows for column in values)
    return Table(str(path), tuple(columns), rows)


def _read_text(path: Path) -> str:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text; save it in that encoding.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: {error}.") from error


def _jsonl(text: str, source: str) -> Iterator[tuple[int, Values]]:
    # Not splitlines(): JSON strings may hold the other line separators of Unicode as they are.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"Line {number} of {source} is not valid JSON: {error.msg}.") from error
        except RecursionError:
            raise UserError(f"Line {number} of {source} is nested too deeply to be read.") from None
        except ValueError:  # Python reads no number of more than 4,300 digits
            raise UserError(
                f"Line {number} of {source} holds a number with too many digits to be one."
            ) from None
        if not isinstance(values, dict):
            raise UserError(f"Line {number} of {source} is not a JSON object with named values.")
        yield number, _encodable(values) if "\\u" in line else values


def _encodable(value: Any) -> Any:
    """Half of a surrogate pair, as a text cut by UTF-16 units ends in, can be escaped in JSON but never written."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_encodable(item) for item in value]
    if isinstance(value, dict):
        return {_encodable(key): _encodable(item) for key, item in value.items()}
    return value


def _csv(text: str, source: str) -> Iterator[tuple[int, Values]]:
    return _named(_records(text, ","), source)


def _tsv(text: str, source: str) -> Iterator[tuple[int, Values]]:
    """Tab-separated text is written with and without quoting.

    Where every line has as many fields as the header, quotes are plain characters (read as quoting, a lone
    one would swallow the lines up to the next). Otherwise line breaks must be inside of quotes; and a header in
    quotes says that all is.
    """
    numbered = enumerate(_LINE_END.split(text), start=1)
    lines = [(number, line.split("\t")) for number, line in numbered if line.strip()]
    header = lines[0][1] if lines else []
    quoted = all(len(field) > 1 and field[0] == field[-1] == '"' for field in header)
    if quoted or len({len(fields) for _, fields in lines}) > 1:
        return _named(_records(text, "\t"), source)
    return _named(((number, [_unquoted(field) for field in fields]) for number, fields in lines), source)


def _unquoted(field: str) -> str:
    inner = field[1:-1].replace('""', "")
    is_quoted = len(field) > 1 and field[0] == field[-1] == '"' and '"' not in inner
    return field[1:-1].replace('""', '"') if is_quoted else field


def _records(text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Records with the line each begins in."""
    csv.field_size_limit(2**31 - 1)  # whole documents in a field are fine
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    begin = 1
    for fields in reader:
        if fields:
            yield begin, fields
        begin = reader.line_num + 1


def _named(records: Iterable[tuple[int, list[str]]], source: str) -> Iterator[tuple[int, Values]]:
    header: list[str] = []
    for number, fields in records:
        if not header:
            header = [name.strip() for name in fields]
            if len(set(header)) < len(header):
                raise UserError(
                    f"Two columns of {source} have the same name; its header is {', '.join(header)}."
                )
            continue
        if len(fields) != len(header):
            raise UserError(
                f"Line {number} of {source} has {len(fields)} fields where the header has {len(header)}; "
                "texts with separators or line breaks inside must be quoted."
            )
        yield number, dict(zip(header, fields, strict=True))


def _read_parquet(path: Path) -> Table:
    try:
        table = pyarrow.parquet.read_table(path)
        rows = tuple(enumerate(table.to_pylist(), start=1))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} holds text that is not UTF-8; write it in that encoding.") from error
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise UserError(f"{path} cannot be read as Parquet: {error}.") from error
    if not rows:
        raise UserError(f"{path} holds no examples.")
    return Table(str(path), tuple(table.column_names), rows, unit="row")


_READERS: dict[str, Callable[[str, str], Iterator[tuple[int, Values]]]] = {
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".tsv": _tsv,
}
