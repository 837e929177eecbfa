"""What a study is and what it yields.

A study is one question with a protocol: a frozen, typed configuration whose ``run`` turns a context (datasets,
trained models, explanations by specification) into a ``Finding``. Figures are data, so that the report draws them
to its own taste and ``findings.json`` holds what they show.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from rashomon.models.seeding import check_seeds
from rashomon.models.spec import ModelSpec
from rashomon.registry import Registry
from rashomon.studies.subject import Subject
from rashomon.training.spec import TrainingSpec
from rashomon.training.train import default_training

if TYPE_CHECKING:
    from rashomon.explain.collection import Explanations
    from rashomon.studies.context import Context


@dataclass(frozen=True)
class Matrix:
    """A square or oblong table of numbers to colour, one layer per measure with a switch between them."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    layers: Mapping[str, Sequence[Sequence[float]]]  # measure -> rows of values, NaN where undefined
    ranges: Mapping[str, tuple[float, float]]  # measure -> what the colours span
    details: Mapping[str, Sequence[Sequence[str]]] = field(
        default_factory=dict
    )  # shown with a cell: n, interval
    caption: str = ""


@dataclass(frozen=True)
class Distributions:
    """Values by group, drawn as violins with their median; groups may be paired (class 0 above, class 1 below)."""

    title: str
    groups: Mapping[str, Sequence[float]]
    x_label: str
    caption: str = ""
    x_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Series:
    """Points of one kind. ``low`` and ``high`` are an interval around y; ``line`` joins the points."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    line: bool = True
    marker: str = "circle"  # circle, triangle, square, plus


@dataclass(frozen=True)
class Plot:
    """Series on common axes."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    caption: str = ""


Figure = Matrix | Distributions | Plot


@dataclass(frozen=True)
class Finding:
    """The answer of one study: a sentence, the numbers behind it, and what to be wary of."""

    study: str
    question: str
    verdict: str
    configuration: Mapping[str, Any]
    tables: Mapping[
        str, pd.DataFrame
    ]  # "summary" comes first and has n, spread, interval and undefined counts
    figures: tuple[Figure, ...] = ()
    warnings: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class Study(ABC):
    """Subclasses are frozen dataclasses: their fields are the protocol's settings."""

    name: ClassVar[str]
    question: ClassVar[str]

    def __post_init__(self) -> None:
        for name in ("seeds", "other_seeds", "seed", "adversary_seed"):
            given = getattr(self, name, ())
            check_seeds(f"{name} of {self.name}", *(given if isinstance(given, tuple) else (given,)))

    @abstractmethod
    def run(self, context: Context) -> Finding:
        """Carry the study out."""

    def left_open(self) -> dict[str, object]:
        """What the study takes for settings that are None, for those who want to change a part of one."""
        return {}

    def base_training(self, model: ModelSpec) -> TrainingSpec:
        """How the study trains the model that it is about, where nobody says otherwise."""
        return default_training(model)


@dataclass(frozen=True)
class AttentionStudy(Study):
    """A study of the papers on attention, whose classifiers keep the epoch with the best ROC-AUC on dev.

    That is an earlier epoch than the one with the best F1: less sure of itself, and closer to what another seed learns.
    """

    subject: Subject

    @property
    def base(self) -> Subject:
        """The subject with its training said, where that was left open."""
        if self.subject.checkpoint is not None or self.subject.training is not None:
            return self.subject
        return replace(self.subject, training=self.base_training(self.subject.model))

    def base_training(self, model: ModelSpec) -> TrainingSpec:
        usual = default_training(model)
        return replace(usual, select="roc-auc") if model.is_builtin else usual


studies: Registry[type[Study]] = Registry("study")
