"""What the studies of paper *hard-to-agree* share: their settings, and how they train the model that they are about."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from rashomon.data import Dataset
from rashomon.experiments.agreeing import witnesses
from rashomon.experiments.regularised import EPOCH_MODELS, MARGIN, Asked, Penalties, dynamics_of
from rashomon.experiments.subject import Subject
from rashomon.models.base import Model
from rashomon.models.build import is_pretrained
from rashomon.models.model_spec import ModelSpec
from rashomon.studies.base import Study
from rashomon.training.regularisers import PenaltyReading
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import default_training


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
