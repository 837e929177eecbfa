"""How does a row of a table become an ``Example``? Columns are mapped, labels counted, mistakes named.

Besides the mapped columns the keys of the shared JSONL layout are understood: ``text_pair``, ``tokens``,
``tokens_pair``, ``rationale``, ``rationale_pair``, ``phrases``; and for questions with passages ``question``,
``passage``, ``answers`` and ``referential_equalities``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rashomon.data.annotations import MalformedError, example_of
from rashomon.data.blank_texts import Empty, without_blanks
from rashomon.data.example import Example
from rashomon.data.file_formats import Table
from rashomon.errors import UserError, unknown_name

LABEL = "label"
MOST_DIGITS = 18  # of a label that is a number; what is longer is a name
LONGEST_LABEL = 1000  # characters
_NUMERAL = re.compile(r"[+-]?\d+(\.\d*)?")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which column holds what. ``None`` takes the layout's own key where it is there."""

    text: str = "text"
    pair: str | None = None
    label: str = LABEL
    rationale: str | None = None
    id: str | None = None


def is_question_answering(table: Table, columns: Columns) -> bool:
    """Questions with passages, unless another column is asked for as the text."""
    return (
        columns.text == "text" and "text" not in table.columns and {"question", "passage"} <= {*table.columns}
    )


def examples_from(
    table: Table,
    columns: Columns | None = None,
    labels: Sequence[str] | None = None,
    require_labels: bool = True,
    prefix: str = "row",
) -> tuple[tuple[Example, ...], tuple[str, ...]]:
    """The examples of a table and the names of their labels (those given, or all that occur, in order).

    Rows without a text are refused here; ``filled`` leaves them out before.
    """
    asked = columns or Columns()
    questions = is_question_answering(table, asked)
    columns = _understood(table, asked)
    require_labels = require_labels and not questions
    _check_columns(table, columns, require_labels)
    table = filled(table, asked, "error")
    texts = _texts(table, columns.text)
    pairs: Sequence[str | None] = _texts(table, columns.pair) if columns.pair else [None] * len(texts)
    numbers, names = _labels(table, columns.label, labels, require_labels)
    ids = _ids(table, columns.id, prefix)
    examples = []
    for (line, values), key, text, other, label in zip(table.rows, ids, texts, pairs, numbers, strict=True):
        try:
            example = example_of(values, key, text, other, label, columns.rationale)
            # A question stays one where nobody knows its answer.
            examples.append(replace(example, answers=example.answers or ()) if questions else example)
        except MalformedError as problem:
            raise UserError(f"In {table.where(line)}, {problem}.") from problem
    return tuple(examples), names


def filled(table: Table, columns: Columns | None, empty: Empty) -> Table:
    """The rows that have the texts an example needs: of a pair both, of a question the passage too."""
    understood = _understood(table, columns or Columns())
    needed = [name for name in (understood.text, understood.pair) if name is not None]
    table.require_all(needed)
    return without_blanks(table, needed, empty)


def _understood(table: Table, columns: Columns) -> Columns:
    """With the layout's own keys where these are there."""
    if is_question_answering(table, columns):
        return Columns("question", "passage", columns.label, None, columns.id)
    pair = columns.pair or ("text_pair" if "text_pair" in table.columns else None)
    return replace(columns, pair=pair)


def _check_columns(table: Table, columns: Columns, require_labels: bool) -> None:
    asked = (columns.text, columns.pair, columns.rationale, columns.id)
    table.require_all(column for column in asked if column is not None)
    # A label column that was asked for by name must be there even when labels are optional.
    if require_labels or columns.label != LABEL:
        table.require(columns.label)


def _texts(table: Table, column: str) -> list[str]:
    texts = []
    for line, values in table.rows:
        text = values.get(column)
        if isinstance(text, (int, float)):
            raise UserError(
                f"The column {column!r} should hold text, but {table.where(line)} has the number {text}."
            )
        if not isinstance(text, str):
            raise UserError(
                f"The column {column!r} should hold text, but {table.where(line)} has something else."
            )
        texts.append(text)
    if all(_is_number(text) for text in texts):
        raise UserError(
            f"The column {column!r} of {table.source} holds numbers, not text; name another column."
        )
    return texts


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _labels(
    table: Table, column: str, known: Sequence[str] | None, required: bool
) -> tuple[list[int | None], tuple[str, ...]]:
    names = []
    for line, values in table.rows:
        try:
            names.append(_label_name(values.get(column)))
        except MalformedError as problem:
            raise UserError(f"The label ({column!r}) in {table.where(line)} {problem}.") from problem
    for (line, _), name in zip(table.rows, names, strict=True):
        if name is None and required:
            raise UserError(f"The label ({column!r}) in {table.where(line)} is empty.")
    if known is not None:
        names = [name if name is None or name in known else _integral(name) for name in names]
    elif all(name is None or _is_numeral(name) for name in names):
        names = [name and _integral(name) for name in names]
    present = {name for name in names if name is not None}
    if known is None:
        ordered = tuple(sorted(present, key=_numerically if all(map(_is_numeral, present)) else None))
        index = {name: number for number, name in enumerate(ordered)}
    else:
        ordered = tuple(known)
        index = _known_labels(ordered, present)
    for (line, _), name in zip(table.rows, names, strict=True):
        if name is not None and name not in index:
            error = unknown_name("label", name, ordered)
            raise UserError(f"{error} It stands in {table.where(line)} and not in the training set.")
    return [None if name is None else index[name] for name in names], ordered


def _label_name(value: object) -> str | None:
    if value is None or value == "" or value != value:  # the last is a missing number
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | set | dict):
        raise MalformedError("is a list or an object; give a name or a number")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))  # integers that a gap in their column made floats
    try:
        name = str(value).strip()
    except ValueError as error:  # Python writes out no integer of more than 4,300 digits
        raise MalformedError("is a number of too many digits") from error
    if len(name) > LONGEST_LABEL:
        raise MalformedError(f"has {len(name):,} characters, which is too long for a name")
    return name or None


def _is_numeral(name: str) -> bool:
    return _NUMERAL.fullmatch(name) is not None


def _integral(name: str) -> str:
    """``1`` for ``1.0``, as a flat file writes an integer that a gap in its column made a float."""
    whole, point, decimals = name.partition(".")
    is_whole = point and _is_numeral(name) and not decimals.strip("0") and len(whole) <= MOST_DIGITS
    return str(int(whole)) if is_whole else name


def _numerically(name: str) -> tuple[float, str]:
    return float(name), name  # the name as well: 1 and 01 are equal, and their order must not be chance


def _known_labels(known: tuple[str, ...], present: set[str]) -> dict[str, int]:
    """Names to numbers; data may also say the numbers themselves, when no name looks like one."""
    index = {name: number for number, name in enumerate(known)}
    positions = {str(number): number for number in range(len(known))}
    if present and present <= positions.keys() and not any(map(_is_numeral, known)):
        return positions
    return index


def _ids(table: Table, column: str | None, prefix: str) -> list[str]:
    """The ids of the rows, made from the line numbers where there are none."""
    made = [f"{prefix}-{line}" for line, _ in table.rows]
    name = column or "id"
    if name not in table.columns:
        return made
    ids = ["" if values.get(name) is None else str(values[name]) for _, values in table.rows]
    if "" not in ids and len(set(ids)) == len(ids):
        return ids
    if column is None:
        return made
    repeated = Counter(ids).most_common(1)[0][0]
    what = f"{repeated!r} is there more than once" if repeated else "some rows have none"
    raise UserError(f"The ids in column {column!r} of {table.source} must tell rows apart, but {what}.")
