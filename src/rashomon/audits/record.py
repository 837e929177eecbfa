"""What an audit says: a judgement of every aspect of every method, and all that the report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rashomon.explainers.collection import Explanations
from rashomon.studies.base import Finding


@dataclass(frozen=True)
class Judgement:
    """One aspect of one method, in a few words and a number."""

    aspect: str  # "agreement", "stability", "faithfulness", "truth", "cost"
    rating: str  # "good", "mixed", "poor", "unknown": never shown by colour alone
    words: str  # "agrees with the others as much as with itself"
    number: str  # ".42 [.38, .46]"


@dataclass(frozen=True)
class MethodVerdict:
    """What the audit says of one method."""

    method: str
    sentence: str
    judgements: tuple[Judgement, ...]


@dataclass(frozen=True)
class Audit:
    """All that the report shows."""

    title: str
    model: str
    dataset: str
    summary: str  # the answer to "can I trust these explanations?" in two or three sentences
    verdicts: tuple[MethodVerdict, ...]
    findings: tuple[Finding, ...]
    explanations: Explanations  # of the examples that are shown
    example_agreement: Mapping[str, float]  # example id -> mean Kendall tau over pairs of methods
    gold_labels: Mapping[str, str]  # example id -> label, where known
    rationales: Mapping[str, Sequence[tuple[int, int, int]]]  # example id -> (segment, start, end) characters
    warnings: tuple[str, ...]
    configuration: Mapping[str, Any]
    versions: Mapping[str, str]
    command: str  # how to reproduce it
    seconds: float
