"""The groups of options that commands share, and the specifications they become."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from rashomon.cli.groups import Given, fields_of, typed
from rashomon.errors import UserError
from rashomon.fields import setting
from rashomon.models.model_spec import PRETRAINED, ModelSpec
from rashomon.training.settings import FINE_TUNING, TrainingSpec

if TYPE_CHECKING:
    from rashomon.data import Columns
    from rashomon.experiments.context import Context
    from rashomon.experiments.subject import DatasetSpec, Subject
    from rashomon.runs.store import Store

Text = str | None
Number = int | None
File = Path | None
PLANTED = ("--classes", "--placement", "--strength", "--lexicon")
Methods = Annotated[
    str,
    typer.Option(
        help="Methods, with commas between, settings in parentheses: attention,lime(samples=500). "
        "See `rashomon list explainers`."
    ),
]
SpaceName = Annotated[
    str | None,
    typer.Option(
        "--space",
        help="What of a class is explained: its logit, its probability, or its centred logit, which is what it "
        "lies above the mean over all classes. (default: logit)",
    ),
]


@dataclass(frozen=True)
class OutputOptions:
    """What is printed and where."""

    panel: ClassVar[str] = "Output"
    json: bool = setting(False, "Print exactly one JSON document on standard output.", "--json")
    quiet: bool = setting(False, "No progress and no tables; errors are still told.", "--quiet", "-q")


@dataclass(frozen=True)
class StoreOptions:
    """Where finished work is kept and data is looked for."""

    panel: ClassVar[str] = "Store and workers"
    store: File = setting(
        None, "Where finished work is kept (default: $RASHOMON_STORE or your cache folder)."
    )
    data_dir: File = setting(None, "Folder with datasets as NAME/SPLIT.jsonl[.gz] (default: $RASHOMON_DATA).")
    workers: Number = setting(None, "Trainings that run side by side (default: the number of cores).")
    backend: str = setting("processes", "Where they run: processes, ray, dask or serial.")
    trust_remote_code: bool = setting(
        False,
        "Run program code that a checkpoint brings; only if you trust whoever wrote it.",
        "--trust-remote-code",
    )

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise UserError(f"The number of workers must be at least 1, not {self.workers}.")
        if self.backend != "processes":
            from rashomon.runs.executor import check_backend

            check_backend(self.backend)
        if self.data_dir is not None and not self.data_dir.is_dir():
            raise UserError(f"There is no folder {self.data_dir}, which the data directory names.")

    def runs(self) -> Store:
        """Finished work alone, for those who only look at it."""
        from rashomon.runs.store import Store

        return Store(self.store) if self.store else Store()

    def context(self) -> Context:
        from rashomon.experiments.context import Context

        if self.trust_remote_code:
            os.environ["RASHOMON_TRUST_REMOTE_CODE"] = "1"  # for worker processes too
        return Context(self.runs(), self.data_dir, self.workers, self.backend)  # type: ignore[arg-type]


@dataclass(frozen=True)
class DataOptions:
    """Which texts."""

    panel: ClassVar[str] = "Data"
    dataset: Text = setting(
        None, "A dataset by name (`rashomon list datasets`) (default: planted-reviews).", "--dataset", "-d"
    )
    data: File = setting(None, "One CSV, TSV, JSONL or Parquet file, split 80/10/10 by class and seed.")
    train: File = setting(None, "A file with the training split; goes with --dev and --test.")
    dev: File = setting(None, "A file with the development split.")
    test: File = setting(None, "A file with the test split.")
    text_column: str = setting("text", "The column that holds the text.")
    pair_column: Text = setting(None, "The column that holds the second text of a pair.")
    label_column: str = setting("label", "The column that holds the label.")
    rationale_column: Text = setting(None, "The column that holds a 0/1 rationale over the tokens.")
    empty: str = setting(
        "few",
        "Rows of a file without a text: few leaves out at most 10 or 1 % (and never over a tenth) and refuses more, "
        "error refuses any, skip leaves out any number.",
    )
    classes: Number = setting(None, "Classes of a planted dataset, from 2.")
    placement: Text = setting(None, "Where planted evidence lies: scattered, start, middle or end.")
    strength: Text = setting(None, "Which opinion words are planted: strong, weak or any.")
    lexicon: File = setting(None, "Folder with positive.txt and negative.txt to plant words from.")
    keep: list[str] = setting(
        [], "Keep only some texts: min-tokens:3, max-tokens:240, train-texts:2000. May be repeated."
    )
    data_seed: int = setting(0, "Seed of generated data and of splits.")

    def __post_init__(self) -> None:
        if self.dataset is not None and not self.dataset.strip():
            raise UserError("--dataset is empty; `rashomon list datasets` shows the names.")
        for name in ("data", "train", "dev", "test"):
            if getattr(self, name) is not None:
                check_file(getattr(self, name), f"--{name}")

    def columns(self) -> Columns:
        from rashomon.data import Columns

        return Columns(self.text_column, self.pair_column, self.label_column, self.rationale_column)

    def spec(self, labelled: bool = True, usual: str = "planted-reviews") -> DatasetSpec:
        """The chosen texts; where none were chosen, the dataset that is ``usual``."""
        from rashomon.experiments.subject import DatasetSpec

        ways = [name for name in ("dataset", "data", "train") if getattr(self, name) is not None]
        if len(ways) > 1:
            raise UserError(
                f"Give one of --dataset, --data and --train, not {' and '.join('--' + w for w in ways)}."
            )
        if self.train is None and (self.dev or self.test):
            raise UserError("--dev and --test go with --train; for one file to split, use --data.")
        planted = [option for option in typed(self) if option in PLANTED]
        if planted and (self.data or self.train):
            raise UserError(f"{planted[0]} is for planted datasets and goes with --dataset, not with a file.")
        name = self.dataset or (self.data.stem if self.data else self.train.stem if self.train else None)
        return DatasetSpec(
            name=name or usual,
            file=_text(self.data),
            train=_text(self.train),
            dev=_text(self.dev),
            test=_text(self.test),
            columns=self.columns(),
            labelled=labelled,
            empty=self.empty,  # type: ignore[arg-type]  # the specification checks it
            classes=self.classes,
            placement=self.placement,
            strength=self.strength,
            lexicon=_text(self.lexicon),
            keep=tuple(self.keep),
            seed=self.data_seed,
        )


@dataclass(frozen=True)
class ModelOptions:
    """Which model, and how it is trained. What is not given keeps the default that suits the model."""

    panel: ClassVar[str] = "Model and training"
    of_model: Given = fields_of(ModelSpec)
    of_training: Given = fields_of(TrainingSpec, fine_tuning=FINE_TUNING)
    objective: str = setting(
        "cross-entropy",
        "What training pulls towards, settings in parentheses: tying(weight=5). See `rashomon list objectives`.",
    )
    callback: list[str] = setting(
        [], "What is kept of the training beside the model: dynamics, epoch-models. May be repeated."
    )
    seed: list[int] = setting(
        [], "Seed of the training, and of what is drawn. May be repeated for several models.", "--seed"
    )

    def __post_init__(self) -> None:
        if self.of_model.get("embeddings"):
            check_file(Path(self.of_model["embeddings"]), "--embeddings")
        if not self.model.strip():
            raise UserError("--model is empty; see `rashomon list models`.")
        if self.model[0] in "./~" and not Path(self.model).expanduser().is_dir():
            raise UserError(f"There is no checkpoint folder at {self.model}.")

    @property
    def model(self) -> str:
        return str(self.of_model.get("name", ModelSpec.name))

    def subject(
        self,
        dataset: DatasetSpec,
        seeds: tuple[int, ...] = (0,),
        usual: Callable[[ModelSpec], TrainingSpec] | None = None,
    ) -> Subject:
        """A subject to be trained: as usual, except for what was asked."""
        from rashomon.experiments.subject import Subject
        from rashomon.runs.specifications import from_plain, to_plain
        from rashomon.training.train import default_training

        model = ModelSpec(**self.of_model)
        base = to_plain((usual or default_training)(model))
        training = from_plain(TrainingSpec, {**base, **self.of_training}) if self.of_training else None
        return Subject(
            dataset,
            model,
            training,
            tuple(self.seed) or seeds,
            objective=self.objective,
            callbacks=tuple(self.callback),
        )

    def checkpoint(self) -> bool:
        """Whether the model is a folder or a hub id, to be used as it is, rather than a name to be trained."""
        from rashomon.models.build import is_pretrained

        # The ids behind the short names are encoders without a head, which can only be fine-tuned.
        to_be_tuned = {*PRETRAINED, *PRETRAINED.values()}
        return Path(self.model).is_dir() or (is_pretrained(self.model) and self.model not in to_be_tuned)

    def any_subject(
        self,
        dataset: DatasetSpec,
        seeds: tuple[int, ...] = (0,),
        usual: Callable[[ModelSpec], TrainingSpec] | None = None,
    ) -> Subject:
        """A checkpoint as it is, or a subject to be trained."""
        from rashomon.experiments.subject import Subject

        if not self.checkpoint():
            return self.subject(dataset, seeds, usual)
        useless = [option for option in typed(self) if option not in ("--model", "--seed")]
        if useless:
            raise UserError(
                f"{useless[0]} is for a model that is trained, and the checkpoint {self.model} is used as it is."
            )
        # Nothing is trained, but the seeds also decide which texts are drawn and what sampling methods see.
        asked = tuple(self.seed) or seeds
        return Subject(dataset, ModelSpec(name=self.model), None, asked, checkpoint=self.model)


def with_dataset(options: DataOptions, name: str) -> DataOptions:
    return replace(options, dataset=name)


def method_names(text: str) -> tuple[str, ...]:
    """Methods with commas between them; those within the parentheses of a method belong to its settings."""
    return tuple(name.strip() for name in re.split(r",(?![^(]*\))", text) if name.strip())


def names_in(text: str) -> tuple[str, ...]:
    """Names with commas between them."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def check_file(path: Path, option: str) -> None:
    """What an option names must be there, which is told before anything slow is imported."""
    if not path.exists():
        raise UserError(f"There is no file {path}, which {option} names.")
    if path.is_dir():
        raise UserError(f"{path}, which {option} names, is a folder, not a file.")
    if not path.is_file():
        raise UserError(
            f"{path}, which {option} names, is not an ordinary file; save its content in one first."
        )


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
