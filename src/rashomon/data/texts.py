"""What texts does a user mean? One string, a list, pairs, dicts, a column or a frame: all become examples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from rashomon.data.columns import LABEL, Columns, examples_from
from rashomon.data.example import Dataset, Example
from rashomon.data.in_memory import a_kind, plain, table_of_frame, without_column
from rashomon.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

Text: TypeAlias = "str | Example | tuple[str, str] | Mapping[str, Any]"
Texts: TypeAlias = "Text | Iterable[Text] | pd.Series[Any] | pd.DataFrame"
_KINDS = "texts, (text, text) pairs, dicts with a 'text', examples, or a frame with a column 'text'"


def as_examples(given: Texts) -> list[Example]:
    """Examples of whatever holds texts; those without an id of their own go by their position or index.

    Labels of frames and dicts are not read: whose classes they count is not known here.
    """
    if isinstance(given, Dataset):
        splits = " or ".join(f"data[{split!r}]" for split in given)
        raise UserError(f"Choose a split of {given.name}, such as {splits}, instead of the whole dataset.")
    if hasattr(given, "columns") and hasattr(given, "iloc"):
        return _of_frame(given)
    if hasattr(given, "index") and hasattr(given, "iloc"):
        return _of_series(given)
    items: Any = [given] if isinstance(given, str | Example | Mapping) else given
    if isinstance(items, bytes) or not isinstance(items, Iterable):
        raise UserError(f"Texts are needed ({_KINDS}), not {a_kind(items)}.")
    return _distinct([_example(item, str(position)) for position, item in enumerate(items)])


def _of_frame(frame: Any) -> list[Example]:
    table = without_column(table_of_frame(frame), LABEL)
    try:
        examples, _ = examples_from(table, Columns(), require_labels=False)
    except UserError as error:
        if "text" in table.columns:
            raise
        raise UserError(
            f"{error} Give the column itself, as in frame['body'], or rename it to 'text' (and 'text_pair')."
        ) from None
    return _distinct(examples)


def _of_series(series: Any) -> list[Example]:
    keys = series.index if series.index.is_unique else range(len(series))
    items = zip(series, keys, strict=True)
    return _distinct([_example(plain(item), str(key)) for item, key in items])


def _example(item: Any, key: str) -> Example:
    if isinstance(item, Example):
        return item
    if isinstance(item, str):
        return Example(key, str(item))
    if isinstance(item, Mapping) and isinstance(item.get("text"), str):
        unknown = sorted({*map(str, item)} - {"id", "text", "text_pair", LABEL})
        if unknown:
            raise UserError(f"The text {key} has a value {unknown[0]!r}; known are id, text and text_pair.")
        item = (item["text"], item.get("text_pair"), str(item.get("id", key)))
        text, pair, key = item
        return Example(key, text, text_pair=_text(pair, key) if pair is not None else None)
    if isinstance(item, tuple | list) and len(item) == 2:
        return Example(key, _text(item[0], key), text_pair=_text(item[1], key))
    raise UserError(f"The text {key} is {a_kind(item)}; give {_KINDS}.")


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise UserError(
            f"The pair {key} holds {a_kind(value)}; a pair is two texts (labels are not part of it)."
        )
    return value


def _distinct(examples: Sequence[Example]) -> list[Example]:
    name, times = Counter(example.id for example in examples).most_common(1)[0] if examples else ("", 0)
    if times > 1:
        raise UserError(f"{times} examples have the id {name!r}; every example needs its own.")
    return list(examples)
