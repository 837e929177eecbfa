"""How does data that is already in memory come in? A pandas frame, or a list of texts, tuples, dicts or examples.

Both become the same ``Table`` that files are read into, so that columns, labels and mistakes are dealt with once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rashomon.data.blank_texts import Empty, without_blanks
from rashomon.data.columns import LABEL, Columns, examples_from, filled
from rashomon.data.example import Dataset, Example, Split
from rashomon.data.file_formats import Table, Values
from rashomon.data.files import dataset_of, distinct_ids, require_classes, split_of_examples, with_dev
from rashomon.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

FRAME, LIST = "the frame", "the list"
_SPLIT_NAMES = {"training": "train", "validation": "dev", "valid": "dev", "val": "dev", "testing": "test"}


def dataset_from_frame(
    frame: pd.DataFrame,
    columns: Mapping[str, str | None],
    split: str | None,
    labels: Sequence[str] | None,
    seed: int,
    name: str,
    empty: Empty,
) -> Dataset:
    """See ``Dataset.from_pandas``. ``columns`` by the names of the fields of ``Columns``."""
    table, label = table_of_frame(frame), columns["label"]
    table.require(columns["text"] or "text")
    if label is None:
        table = without_column(table, LABEL)
    elif label == LABEL and label not in table.columns:
        listed = ", ".join(table.columns)
        raise UserError(
            f"There is no column 'label' in {FRAME}; name one with label=..., or say label=None where there "
            f"are no labels. Its columns are: {listed}."
        )
    named = Columns(
        columns["text"] or "text", columns["pair"], label or LABEL, columns["rationale"], columns["id"]
    )
    return dataset_from_table(table, named, split, labels, seed, name, empty)


def dataset_from_list(
    items: Sequence[Any], labels: Sequence[str] | None, split: str | None, seed: int, name: str, empty: Empty
) -> Dataset:
    """See ``Dataset.from_list``."""
    items = (
        list(items) if isinstance(items, Iterable) and not isinstance(items, str | bytes | Mapping) else items
    )
    if isinstance(items, list) and items and isinstance(items[0], Example):
        return dataset_from_examples(items, labels, seed, name, empty)
    table = table_of_list(items)
    return dataset_from_table(table, Columns(), split, labels, seed, name, empty)


def dataset_from_table(
    table: Table,
    columns: Columns,
    split: str | None,
    labels: Sequence[str] | None,
    seed: int,
    name: str,
    empty: Empty,
) -> Dataset:
    """Splits as a column names them; without one, 80/10/10 by class and seed, or all in test without labels."""
    table = filled(table, columns, empty)
    labelled = columns.label in table.columns
    if split is None:
        return dataset_of(table, name, columns, seed, labels=labels, require_labels=labelled)
    table.require(split)
    examples, names = examples_from(table, columns, labels, require_labels=labelled)
    splits: dict[str, list[Example]] = {}
    for (row, values), example in zip(table.rows, examples, strict=True):
        splits.setdefault(_split_name(values.get(split), split, table.where(row)), []).append(example)
    if labelled and "train" in splits:
        require_classes(names, table.source)
    made: dict[str, Split] = {key: tuple(items) for key, items in splits.items()}
    notes = table.notes
    if "train" in made and "dev" not in made and labelled:
        made, note = with_dev(made, names, seed, table.source)
        notes += note
    return Dataset(name, distinct_ids(made), names, notes)


def table_of_frame(frame: pd.DataFrame, source: str = FRAME) -> Table:
    """A frame's rows with plain values. Rows go by the frame's index where that tells them apart."""
    _require_frame(frame)
    names = [str(name) for name in frame.columns]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"Two columns of {source} are named {twice[0]!r}; give each its own name.")
    if not len(frame):
        raise UserError(f"{source[0].upper()}{source[1:]} holds no rows.")
    columns = [[plain(value) for value in frame.iloc[:, place]] for place in range(len(names))]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
    if "id" not in names and frame.index.is_unique and not frame.index.hasnans:
        for key, row in zip(frame.index, rows, strict=True):
            row["id"] = str(key)
        names.append("id")
    return Table(source, tuple(names), tuple(enumerate(rows, start=1)), unit="row")


def table_of_list(items: Any, source: str = LIST) -> Table:
    """Texts, ``(text, label)``, ``(text, pair, label)`` or dicts, one kind in one list."""
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise UserError(
            f"A list of texts, tuples, dicts or examples is needed, not {a_kind(items)}; put one text into a list."
        )
    rows = [(number, _row_of(item, number, source)) for number, item in enumerate(items, start=1)]
    if not rows:
        raise UserError(f"{source[0].upper()}{source[1:]} is empty.")
    shapes = {len(item) if isinstance(item, tuple) else type(item).__name__ for item in items}
    if len(shapes) > 1 and not all(isinstance(item, Mapping) for item in items):
        raise UserError(f"The items of {source} are of different kinds; give texts, or tuples of one length.")
    names = dict.fromkeys(name for _, values in rows for name in values)
    return Table(source, tuple(names), tuple(rows), unit="item")


def dataset_from_examples(
    examples: Sequence[Example], labels: Sequence[str] | None, seed: int, name: str, empty: Empty
) -> Dataset:
    """Examples made by hand; without label names, classes are called by their numbers."""
    for number, example in enumerate(examples, start=1):
        if not isinstance(example, Example):
            raise UserError(
                f"Item {number} of {LIST} is {a_kind(example)} among examples; give one kind alone."
            )
    numbers = [example.label for example in examples if example.label is not None]
    names = tuple(labels) if labels else tuple(str(label) for label in range(max(numbers, default=-1) + 1))
    wrong = next((label for label in numbers if not 0 <= label < len(names)), None)
    if wrong is not None:
        raise UserError(f"An example has the label {wrong}, and there are {len(names)} label names.")
    once, times = Counter(example.id for example in examples).most_common(1)[0]
    if times > 1:
        raise UserError(f"{times} examples have the id {once!r}; every example needs its own.")
    table = _without_blank_examples(examples, empty)
    kept = tuple(examples[number - 1] for number, _ in table.rows)
    data = split_of_examples(kept, names, name, LIST, seed, require_labels=False)
    return replace(data, notes=(*table.notes, *data.notes))


def _without_blank_examples(examples: Sequence[Example], empty: Empty) -> Table:
    """By the same rule as rows; a text that is not of a pair needs no second one."""
    texts = [{"text": e.text, "text_pair": e.text if e.text_pair is None else e.text_pair} for e in examples]
    rows: tuple[tuple[int, Values], ...] = tuple((n, {**values}) for n, values in enumerate(texts, start=1))
    columns = ("text", "text_pair") if any(e.is_pair for e in examples) else ("text",)
    return without_blanks(Table(LIST, columns, rows, unit="item"), columns, empty)


def without_column(table: Table, column: str) -> Table:
    rows = tuple((number, {k: v for k, v in values.items() if k != column}) for number, values in table.rows)
    return replace(table, columns=tuple(name for name in table.columns if name != column), rows=rows)


def _row_of(item: Any, number: int, source: str) -> Values:
    if isinstance(item, str):
        return {"text": item}
    if isinstance(item, Mapping):
        return {str(key): plain(value) for key, value in item.items()}
    if isinstance(item, tuple) and len(item) == 2:
        return {"text": item[0], LABEL: plain(item[1])}
    if isinstance(item, tuple) and len(item) == 3:
        return {"text": item[0], "text_pair": item[1], LABEL: plain(item[2])}
    raise UserError(
        f"Item {number} of {source} is {a_kind(item)}; give texts, (text, label), (text, pair, label), "
        "dicts with named values, or examples."
    )


def _split_name(value: object, column: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"The split ({column!r}) in {where} is {value!r}; name train, dev or test.")
    name = value.strip().lower()
    return _SPLIT_NAMES.get(name, name)


def plain(value: Any) -> Any:
    """NumPy's and pandas' values as Python's own; what is missing is None."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value):
        return None
    return value


def _require_frame(frame: Any) -> None:
    if not (hasattr(frame, "columns") and hasattr(frame, "iloc")):
        raise UserError(
            f"A pandas DataFrame is needed, not {a_kind(frame)}; lists go into Dataset.from_list."
        )


def a_kind(value: object) -> str:
    kind = type(value).__name__
    return f"an {kind}" if kind[0].lower() in "aeiou" else f"a {kind}"
