"""What a page shows: of any study, and what an audit adds to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rashomon.explainers.collection import Explanations
from rashomon.studies.base import Finding, Judgement


@dataclass(frozen=True)
class MethodVerdict:
    """What the audit says of one method."""

    method: str
    sentence: str
    judgements: tuple[Judgement, ...]


@dataclass(frozen=True, kw_only=True)
class ReportContent:
    """What every page has: one study's, or an audit's."""

    title: str
    model: str
    dataset: str
    summary: str  # the answer in two or three sentences
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]  # those of the findings may be among them
    configuration: Mapping[str, Any]
    versions: Mapping[str, str]
    command: str  # how to reproduce it
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Audit(ReportContent):
    """A page that answers "can I trust these explanations?" method by method, and shows them on examples."""

    verdicts: tuple[MethodVerdict, ...]
    explanations: Explanations  # of the examples that are shown
    example_agreement: Mapping[str, float]  # example id -> mean Kendall tau over pairs of methods
    gold_labels: Mapping[str, str]  # example id -> label, where known
    rationales: Mapping[str, Sequence[tuple[int, int, int]]]  # example id -> (segment, start, end) characters
