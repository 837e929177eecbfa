"""What a model is asked about: one example, and a dataset of examples in named splits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property

from rashomon.errors import DoesNotFit, unknown_name


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

    ``tokens`` are given when the data comes tokenised; rationales are 0/1 over them. ``phrases`` are
    ``(start, end, label)`` token spans. ``label`` counts into the dataset's ``labels``.
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


@dataclass(frozen=True)
class Dataset:
    """Named splits of examples that share their labels."""

    name: str
    splits: Mapping[str, Split]
    labels: tuple[str, ...]
    notes: tuple[str, ...] = field(default=())  # what was done to it on the way in, for the report

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


def fingerprint(examples: Sequence[Example]) -> str:
    """A short hash of the content of examples, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(json.dumps(asdict(example), sort_keys=True).encode())
    return digest.hexdigest()[:16]


def require_labels(examples: Sequence[Example], what: str) -> None:
    """Refuse examples without labels, for the parts that cannot do without."""
    missing = next((example.id for example in examples if example.label is None), None)
    if missing is not None:
        raise DoesNotFit(f"{what} needs labels, and example {missing!r} has none.")
