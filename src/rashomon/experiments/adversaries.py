"""What the trials of attention share: the base model's outputs made once, and adversaries trained side by side.

``prepare`` asks a base model about every split and keeps its probabilities and attention with the encoded
texts. ``train_adversaries`` trains members of a sweep (lambdas, seeds) through the store and the executor: a
worker reads the prepared tensors once, and what was finished before a kill is not trained again.
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
from rashomon.data.batches import Batch, Encoding, Rows
from rashomon.data.rationales import marks_of, marks_of_tokens
from rashomon.data.vectors import load_vectors
from rashomon.errors import UserError
from rashomon.experiments.context import Context, model_key
from rashomon.experiments.subject import GIVEN, DatasetSpec, Subject
from rashomon.models.base import Model
from rashomon.models.build import build_model, is_pretrained, load_model
from rashomon.models.classifier import AttentionClassifier
from rashomon.models.evaluator import rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.files import (
    read_json,
    read_parquet,
    read_tensors,
    write_json,
    write_parquet,
    write_tensors,
)
from rashomon.runs.specifications import Plain, to_plain
from rashomon.training.adversarial import (
    ATTENTION,
    CONTENT,
    PER_TOKEN,
    PROBABILITIES,
    AttefaAdversary,
    Distances,
    ModelConsistentAdversary,
    Reading,
    distances,
    natural_reading,
    tell,
)
from rashomon.training.loop import fit
from rashomon.training.objectives import LOWER_IS_BETTER, classification_scores
from rashomon.training.settings import FINE_TUNING, TrainingSpec
from rashomon.training.train import best_device

Selection = Literal["dev", "test"]
Objective = ModelConsistentAdversary | AttefaAdversary

SPLITS = ("train", "dev", "test")
LEARNED = ("softmax", "sparsemax", "entmax15")
SHAKE = 0.1
OTHER_SEEDS = tuple(range(1, 9))  # of ordinary models that are set beside a base
GIVEN_UP, CONSTANT_BASE = 0.99, 0.9  # shares of the commonest class, of an adversary and of its base
# An adversary that has found nothing, or all there is, creeps on by millionths; that does not keep it alive.
LEAST_GAIN = 1e-4
# As in paper *not-not*, it trains for as long as its own loss falls: what moves the attention comes late.
ADVERSARY = TrainingSpec(epochs=80, patience=10, least_gain=LEAST_GAIN, select="train-loss")
FINE_TUNED_ADVERSARY = replace(
    FINE_TUNING, epochs=20, patience=5, least_gain=LEAST_GAIN, select="loss", warmup=0.0
)


def usual_adversary(subject: Subject) -> TrainingSpec:
    """How adversaries of this subject are trained where nothing is said: from nothing, or as one fine-tunes."""
    return ADVERSARY if subject.checkpoint is None and subject.model.is_builtin else FINE_TUNED_ADVERSARY


def selecting(context: Context, datasets: Sequence[DatasetSpec], selection: Selection) -> Context:
    """A context whose trainings choose their epoch on dev, or on test as the papers did."""
    if selection == "dev":
        return context
    swapped = {}
    for spec in datasets:
        data = context.dataset(spec)
        note = "epochs are chosen on the test split, as published"
        swapped[spec] = replace(data, splits={**data.splits, "dev": data["test"]}, notes=(*data.notes, note))
    return replace(context, _datasets=swapped)


@dataclass(frozen=True)
class Trial:
    """A base model with its outputs on every split, ready for adversaries."""

    subject: Subject
    data: Dataset
    base: Path  # the folder of the base model
    folder: Path  # of the prepared tensors
    reading: Reading
    fresh: bool  # whether adversaries start from nothing, or from pretrained weights
    base_scores: Mapping[str, float]  # on test; empty without labels
    on_evidence: Mapping[
        str, float
    ]  # base attention on the known evidence, by class; empty where none is known

    def rows(self, split: str) -> Rows:
        return _read_rows(self.folder, split)

    def base_model(self) -> Model:
        return load_model(self.base).to(best_device())

    def adversary_training(self, asked: TrainingSpec | None) -> TrainingSpec:
        """How adversaries are trained: as asked, else what suits the base; the epoch is chosen by a loss."""
        training = asked or (ADVERSARY if self.fresh else FINE_TUNED_ADVERSARY)
        return training if training.select in LOWER_IS_BETTER else replace(training, select="loss")


def prepare(context: Context, subjects: Sequence[Subject], reading: Reading | None = None) -> list[Trial]:
    """Base models (each subject's first seed) and their outputs; what is missing is made side by side."""
    for subject in subjects:
        if subject.checkpoint is None and subject.model.weights not in LEARNED:
            raise UserError(
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
                raise UserError(
                    f"The {split} split of {self.data.name} is empty; a trial of attention needs it."
                )
            encodings = model.encode(self.data[split])
            rows = content_rows(model, self.data[split], encodings)
            told = tell(model, rows, reading)
            tensors = {"ids": rows.whole.ids, "mask": rows.whole.mask, "segments": rows.whole.segments}
            tensors |= {"positions": rows.whole.positions, **rows.whole.extras}
            tensors |= {PROBABILITIES: told.probabilities, ATTENTION: told.attention}
            write_tensors(folder / f"{split}.safetensors", tensors)
            if split == "test" and "label" in rows.whole.extras:
                labels = rows.whole.extras["label"].cpu().numpy()
                scores = classification_scores(told.probabilities.double().numpy(), labels)
                on_evidence = attention_on_evidence(self.data, encodings, told.attention)
        about = {"reading": reading, "fresh": isinstance(model, AttentionClassifier)}
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


def content_rows(model: Model, examples: Sequence[Example], encodings: Sequence[Encoding]) -> Rows:
    """Encoded examples as tensors that know which of their tokens count (special ones do not)."""
    rows = rows_of(model, examples, encodings)
    content = torch.zeros_like(rows.whole.mask)
    for row, encoding in enumerate(encodings):
        content[row, : len(encoding)] = torch.from_numpy(encoding.content)
    rows.whole.extras[CONTENT] = content
    return Rows.of(rows.whole, PER_TOKEN)


@lru_cache(maxsize=6)  # two trials: members of a sweep follow one another in a worker
def _read_rows(folder: Path, split: str) -> Rows:
    tensors = read_tensors(folder / f"{split}.safetensors")
    ids, mask, segments, positions = (tensors.pop(name) for name in ("ids", "mask", "segments", "positions"))
    return Rows.of(Batch(ids, mask, segments, positions, tensors).to(best_device()), PER_TOKEN)


@dataclass(frozen=True)
class Member:
    """One adversary of a sweep."""

    trial: Trial
    objective: Objective
    training: TrainingSpec
    seed: int

    @property
    def start(self) -> ModelSpec | None:
        """The pretrained model that both base and adversary start from; None: what the base's folder says."""
        subject = self.trial.subject
        return subject.model if subject.checkpoint is None and is_pretrained(subject.model.name) else None

    def key(self) -> dict[str, Plain]:
        return {
            "trial": self.trial.folder.name,
            "start": None if self.start is None else model_key(self.start),
            "objective": to_plain(self.objective),
            "training": to_plain(self.training),
            "seed": self.seed,
        }

    def make(self, folder: Path) -> None:
        trial = self.trial
        model = sibling(trial.base_model(), self.start, self.seed).to(best_device())
        checkpoint = folder / "checkpoint.safetensors"
        history = fit(
            model,
            trial.rows("train"),
            trial.rows("dev"),
            self.objective,
            self.training,
            seed=self.seed,
            checkpoint=checkpoint,
        )
        test = trial.rows("test")
        told = distances(model, test, trial.reading)
        model.save(folder / "model")
        write_parquet(folder / "instances.parquet", instance_table(told, test))
        about = {"epoch": history.best, "epochs": len(history.records), "scores": told.means(test)}
        write_json(folder / "adversary.json", {**about, "dev": dict(history.best_record)})
        checkpoint.unlink(missing_ok=True)


def sibling(base: Model, start: ModelSpec | None, seed: int) -> Model:
    """A model of the base's architecture, freshly seeded; pretrained ones begin where the base began.

    Of a transformer of which nothing but the fine-tuned checkpoint is known, the copy begins close to that: at the
    very place it would stay, since neither distance has a slope at 0.
    """
    if start is not None:
        return build_model(start, Dataset("labels", {}, base.labels), seed)
    if not isinstance(base, AttentionClassifier):
        return shaken(base, seed)
    vectors = None
    if base.spec.embeddings is not None:
        found = load_vectors(Path(base.spec.embeddings), base.vocabulary, np.random.default_rng(seed))
        vectors = found[0]
    return AttentionClassifier(base.spec, base.vocabulary, base.labels, base.pair, seed, vectors)


def shaken(model: Model, seed: int) -> Model:
    """The model with every matrix moved at random by a small share of its own spread."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1:
                noise = torch.randn(weights.shape, generator=generator).to(weights)
                weights.add_(noise, alpha=SHAKE * float(weights.std()))
    return model


@dataclass(frozen=True)
class Outcome:
    """What became of a member: its figures on test and on dev, and its folder."""

    member: Member
    folder: Path
    epoch: int
    scores: Mapping[str, float]  # tvd (0..1), jsd, kl, and f1 and accuracy where there are labels
    dev: Mapping[str, float]

    @property
    def instances(self) -> pd.DataFrame:
        return read_parquet(self.folder / "instances.parquet")

    @property
    def gave_up(self) -> bool:
        """Whether it calls nearly every text the same although the base does not: it no longer imitates."""
        told = self.instances
        own, base = (told[column].value_counts(normalize=True).max() for column in ("class", "base_class"))
        return bool(own >= GIVEN_UP and base < CONSTANT_BASE)

    def model(self) -> Model:
        return load_model(self.folder / "model").to(best_device())


def train_adversaries(context: Context, members: Sequence[Member]) -> list[Outcome]:
    """The outcomes of all members; those that are not in the store are trained side by side."""
    folders = context.make(
        [member.key() for member in members], "adversaries", [member.make for member in members]
    )
    outcomes = []
    for member, folder in zip(members, folders, strict=True):
        about = read_json(folder / "adversary.json")
        outcomes.append(
            Outcome(member, folder, about["epoch"], _numbers(about["scores"]), _numbers(about["dev"]))
        )
    return outcomes


def _numbers(figures: Mapping[str, float | None]) -> dict[str, float]:
    return {name: float("nan") if value is None else value for name, value in figures.items()}


def against_base(trial: Trial, model: Model, split: str = "test") -> pd.DataFrame:
    """Another model of the same texts (another seed, uniform weights) set against the base, text by text."""
    rows = trial.rows(split)
    examples = trial.data[split]
    encoded = content_rows(model, examples, model.encode(examples)).whole
    if not torch.equal(encoded.mask, rows.whole.mask):
        raise UserError(
            "The models cut the texts into different tokens, so their attentions cannot be compared."
        )
    extras = {name: rows.whole.extras[name] for name in (PROBABILITIES, ATTENTION)}
    own = Rows.of(encoded.with_extras(**extras), PER_TOKEN)
    return instance_table(distances(model, own, trial.reading), rows)


def other_models(context: Context, trial: Trial, seeds: tuple[int, ...]) -> pd.DataFrame:
    """Every text's distance from the base for models that differ from it in the seed alone."""
    further = tuple(seed for seed in dict.fromkeys(seeds) if seed != trial.subject.seeds[0])
    models = context.trained([replace(trial.subject, seeds=further)])[0]
    parts = [
        against_base(trial, trained.model).assign(seed=seed)
        for seed, trained in zip(further, models, strict=True)
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def instance_table(told: Distances, rows: Rows) -> pd.DataFrame:
    """One row a text: how far prediction and attention are from the base's."""
    table: dict[str, Any] = {
        "position": np.arange(len(rows)),
        "label": labels_of(rows),
        "base_class": rows.whole.extras[PROBABILITIES].argmax(1).cpu().numpy(),
        "class": told.probabilities.argmax(1).numpy(),
        "max_attention": max_attention(rows.whole.extras[ATTENTION]).cpu().numpy(),
    }
    for name in ("tvd", "jsd", "kl"):
        table[name] = getattr(told, name).numpy()
    return pd.DataFrame(table)


def labels_of(rows: Rows) -> np.ndarray:
    """Gold labels; where there are none, the classes that the base predicts."""
    known = rows.whole.extras.get("label")
    return (rows.whole.extras[PROBABILITIES].argmax(1) if known is None else known).cpu().numpy()


def max_attention(attention: Tensor) -> Tensor:
    """The largest weight of each text, heads averaged; of a pair both texts share one distribution."""
    weights = attention.mean(-2)
    return (weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)).amax(-1)


def named(table: pd.DataFrame, examples: Sequence[Example]) -> pd.DataFrame:
    """Rows in the order of the examples, with their ids and labels (the predicted class where there is none)."""
    classes = table["base_class"].tolist()
    labels = [c if e.label is None else e.label for e, c in zip(examples, classes, strict=True)]
    return table.assign(example=[example.id for example in examples], label=np.array(labels))
