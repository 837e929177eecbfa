"""Datasets, trained models and explanations by specification, each made once.

Two studies that need the same base model train it once; a training that was killed goes on from its last checkpoint,
explaining from its last block of texts; seeds train side by side, one thread each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from rashomon.data import Dataset, Example, load_dataset
from rashomon.data.files import load_file, load_files, load_whole_file
from rashomon.data.preprocess import apply_dataset_steps
from rashomon.errors import UserError
from rashomon.experiments.explanation_runs import Block, Request, blocks_of, make_block, read_blocks
from rashomon.experiments.subject import GIVEN, DatasetSpec, Subject
from rashomon.explainers import Explainer, Explanations
from rashomon.models.base import Model, best_device
from rashomon.models.build import load_model
from rashomon.models.label_names import in_model_labels
from rashomon.models.tasks import Space
from rashomon.progress import progress
from rashomon.runs.executor import Backend, run_tasks
from rashomon.runs.store import Store
from rashomon.training.callbacks import epoch_folder, make_callback
from rashomon.training.loop import History
from rashomon.training.run import MODEL, SPLITS, Trained, TrainingRun, read_history
from rashomon.training.train import default_training, training_run

# What an audit, and the studies that follow a training, have kept beside the model.
KEPT_BESIDE = [
    (f"dynamics(split={split})", *more) for split in reversed(SPLITS) for more in ((), ("epoch-models",))
]
SMALL = 5_000_000  # parameters


@dataclass(frozen=True)
class Work:
    """Something that ends in the store, at ``place``."""

    place: Path
    do: Callable[[], None]
    shared: bool = True  # whether a worker can do it, on one core


@dataclass
class Context:
    """Where finished work is kept, where data is looked for, and how many seeds train at once."""

    store: Store = field(default_factory=Store)
    data_dir: Path | None = None
    workers: int | None = None
    backend: Backend = "processes"
    given_model: Model | None = None
    _given: dict[str, Explanations] = field(default_factory=dict)  # handed over, or read from a file
    _datasets: dict[DatasetSpec, Dataset] = field(default_factory=dict)
    _models: WeakValueDictionary[Path, Model] = field(
        default_factory=WeakValueDictionary
    )  # those still in use
    _as_loaded: dict[Path, tuple[str, tuple[str, ...]]] = field(default_factory=dict)

    def dataset(self, spec: DatasetSpec) -> Dataset:
        """The dataset, read once."""
        if spec not in self._datasets:
            self._datasets[spec] = apply_dataset_steps(self._read(spec), spec.keep)
        return self._datasets[spec]

    def data_of(self, subject: Subject) -> Dataset:
        """The subject's dataset, its labels counted as its model counts classes; notes say what was guessed."""
        data = self.dataset(subject.dataset)
        if subject.checkpoint is None:
            return data
        model, notes = self.models(subject)[0].model, list(data.notes)
        counted = in_model_labels(data, model, notes)
        return Dataset(counted.name, counted.splits, model.labels, tuple(notes))

    def with_datasets(self, swapped: Mapping[DatasetSpec, Dataset]) -> Context:
        """The same context, in which some specifications lead to other datasets."""
        return replace(self, _datasets={**self._datasets, **swapped})

    def adopt(self, dataset: Dataset) -> DatasetSpec:
        """Hand over a dataset; the specification that is returned leads to it."""
        spec = DatasetSpec(
            name=f"{GIVEN}-{dataset.fingerprint}"
        )  # two datasets do not get in each other's way
        self._datasets[spec] = dataset
        return spec

    def adopt_explanations(self, explanations: Explanations) -> str:
        """Hand over explanations; the name that is returned leads to them."""
        name = f"{GIVEN}-{len(self._given)}"
        self._given[name] = explanations
        return name

    def given_explanations(self, name: str) -> Explanations:
        """Explanations that were handed over, or those of a file, read once."""
        if name not in self._given:
            self._given[name] = Explanations.load(name)
        return self._given[name]

    def _read(self, spec: DatasetSpec) -> Dataset:
        if spec.file is not None and not spec.labelled:  # nothing is trained, so every row can be looked at
            return load_whole_file(spec.file, spec.columns, spec.empty)
        if spec.file is not None:
            return load_file(spec.file, spec.columns, seed=spec.seed, empty=spec.empty)
        if spec.train is not None:
            return load_files(spec.train, spec.dev, spec.test, spec.columns, seed=spec.seed, empty=spec.empty)
        if spec.dev is not None or spec.test is not None:
            raise UserError("Files for dev and test go with one for train; a single file is given as file.")
        lexicon = Path(spec.lexicon) if spec.lexicon else None
        return load_dataset(
            spec.name, data_dir=self.data_dir, seed=spec.seed, lexicon=lexicon, **spec.planted_options()
        )

    def models(self, subject: Subject) -> list[Trained]:
        """The subject's model for each of its seeds: trained, or as the checkpoint has it."""
        if subject.checkpoint == GIVEN:
            if self.given_model is None:
                raise UserError("The study is about a model in memory, and none was handed over.")
            return [Trained(self.given_model, History())]
        if subject.checkpoint is not None:
            return [Trained(self._loaded(Path(subject.checkpoint)), History())]
        return self.trained([subject])[0]

    def _loaded(self, place: Path) -> Model:
        """The model of a folder (or a hub id), read once for as long as someone holds it."""
        model = self._models.get(place)
        if model is None:
            model = self._models[place] = load_model(str(place)).to(best_device())
            self._as_loaded[place] = _identity(model)
        return model

    def trained(self, subjects: Sequence[Subject]) -> list[list[Trained]]:
        """Models of several subjects, those that are missing trained side by side."""
        folders = iter(self.train_all(subjects))
        return [[self._read_trained(next(folders)) for _ in subject.seeds] for subject in subjects]

    def train_all(self, subjects: Sequence[Subject]) -> list[Path]:
        """Where the models of several subjects are kept, seed by seed; the missing are trained side by side."""
        runs = [run for subject in subjects for run in self._runs(subject)]
        # Nor is a model trained twice because one of those who want it wants more kept beside it.
        fuller = {str(replace(run, callbacks=()).key()): run for run in runs if run.callbacks}
        return self.train_runs([run if run.callbacks else fuller.get(str(run.key()), run) for run in runs])

    def training_work(self, subjects: Sequence[Subject]) -> list[Work]:
        """What ``train_all`` would have to do, for those who have other work to do beside it."""
        runs = [run for subject in subjects for run in self._runs(subject)]
        return self.missing([run.key() for run in runs], "models", [run.make for run in runs])

    def train_runs(self, runs: Sequence[TrainingRun], kind: str = "models") -> list[Path]:
        """Where finished trainings are kept; the missing are done side by side."""
        return self.make([run.key() for run in runs], kind, [run.make for run in runs])

    def _runs(self, subject: Subject) -> list[TrainingRun]:
        data = self.dataset(subject.dataset)
        how = subject.training or default_training(subject.model, data)
        runs = [
            training_run(subject.model, data, how, seed, subject.objective, subject.callbacks)
            for seed in subject.seeds
        ]
        return [self._serving(run) for run in runs]

    def _serving(self, run: TrainingRun) -> TrainingRun:
        """The run itself, or a finished one that differs from it only in what it keeps beside the same model."""
        if run.callbacks or self.store.finished(run.key(), "models"):
            return run
        fuller = (replace(run, callbacks=tuple(map(make_callback, more))) for more in KEPT_BESIDE)
        return next((other for other in fuller if self.store.finished(other.key(), "models")), run)

    def _read_trained(self, folder: Path) -> Trained:
        return Trained(self._loaded(folder / MODEL), *read_history(folder), folder)

    def epoch_model(self, folder: Path, epoch: int) -> Model:
        """The model of a run after one of its epochs, where the callback ``epoch-models`` kept it."""
        return self._loaded(epoch_folder(folder, epoch))

    def folders(self, subject: Subject) -> list[Path]:
        """Where the subject's trained models are kept, one folder a seed."""
        return [self.store.path(run.key(), "models") for run in self._runs(subject)]

    def make(
        self, specifications: Sequence[object], kind: str, makers: Sequence[Callable[[Path], None]]
    ) -> list[Path]:
        """Where finished runs are kept; the missing ones are made side by side."""
        self.side_by_side(self.missing(specifications, kind, makers), f"making {kind}")
        return [self.store.path(specification, kind) for specification in specifications]

    def missing(
        self, specifications: Sequence[object], kind: str, makers: Sequence[Callable[[Path], None]]
    ) -> list[Work]:
        """What ``make`` would have to do, for those who have other work to do beside it."""
        return [
            Work(self.store.path(spec, kind), partial(_make_in_store, self.store, spec, kind, maker))
            for spec, maker in zip(specifications, makers, strict=True)
            if not self.store.finished(spec, kind)
        ]

    def explanations(
        self,
        model: Model,
        examples: Sequence[Example],
        methods: Sequence[str | Explainer],
        *,
        seed: int = 0,
        space: Space = "logit",
        background: Sequence[Example] = (),
        dropout: bool = False,
    ) -> Explanations:
        """Explanations by every method. Those not in the store are computed together, and kept block by block.

        ``dropout`` leaves dropout on while the model is explained; what was so explained carries a warning.
        """
        request = Request.of(model, methods, seed, space, background, dropout)
        blocks = blocks_of(model, examples, request)
        self.side_by_side(self._explaining(model, blocks, request), f"explaining {len(examples)} texts")
        return read_blocks(self.store, blocks, request)

    def explanation_work(
        self, model: Model, examples: Sequence[Example], methods: Sequence[str | Explainer], **how: Any
    ) -> list[Work]:
        """What ``explanations`` of the same would have to do, for those who have other work to do beside it."""
        request = Request.of(model, methods, **how)
        return self._explaining(model, blocks_of(model, examples, request), request)

    def _explaining(self, model: Model, blocks: Sequence[Block], request: Request) -> list[Work]:
        given = self._folder_of(model) if is_small(model) else None
        return [
            Work(
                block.paths(self.store)[missing[0]],
                partial(make_block, self.store, given or model, block, request),
                shared=given is not None,
            )
            for block in blocks
            if (missing := block.missing(self.store))
        ]

    def _folder_of(self, model: Model) -> Path | None:
        """Where a worker finds the model; None of one that is in memory alone, or was changed there."""
        places = (place for place, known in self._models.items() if known is model)
        return next((place for place in places if self._as_loaded[place] == _identity(model)), None)

    def side_by_side(self, work: Sequence[Work], what: str) -> None:
        """Do all of it, each thing once: what workers can do on one core each, and the rest here with all of them."""
        once = list({one.place: one for one in work}.values())
        shared = [one.do for one in once if one.shared]
        with progress(what, len(once) if len(once) > 1 else 0) as advance:
            run_tasks(shared, self.workers, self.backend, on_done=lambda _: advance())
            for one in (one for one in once if not one.shared):
                one.do()
                advance()


def _identity(model: Model) -> tuple[str, tuple[str, ...]]:
    return model.fingerprint(), tuple(model.labels)


def is_small(model: Model) -> bool:
    """Whether one core is enough for it: the matrices of a small network leave the others idle.

    Word vectors do not count, however many: of those a text reads a few rows.
    """
    words = model.word_vectors()
    looked_up = 0 if words is None else words.numel()
    return model.device.type == "cpu" and sum(p.numel() for p in model.parameters()) - looked_up < SMALL


def _make_in_store(store: Store, specification: object, kind: str, make: Callable[[Path], None]) -> None:
    store.run(specification, kind, make)
