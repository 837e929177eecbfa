"""What a study is and what it yields.

A study is one question with a protocol: a frozen, typed configuration whose ``run`` turns a context (datasets,
trained models, explanations by specification) into a ``Finding``. It also says what it is called in a report, whether
it fits a model and its data, which models it needs and how an audit runs it, so that a new study is one file: the
command line, the audit and the report find it in the registry. Figures are data, so that the report draws them to its
own taste and ``findings.json`` holds what they show.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pandas as pd

from rashomon.data import Dataset
from rashomon.drawing.notebook import finding_html
from rashomon.drawing.tables import figure_first, table_text
from rashomon.errors import DoesNotFit
from rashomon.experiments.abilities import able_model
from rashomon.experiments.agreeing import witnesses
from rashomon.experiments.figures import Figure
from rashomon.experiments.judging import Rating
from rashomon.experiments.regularised import EPOCH_MODELS, MARGIN, Asked, Penalties, dynamics_of
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import METHODS, Ask, about_stored, answerable
from rashomon.experiments.trials import LEARNED
from rashomon.models.base import Model
from rashomon.models.build import is_pretrained
from rashomon.models.model_spec import ModelSpec
from rashomon.models.seeding import check_seeds
from rashomon.registry import Registry
from rashomon.runs.specifications import to_plain
from rashomon.training.regularisers import PenaltyReading
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import default_training

if TYPE_CHECKING:
    from typing import Self

    from rashomon.experiments.context import Context

ON_TRIAL = "Attention on trial"  # the chapter of the studies that ask whether attention can be moved
AUDITED_EPOCHS = 5  # of adversaries; the full protocols train dozens of them for hours
LAST = 1000  # the place of a study that does not say where it stands among the others


@dataclass(frozen=True)
class Judgement:
    """One aspect of one method, in a few words and a number."""

    method: str
    aspect: str  # "agreement", "stability", "faithfulness", "truth", "cost", or one of a study's own
    rating: Rating  # never shown by colour alone
    words: str  # "agrees with the others about as well as with itself"
    number: str  # "tau 0.42 [0.38, 0.46] (n = 100) with the others"


@dataclass(frozen=True, repr=False)
class Finding:
    """The answer of one study. It prints its summary, and shows its figures in a notebook.

    Attributes:
        study: the name of the study.
        question: what was asked.
        verdict: the answer in a sentence.
        configuration: every setting that led to it, in plain types.
        tables: pandas frames; ``summary`` comes first, with n, spread, interval and undefined counts.
        figures: figures as data.
        warnings: what to be wary of.
    """

    study: str
    question: str
    verdict: str
    configuration: Mapping[str, Any]
    tables: Mapping[
        str, pd.DataFrame
    ]  # "summary" comes first and has n, spread, interval and undefined counts
    figures: tuple[Figure, ...] = ()
    warnings: tuple[str, ...] = ()
    judgements: tuple[Judgement, ...] = ()  # of methods, by the study's own thresholds
    title: str = ""
    chapter: str | None = None

    def __post_init__(self) -> None:
        ordered = {name: figure_first(t) if name == "summary" else t for name, t in self.tables.items()}
        object.__setattr__(self, "tables", ordered)

    @property
    def summary(self) -> pd.DataFrame:
        """The table that the verdict rests on."""
        return self.tables["summary"]

    def __repr__(self) -> str:
        return f"Finding({self.study}: {self.verdict})"

    def __str__(self) -> str:
        table = [table_text(self.tables["summary"])] if "summary" in self.tables else []
        notes = [f"note: {warning}" for warning in self.warnings]
        return "\n".join([self.question, self.verdict, "", *table, *notes])

    def _repr_html_(self) -> str:
        summary = self.tables.get("summary")
        return finding_html(self.question, self.verdict, summary, self.figures, self.warnings)


@dataclass(frozen=True)
class Study(ABC):
    """Subclasses are frozen dataclasses: their fields are the protocol's settings."""

    name: ClassVar[str]
    question: ClassVar[str]
    title: ClassVar[str] = ""  # the heading in a report; empty: the name
    chapter: ClassVar[str | None] = None  # neighbouring studies of one chapter share a heading
    order: ClassVar[int] = LAST  # where it stands in an audit and its report

    subject: Subject = field(default_factory=Subject)

    def __post_init__(self) -> None:
        for name in ("seeds", "other_seeds", "seed", "adversary_seed"):
            given = getattr(self, name, ())
            check_seeds(f"{name} of {self.name}", *(given if isinstance(given, tuple) else (given,)))

    @abstractmethod
    def run(self, context: Context) -> Finding:
        """Carry the study out."""

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        """The study as an audit runs it, in the small; None: it is no part of an audit."""
        return None

    def fits(self, model: Model, data: Dataset) -> str | None:
        """Why the study cannot be carried out on this model and these data, in a sentence; None where it can.

        It is asked before anything is trained: of a model that is yet to be trained, ``model`` is one of its kind.
        """
        return None

    def check_fit(self, context: Context) -> None:
        """Refuse what does not fit before any work is done."""
        reason = self.fits(able_model(context, self.base), context.data_of(self.base))
        if reason is not None:
            raise DoesNotFit(reason)

    def needed_models(self) -> tuple[Subject, ...]:
        """The models that the study will ask the context for, so that all can be trained side by side first."""
        return (self.base,)

    @property
    def base(self) -> Subject:
        """The subject as the study trains it."""
        return self.subject

    def base_training(self, model: ModelSpec) -> TrainingSpec:
        """How the study trains the model that it is about, where nobody says otherwise."""
        return default_training(model)

    def left_open(self) -> dict[str, object]:
        """What the study takes for settings that are None, for those who want to change a part of one."""
        return {}

    def about(self, finding: Finding) -> tuple[str, str]:
        """The model and the data of a finding, in words for the head of its report."""
        return self.subject.describe(), self.subject.dataset.name

    def configuration(self) -> dict[str, object]:
        """The settings in plain types, as they were used."""
        return configuration_of(replace(self, subject=self.base))

    def finding(
        self,
        verdict: str,
        tables: Mapping[str, pd.DataFrame],
        *,
        figures: tuple[Figure, ...] = (),
        warnings: tuple[str, ...] = (),
        judgements: tuple[Judgement, ...] = (),
    ) -> Finding:
        """The study's answer, with what every finding says of its study."""
        return Finding(
            study=self.name,
            question=self.question,
            verdict=verdict,
            configuration=self.configuration(),
            tables=tables,
            figures=figures,
            warnings=warnings,
            judgements=judgements,
            title=self.title,
            chapter=self.chapter,
        )


@dataclass(frozen=True)
class ExplanationStudy(Study):
    """A study of what methods say of texts. Its settings begin with those of an ``Ask``.

    On stored explanations it leaves the subject alone, except for the parts that it must look at nevertheless.
    """

    beside_stored: ClassVar[tuple[str, ...]] = ()  # fields of the subject that it needs even then

    methods: tuple[str, ...] = METHODS  # whose explanations are studied (`rashomon list explainers`)
    instances: int = 500  # how many texts are explained
    split: str = "test"  # which split they are drawn from
    stored: str | None = None  # explanations made earlier or elsewhere (a Parquet file), instead of a model

    @classmethod
    def of(cls, ask: Ask, **settings: Any) -> Self:
        """The study of what is asked."""
        return cls(**{f.name: getattr(ask, f.name) for f in fields(ask)}, **settings)

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        return cls.of(asked)

    @property
    def ask(self) -> Ask:
        return Ask(self.subject, self.methods, self.instances, self.split, self.stored)

    def fits(self, model: Model, data: Dataset) -> str | None:
        methods, left_out = answerable(self.methods, model)
        return None if methods else f"No method can explain this model: {'; '.join(left_out)}."

    def check_fit(self, context: Context) -> None:
        """Stored explanations are there already."""
        if self.stored is None:
            super().check_fit(context)

    def needed_models(self) -> tuple[Subject, ...]:
        return (self.subject,) if self.stored is None or "checkpoint" in self.beside_stored else ()

    def about(self, finding: Finding) -> tuple[str, str]:
        """Of stored explanations, what their file says."""
        if self.stored is None:
            return super().about(finding)
        model, texts = about_stored(self.stored)
        texts += f": {finding.tables['instances']['example'].nunique()} texts"
        if "dataset" in self.beside_stored:
            texts += f", matched with {self.subject.dataset.name}"
        return self.subject.describe() if "checkpoint" in self.beside_stored else model, texts

    def configuration(self) -> dict[str, object]:
        """Without what the study did not look at."""
        settings = super().configuration()
        if self.stored is None:
            return settings
        subject = settings.pop("subject")
        assert isinstance(subject, dict)
        del settings["split"]
        if self.methods == METHODS:
            del settings["methods"]
        used = {name: subject[name] for name in self.beside_stored if name in subject}
        return {"subject": used, **settings} if used else settings


@dataclass(frozen=True)
class AttentionStudy(Study):
    """A study of the papers on attention, whose classifiers keep the epoch with the best ROC-AUC on dev.

    That is an earlier epoch than the one with the best F1: less sure of itself, and closer to what another seed learns.
    """

    def fits(self, model: Model, data: Dataset) -> str | None:
        if "attention" not in model.capabilities:
            return "The model has no attention that could be looked at."
        if "classes" not in model.capabilities:
            return "The model does not choose between classes, and their probabilities are what is compared."
        weights = self.subject.model.weights
        if self.subject.checkpoint is None and weights not in LEARNED:
            return f"The attention is {weights}, not learned: there is nothing to try."
        return None

    @property
    def base(self) -> Subject:
        """The subject with its training said, where that was left open."""
        if self.subject.checkpoint is not None or self.subject.training is not None:
            return self.subject
        return replace(self.subject, training=self.base_training(self.subject.model))

    @property
    def first_base(self) -> Subject:
        """The one model of a study that tries the first seed alone."""
        return replace(self.base, seeds=self.subject.seeds[:1])

    def base_training(self, model: ModelSpec) -> TrainingSpec:
        usual = default_training(model)
        return usual if is_pretrained(model.name) else replace(usual, select="roc-auc")


@dataclass(frozen=True)
class RegularisedStudy(Study):
    """A study of paper *hard-to-agree*: the model as it is beside models that are trained with a penalty.

    All of them are trained for a few epochs from the same seeds, and what they predict is kept after every epoch.
    """

    fewest_methods: ClassVar[int] = 2
    over_epochs: ClassVar[bool] = False  # whether the study cannot do without the model of every epoch

    methods: tuple[str, ...] = (
        "deeplift",
        "integrated-gradients",
        "deep-shap",
        "gradient-shap",
    )  # who explains
    instances: int = 500  # how many texts are explained; all of the split where it has fewer
    split: str = "test"  # which split they are drawn from
    measures: tuple[str, ...] = ("kendall", "pearson")  # of agreement, by name (`rashomon list measures`)
    variants: tuple[str, ...] = (
        "conicity",
        "tying",
    )  # penalties, with a weight or without: tying(weight=0.5)
    reading: PenaltyReading = (
        "as-written"  # of the penalties: as the paper writes them, or as its code has them
    )
    grid: tuple[float, ...] | None = None  # weights to try where none is written; None: the paper's
    margin: float = MARGIN  # how much F1 on dev a weight may cost
    search_seeds: int = 1  # how many of the seeds a weight is tried with
    dropout: Literal["off", "on"] = "off"  # whether dropout stays on while the model is explained

    @property
    def penalties(self) -> Penalties:
        """None for a checkpoint, which cannot be trained with one and stands alone."""
        variants = self.variants if self.subject.checkpoint is None else ()
        return Penalties(variants, self.reading, self.grid, self.margin, self.search_seeds)

    @property
    def asked(self) -> Asked:
        return Asked(self.methods, self.instances, self.split, self.dropout == "on")

    @property
    def base(self) -> Subject:
        """The subject with its training said, and all kept that any study of this paper looks at."""
        if self.subject.checkpoint is not None:
            return self.subject
        training = self.subject.training or self.base_training(self.subject.model)
        kept, dynamics = self.subject.callbacks, dynamics_of(self.split)
        if self.variants or self.over_epochs or dynamics not in kept:
            kept = tuple(dict.fromkeys((*kept, dynamics, EPOCH_MODELS)))
        return replace(self.subject, training=training, callbacks=kept)

    def base_training(self, model: ModelSpec) -> TrainingSpec:
        """Five epochs, whatever comes of them, as published."""
        usual = replace(default_training(model), epochs=5, clip=1.0, patience=None, select="f1")
        if is_pretrained(model.name):
            return replace(usual, learning_rate=2e-5)
        return replace(usual, optimizer="adam", weight_decay=0.0)

    def fits(self, model: Model, data: Dataset) -> str | None:
        if "classes" not in model.capabilities:
            return "The model does not choose between classes, whose probabilities are followed over epochs."
        if not data[self.split]:
            return f"The {self.split} split of {data.name} is empty, so there is nothing to explain."
        if len(witnesses(self.methods, model)) < self.fewest_methods:
            return "Agreement needs at least two methods that can explain the model."
        return None


def audited_adversary(subject: Subject) -> TrainingSpec:
    """How an audit trains adversaries: like the base, for a few epochs. For figures to quote, run the study itself."""
    return replace(subject.how_trained, epochs=AUDITED_EPOCHS, patience=None, select="loss")


studies: Registry[type[Study]] = Registry("study", "studies", "rashomon.studies")


def in_order() -> list[type[Study]]:
    """Every study that is registered, in the order of an audit."""
    return [entry.value for entry in sorted(studies, key=lambda entry: (entry.value.order, entry.name))]


def configuration_of(settings: object) -> dict[str, object]:
    """Settings in plain types, without a specification of a model that was not built from one."""
    plain = to_plain(settings)
    assert isinstance(plain, dict)
    subject = plain["subject"]
    if subject["checkpoint"] is not None:
        for unused in ("model", "training"):
            del subject[unused]
    return dict(plain)
