"""What a study is and what it yields.

A study is one question with a protocol: a frozen, typed configuration whose ``run`` turns a context (datasets,
trained models, explanations by specification) into a ``Finding``. Figures are data, so that the report draws them
to its own taste and ``findings.json`` holds what they show.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from rashomon.experiments.figures import Figure
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import METHODS
from rashomon.models.model_spec import ModelSpec
from rashomon.models.seeding import check_seeds
from rashomon.registry import Registry
from rashomon.runs.specifications import to_plain
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import default_training

if TYPE_CHECKING:
    from rashomon.experiments.context import Context


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


studies: Registry[type[Study]] = Registry("study", "studies", "rashomon.studies")


def configuration_of(study: object, used: Collection[str] = ()) -> dict[str, object]:
    """The settings in plain types, without a specification of a model that was not built from one.

    A study of stored explanations leaves out what it did not look at; ``used`` are parts of the subject that it did.
    """
    if isinstance(study, AttentionStudy):
        study = replace(study, subject=study.base)
    plain = to_plain(study)
    assert isinstance(plain, dict)
    ask = plain.get("ask", plain)
    subject = ask.get("subject", {})
    if ask.get("stored") is not None:
        del ask["subject"], ask["split"]
        if ask["methods"] == list(METHODS):
            del ask["methods"]
        if used:
            ask["subject"] = subject = {name: subject[name] for name in used}
    if subject.get("checkpoint") is not None:
        for unused in ("model", "training"):
            subject.pop(unused, None)
    return dict(plain)
