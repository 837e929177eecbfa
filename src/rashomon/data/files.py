"""How does a user's own data come in? One file that is split here, or one file for each split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rashomon.data.blank_texts import Empty
from rashomon.data.columns import Columns, examples_from, filled, is_question_answering
from rashomon.data.example import Dataset, Split
from rashomon.data.file_formats import Table, read_table
from rashomon.data.splits import split_off, split_three
from rashomon.errors import UserError


def read_examples(
    path: Path | str,
    columns: Columns | None = None,
    labels: Sequence[str] | None = None,
    require_labels: bool = True,
    empty: Empty = "few",
) -> tuple[Split, tuple[str, ...]]:
    """The examples of one file and their label names.

    With ``labels`` (of a training set, of a model) every label must be one of them. Without, all that occur
    are taken, integers in numerical order. Where labels are not required, a file may come without the column.
    """
    path = Path(path)
    table = filled(read_table(path), columns, empty)
    return examples_from(table, columns, labels, require_labels, prefix=_stem(path))


def load_file(
    path: Path | str,
    columns: Columns | None = None,
    seed: int = 0,
    require_labels: bool = True,
    empty: Empty = "few",
) -> Dataset:
    """A dataset from one file, split 80/10/10 by class and seed.

    Args:
        path: CSV, TSV or JSONL (each also gzipped), or Parquet.
        columns: which column holds the text, the label and so on; by default ``text`` and ``label``.
        seed: decides which examples go into which split. Equal texts stay on the same side.
        require_labels: where labels are not required, and are missing or all the same, every example is in
            the test split.
        empty: what happens to rows without a text. ``"few"`` leaves out at most 10 or 1 % of the rows, whichever
            is more, but never more than a tenth, with a warning, and refuses more; ``"error"`` refuses any;
            ``"skip"`` leaves out any number.

    Returns:
        The dataset; its notes say how it was split, and which rows were left out.
    """
    path = Path(path)
    table = filled(read_table(path), columns, empty)
    return dataset_of(table, _stem(path), columns, seed, require_labels=require_labels, title=path.name)


def load_whole_file(path: Path | str, columns: Columns | None = None, empty: Empty = "few") -> Dataset:
    """Every row of a file, in its order, as the test split: nothing is trained, and labels may be missing."""
    path = Path(path)
    table = filled(read_table(path), columns, empty)
    examples, labels = examples_from(table, columns, require_labels=False, prefix=_stem(path))
    return Dataset(_stem(path), {"test": examples}, labels, table.notes)


def dataset_of(
    table: Table,
    name: str,
    columns: Columns | None,
    seed: int,
    *,
    labels: Sequence[str] | None = None,
    require_labels: bool = True,
    title: str | None = None,
) -> Dataset:
    """The rows of a table without blanks as a dataset in three splits; ``title`` is what its notes call it."""
    title = title or table.source
    prefix = name if title != table.source else "row"
    examples, names = examples_from(table, columns, labels, require_labels, prefix=prefix)
    if is_question_answering(table, columns or Columns()):
        data = _split(examples, names, name, title, table.source, seed)
    else:
        data = split_of_examples(examples, names, name, title, seed, require_labels, table.source)
    return replace(data, notes=(*table.notes, *data.notes))


def split_of_examples(
    examples: Split,
    labels: tuple[str, ...],
    name: str,
    title: str,
    seed: int,
    require_labels: bool,
    source: str | None = None,
) -> Dataset:
    """Examples in three splits, or all in test where labels are not required and do not tell classes apart."""
    missing = sum(example.label is None for example in examples)
    if not require_labels and (missing or len(labels) < 2):
        note = f"{title} is all in the test split: {missing} of {len(examples)} examples have no label"
        return Dataset(name, {"test": examples}, labels, (note,))
    require_classes(labels, source or title)
    return _split(examples, labels, name, title, source or title, seed)


def _split(
    examples: Split, labels: tuple[str, ...], name: str, title: str, source: str, seed: int
) -> Dataset:
    splits = split_three(examples, labels, seed, source)
    note = f"{title} split 80/10/10 by class with seed {seed}, equal texts on the same side"
    return Dataset(name, splits, labels, (note,))


def load_files(
    train: Path | str,
    dev: Path | str | None = None,
    test: Path | str | None = None,
    columns: Columns | None = None,
    seed: int = 0,
    name: str | None = None,
    empty: Empty = "few",
) -> Dataset:
    """One file for each split; without a dev file a tenth of the training examples is set aside as dev."""
    train = Path(train)
    table = filled(read_table(train), columns, empty)
    examples, labels = examples_from(table, columns, prefix="train")
    if labels or not is_question_answering(table, columns or Columns()):
        require_classes(labels, str(train))
    splits, notes = {"train": examples}, table.notes
    for split, path in (("dev", dev), ("test", test)):
        if path is not None:
            table = filled(read_table(Path(path)), columns, empty)
            splits[split], _ = examples_from(table, columns, labels or None, prefix=split)
            notes += table.notes
    if dev is None:
        splits, note = with_dev(splits, labels, seed, str(train))
        notes += note
    return Dataset(name or _stem(train), distinct_ids(splits), labels, notes)


def with_dev(
    splits: Mapping[str, Split], labels: Sequence[str], seed: int, source: str
) -> tuple[dict[str, Split], tuple[str, ...]]:
    """Splits with a tenth of train set aside as dev, and a note that says so."""
    train, dev = split_off(splits["train"], labels, 0.1, np.random.default_rng(seed), source)
    rest = {name: split for name, split in splits.items() if name != "train"}
    note = f"no dev split given: {len(dev)} training examples set aside by class with seed {seed}"
    return {"train": train, "dev": dev, **rest}, (note,)


def distinct_ids(splits: Mapping[str, Split]) -> dict[str, Split]:
    """Ids that tell examples apart in the whole dataset: counted anew in each split, they get its name."""
    ids = [example.id for split in splits.values() for example in split]
    if len(set(ids)) == len(ids):
        return dict(splits)
    return {
        name: tuple(replace(example, id=f"{name}-{example.id}") for example in split)
        for name, split in splits.items()
    }


def require_classes(labels: Sequence[str], source: str) -> None:
    if len(labels) < 2:
        only = f"only one class, {labels[0]!r}" if labels else "no labels"
        raise UserError(f"{source} has {only}; at least two classes are needed.")


def _stem(path: Path) -> str:
    return path.name.split(".")[0]
