"""What a page shows: of any study, and what an audit adds to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rashomon.experiments.cautions import Caution, cautions_of
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
    """What every page has: one study's, an audit's, or a replication's."""

    kind: ClassVar[str] = "study"
    numbers: ClassVar[str] = "findings.json"  # the file beside the page

    title: str
    model: str
    dataset: str
    summary: str  # the answer in two or three sentences
    findings: tuple[Finding, ...]
    warnings: tuple[str, ...]  # those of the findings may be among them; cautions are not
    configuration: Mapping[str, Any]
    versions: Mapping[str, str]
    command: str  # how to reproduce it
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Audit(ReportContent):
    """A page that answers "can I trust these explanations?" method by method, and shows them on examples."""

    kind: ClassVar[str] = "audit"

    verdicts: tuple[MethodVerdict, ...]
    explanations: Explanations  # of the examples that are shown
    example_agreement: Mapping[str, float]  # example id -> mean Kendall tau over pairs of methods
    gold_labels: Mapping[str, str]  # example id -> label, where known
    rationales: Mapping[str, Sequence[tuple[int, int, int]]]  # example id -> (segment, start, end) characters


def cautions_in(report: ReportContent) -> list[tuple[Caution, tuple[Finding, ...]]]:
    """What to be wary of in the methods' explanations, each kind once, beside the findings that rest on them.

    The same warning may be of all texts in one finding and of some in another: it is told of the most.
    """
    by_kind: dict[tuple[str, str], list[tuple[Caution, Finding | None]]] = {}
    shown = cautions_of(report.explanations) if isinstance(report, Audit) else ()
    for caution in shown:
        by_kind.setdefault(caution.kind, []).append((caution, None))
    for finding in report.findings:
        for caution in finding.cautions:
            by_kind.setdefault(caution.kind, []).append((caution, finding))
    return [
        (
            max((caution for caution, _ in same), key=lambda caution: caution.of),
            tuple(f for _, f in same if f is not None),
        )
        for same in by_kind.values()
    ]
