"""The groups of options that commands share, and the specifications they become."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from rashomon.cli.groups import option
from rashomon.errors import UserError

if TYPE_CHECKING:
    from rashomon.data import Columns
    from rashomon.experiments.context import Context
    from rashomon.experiments.subject import DatasetSpec, Subject
    from rashomon.models.model_spec import ModelSpec
    from rashomon.training.settings import TrainingSpec


Text = str | None
Number = int | None
Real = float | None
File = Path | None
Methods = Annotated[
    str,
    typer.Option(
        help="Methods, with commas between, settings in parentheses: attention,lime(samples=500). "
        "See `rashomon list explainers`."
    ),
]


@dataclass(frozen=True)
class OutputOptions:
    """What is printed and where."""

    panel: ClassVar[str] = "Output"
    json: bool = option(False, "Print exactly one JSON document on standard output.", "--json")
    quiet: bool = option(False, "No progress and no tables; errors are still told.", "--quiet", "-q")


@dataclass(frozen=True)
class StoreOptions:
    """Where finished work is kept and data is looked for."""

    panel: ClassVar[str] = "Store and workers"
    store: File = option(None, "Where finished work is kept (default: $RASHOMON_STORE or your cache folder).")
    data_dir: File = option(None, "Folder with datasets as NAME/SPLIT.jsonl[.gz] (default: $RASHOMON_DATA).")
    workers: Number = option(None, "Trainings that run side by side (default: the number of cores).")
    backend: str = option("processes", "Where they run: processes, ray, dask or serial.")
    trust_remote_code: bool = option(
        False,
        "Run program code that a checkpoint brings; only if you trust whoever wrote it.",
        "--trust-remote-code",
    )

    def context(self) -> Context:
        from rashomon.experiments.context import Context
        from rashomon.runs.store import Store

        if self.trust_remote_code:
            os.environ["RASHOMON_TRUST_REMOTE_CODE"] = "1"  # for worker processes too
        store = Store(self.store) if self.store else Store()
        return Context(store, self.data_dir, self.workers, self.backend)  # type: ignore[arg-type]


@dataclass(frozen=True)
class DataOptions:
    """Which texts."""

    panel: ClassVar[str] = "Data"
    dataset: Text = option(
        None, "A dataset by name (`rashomon list datasets`) (default: planted-reviews).", "--dataset", "-d"
    )
    data: File = option(None, "One CSV, TSV, JSONL or Parquet file, split 80/10/10 by class and seed.")
    train: File = option(None, "A file with the training split; goes with --dev and --test.")
    dev: File = option(None, "A file with the development split.")
    test: File = option(None, "A file with the test split.")
    text_column: str = option("text", "The column that holds the text.")
    pair_column: Text = option(None, "The column that holds the second text of a pair.")
    label_column: str = option("label", "The column that holds the label.")
    rationale_column: Text = option(None, "The column that holds a 0/1 rationale over the tokens.")
    classes: Number = option(None, "Classes of a planted dataset, from 2.")
    placement: Text = option(None, "Where planted evidence lies: scattered, start, middle or end.")
    strength: Text = option(None, "Which opinion words are planted: strong, weak or any.")
    lexicon: File = option(None, "Folder with positive.txt and negative.txt to plant words from.")
    keep: list[str] = option([], "Keep only some texts: min-tokens:3, max-tokens:240. May be repeated.")
    data_seed: int = option(0, "Seed of generated data and of splits.")

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
        planted = typed(self, ("classes", "placement", "strength", "lexicon"))
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
    model: str = option(
        "bilstm",
        "bilstm, gru, cnn, mlp, transformer, minilm, distilbert, bert, or a checkpoint.",
        "--model",
        "--encoder",
        "-m",
    )
    attention: Text = option(None, "Scoring of the built-in attention: additive or dot.")
    heads: Number = option(None, "Heads of the built-in attention.")
    weights: Text = option(None, "softmax, sparsemax, entmax15 or uniform.")
    temperature: Real = option(None, "Temperature of the softmax.")
    embedding_dim: Number = option(None, "Size of word embeddings.")
    hidden: Number = option(None, "Units of the encoder (a direction).")
    layers: Number = option(None, "Layers of the encoder.")
    dropout: Real = option(None, "Dropout on embeddings and on the pooled vector.")
    max_length: Number = option(None, "Longest text in tokens; the rest is cut, and the cut is reported.")
    steps: list[str] = option(
        [], "Token preprocessing: lowercase, alphanumeric, truncate:200. May be repeated.", "--step"
    )
    vocabulary_size: Number = option(None, "Largest number of words.")
    embeddings: File = option(None, "Word vectors: .npz, GloVe text or fastText .vec.")
    epochs: Number = option(None, "Most epochs of the model (of adversaries: --set training.epochs=...).")
    batch_size: Number = option(None, "Examples in a batch.")
    learning_rate: Real = option(None, "Learning rate.")
    weight_decay: Real = option(
        None, "Weight decay (never on the attention, nor on word vectors from a file)."
    )
    optimizer: Text = option(None, "adam, adamw or amsgrad.")
    clip: Real = option(None, "Largest gradient norm.")
    patience: Number = option(None, "Epochs without improvement before training stops.")
    least_gain: Real = option(None, "An improvement smaller than this does not renew the patience.")
    select: Text = option(
        None, "Which dev figure picks the epoch (f1, accuracy, roc-auc, loss), or train-loss."
    )
    seed: list[int] = option(
        [], "Seed of the training, and of what is drawn. May be repeated for several models.", "--seed"
    )

    def subject(
        self,
        dataset: DatasetSpec,
        seeds: tuple[int, ...] = (0,),
        usual: Callable[[ModelSpec], TrainingSpec] | None = None,
    ) -> Subject:
        """A subject to be trained: as usual, except for what was asked."""
        from rashomon.experiments.subject import Subject
        from rashomon.models.model_spec import ModelSpec
        from rashomon.runs.specifications import from_plain, to_plain
        from rashomon.training.settings import TrainingSpec
        from rashomon.training.train import default_training

        of_model = self._given(ModelSpec)
        if self.embeddings is not None:
            of_model["embeddings"] = str(self.embeddings)
        model = ModelSpec(name=self.model, **of_model)
        asked = self._given(TrainingSpec)
        base = to_plain((usual or default_training)(model))
        training = from_plain(TrainingSpec, base | asked) if asked else None
        return Subject(dataset, model, training, tuple(self.seed) or seeds)

    def checkpoint(self) -> bool:
        """Whether the model is a folder or a hub id, to be used as it is, rather than a name to be trained."""
        from rashomon.models.build import is_pretrained
        from rashomon.models.model_spec import PRETRAINED

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
        from rashomon.models.model_spec import ModelSpec

        if not self.checkpoint():
            return self.subject(dataset, seeds, usual)
        useless = typed(self, {f.name for f in fields(self)} - {"model", "seed"})
        if useless:
            raise UserError(
                f"{useless[0]} is for a model that is trained, and the checkpoint {self.model} is used as it is."
            )
        # Nothing is trained, but the seeds also decide which texts are drawn and what sampling methods see.
        asked = tuple(self.seed) or seeds
        return Subject(dataset, ModelSpec(name=self.model), None, asked, checkpoint=self.model)

    def _given(self, spec: type[Any]) -> dict[str, Any]:
        names = {f.name for f in fields(spec)} & {f.name for f in fields(self)} - {"embeddings"}
        values = {name: getattr(self, name) for name in names}
        return {n: tuple(v) if isinstance(v, list) else v for n, v in values.items() if v not in (None, [])}


def with_dataset(options: DataOptions, name: str) -> DataOptions:
    return replace(options, dataset=name)


def typed(options: DataOptions | ModelOptions, among: Collection[str] | None = None) -> list[str]:
    """The options that differ from their defaults, as they are typed."""
    usual = type(options)()
    return [
        f.metadata["names"][0] if f.metadata["names"] else f"--{f.name.replace('_', '-')}"
        for f in fields(options)
        if (among is None or f.name in among) and getattr(options, f.name) != getattr(usual, f.name)
    ]


def method_names(text: str) -> tuple[str, ...]:
    """Methods with commas between them; those within the parentheses of a method belong to its settings."""
    return tuple(name.strip() for name in re.split(r",(?![^(]*\))", text) if name.strip())


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)
