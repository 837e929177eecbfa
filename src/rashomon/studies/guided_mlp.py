"""Are the weights useful to someone else? A model without context, guided by given weights.

A token-level MLP is trained and tested with its outputs weighted by a preset distribution for each text: uniform,
its own learned attention, the base model's, an adversary's (paper *not-not*, section 3.4) - or the scores of any
explainer, absolute and normalised, which no paper did. Weights that tell which tokens matter make the MLP better.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from rashomon.data import Dataset, Example
from rashomon.data.batches import Encoding, Rows
from rashomon.errors import unknown_name
from rashomon.experiments.adversaries import Member, adversary_training, train_adversaries, usual_adversary
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Distributions
from rashomon.experiments.pairing import gaps_over_seeds
from rashomon.experiments.subject import Subject
from rashomon.experiments.summaries import summary_row
from rashomon.experiments.testimony import background
from rashomon.experiments.trials import SelectionSplit, Trial, prepare, selecting
from rashomon.explainers import Explanation, explainers, make_explainer
from rashomon.measures.intervals import ENOUGH
from rashomon.measures.significance import PairedDifference, compare_variants, holm_bonferroni
from rashomon.models.base import Model
from rashomon.models.build import build_model, is_pretrained
from rashomon.models.evaluator import rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.files import read_parquet, read_tensors, write_tensors
from rashomon.runs.specifications import Plain
from rashomon.studies.base import ON_TRIAL, AttentionStudy, Finding, studies
from rashomon.training.adversarial import ModelConsistentAdversary, Reading, outputs_of
from rashomon.training.callbacks import CORRECT, CorrectAnswers
from rashomon.training.run import SPLITS, DatasetRows, NewModel, TrainingRun, read_history
from rashomon.training.settings import TrainingSpec
from rashomon.wording import with_interval

GUIDES = ("uniform", "own", "base", "adversary")
CONTROLS = ("uniform", "own", "base")  # what guides are compared with, each also with those before it
FIGURES = ("f1", "accuracy", "roc-auc")
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
    title: ClassVar[str] = "Attention as a guide"
    chapter: ClassVar[str | None] = ON_TRIAL
    order: ClassVar[int] = 110

    guides: tuple[str, ...] = GUIDES  # of these four, and explainers by name
    seeds: tuple[int, ...] = (0, 1, 2)  # of the MLPs
    weight: float = 1e-3  # the adversary's lambda
    adversary_seed: int = 1  # of the adversary whose attention guides
    selection: SelectionSplit = "dev"  # the split that picks a model's epoch: dev, or test as some papers did
    adversary: TrainingSpec | None = None  # how the adversary is trained; None: what suits the model
    training: TrainingSpec = MLP  # of the guided MLPs
    reading: Reading | None = None  # what of the attention is compared; None: heads, a transformer's mean

    def run(self, context: Context) -> Finding:
        for guide in self.guides:
            if guide in GUIDES:
                continue
            if guide.partition("(")[0].strip() not in explainers:
                raise unknown_name("guide", guide, [*GUIDES, *explainers.names()])
            make_explainer(guide)  # what is wrong with its settings is told before any work is done
        context = selecting(context, [self.subject.dataset], self.selection)
        self.check_fit(context)
        data = context.data_of(self.subject)
        trial = prepare(context, [self.base], self.reading)[0]
        spec = _mlp_of(self.subject.model)
        runs = []
        for guide in self.guides:
            given_weights = None if guide in LEARNED else self._weights(context, trial, guide)
            made = replace(spec, weights=LEARNED.get(guide, "preset"))
            folder = None if given_weights is None else _keep(context, data, made, given_weights)
            runs += [(guide, seed, self._run(data, made, seed, folder)) for seed in self.seeds]
        folders = context.train_runs([run for _, _, run in runs], "guided-mlps")
        return self._finding(trial, [(guide, seed) for guide, seed, _ in runs], folders)

    def _run(self, data: Dataset, spec: ModelSpec, seed: int, weights: Path | None) -> TrainingRun:
        """One MLP under one guide; without weights it makes its own, learned or uniform."""
        source = DatasetRows(data) if weights is None else GuidedRows(data, weights)
        keeps = (CorrectAnswers(),)
        title = f"a guided {spec.name} on {data.name}"
        return TrainingRun(NewModel(spec, data), source, self.training, seed, callbacks=keeps, title=title)

    def fits(self, model: Model, data: Dataset) -> str | None:
        unlabelled = next((e.id for split in SPLITS for e in data[split] if e.label is None), None)
        if unlabelled is not None:
            return f"The guided MLP needs labels, and example {unlabelled!r} has none."
        return super().fits(model, data)

    def needed_models(self) -> tuple[Subject, ...]:
        return (self.first_base,)

    def left_open(self) -> dict[str, object]:
        return {"adversary": usual_adversary(self.subject)}

    def _weights(self, context: Context, trial: Trial, guide: str) -> dict[str, list[_Given]]:
        """A weight for each token of each text, in the tokens of the base model."""
        model = trial.base_model()
        if guide not in GUIDES:
            return self._explained(context, trial, model, guide)
        if guide == "base":
            return {split: _attention(model, trial, split) for split in SPLITS}
        objective = ModelConsistentAdversary(trial.reading, self.weight)
        training = adversary_training(trial, self.adversary)
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
            explanations = context.explanations(model, texts, [method], seed=seed, background=behind)
            given[split] = [_Given.of_explanation(item) for item in explanations]
        return given

    def _finding(self, trial: Trial, guides: Sequence[tuple[str, int]], folders: Sequence[Path]) -> Finding:
        seeds, correct = [], []
        for (guide, seed), folder in zip(guides, folders, strict=True):
            _, scores = read_history(folder)
            seeds.append({"guide": guide, "seed": seed, **scores["test"]})
            correct.append(read_parquet(folder / CORRECT).assign(guide=guide, seed=seed))
        by_seed = pd.DataFrame(seeds)
        instances = pd.concat(correct, ignore_index=True)
        comparison = _compare(instances)
        summary = _summary(by_seed)
        return self.finding(
            _verdict(summary, comparison),
            {
                "summary": summary,
                "comparison": comparison,
                "gaps": _gaps(by_seed),
                "seeds": by_seed,
                "instances": instances,
            },
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
    if is_pretrained(base.name):
        return ModelSpec(name="mlp")
    return replace(base, name="mlp", layers=1, heads=1, dropout=0.0, temperature=1.0)


def _attention(model: Model, trial: Trial, split: str) -> list[_Given]:
    encodings = model.encode(trial.data[split])
    attention = outputs_of(model, trial.rows(split), trial.reading).attention.mean(1).double().numpy()
    return [
        _Given(attention[row, : len(encoding)], encoding.segments, encoding.word_ids)
        for row, encoding in enumerate(encodings)
    ]


def _keep(context: Context, data: Dataset, spec: ModelSpec, given: Mapping[str, Sequence[_Given]]) -> Path:
    """The weights over the MLP's tokens, padded, one tensor a split, in a run of their own."""
    reader = build_model(spec.without_vectors(), data, 0)
    tensors = {split: _padded(reader, data[split], given[split]) for split in SPLITS}
    digest = {split: _digest(tensor) for split, tensor in tensors.items()}

    def make(folder: Path) -> None:
        write_tensors(folder / "weights.safetensors", tensors)

    return context.store.run({"dataset": data.fingerprint, "weights": digest}, "guides", make)


def _padded(reader: Model, examples: Sequence[Example], given: Sequence[_Given]) -> Tensor:
    encodings = reader.encode(examples)
    weights = torch.zeros(len(encodings), max(map(len, encodings)))
    for row, (item, encoding) in enumerate(zip(given, encodings, strict=True)):
        weights[row, : len(encoding)] = torch.from_numpy(item.onto(encoding))
    return weights


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.numpy().tobytes()).hexdigest()[:20]


@dataclass(frozen=True)
class GuidedRows:
    """The dataset's rows with each text's guide beside them."""

    data: Dataset
    weights: Path  # of the run that holds them

    def key(self) -> Plain:
        return {"dataset": self.data.fingerprint, "guide": self.weights.name}

    def rows(self, model: Model, split: str) -> Rows:
        given = read_tensors(self.weights / "weights.safetensors")
        return rows_of(model, self.data[split]).with_extras(("preset",), preset=given[split])

    def splits(self) -> Sequence[str]:
        return SPLITS


def _summary(seeds: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for figure in FIGURES:
        for guide, group in seeds.groupby("guide", sort=False):
            values = group[figure].to_numpy(dtype=np.float64)
            rows.append({"figure": figure, "guide": guide} | summary_row([values], bounds=(0.0, 1.0)))
    return pd.DataFrame(rows)


def _gaps(seeds: pd.DataFrame) -> pd.DataFrame:
    """Every figure of a guide less that of each control, seed by seed."""
    each = seeds.melt(id_vars=["guide", "seed"], value_vars=list(FIGURES), var_name="figure")
    known = [control for control in CONTROLS if control in set(seeds["guide"])]
    parts = [gaps_over_seeds(each, "guide", control, ["figure"]) for control in known]
    return pd.concat([pd.DataFrame(columns=["guide", "than", "figure"]), *parts], ignore_index=True)


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
