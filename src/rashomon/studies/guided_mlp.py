"""Are the weights useful to someone else? A model without context, guided by given weights.

A token-level MLP is trained and tested with its outputs weighted by a preset distribution for each text: uniform,
its own learned attention, the base model's, an adversary's (paper *not-not*, section 3.4) - or the scores of any
explainer, absolute and normalised, which no paper did. Weights that tell which tokens matter make the MLP better.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from rashomon.data import Dataset, Example
from rashomon.data.batches import Encoding, Rows
from rashomon.data.example import require_labels
from rashomon.errors import unknown_name
from rashomon.experiments.adversaries import (
    SPLITS,
    Member,
    Selection,
    Trial,
    prepare,
    selecting,
    train_adversaries,
    usual_adversary,
)
from rashomon.experiments.context import Context, model_key
from rashomon.experiments.figures import Distributions
from rashomon.experiments.subject import Subject
from rashomon.experiments.summaries import summary_row
from rashomon.experiments.testimony import background
from rashomon.explainers import Explanation, explainers, make_explainer
from rashomon.measures.intervals import ENOUGH
from rashomon.measures.significance import PairedDifference, compare_variants, holm_bonferroni
from rashomon.models.base import Model
from rashomon.models.build import build_model
from rashomon.models.evaluator import predict, rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.papers import published
from rashomon.runs.specifications import Plain, to_plain
from rashomon.runs.store import (
    read_json,
    read_parquet,
    read_tensors,
    write_json,
    write_parquet,
    write_tensors,
)
from rashomon.studies.base import AttentionStudy, Finding, configuration_of, studies
from rashomon.training.adversarial import ModelConsistentAdversary, Reading, tell
from rashomon.training.loop import fit
from rashomon.training.objectives import CrossEntropy, classification_scores
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import best_device
from rashomon.wording import with_interval

GUIDES = ("uniform", "own", "base", "adversary")
CONTROLS = ("uniform", "own", "base")  # what guides are compared with, each also with those before it
FIGURES = ("f1", "accuracy", "roc-auc")
PUBLISHED_LAMBDA = 1e-3
ALPHA = 0.05
LEARNED = {"uniform": "uniform", "own": "softmax"}  # guides that the MLP makes itself
MLP = TrainingSpec(select="roc-auc")  # how the guided MLPs are trained: as the bases are

Weights = NDArray[np.float64]


@studies.register("guided-mlp")
@dataclass(frozen=True)
class GuidedMlp(AttentionStudy):
    """Does a model without context do better when these weights tell it where to look?"""

    name: ClassVar[str] = "guided-mlp"
    question: ClassVar[str] = "Do the weights help a model without context to predict?"
    subject: Subject = field(default_factory=Subject)  # the base; its first seed
    guides: tuple[str, ...] = GUIDES  # of these four, and explainers by name
    seeds: tuple[int, ...] = (0, 1, 2)  # of the MLPs
    weight: float = 1e-3  # the adversary's lambda
    adversary_seed: int = 1
    selection: Selection = "dev"
    adversary: TrainingSpec | None = None  # how the adversary is trained; None: what suits the model
    training: TrainingSpec = MLP
    reading: Reading | None = None

    def run(self, context: Context) -> Finding:
        for guide in self.guides:
            if guide in GUIDES:
                continue
            if guide.partition("(")[0].strip() not in explainers:
                raise unknown_name("guide", guide, [*GUIDES, *explainers.names()])
            make_explainer(guide)  # what is wrong with its settings is told before any work is done
        context = selecting(context, [self.subject.dataset], self.selection)
        data = context.data_of(self.subject)
        for split in SPLITS:
            require_labels(data[split], "The guided MLP")
        trial = prepare(context, [self.base], self.reading)[0]
        spec = _mlp_of(self.subject.model)
        runs = []
        for guide in self.guides:
            told = None if guide in LEARNED else self._weights(context, trial, guide)
            made = replace(spec, weights=LEARNED.get(guide, "preset"))
            folder = None if told is None else _keep(context, data, made, told)
            runs += [(guide, _Guided(data, made, self.training, seed, folder)) for seed in self.seeds]
        folders = context.make([run.key() for _, run in runs], "guided-mlps", [run.make for _, run in runs])
        return self._finding(trial, [guide for guide, _ in runs], folders)

    def left_open(self) -> dict[str, object]:
        return {"adversary": usual_adversary(self.subject)}

    def _published(self, trial: Trial) -> dict[str, float]:
        """The paper's F1 by guide: of the MLP guided by a BiLSTM, and by its adversary at this lambda."""
        if self.subject.checkpoint is not None or self.subject.model.name != "bilstm":
            return {}
        for row in published("not_not")["guided"]:
            if row["dataset"] == trial.data.name:
                apart = {"dataset"} if self.weight == PUBLISHED_LAMBDA else {"dataset", "adversary"}
                return {guide: value for guide, value in row.items() if guide not in apart}
        return {}

    def _weights(self, context: Context, trial: Trial, guide: str) -> dict[str, list[_Given]]:
        """A weight for each token of each text, in the tokens of the base model."""
        model = trial.base_model()
        if guide not in GUIDES:
            return self._explained(context, trial, model, guide)
        if guide == "base":
            return {split: _attention(model, trial, split) for split in SPLITS}
        objective = ModelConsistentAdversary(self.weight, trial.reading)
        training = trial.adversary_training(self.adversary)
        outcome = train_adversaries(context, [Member(trial, objective, training, self.adversary_seed)])[0]
        return {split: _attention(outcome.model(), trial, split) for split in SPLITS}

    def _explained(
        self, context: Context, trial: Trial, model: Model, method: str
    ) -> dict[str, list[_Given]]:
        seed = self.subject.seeds[0]
        behind = background(trial.data, seed)
        given = {}
        for split in SPLITS:
            texts = trial.data[split]
            told = context.explanations(model, texts, [method], seed=seed, background=behind)
            given[split] = [_Given.of_explanation(item) for item in told]
        return given

    def _finding(self, trial: Trial, guides: Sequence[str], folders: Sequence[Path]) -> Finding:
        seeds, correct = [], []
        for guide, folder in zip(guides, folders, strict=True):
            told = read_json(folder / "scores.json")
            seeds.append({"guide": guide, "seed": told["seed"], **told["scores"]})
            correct.append(read_parquet(folder / "correct.parquet").assign(guide=guide, seed=told["seed"]))
        by_seed = pd.DataFrame(seeds)
        instances = pd.concat(correct, ignore_index=True)
        comparison = _compare(instances)
        summary = _summary(by_seed, self._published(trial))
        return Finding(
            study=self.name,
            question=self.question,
            verdict=_verdict(summary, comparison),
            configuration=configuration_of(self),
            tables={"summary": summary, "comparison": comparison, "seeds": by_seed, "instances": instances},
            figures=(
                Distributions(
                    "F1 of the MLP under each guide",
                    {
                        guide: by_seed[by_seed["guide"] == guide]["f1"].dropna().tolist()
                        for guide in self.guides
                    },
                    "F1 on test",
                    "One value a seed.",
                ),
            ),
            warnings=trial.data.notes,
        )


@dataclass(frozen=True)
class _Given:
    """One text's weights, and to which words they belong."""

    weights: Weights
    segments: NDArray[np.int64]
    word_ids: NDArray[np.int64]  # -1 for special tokens, whose weight nobody gets

    @classmethod
    def of_explanation(cls, item: Explanation) -> _Given:
        return cls(np.abs(item.scores), item.segments, item.word_ids)

    def onto(self, encoding: Encoding) -> Weights:
        """Over another model's tokens: words keep their weight; a word of several tokens shares it."""
        mine: dict[tuple[int, int], float] = {}
        for weight, segment, word in zip(self.weights, self.segments, self.word_ids, strict=True):
            if word >= 0:
                key = (int(segment), int(word))
                mine[key] = mine.get(key, 0.0) + float(weight)
        places = list(zip(encoding.segments.tolist(), encoding.word_ids.tolist(), strict=True))
        shares = Counter(places)
        return np.array([mine.get(place, 0.0) / shares[place] for place in places])


def _mlp_of(base: ModelSpec) -> ModelSpec:
    """A token-level MLP that reads the same words as the base, from the same word vectors."""
    if not base.is_builtin:
        return ModelSpec(name="mlp")
    return replace(base, name="mlp", layers=1, heads=1, dropout=0.0, temperature=1.0)


def _attention(model: Model, trial: Trial, split: str) -> list[_Given]:
    encodings = model.encode(trial.data[split])
    told = tell(model, trial.rows(split), trial.reading).attention.mean(1).double().numpy()
    return [
        _Given(told[row, : len(encoding)], encoding.segments, encoding.word_ids)
        for row, encoding in enumerate(encodings)
    ]


def _keep(context: Context, data: Dataset, spec: ModelSpec, given: Mapping[str, Sequence[_Given]]) -> Path:
    """The weights over the MLP's tokens, padded, one tensor a split, in a run of their own."""
    reader = build_model(replace(spec, embeddings=None), data, 0)
    tensors = {split: _padded(reader, data[split], given[split]) for split in SPLITS}
    digest = {split: _digest(tensor) for split, tensor in tensors.items()}

    def make(folder: Path) -> None:
        write_tensors(folder / "weights.safetensors", tensors)

    return context.store.run({"dataset": data.fingerprint, "weights": digest}, "guides", make)


def _padded(reader: Model, examples: Sequence[Example], given: Sequence[_Given]) -> Tensor:
    encodings = reader.encode(examples)
    weights = torch.zeros(len(encodings), max(map(len, encodings)))
    for row, (told, encoding) in enumerate(zip(given, encodings, strict=True)):
        weights[row, : len(encoding)] = torch.from_numpy(told.onto(encoding))
    return weights


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.numpy().tobytes()).hexdigest()[:20]


@dataclass(frozen=True)
class _Guided:
    """One MLP under one guide."""

    data: Dataset
    model: ModelSpec
    training: TrainingSpec
    seed: int
    weights: Path | None  # None: the MLP's own, learned or uniform

    def key(self) -> dict[str, Plain]:
        return {
            "dataset": self.data.fingerprint,
            "model": model_key(self.model),
            "training": to_plain(self.training),
            "seed": self.seed,
            "guide": None if self.weights is None else self.weights.name,
        }

    def make(self, folder: Path) -> None:
        model = build_model(self.model, self.data, self.seed).to(best_device())
        given = read_tensors(self.weights / "weights.safetensors") if self.weights else {}
        rows = {split: self._rows(model, split, given) for split in SPLITS}
        checkpoint = folder / "checkpoint.safetensors"
        history = fit(
            model,
            rows["train"],
            rows["dev"],
            CrossEntropy(),
            self.training,
            seed=self.seed,
            checkpoint=checkpoint,
        )
        told = predict(model, rows["test"])
        labels = rows["test"].whole.extras["label"].cpu().numpy()
        scores = classification_scores(told.probabilities, labels)
        correct = {
            "example": [e.id for e in self.data["test"]],
            "correct": (told.classes == labels).astype(float),
        }
        write_parquet(folder / "correct.parquet", pd.DataFrame(correct))
        write_json(folder / "scores.json", {"seed": self.seed, "epoch": history.best, "scores": scores})
        checkpoint.unlink(missing_ok=True)

    def _rows(self, model: Model, split: str, given: Mapping[str, Tensor]) -> Rows:
        rows = rows_of(model, self.data[split])
        if split not in given:
            return rows
        return Rows.of(rows.whole.with_extras(preset=given[split].to(model.device)), ("preset",))


def _summary(seeds: pd.DataFrame, known: Mapping[str, float]) -> pd.DataFrame:
    rows = []
    for figure in FIGURES:
        for guide, group in seeds.groupby("guide", sort=False):
            row: dict[str, Any] = {"figure": figure, "guide": guide}
            row |= summary_row([group[figure].to_numpy(dtype=np.float64)], bounds=(0.0, 1.0))
            if known:
                row["published"] = known.get(str(guide), np.nan) if figure == "f1" else np.nan
            rows.append(row)
    return pd.DataFrame(rows)


def _compare(instances: pd.DataFrame) -> pd.DataFrame:
    """Each guide against uniform, the MLP's own and the base's attention: over seeds and texts, Holm-adjusted."""
    tables = {
        str(guide): part.pivot(index="seed", columns="example", values="correct")
        for guide, part in instances.groupby("guide", sort=False)
    }
    rows = []
    for place, control in enumerate(CONTROLS):
        for guide in tables if control in tables else ():
            if guide not in CONTROLS[: place + 1]:
                one, other = tables[guide].align(tables[control], join="inner")
                texts = [one.columns.tolist()] * len(one)
                found = compare_variants(list(one.to_numpy()), list(other.to_numpy()), texts)
                rows.append({"guide": guide, "against": control, **found.row()})
    table = pd.DataFrame(rows, columns=["guide", "against", *PairedDifference.columns()])
    return table.assign(p_holm=holm_bonferroni(table["p"].to_numpy(dtype=np.float64)).p)


def _verdict(summary: pd.DataFrame, comparison: pd.DataFrame) -> str:
    rows = summary[summary["figure"] == "f1"].to_dict("records")
    by_guide = {str(row["guide"]): {str(k): v for k, v in row.items()} for row in rows}
    figures = ", ".join(f"{guide} {with_interval(row)}" for guide, row in by_guide.items())
    helped = _difference(comparison, "base", "uniform")
    if helped is None:
        return f"The MLP's F1 under each guide: {figures}."
    words = _words(helped)
    fooled = _difference(comparison, "adversary", "base")
    if fooled is not None and _shown(fooled) and fooled["difference"] < 0:
        words += ", and the adversary's is a worse guide, however well it imitates the predictions"
    apart = with_interval(helped | {"mean": helped["difference"]}, 3)
    return f"{words} (accuracy under the base's minus under uniform weights {apart}; F1 by guide: {figures})."


def _words(helped: Mapping[str, Any]) -> str:
    if np.isnan(helped["p_holm"]):
        return "There are too few texts to tell whether the base's attention helps a model without context"
    if helped["seeds"] < ENOUGH:
        return f"Under {ENOUGH} seeds nobody can tell the training's luck from help by the base's attention"
    if _shown(helped) and helped["difference"] > 0:
        return "The base's attention tells a model without context which tokens matter, so it carries information"
    return "The base's attention was not shown to help a model without context more than uniform weights do"


def _shown(row: Mapping[str, Any]) -> bool:
    return bool(row["seeds"] >= ENOUGH and row["p_holm"] < ALPHA)


def _difference(comparison: pd.DataFrame, guide: str, control: str) -> dict[str, Any] | None:
    """The test of one guide against another; None where it was not made."""
    found = comparison[(comparison["guide"] == guide) & (comparison["against"] == control)]
    return None if found.empty else {str(name): value for name, value in found.iloc[0].items()}
