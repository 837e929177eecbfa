"""Many explanations together: to slice, to compare, to keep, to show.

``Explanations`` is an immutable sequence. Its file is Parquet with one row per explanation, so that any tool
can read it; a file is written aside and renamed into place.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, overload

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from rashomon.errors import UserError, unknown_name
from rashomon.explainers.display import by_example, legend, to_html_fragment, to_rich
from rashomon.explainers.record import UNKNOWN_TARGET, Explanation, Floats, Merge, merge_words
from rashomon.runs.files import write_bytes, written_or_told

SHOWN = 10  # examples shown by a notebook or a terminal that was only asked for "the explanations"
SCHEMA_VERSION = "2"
_KIND, _VERSION = b"rashomon.kind", b"rashomon.schema_version"
_ARRAYS = {"starts": pa.int64(), "ends": pa.int64(), "word_ids": pa.int64(), "segments": pa.int64()}
_SCHEMA = pa.schema(
    [
        pa.field("example_id", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("text_pair", pa.string()),
        pa.field("tokens", pa.list_(pa.string()), nullable=False),
        *(pa.field(name, pa.list_(kind), nullable=False) for name, kind in _ARRAYS.items()),
        pa.field("special", pa.list_(pa.bool_()), nullable=False),
        pa.field("scores", pa.list_(pa.float64()), nullable=False),
        pa.field("spread", pa.list_(pa.float64())),
        pa.field("method", pa.string(), nullable=False),
        pa.field("configuration", pa.string(), nullable=False),
        pa.field("seed", pa.int64()),
        pa.field("target", pa.int64(), nullable=False),
        pa.field("target_label", pa.string(), nullable=False),
        pa.field("probabilities", pa.list_(pa.float64()), nullable=False),
        pa.field("output_space", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("gap", pa.float64()),
        pa.field("versions", pa.string(), nullable=False),
        pa.field("warnings", pa.list_(pa.string()), nullable=False),
        pa.field("unit", pa.string(), nullable=False),
        pa.field("merged_by", pa.string()),
        pa.field("answer", pa.list_(pa.int64())),
        pa.field("unseen", pa.float64()),
    ],
    metadata={_KIND: b"explanations", _VERSION: SCHEMA_VERSION.encode()},
)
_LATER = ("unseen",)  # columns that files of this version may lack, as nothing is known of them


@dataclass(frozen=True, slots=True)
class Aligned:
    """Scores over content tokens, the same examples in the same order for every method."""

    example_ids: tuple[str, ...]
    scores: dict[str, list[Floats]]  # method -> one signed array an example
    special_excluded: int  # special tokens left out, counted once an example
    incomplete: tuple[str, ...]  # examples left out because some method did not explain them


class Explanations(Sequence[Explanation]):
    """An immutable sequence of explanations, of any number of examples by any number of methods.

    It slices, filters (``by_method``, ``of``, ``where``), adds up (``+``), merges sub-words (``words``), saves to and
    loads from Parquet, converts to pandas, and shows itself in a notebook and, through rich, in a terminal.

    ``seconds`` says how long each method took for a text, where the explanations were just made.
    """

    __slots__ = ("_items", "seconds")

    def __init__(
        self, explanations: Iterable[Explanation] = (), seconds: Mapping[str, float] | None = None
    ) -> None:
        self._items = tuple(explanations)
        self.seconds: Mapping[str, float] = seconds or {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self._items)

    @overload
    def __getitem__(self, index: int) -> Explanation: ...
    @overload
    def __getitem__(self, index: slice) -> Explanations: ...
    def __getitem__(self, index: int | slice) -> Explanation | Explanations:
        return Explanations(self._items[index]) if isinstance(index, slice) else self._items[index]

    def __add__(self, other: Iterable[Explanation]) -> Explanations:
        return Explanations((*self._items, *other))

    def __eq__(self, other: object) -> bool:
        return self._items == other._items if isinstance(other, Explanations) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        what = f"{len(self)} of {len(self.example_ids)} examples by {', '.join(self.methods)}"
        return f"Explanations({what if self else ''})"

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in the order of their first explanation."""
        return tuple(dict.fromkeys(item.method for item in self))

    @property
    def example_ids(self) -> tuple[str, ...]:
        """The examples, in the order of their first explanation."""
        return tuple(dict.fromkeys(item.example_id for item in self))

    def digest(self) -> str:
        """A short hash of who says what of which tokens."""
        content = hashlib.sha256()
        for item in self:
            said = (item.method, item.example_id, item.tokens, item.model, item.target, item.answer)
            content.update(repr(said).encode("utf-8", "replace") + item.scores.tobytes())
        return content.hexdigest()[:16]

    def by_method(self, name: str) -> Explanations:
        """All explanations by one method."""
        if name not in self.methods:
            raise unknown_name("method in these explanations", name, self.methods)
        return self.where(method=name)

    def of(self, example_id: str) -> Explanations:
        """All explanations of one example."""
        if example_id not in self.example_ids:
            raise unknown_name("example in these explanations", example_id, self.example_ids)
        return self.where(example_id=example_id)

    def where(
        self,
        predicate: Callable[[Explanation], bool] | None = None,
        *,
        method: str | Collection[str] | None = None,
        example_id: str | Collection[str] | None = None,
    ) -> Explanations:
        """The explanations that fit every condition given; none may fit."""
        methods = {method} if isinstance(method, str) else method
        ids = {example_id} if isinstance(example_id, str) else example_id
        return Explanations(
            item
            for item in self
            if (methods is None or item.method in methods)
            and (ids is None or item.example_id in ids)
            and (predicate is None or predicate(item))
        )

    def words(self, how: Merge = "sum") -> Explanations:
        """The same explanations with sub-words merged into words."""
        return Explanations(merge_words(item, how) for item in self)

    def aligned(self) -> Aligned:
        """Scores ready to be compared: content tokens only, the same examples for every method.

        Special tokens are left out and counted, since what they share would look like agreement. An example
        that some method did not explain is left out and named.
        """
        methods = self.methods
        if not methods:
            raise UserError("There are no explanations to compare.")
        table: dict[str, dict[str, Explanation]] = {}
        for item in self:
            row = table.setdefault(item.example_id, {})
            if item.method in row:
                raise UserError(
                    f"Example {item.example_id!r} has two explanations by {item.method!r}; "
                    "choose one with where(...)."
                )
            row[item.method] = item
        complete = {example_id: row for example_id, row in table.items() if len(row) == len(methods)}
        if not complete:
            raise UserError(f"No example was explained by all of {', '.join(methods)}.")
        for row in complete.values():
            _check_comparable(list(row.values()))
        return Aligned(
            example_ids=tuple(complete),
            scores={
                method: [row[method].scores[row[method].content] for row in complete.values()]
                for method in methods
            },
            special_excluded=sum(int(row[methods[0]].special.sum()) for row in complete.values()),
            incomplete=tuple(example_id for example_id in table if example_id not in complete),
        )

    def to_pandas(self) -> pd.DataFrame:
        """A tidy table with one row per token, special tokens included and marked."""
        lengths = np.array([len(item) for item in self], dtype=np.int64)

        def stacked(name: str, dtype: type[np.generic]) -> NDArray[Any]:
            return np.concatenate([np.empty(0, dtype), *(getattr(item, name) for item in self)])

        def repeated(name: str) -> pd.Series[Any]:
            values = pd.Series([getattr(item, name) for item in self], dtype=object)
            return values.repeat(lengths.tolist()).reset_index(drop=True)

        offsets = np.concatenate([np.empty((0, 2), np.int64), *(item.offsets for item in self)])
        frame = pd.DataFrame(
            {
                "example_id": repeated("example_id"),
                "method": repeated("method"),
                "position": np.concatenate([np.empty(0, np.int64), *(np.arange(n) for n in lengths)]),
                "token": [token for item in self for token in item.tokens],
                "segment": stacked("segments", np.int64),
                "word_id": stacked("word_ids", np.int64),
                "start": offsets[:, 0],
                "end": offsets[:, 1],
                "special": stacked("special", np.bool_),
                "score": stacked("scores", np.float64),
                "target": repeated("target").astype(np.int64),
                "target_label": repeated("target_label"),
                "unit": repeated("unit"),
                "seed": repeated("seed").astype("Int64"),
                "model": repeated("model"),
            }
        )
        return frame

    def save(self, path: str | Path) -> None:
        """Write a Parquet file, one row per explanation; either whole or not at all."""
        path = Path(path)
        buffer = BytesIO()
        pq.write_table(_table(self._items), buffer, compression="zstd")
        with written_or_told(f"The explanations cannot be written to {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, buffer.getvalue())

    @classmethod
    def load(cls, path: str | Path) -> Explanations:
        """Read what ``save`` wrote."""
        path = Path(path)
        if not path.is_file():
            raise UserError(f"There is no explanations file {path}.")
        try:
            file = pq.ParquetFile(path)
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise UserError(f"{path} is no explanations file: it is not Parquet.") from error
        with file:
            metadata = file.schema_arrow.metadata or {}
            if metadata.get(_KIND) != b"explanations":
                raise UserError(f"{path} is no explanations file: it was not written by Explanations.save.")
            version = metadata.get(_VERSION, b"").decode(errors="replace")
            if version != SCHEMA_VERSION or not _is_ours(file.schema_arrow):
                raise UserError(
                    f"{path} has version {version or 'unknown'} of the explanations format and this is "
                    f"version {SCHEMA_VERSION}; make the file again."
                )
            try:
                return cls(_explanations(file.read()))
            except (
                OSError,
                pa.ArrowException,
                ValueError,
                TypeError,
            ) as error:  # or filled by another program
                raise UserError(f"{path} is damaged; make the file again.") from error

    def _repr_html_(self) -> str:
        shown = [item for group in by_example(self)[:SHOWN] for item in group]
        more = len(by_example(self)) - SHOWN
        return to_html_fragment(shown) + (f"<p>… and {more} more examples.</p>" if more > 0 else "")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        groups = by_example(self)
        for group in groups[:SHOWN]:
            yield to_rich(group)
        if groups:
            yield legend()
        if len(groups) > SHOWN:
            yield Text(f"… and {len(groups) - SHOWN} more examples.", style="dim")


def _check_comparable(row: Sequence[Explanation]) -> None:
    """Refuse to compare scores of different tokens or of different classes."""

    def content(item: Explanation) -> list[tuple[str, int]]:
        positions = np.flatnonzero(item.content)
        return [(item.tokens[position], int(item.segments[position])) for position in positions]

    first = row[0]
    for other in row[1:]:
        pair = f"{first.method!r} and {other.method!r} on example {first.example_id!r}"
        if first.unit != other.unit:
            raise UserError(
                f"{pair} are in {first.unit}s and {other.unit}s; bring both to words with words()."
            )
        if content(first) != content(other):
            raise UserError(f"{pair} have different tokens and cannot be compared; explain the same model.")
        if UNKNOWN_TARGET not in (first.target, other.target) and first.target != other.target:
            raise UserError(
                f"{pair} explain different classes, {first.target_label} and {other.target_label}."
            )
        if None not in (first.answer, other.answer) and first.answer != other.answer:
            raise UserError(
                f"{pair} explain different answers, {first.target_label!r} and {other.target_label!r}."
            )


def _is_ours(schema: pa.Schema) -> bool:
    return bool(schema.equals(_SCHEMA)) or bool(
        schema.equals(pa.schema([field for field in _SCHEMA if field.name not in _LATER]))
    )


def _table(items: Sequence[Explanation]) -> pa.Table:
    columns: dict[str, list[Any]] = {}
    for name in _SCHEMA.names:
        if name in ("starts", "ends"):
            columns[name] = [np.ascontiguousarray(item.offsets[:, int(name == "ends")]) for item in items]
        elif name in ("configuration", "versions"):
            columns[name] = [json.dumps(getattr(item, name), ensure_ascii=False) for item in items]
        else:
            columns[name] = [getattr(item, name) for item in items]
    return pa.table(columns, schema=_SCHEMA)


def _explanations(table: pa.Table) -> Iterator[Explanation]:
    numeric = [*_ARRAYS, "special", "scores"]
    arrays = {name: _lists(table.column(name)) for name in numeric}
    rest = table.drop_columns(numeric)
    for row, record in enumerate(rest.to_pylist()):
        starts, ends = arrays["starts"][row], arrays["ends"][row]
        for name in ("configuration", "versions"):
            record[name] = json.loads(record[name])
        for name in ("word_ids", "segments", "special", "scores"):
            record[name] = arrays[name][row]
        record["warnings"] = tuple(record["warnings"])
        record["answer"] = None if record["answer"] is None else tuple(record["answer"])
        yield Explanation(offsets=np.stack([starts, ends], axis=1), **record)


def _lists(column: pa.ChunkedArray) -> list[NDArray[Any]]:
    """A list column as one NumPy array a row, without a Python object per value."""
    rows: list[NDArray[Any]] = []
    for chunk in column.chunks:
        values = chunk.flatten().to_numpy(zero_copy_only=False)
        rows.extend(np.split(values, np.cumsum(chunk.value_lengths().to_numpy())[:-1]) if len(chunk) else [])
    return rows
