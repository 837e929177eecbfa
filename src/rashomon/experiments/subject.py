"""What a study is about: a dataset, a model and how it is trained, all by specification."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rashomon.data import Columns
from rashomon.data.blank_texts import Empty, check_empty
from rashomon.models.model_spec import ModelSpec
from rashomon.models.seeding import check_seeds
from rashomon.training.callbacks import make_callback
from rashomon.training.objectives import make_objective
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import default_training

GIVEN = "given"  # names a dataset or a model that the caller handed over in memory


@dataclass(frozen=True)
class DatasetSpec:
    """A dataset by name, or from files. Planted datasets also take classes, placement and strength."""

    name: str = "planted-reviews"
    file: str | None = None  # one file, split 80/10/10 by class and seed
    train: str | None = None
    dev: str | None = None
    test: str | None = None
    columns: Columns = field(default_factory=Columns)
    labelled: bool = True  # false: labels are read where there are any
    empty: Empty = (
        "few"  # rows of a file without a text: leave out a few, refuse any (error), leave out all (skip)
    )
    classes: int | None = None
    placement: str | None = None
    strength: str | None = None
    lexicon: str | None = None
    keep: tuple[str, ...] = ()  # dataset steps such as "min-tokens:3"
    seed: int = 0

    def __post_init__(self) -> None:
        check_seeds("The seed of the data", self.seed)
        check_empty(self.empty)

    def planted_options(self) -> dict[str, object]:
        options = {"classes": self.classes, "placement": self.placement, "strength": self.strength}
        return {name: value for name, value in options.items() if value is not None}


@dataclass(frozen=True)
class Subject:
    """A model on a dataset. With ``checkpoint`` the model is used as it is; otherwise one is trained per seed."""

    dataset: DatasetSpec = field(default_factory=DatasetSpec)
    model: ModelSpec = field(default_factory=ModelSpec)
    training: TrainingSpec | None = None  # None: what suits the model
    seeds: tuple[int, ...] = (0,)
    checkpoint: str | None = None  # a folder, a hub id, or GIVEN
    objective: str = "cross-entropy"  # what training pulls towards, with its settings: tying(weight=5)
    callbacks: tuple[str, ...] = ()  # what listens to the training and is kept: dynamics, epoch-models

    def __post_init__(self) -> None:
        check_seeds("The seed of a model", *self.seeds)
        make_objective(self.objective)  # what is wrong with a name is told before any work is done
        for callback in self.callbacks:
            make_callback(callback)

    @property
    def how_trained(self) -> TrainingSpec:
        return self.training or default_training(self.model)

    @property
    def with_another_seed(self) -> Subject:
        """For every model another one: the subject's next, so that nothing is trained needlessly; for one, one more."""
        seeds = self.seeds
        return self.with_seeds((*seeds[1:], seeds[0]) if len(seeds) > 1 else (seeds[0] + 1,))

    def with_seeds(self, seeds: tuple[int, ...]) -> Subject:
        """The same trained from other seeds; nobody asks how, so nothing but the models is kept."""
        return replace(self, seeds=seeds, callbacks=())

    @property
    def uniform_twin(self) -> Subject:
        """The same with attention that weighs every token alike; nothing but the models is kept."""
        return replace(self.with_model(weights="uniform"), callbacks=())

    def with_model(self, **changes: object) -> Subject:
        return replace(self, model=replace(self.model, **changes))  # type: ignore[arg-type]

    def describe(self) -> str:
        if self.checkpoint == GIVEN:
            return "your model"
        return self.model.name if self.checkpoint is None else self.checkpoint


DEMONSTRATION = Subject(model=ModelSpec(hidden=64), training=TrainingSpec(batch_size=64, learning_rate=3e-3))
"""What is audited where nobody names a model or data: trained in seconds, and right about 99 of 100 reviews."""
