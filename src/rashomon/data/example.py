"""What a model is asked about: one example, and a dataset of examples in named splits."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from rashomon.errors import DoesNotFit, UserError, unknown_name

if TYPE_CHECKING:
    import pandas as pd

    from rashomon.data.blank_texts import Empty


@dataclass(frozen=True, slots=True)
class Span:
    """Characters ``start`` to ``end`` (exclusive) of a text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Equality:
    """A phrase of the question and the phrase of the passage that it refers to."""

    question: Span
    passage: Span


@dataclass(frozen=True, slots=True)
class Example:
    """A text, a pair of texts, or a question (``text``) with its passage (``text_pair``).

    Attributes:
        id: tells the example apart.
        text: the text, the first text of a pair, or the question.
        label: counts into the dataset's ``labels``.
        text_pair: the second text, or the passage.
        tokens: given when the data comes tokenised; otherwise the text is cut into words.
        tokens_pair: the same for the second text.
        rationale: 0/1 over the tokens: what people marked, or what was planted.
        rationale_pair: the same for the second text.
        phrases: ``(start, end, label)`` spans of tokens.
        answers: spans of the passage that answer the question.
        equalities: phrases of the question and what they refer to in the passage.
    """

    id: str
    text: str
    label: int | None = None
    text_pair: str | None = None
    tokens: tuple[str, ...] | None = None
    tokens_pair: tuple[str, ...] | None = None
    rationale: tuple[int, ...] | None = None
    rationale_pair: tuple[int, ...] | None = None
    phrases: tuple[tuple[int, int, int], ...] | None = None
    answers: tuple[Span, ...] | None = None
    equalities: tuple[Equality, ...] | None = None

    @property
    def is_pair(self) -> bool:
        return self.text_pair is not None


Split = tuple[Example, ...]


MOST_LABELS = 6  # named where a dataset shows itself
MOST_CHARACTERS = 80


@dataclass(frozen=True, repr=False)
class Dataset:
    """Named splits of examples that share their labels. ``data["test"]`` is a tuple of examples.

    Attributes:
        name: what reports call it.
        splits: ``train``, ``dev``, ``test`` or whatever there is, each a tuple of examples.
        labels: the names of the classes; an example's ``label`` counts into them.
        notes: what was done to the data on the way in.
    """

    name: str
    splits: Mapping[str, Split]
    labels: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())  # what was done to it on the way in, for the report

    @classmethod
    def from_pandas(
        cls,
        frame: pd.DataFrame,
        text: str = "text",
        pair: str | None = None,
        label: str | None = "label",
        *,
        rationale: str | None = None,
        id: str | None = None,
        split: str | None = None,
        labels: Sequence[str] | None = None,
        seed: int = 0,
        name: str = "frame",
        empty: Empty = "few",
    ) -> Dataset:
        """A dataset from a pandas frame.

        Args:
            frame: one example a row. Its index tells examples apart, unless ``id`` names a column.
            text: the column with the text.
            pair: the column with the second text of a pair.
            label: the column with the label; None where there are no labels, and all examples are then test.
            rationale: the column with 0/1 marks over the words of the text.
            id: the column with names for the examples.
            split: the column that says ``train``, ``dev`` or ``test``; without it, 80/10/10 by class and seed.
            labels: the names of the classes in their order; by default all that occur, sorted.
            seed: decides which examples go into which split.
            name: what reports call the dataset.
            empty: what happens to rows without a text: ``few``, ``error`` or ``skip``, as for ``load_file``.

        Returns:
            The dataset; its notes say how it was split, and which rows were left out.
        """
        from rashomon.data.in_memory import dataset_from_frame

        columns = {"text": text, "pair": pair, "label": label, "rationale": rationale, "id": id}
        return dataset_from_frame(frame, columns, split, labels, seed, name, empty)

    @classmethod
    def from_list(
        cls,
        items: Sequence[Any],
        labels: Sequence[str] | None = None,
        *,
        split: str | None = None,
        seed: int = 0,
        name: str = "list",
        empty: Empty = "few",
    ) -> Dataset:
        """A dataset from a list.

        Args:
            items: texts, ``(text, label)``, ``(text, pair, label)``, dicts with the keys ``text``, ``label``,
                ``text_pair`` and so on, or ``Example`` objects. Without labels, all examples are test.
            labels: the names of the classes in their order; by default all that occur, sorted. The labels of
                ``Example`` objects are numbers and count into these.
            split: the key of dicts that says ``train``, ``dev`` or ``test``; without it, 80/10/10 by class and
                seed.
            seed: decides which examples go into which split.
            name: what reports call the dataset.
            empty: what happens to rows without a text: ``few``, ``error`` or ``skip``, as for ``load_file``.

        Returns:
            The dataset; its notes say how it was split, and which rows were left out.
        """
        from rashomon.data.in_memory import dataset_from_list

        return dataset_from_list(items, labels, split, seed, name, empty)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{split} {len(examples):,}" for split, examples in self.splits.items())
        shown = ", ".join(self.labels[:MOST_LABELS]) + (", …" if self.classes > MOST_LABELS else "")
        kind = "pairs" if self.is_pair else "texts"
        return f"Dataset({self.name}: {kind} {sizes or 'none'}; labels {shown or 'none'})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(split)}</th><td>{len(examples):,}</td><td>{escape(_balance(examples, self.labels))}"
            f"</td><td>{escape(_shortened(examples[0].text) if examples else '')}</td></tr>"
            for split, examples in self.splits.items()
        )
        head = "<tr><th>split</th><th>examples</th><th>labels</th><th>the first</th></tr>"
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        title = f"{escape(self.name)}: {'pairs' if self.is_pair else 'texts'}"
        return f"<p><strong>{title}</strong></p><table>{head}{rows}</table>{notes}"

    def __getitem__(self, split: str) -> Split:
        if split not in self.splits:
            raise unknown_name(f"split of {self.name}", split, self.splits)
        return self.splits[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self.splits)

    @property
    def classes(self) -> int:
        return len(self.labels)

    @property
    def is_pair(self) -> bool:
        return any(example.is_pair for split in self.splits.values() for example in split[:1])

    @cached_property
    def fingerprint(self) -> str:
        """Changes when any example, label or split does; the name and the notes do not count."""
        digest = hashlib.sha256(json.dumps(self.labels).encode())
        for split, examples in sorted(self.splits.items()):
            digest.update(f"\n{split}\n".encode())
            digest.update(fingerprint(examples).encode())
        return digest.hexdigest()[:16]


def _balance(examples: Sequence[Example], labels: Sequence[str]) -> str:
    counts = Counter(example.label for example in examples)
    named = [(labels[label] if label is not None else "none", n) for label, n in counts.most_common()]
    more = ", …" if len(named) > MOST_LABELS else ""
    return ", ".join(f"{label} {n:,}" for label, n in named[:MOST_LABELS]) + more


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"


def fingerprint(examples: Sequence[Example]) -> str:
    """A short hash of the content of examples, in their order."""
    digest = hashlib.sha256()
    names = sorted(field.name for field in fields(Example))
    for example in examples:
        content = {name: getattr(example, name) for name in names}
        digest.update(json.dumps(content, default=asdict).encode())
    return digest.hexdigest()[:16]


def require_dataset(data: object) -> None:
    """Refuse what is no dataset yet, with the way to make one of it."""
    if not isinstance(data, Dataset):
        kind = type(data).__name__
        raise UserError(
            f"A dataset is needed, not an object of type {kind}; make one with Dataset.from_pandas, "
            "Dataset.from_list, load_file or load_dataset."
        )


def require_labels(examples: Sequence[Example], what: str) -> None:
    """Refuse examples without labels, for the parts that cannot do without."""
    missing = next((example.id for example in examples if example.label is None), None)
    if missing is not None:
        raise DoesNotFit(f"{what} needs labels, and example {missing!r} has none.")
