"""What the studies of explanations share: whom to ask, about which texts, and the answers as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rashomon.data import Dataset, Example
from rashomon.errors import UserError
from rashomon.explain import Explanations, explainers, make_explainer
from rashomon.measures.base import Ragged
from rashomon.models.base import Model
from rashomon.runs.spec import to_plain
from rashomon.studies.context import Context
from rashomon.studies.subject import Subject
from rashomon.training.train import Trained

# The methods of the agreement paper; those that a model cannot answer are left out and named in a warning.
METHODS = (
    "attention",
    "attention-rollout",
    "lime",
    "integrated-gradients",
    "deeplift",
    "gradient-shap",
    "deep-shap",
)
BACKGROUND = 64  # training examples from which references are drawn


@dataclass(frozen=True)
class Ask:
    """Which texts of which subject are explained by which methods."""

    subject: Subject = field(default_factory=Subject)
    methods: tuple[str, ...] = METHODS
    instances: int = 500
    split: str = "test"
    stored: str | None = None  # explanations made earlier or elsewhere (a Parquet file), instead of a model


@dataclass(frozen=True)
class Testimony:
    """One model's (one seed's) texts and what every method said of them."""

    seed: int
    model: Model | None
    examples: tuple[Example, ...]
    told: Explanations
    left_out: tuple[str, ...] = ()  # why a method is missing
    behind: tuple[Example, ...] = ()  # training examples that references were drawn from

    def scores(self, magnitude: bool = True) -> dict[str, Ragged]:
        """Scores over content tokens, one ``Ragged`` a method, the same texts for all."""
        aligned = self.told.aligned()
        return {
            method: Ragged.from_list([np.abs(row) if magnitude else row for row in rows])
            for method, rows in aligned.scores.items()
        }


def hear(context: Context, ask: Ask, extra: Sequence[str] = (), seed_shift: int = 0) -> list[Testimony]:
    """Explanations for every seed of the subject. ``extra`` methods (controls) are asked too."""
    if ask.stored is not None:
        told = Explanations.load(ask.stored)
        return [Testimony(0, None, (), told)]
    data = context.dataset(ask.subject.dataset)
    heard = []
    for seed, trained in zip(ask.subject.seeds, context.models(ask.subject), strict=False):
        heard.append(_testimony(context, ask, data, seed, trained, extra, seed_shift))
    return heard


def _testimony(
    context: Context,
    ask: Ask,
    data: Dataset,
    seed: int,
    trained: Trained,
    extra: Sequence[str],
    seed_shift: int,
) -> Testimony:
    examples = draw(data, ask.split, ask.instances, seed)
    methods, left_out = answerable([*ask.methods, *extra], trained.model)
    if not methods:
        raise UserError(f"No method can explain this model: {'; '.join(left_out)}.")
    behind = background(data, seed)
    told = context.explanations(trained.model, examples, methods, seed=seed + seed_shift, background=behind)
    return Testimony(seed, trained.model, examples, told, tuple(left_out), behind)


def draw(data: Dataset, split: str, count: int, seed: int) -> tuple[Example, ...]:
    """``count`` texts of a split (all when there are fewer), drawn with the seed, in their own order."""
    examples = data[split] if split in data.splits else data[next(iter(data))]
    if not examples:
        raise UserError(f"The {split} split of {data.name} is empty, so there is nothing to explain.")
    if len(examples) <= count:
        return tuple(examples)
    chosen = np.random.default_rng([seed, 500]).choice(len(examples), size=count, replace=False)
    return tuple(examples[int(i)] for i in np.sort(chosen))


def background(data: Dataset, seed: int) -> tuple[Example, ...]:
    """Training texts to take references from."""
    return draw(data, "train", BACKGROUND, seed) if data.splits.get("train") else ()


def answerable(methods: Sequence[str], model: Model) -> tuple[list[str], list[str]]:
    """The methods this model can answer, and a sentence for each that it cannot."""
    kept: list[str] = []
    left_out: list[str] = []
    for method in dict.fromkeys(methods):
        reason = make_explainer(method).refusal(model)
        if reason is None:
            kept.append(method)
        else:
            left_out.append(f"{method} is left out: {reason}")
    return kept, left_out


def warnings_of(heard: Sequence[Testimony]) -> tuple[str, ...]:
    """Every distinct warning, with the number of explanations that carry it."""
    counts: dict[str, int] = {}
    total: dict[str, int] = {}
    for testimony in heard:
        for item in testimony.told:
            total[item.method] = total.get(item.method, 0) + 1
            for warning in item.warnings:
                # Numbers differ from text to text; one line a kind of warning is what a reader can use.
                kind = "".join("#" if c.isdigit() else c for c in warning)
                while "##" in kind:
                    kind = kind.replace("##", "#")
                key = f"{item.method}: {kind}"
                counts[key] = counts.get(key, 0) + 1
    lines = [f"{key} ({count} of {total[key.split(':')[0]]} texts)" for key, count in counts.items()]
    return (*dict.fromkeys(reason for t in heard for reason in t.left_out), *lines)


def is_signed(method: str) -> bool:
    """Whether a method's sign speaks for or against the class. What is unknown to us counts as signed."""
    return explainers.get(method).signed if method in explainers else True


def configuration_of(study: object) -> dict[str, object]:
    plain = to_plain(study)
    assert isinstance(plain, dict)
    return dict(plain)
