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
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from rashomon.data import Dataset
from rashomon.drawing.notebook import finding_html
from rashomon.drawing.tables import figure_first, table_text
from rashomon.errors import DoesNotFit
from rashomon.experiments.abilities import able_model
from rashomon.experiments.cautions import Caution
from rashomon.experiments.figures import Figure, Gauge
from rashomon.experiments.judging import Rating
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import METHODS, Ask, about_stored, answerable, hearing_work
from rashomon.experiments.trials import LEARNED
from rashomon.explainers.request import space_refusal
from rashomon.models.base import Model
from rashomon.models.build import is_pretrained
from rashomon.models.model_spec import ModelSpec
from rashomon.models.seeding import check_seeds
from rashomon.models.tasks import Space
from rashomon.registry import Registry
from rashomon.runs.specifications import to_plain
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import default_training

if TYPE_CHECKING:
    from typing import Self

    from rashomon.experiments.context import Context, Work

ON_TRIAL = "Attention on trial"  # the chapter of the studies that ask whether attention can be moved
AUDITED_GAIN = (
    0.01  # an adversary of an audit stops when an epoch brings less; the full protocols go on for hours
)
LAST = 1000  # the place of a study that does not say where it stands among the others


@dataclass(frozen=True)
class Judgement:
    """One aspect of one method, in a few words and a number; ``gauges`` are what it rests on, to be drawn."""

    method: str
    aspect: str  # "agreement", "stability", "faithfulness", "truth", "cost", or one of a study's own
    rating: Rating  # never shown by colour alone
    words: str  # "partly agrees with the others"
    number: str  # "tau 0.42 [0.38, 0.46] (n = 100) with the others"
    gauges: tuple[Gauge, ...] = ()


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
        warnings: what to be wary of in this study.
        cautions: what to be wary of in the methods' explanations, whichever study looks at them.
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
    cautions: tuple[Caution, ...] = ()
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

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """Everything to be wary of, for a finding that is shown alone."""
        return (*self.warnings, *map(str, self.cautions))

    def __repr__(self) -> str:
        return f"Finding({self.study}: {self.verdict})"

    def __str__(self) -> str:
        table = [table_text(self.tables["summary"])] if "summary" in self.tables else []
        notes = [f"note: {warning}" for warning in self.all_warnings]
        return "\n".join([self.question, self.verdict, "", *table, *notes])

    def _repr_html_(self) -> str:
        summary = self.tables.get("summary")
        return finding_html(self.question, self.verdict, summary, self.figures, self.all_warnings)


@dataclass(frozen=True)
class Study(ABC):
    """Subclasses are frozen dataclasses: their fields are the protocol's settings."""

    name: ClassVar[str]
    question: ClassVar[str]
    title: ClassVar[str] = ""  # the heading in a report; empty: the name
    chapter: ClassVar[str | None] = None  # neighbouring studies of one chapter share a heading
    order: ClassVar[int] = LAST  # where it stands in an audit and its report
    on_request: ClassVar[bool] = False  # an audit leaves it out unless someone asks for it
    adding: ClassVar[tuple[str, ...]] = ()  # settings that add figures to a finding and change none
    of_explanations: ClassVar[bool] = True  # an audit needs one study at least that says something of these

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

    def needed_work(self, context: Context) -> list[Work]:
        """What it will ask of the store once these are trained, so that an audit does it all side by side too."""
        return []

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
        cautions: tuple[Caution, ...] = (),
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
            cautions=cautions,
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
    space: Space = "logit"  # what of a class is explained: its logit, its probability or its centred logit
    stored: str | None = None  # explanations made earlier or elsewhere (a Parquet file), instead of a model
    beside: str | None = None  # such explanations by further methods, beside those of the model

    @classmethod
    def of(cls, ask: Ask, **settings: Any) -> Self:
        """The study of what is asked."""
        return cls(**{f.name: getattr(ask, f.name) for f in fields(ask)}, **settings)

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        return cls.of(asked)

    @property
    def ask(self) -> Ask:
        asked = (getattr(self, f.name) for f in fields(Ask))
        return Ask(*asked)

    def fits(self, model: Model, data: Dataset) -> str | None:
        methods, left_out = answerable(self.methods, model)
        if not methods:
            return f"No method can explain this model: {'; '.join(left_out)}."
        return space_refusal(model, self.space)

    def check_fit(self, context: Context) -> None:
        """Stored explanations are there already."""
        if self.stored is None:
            super().check_fit(context)

    def needed_models(self) -> tuple[Subject, ...]:
        return (self.subject,) if self.stored is None or "checkpoint" in self.beside_stored else ()

    def needed_work(self, context: Context) -> list[Work]:
        return hearing_work(context, self.ask)

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
        del settings["split"], settings["space"], settings["beside"]
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


def audited_adversary(subject: Subject, enough: float | None = None) -> TrainingSpec:
    """How an audit trains adversaries: at most as long as the base, until they hardly improve or found ``enough``.

    One that has shown that another attention does need not show it better. For figures to quote, run the study itself.
    """
    usual = subject.how_trained
    return replace(usual, patience=2, least_gain=AUDITED_GAIN, select="loss", enough=enough)


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
