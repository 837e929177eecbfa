"""A base model on trial: its outputs on every split, made once, travelling with the encoded texts.

``prepare`` asks base models about every split and keeps probabilities and attention in the store, so that adversaries,
other seeds and uniform weights are all set against the same numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from rashomon.data import Dataset, Example
from rashomon.data.batches import FIELDS, Batch, Encoding, Rows
from rashomon.data.rationales import marks_of, marks_of_tokens
from rashomon.errors import DoesNotFit
from rashomon.experiments.context import Context
from rashomon.experiments.subject import GIVEN, DatasetSpec, Subject
from rashomon.measures.divergence import mean_pairwise_jsd
from rashomon.models.base import Model, best_device
from rashomon.models.build import load_model
from rashomon.models.evaluator import rows_of
from rashomon.models.tasks import LABEL, class_scores
from rashomon.runs.files import read_json, read_tensors, write_json, write_tensors
from rashomon.runs.specifications import Plain
from rashomon.training.adversarial import (
    ATTENTION,
    PER_TOKEN,
    PROBABILITIES,
    Distances,
    Reading,
    distances,
    natural_reading,
    outputs_of,
)
from rashomon.training.run import SPLITS

SelectionSplit = Literal["dev", "test"]
LEARNED = ("softmax", "sparsemax", "entmax15")
OTHER_SEEDS = tuple(range(1, 9))  # of ordinary models that are set beside a base


def selecting(context: Context, datasets: Sequence[DatasetSpec], selection: SelectionSplit) -> Context:
    """A context whose trainings choose their epoch on dev, or on test as the papers did."""
    if selection == "dev":
        return context
    swapped = {}
    for spec in datasets:
        data = context.dataset(spec)
        note = "epochs are chosen on the test split, as published"
        swapped[spec] = replace(data, splits={**data.splits, "dev": data["test"]}, notes=(*data.notes, note))
    return context.with_datasets(swapped)


@dataclass(frozen=True)
class StoredRows:
    """Rows that were encoded earlier, with what travels with them; a worker reads them once."""

    folder: Path
    per_token: tuple[str, ...] = PER_TOKEN

    def key(self) -> Plain:
        return self.folder.name  # the key of the run that made them

    def rows(self, model: Model, split: str) -> Rows:
        return _read_rows(self.folder, split, self.per_token)

    def splits(self) -> Sequence[str]:
        return ("test",)


def write_rows(folder: Path, split: str, rows: Rows, **extras: Tensor) -> None:
    """Rows as ``StoredRows`` reads them."""
    tensors = {name: getattr(rows.whole, name) for name in FIELDS}
    write_tensors(folder / f"{split}.safetensors", {**tensors, **rows.whole.extras, **extras})


@lru_cache(maxsize=6)  # two trials: members of a sweep follow one another in a worker
def _read_rows(folder: Path, split: str, per_token: tuple[str, ...]) -> Rows:
    tensors = read_tensors(folder / f"{split}.safetensors")
    fields = {name: tensors.pop(name) for name in FIELDS}
    return Rows(Batch(**fields, extras=tensors).to(best_device()), per_token)


@dataclass(frozen=True)
class Trial:
    """A base model with its outputs on every split, ready for adversaries."""

    subject: Subject
    data: Dataset
    base: Path  # the folder of the base model
    folder: Path  # of the prepared tensors
    reading: Reading
    fresh: bool  # whether adversaries can start from nothing, or only from trained weights
    base_scores: Mapping[str, float]  # on test; empty without labels
    on_evidence: Mapping[
        str, float
    ]  # base attention on the known evidence, by class; empty where none is known

    def rows(self, split: str) -> Rows:
        return _read_rows(self.folder, split, PER_TOKEN)

    def base_model(self) -> Model:
        return load_model(self.base).to(best_device())


def prepare(context: Context, subjects: Sequence[Subject], reading: Reading | None = None) -> list[Trial]:
    """Base models (each subject's first seed) and their outputs; what is missing is made side by side."""
    for subject in subjects:
        if subject.checkpoint is None and subject.model.weights not in LEARNED:
            raise DoesNotFit(
                f"The attention is {subject.model.weights}, not learned: there is nothing to try."
            )
    bases = base_folders(context, subjects)
    runs = [
        _Preparation(context.data_of(subject), base, reading)
        for subject, base in zip(subjects, bases, strict=True)
    ]
    folders = context.make([run.key() for run in runs], "attention-on-trial", [run.make for run in runs])
    trials = []
    for subject, run, folder in zip(subjects, runs, folders, strict=True):
        about = read_json(folder / "about.json")
        trials.append(Trial(subject, run.data, run.base, folder, **about))
    return trials


def base_folders(context: Context, subjects: Sequence[Subject]) -> list[Path]:
    """Where each subject's base model (its first seed) is kept; a model in memory is written to the store."""
    firsts = [replace(subject, seeds=subject.seeds[:1]) for subject in subjects]
    context.trained([subject for subject in firsts if subject.checkpoint is None])
    return [_base_folder(context, subject) for subject in firsts]


def _base_folder(context: Context, subject: Subject) -> Path:
    if subject.checkpoint is None:
        return context.folders(subject)[0] / "model"
    if subject.checkpoint != GIVEN and Path(subject.checkpoint).is_dir():
        return Path(subject.checkpoint)
    model = context.models(subject)[0].model
    saved = context.store.run({"model": model.fingerprint()}, "given-models", partial(_save_model, model))
    return saved / "model"


def _save_model(model: Model, folder: Path) -> None:
    model.save(folder / "model")


@dataclass(frozen=True)
class _Preparation:
    """The base model's outputs on every split, with the encoded texts."""

    data: Dataset
    base: Path
    reading: Reading | None

    def key(self) -> dict[str, Plain]:
        return {"dataset": self.data.fingerprint, "base": self.base, "reading": self.reading}

    def make(self, folder: Path) -> None:
        model = load_model(self.base).to(best_device())
        reading = self.reading or natural_reading(model)
        scores: dict[str, float] = {}
        on_evidence: dict[str, float] = {}
        for split in SPLITS:
            if not self.data[split]:
                raise DoesNotFit(
                    f"The {split} split of {self.data.name} is empty; a trial of attention needs it."
                )
            encodings = model.encode(self.data[split])
            rows = rows_of(model, self.data[split], encodings)
            outputs = outputs_of(model, rows, reading)
            base = {PROBABILITIES: outputs.probabilities, ATTENTION: outputs.attention}
            write_rows(folder, split, rows, **base)
            if split == "test" and LABEL in rows.whole.extras:
                labels = rows.whole.extras[LABEL].cpu().numpy()
                scores = class_scores(outputs.probabilities.double().numpy(), labels)
                on_evidence = attention_on_evidence(self.data, encodings, outputs.attention)
        about = {"reading": reading, "fresh": "fresh" in model.capabilities}
        write_json(folder / "about.json", {**about, "base_scores": scores, "on_evidence": on_evidence})


def attention_on_evidence(
    data: Dataset, encodings: Sequence[Encoding], attention: Tensor
) -> dict[str, float]:
    """How much of the attention ``[N, heads, T]`` on the test texts lies on known evidence: the mean, by class."""
    shares: dict[str, list[float]] = {}
    weights = attention.mean(1).double().numpy()
    for example, encoding, row in zip(data["test"], encodings, weights, strict=True):
        marks = marks_of(example)
        if marks and example.label is not None:
            known = marks_of_tokens(encoding.segments, encoding.word_ids, marks)
            shares.setdefault(data.labels[example.label], []).append(float(row[: len(encoding)] @ known))
    return {label: float(np.mean(shares[label])) for label in data.labels if label in shares}


def other_models(context: Context, trial: Trial, seeds: tuple[int, ...]) -> pd.DataFrame:
    """Every text's distance from the base for models that differ from it in the seed alone."""
    further = tuple(seed for seed in dict.fromkeys(seeds) if seed != trial.subject.seeds[0])
    models = context.trained([trial.subject.with_seeds(further)])[0]
    parts = [
        against_base(trial, trained.model).assign(seed=seed)
        for seed, trained in zip(further, models, strict=True)
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def pairwise_distance(context: Context, trial: Trial, seeds: tuple[int, ...]) -> np.ndarray:
    """Each test text's mean JSD between every two of the base and the models of other seeds ``[N]``."""
    further = tuple(seed for seed in dict.fromkeys(seeds) if seed != trial.subject.seeds[0])
    attentions = [trial.rows("test").whole.extras[ATTENTION].cpu()]
    for trained in context.trained([trial.subject.with_seeds(further)])[0]:
        rows = rows_of(trained.model, trial.data["test"])
        attentions.append(outputs_of(trained.model, rows, trial.reading).attention)
    return np.asarray(mean_pairwise_jsd(attentions)[0].double().numpy())


def against_base(trial: Trial, model: Model, split: str = "test") -> pd.DataFrame:
    """Another model of the same texts (another seed, uniform weights) set against the base, text by text."""
    rows = trial.rows(split)
    own = rows_of(model, trial.data[split])
    if not torch.equal(own.whole.mask, rows.whole.mask):
        raise DoesNotFit(
            "The models cut the texts into different tokens, so their attentions cannot be compared."
        )
    base = {name: rows.whole.extras[name] for name in (PROBABILITIES, ATTENTION)}
    return instance_table(distances(model, own.with_extras(PER_TOKEN, **base), trial.reading), rows)


def instance_table(found: Distances, rows: Rows) -> pd.DataFrame:
    """One row a text: how far prediction and attention are from the base's."""
    table: dict[str, Any] = {
        "position": np.arange(len(rows)),
        "label": labels_of(rows),
        "base_class": rows.whole.extras[PROBABILITIES].argmax(1).cpu().numpy(),
        "class": found.probabilities.argmax(1).numpy(),
        "max_attention": max_attention(rows.whole.extras[ATTENTION]).cpu().numpy(),
    }
    for name in ("tvd", "jsd", "kl"):
        table[name] = getattr(found, name).numpy()
    return pd.DataFrame(table)


def labels_of(rows: Rows) -> np.ndarray:
    """Gold labels; where there are none, the classes that the base predicts."""
    known = rows.whole.extras.get(LABEL)
    return (rows.whole.extras[PROBABILITIES].argmax(1) if known is None else known).cpu().numpy()


def max_attention(attention: Tensor) -> Tensor:
    """The largest weight of each text, heads averaged; of a pair both texts share one distribution."""
    weights = attention.mean(-2)
    return (weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)).amax(-1)


def with_ids(table: pd.DataFrame, examples: Sequence[Example]) -> pd.DataFrame:
    """Rows in the order of the examples, with their ids and labels (the predicted class where there is none)."""
    classes = table["base_class"].tolist()
    labels = [c if e.label is None else e.label for e, c in zip(examples, classes, strict=True)]
    return table.assign(example=[example.id for example in examples], label=np.array(labels))
