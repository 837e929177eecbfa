"""A dataset from the Hugging Face hub, through its ``datasets`` library (extra ``hub``), as a ``Dataset``.

Columns and splits go by many names there; the usual ones are recognised, and each can be named instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from rashomon.data.columns import Columns, examples_from
from rashomon.data.example import Dataset, Split
from rashomon.data.file_formats import Table
from rashomon.data.files import require_classes, with_dev
from rashomon.data.splits import split_three
from rashomon.errors import UserError

PAIRS = (
    ("premise", "hypothesis"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("text", "text_pair"),
    ("question", "sentence"),
)
TEXTS = (
    "text",
    "sentence",
    "content",
    "review",
    "review_body",
    "document",
    "comment",
    "tweet",
    "body",
    "question",
)
LABELS = (
    "label",
    "labels",
    "coarse_label",
    "label-coarse",
    "class",
    "category",
    "sentiment",
    "stars",
    "target",
)
_STRINGS = ("string", "large_string")
SPLITS = {
    "train": ("train",),
    "dev": ("validation", "dev", "valid", "val", "validation_matched"),
    "test": ("test", "test_matched"),
}


class HubMissError(Exception):
    """The hub did not answer: why, as a clause for the error that says all that was tried."""


def load_from_hub(
    name: str,
    seed: int = 0,
    config: str | None = None,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
) -> Dataset:
    """A dataset of the hub; ``config`` is its configuration there, the others are columns."""
    found = _download(name, config)
    first = next(iter(found.values()))
    columns = guess_columns(first.column_names, first.features, text, pair, label, name)
    names = getattr(first.features[columns.label], "names", None)
    dropped: list[str] = []
    splits: dict[str, Split] = {}
    labels: Sequence[str] | None = names
    for split, aliases in SPLITS.items():
        alias = next((alias for alias in aliases if alias in found), None)
        if alias is None:
            continue
        table = _table(found[alias], f"{name} ({alias})", columns, names, dropped)
        if table.rows and any(values[columns.label] is not None for _, values in table.rows):
            splits[split], labels = examples_from(table, columns, labels, prefix=split)
        else:
            dropped.append(f"the split {alias!r}, whose labels are not published")
    if "train" not in splits:
        raise UserError(
            f"The hub dataset {name!r} has no labelled training split; its splits are {', '.join(found)}."
        )
    require_classes(labels or (), name)
    splits, notes = _three(splits, tuple(labels or ()), seed, name)
    left_out = (f"left out: {'; '.join(dropped)}",) if dropped else ()
    return Dataset(
        name, splits, tuple(labels or ()), (f"from the Hugging Face hub: {name}", *notes, *left_out)
    )


def guess_columns(
    names: Sequence[str],
    features: Mapping[str, Any],
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    source: str = "the dataset",
) -> Columns:
    """The columns asked for, else those with a usual name, else the only one that can be meant."""
    Table(source, tuple(names), ()).require_all(column for column in (text, pair, label) if column)
    if text is None:
        both = next((both for both in PAIRS if set(both) <= set(names)), None)
        strings = [name for name in names if getattr(features[name], "dtype", None) in _STRINGS]
        text = both[0] if both else _first(TEXTS, names, strings)
        pair = pair or (both[1] if both else None)
    classes = [name for name in names if hasattr(features[name], "names")]
    label = label or _first(LABELS, names, classes)
    if text is None or label is None:
        missing = "text" if text is None else "label"
        listed = ", ".join(names)
        raise UserError(
            f"Which column of {source} is the {missing} is not clear; name it, there are: {listed}."
        )
    return Columns(text, pair, label)


def _first(usual: Sequence[str], names: Sequence[str], candidates: Sequence[str]) -> str | None:
    """The first usual name there is, else the only candidate."""
    only = candidates[0] if len(candidates) == 1 else None
    return next((one for one in usual if one in names), only)


def _download(name: str, config: str | None) -> Mapping[str, Any]:
    try:
        import datasets
    except ImportError as error:
        raise HubMissError("the 'datasets' library is not installed (pip install 'rashomon[hub]')") from error
    if not os.environ.get("HF_HUB_OFFLINE"):
        _ask(name)
    try:
        found = datasets.load_dataset(name, config)
    except Exception as error:  # the library raises whatever its many parts raise
        raise HubMissError(f"the hub's answer was: {_one_line(error)}") from error
    return found  # type: ignore[no-any-return]


def _ask(name: str) -> None:
    """One short question first: without a network the library itself would try for half a minute."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    try:
        HfApi().dataset_info(name, timeout=10)
    except OfflineModeIsEnabled:
        return  # the library then looks for an earlier download
    except (HfHubHTTPError, HFValidationError) as error:
        raise HubMissError(f"the hub has no such public dataset ({type(error).__name__})") from error
    except Exception as error:  # of the HTTP library, which changes between versions
        raise HubMissError(
            f"the hub cannot be reached ({_one_line(error)}); HF_HUB_OFFLINE=1 takes an earlier download"
        ) from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__


def _table(
    split: Any, source: str, columns: Columns, names: Sequence[str] | None, dropped: list[str]
) -> Table:
    """The wanted columns of a split. Rows without text or label, which nobody can mend on the hub, are left out.

    A split without any labels is kept as it is.
    """
    wanted = [column for column in (columns.text, columns.pair, columns.label) if column is not None]
    texts = [column for column in wanted if column != columns.label]
    rows = []
    for number, values in enumerate(split.select_columns(wanted), start=1):
        if names is not None:
            value = values[columns.label]
            values = {**values, columns.label: None if value is None or value < 0 else names[value]}
        rows.append((number, values))
    full = tuple(row for row in rows if all(row[1][column] not in (None, "") for column in texts))
    if len(full) < len(rows):
        dropped.append(f"{len(rows) - len(full)} rows of {source} without text")
    labelled = tuple(row for row in full if row[1][columns.label] is not None)
    if 0 < len(labelled) < len(full):
        dropped.append(f"{len(full) - len(labelled)} rows of {source} without a label")
    return Table(source, tuple(wanted), labelled or full, unit="row")


def _three(
    splits: dict[str, Split], labels: tuple[str, ...], seed: int, name: str
) -> tuple[dict[str, Split], tuple[str, ...]]:
    """Train, dev and test out of what there is."""
    notes: tuple[str, ...] = ()
    if set(splits) == {"train"}:
        return split_three(splits["train"], labels, seed, name), (
            f"split 80/10/10 by class with seed {seed}",
        )
    if "test" not in splits:
        splits = {"train": splits["train"], "test": splits["dev"]}
        notes = ("the validation split serves as test",)
    if "dev" not in splits:
        splits, made = with_dev(splits, labels, seed, name)
        notes += made
    return splits, notes
