"""Datasets, trained models and explanations by specification, each made once.

Two studies that need the same base model train it once; a training that was killed goes on from its last epoch,
explaining from its last block of texts; seeds train side by side, one thread each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from rashomon.data import Dataset, Example, load_dataset
from rashomon.data.batches import Encoding
from rashomon.data.example import fingerprint
from rashomon.data.files import load_file, load_files, read_examples
from rashomon.data.preprocess import apply_dataset_steps
from rashomon.errors import UserError
from rashomon.experiments.subject import GIVEN, DatasetSpec, Subject
from rashomon.explainers import Explainer, Explanations, explain, make_explainer
from rashomon.explainers.explaining import chunks
from rashomon.models.base import Model, best_device
from rashomon.models.build import load_model
from rashomon.models.evaluator import with_dropout
from rashomon.models.label_names import in_model_labels
from rashomon.models.tasks import Space
from rashomon.progress import progress
from rashomon.runs.executor import Backend, run_tasks
from rashomon.runs.specifications import Plain
from rashomon.runs.store import Store
from rashomon.training.callbacks import epoch_folder, make_callback
from rashomon.training.loop import History
from rashomon.training.run import MODEL, Trained, TrainingRun, read_history
from rashomon.training.train import default_training, training_run

EXPLANATIONS = "explanations.parquet"
# What an audit, and the studies that follow a training, have kept beside the model.
KEPT_BESIDE = (("dynamics(split=test)",), ("dynamics(split=test)", "epoch-models"))
DROPPED_OUT = "explained with dropout on, so that the model was another one at every reading"


@dataclass
class Context:
    """Where finished work is kept, where data is looked for, and how many seeds train at once."""

    store: Store = field(default_factory=Store)
    data_dir: Path | None = None
    workers: int | None = None
    backend: Backend = "processes"
    given_model: Model | None = None
    _datasets: dict[DatasetSpec, Dataset] = field(default_factory=dict)
    _models: WeakValueDictionary[Path, Model] = field(
        default_factory=WeakValueDictionary
    )  # those still in use

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

    def _read(self, spec: DatasetSpec) -> Dataset:
        if spec.file is not None and not spec.labelled:  # nothing is trained, so every row can be looked at
            examples, labels = read_examples(spec.file, spec.columns, require_labels=False)
            return Dataset(Path(spec.file).name.split(".")[0], {"test": tuple(examples)}, tuple(labels))
        if spec.file is not None:
            return load_file(spec.file, spec.columns, seed=spec.seed)
        if spec.train is not None:
            return load_files(spec.train, spec.dev, spec.test, spec.columns, seed=spec.seed)
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
        return model

    def trained(self, subjects: Sequence[Subject]) -> list[list[Trained]]:
        """Models of several subjects, those that are missing trained side by side."""
        folders = iter(self.train_all(subjects))
        return [[self._read_trained(next(folders)) for _ in subject.seeds] for subject in subjects]

    def train_all(self, subjects: Sequence[Subject]) -> list[Path]:
        """Where the models of several subjects are kept, seed by seed; the missing are trained side by side."""
        return self.train_runs([run for subject in subjects for run in self._runs(subject)])

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
        """Finished runs; the missing ones are made by the executor, and a lone one here with a progress bar."""
        missing = {}
        for specification, maker in zip(specifications, makers, strict=True):
            if not self.store.finished(specification, kind):
                path = self.store.path(specification, kind)
                missing[path] = partial(_make_in_store, self.store, specification, kind, maker)
        if len(missing) == 1:
            run_tasks(list(missing.values()), backend="serial")
        elif missing:
            with progress(f"making {len(missing)} {kind}", len(missing)) as advance:
                run_tasks(list(missing.values()), self.workers, self.backend, on_done=lambda _: advance())
        return [self.store.path(specification, kind) for specification in specifications]

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
        asked = [make_explainer(method).suited(model) for method in methods]
        common = {
            "model": model.fingerprint(),
            "labels": list(model.labels),
            "space": space,
            "task": model.task.name,
        }
        common |= {"background": fingerprint(background)} | ({"dropout": str(seed)} if dropout else {})
        encodings = model.encode(examples)
        blocks = [_Block([examples[i] for i in c], [encodings[i] for i in c]) for c in chunks(encodings)]
        by_method = [_method_key(explainer, seed) for explainer in asked]
        specs = [[texts | method for method in by_method] for texts in (common | b.key() for b in blocks)]
        paths = [[self.store.path(spec, "explanations") for spec in of_block] for of_block in specs]
        found = [[self.store.finished(spec, "explanations") for spec in of_block] for of_block in specs]
        missing = [[n for n, there in enumerate(of_block) if not there] for of_block in found]
        ask = partial(explain, model, seed=seed, space=space, background=background)
        parts = sum(map(bool, missing))
        with progress(
            f"explaining {len(examples)} texts in {parts} parts", parts if parts > 1 else 0
        ) as advance:
            for block, of_block, left in zip(blocks, specs, missing, strict=True):
                if left:
                    with with_dropout(seed) if dropout else nullcontext():
                        explanations = ask(block.examples, [asked[n] for n in left])
                    self._keep(explanations, [of_block[n] for n in left])
                    advance()
        kept = (path for of_method in zip(*paths, strict=True) for path in of_method)
        found_all = Explanations(item for path in kept for item in Explanations.load(path / EXPLANATIONS))
        if not dropout:
            return found_all
        return Explanations(replace(item, warnings=(*item.warnings, DROPPED_OUT)) for item in found_all)

    def _keep(self, explanations: Explanations, specs: Sequence[object]) -> None:
        """One run a method. ``explanations`` are in the order of the methods, each with every example once."""
        size = len(explanations) // len(specs)
        for number, spec in enumerate(specs):
            part = explanations[number * size : (number + 1) * size]
            self.store.run(spec, "explanations", partial(_save_explanations, part))


def _make_in_store(store: Store, specification: object, kind: str, make: Callable[[Path], None]) -> None:
    store.run(specification, kind, make)


def _save_explanations(explanations: Explanations, folder: Path) -> None:
    explanations.save(folder / EXPLANATIONS)


@dataclass(frozen=True)
class _Block:
    """Texts that are explained together: what a killed run loses is at most one block."""

    examples: Sequence[Example]
    encodings: Sequence[Encoding]

    def key(self) -> dict[str, Plain]:
        """The texts, and how the model cuts them into ids, which its weights do not tell."""
        reading = hashlib.sha256()
        for encoding in self.encodings:
            reading.update(encoding.ids.tobytes() + encoding.segments.tobytes())
        return {"examples": fingerprint(self.examples), "reading": reading.hexdigest()[:16]}


def _method_key(explainer: Explainer, seed: int) -> dict[str, Plain]:
    fields = {"method": explainer.name, "configuration": explainer.configuration()}
    return fields | {"seed": seed if explainer.stochastic else None}
