"""How does a user's own data come in? One file that is split here, or one file for each split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from rashomon.data.columns import Columns, examples_from, is_question_answering
from rashomon.data.example import Dataset, Split
from rashomon.data.file_formats import Table, read_table
from rashomon.data.splits import split_off, split_three
from rashomon.errors import UserError


def read_examples(
    path: Path | str,
    columns: Columns | None = None,
    labels: Sequence[str] | None = None,
    require_labels: bool = True,
) -> tuple[Split, tuple[str, ...]]:
    """The examples of one file and their label names.

    With ``labels`` (of a training set, of a model) every label must be one of them. Without, all that occur
    are taken, integers in numerical order. Where labels are not required, a file may come without the column.
    """
    path = Path(path)
    return examples_from(read_table(path), columns, labels, require_labels, prefix=_stem(path))


def load_file(
    path: Path | str, columns: Columns | None = None, seed: int = 0, require_labels: bool = True
) -> Dataset:
    """A dataset from one file, split 80/10/10 by class and seed.

    Args:
        path: CSV, TSV or JSONL (each also gzipped), or Parquet.
        columns: which column holds the text, the label and so on; by default ``text`` and ``label``.
        seed: decides which examples go into which split. Equal texts stay on the same side.
        require_labels: where labels are not required, and are missing or all the same, every example is in
            the test split.

    Returns:
        The dataset; its notes say how it was split.
    """
    path = Path(path)
    table = read_table(path)
    return dataset_of(table, _stem(path), columns, seed, require_labels=require_labels, title=path.name)


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
    """The rows of one table as a dataset in three splits; ``title`` is what its notes call the table."""
    title = title or table.source
    prefix = name if title != table.source else "row"
    examples, names = examples_from(table, columns, labels, require_labels, prefix=prefix)
    if is_question_answering(table, columns or Columns()):
        return _split(examples, names, name, title, table.source, seed)
    return split_of_examples(examples, names, name, title, seed, require_labels, table.source)


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
) -> Dataset:
    """One file for each split; without a dev file a tenth of the training examples is set aside as dev."""
    train = Path(train)
    table = read_table(train)
    examples, labels = examples_from(table, columns, prefix="train")
    if labels or not is_question_answering(table, columns or Columns()):
        require_classes(labels, str(train))
    splits = {"train": examples}
    for split, path in (("dev", dev), ("test", test)):
        if path is not None:
            known = labels or None
            splits[split], _ = examples_from(read_table(Path(path)), columns, known, prefix=split)
    notes: tuple[str, ...] = ()
    if dev is None:
        splits, notes = with_dev(splits, labels, seed, str(train))
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
