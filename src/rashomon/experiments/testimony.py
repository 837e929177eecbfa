"""What the studies of explanations share: whom to ask, about which texts, and the answers as arrays."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from rashomon.data import Dataset, Example
from rashomon.errors import DoesNotFit, UserError
from rashomon.experiments.cautions import Caution, cautions_of
from rashomon.experiments.context import Context, Work
from rashomon.experiments.further_methods import Further, further_methods
from rashomon.experiments.subject import Subject
from rashomon.explainers import Explanation, Explanations, find_explainer, make_explainer
from rashomon.explainers.record import UNKNOWN
from rashomon.measures.base import Ragged
from rashomon.models.base import Model
from rashomon.models.label_names import in_model_labels
from rashomon.models.tasks import Space

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
CONTROLS = ("random", "trivial")  # asked by whoever needs them
BACKGROUND = 64  # training examples from which references are drawn
SHIFT = 1000  # how far the second sampling seed lies from the first


@dataclass(frozen=True)
class Ask:
    """Which texts of which subject are explained by which methods.

    Of stored explanations all methods are heard, unless others than the usual ones are named.
    """

    subject: Subject = field(default_factory=Subject)
    methods: tuple[str, ...] = METHODS
    instances: int = 500
    split: str = "test"
    space: Space = "logit"  # of the number that is explained
    stored: str | None = None  # explanations made earlier or elsewhere (a Parquet file), instead of a model
    beside: str | None = None  # such explanations, by further methods, beside those of the model


@dataclass(frozen=True)
class Testimony:
    """One model's (one seed's) texts and what every method said of them."""

    seed: int
    model: Model | None
    examples: tuple[Example, ...]
    explanations: Explanations
    notes: tuple[str, ...] = ()  # which method or text is missing and why, how labels were read
    behind: tuple[Example, ...] = ()  # training examples that references were drawn from
    behind_again: tuple[Example, ...] = ()  # others, for who asks again
    space: Space = "logit"  # of the number that was explained
    further: tuple[str, ...] = ()  # methods that cannot be asked again, because they were heard elsewhere

    def scores(self, magnitude: bool = True) -> dict[str, Ragged]:
        """Scores over content tokens, one ``Ragged`` a method, the same texts for all."""
        aligned = self.explanations.aligned()
        return {
            method: Ragged.from_list([np.abs(row) if magnitude else row for row in rows])
            for method, rows in aligned.scores.items()
        }


def hear(context: Context, ask: Ask, extra: Sequence[str] = (), with_further: bool = True) -> list[Testimony]:
    """Explanations for every seed of the subject. ``extra`` methods (controls) are asked too.

    What was heard elsewhere takes part, unless a study has to ask every method again; the texts are the same then.
    """
    if ask.stored is not None:
        explanations = _asked_for(Explanations.load(ask.stored), ask, extra)
        return [_at_most(testimony, ask.instances) for testimony in from_stored(explanations)]
    for method in ask.methods:
        make_explainer(method)  # what is wrong with a name is told before any work is done
    heard = [_answer(context, question) for question in questions(context, ask, extra)]
    return heard if with_further else [_without_further(testimony) for testimony in heard]


def hearing_work(context: Context, ask: Ask, extra: Sequence[str] = ()) -> list[Work]:
    """What ``hear`` would have to do, for those who have other work to do beside it."""
    if ask.stored is not None:
        return []
    return [
        work for q in questions(context, ask, extra) for work in context.explanation_work(*q.asked, **q.how)
    ]


@dataclass(frozen=True)
class Question:
    """What is asked of one model (one seed) about which texts."""

    seed: int
    model: Model
    examples: tuple[Example, ...]
    methods: tuple[str, ...]
    space: Space
    behind: tuple[Example, ...]
    behind_again: tuple[Example, ...]
    notes: tuple[str, ...]
    further: Further | None

    @property
    def asked(self) -> tuple[Model, tuple[Example, ...], tuple[str, ...]]:
        return self.model, self.examples, self.methods

    @property
    def how(self) -> dict[str, Any]:
        return {"seed": self.seed, "space": self.space, "background": self.behind}


def _without_further(testimony: Testimony) -> Testimony:
    own = testimony.explanations.where(lambda item: item.method not in testimony.further)
    return replace(testimony, explanations=own, further=())


def questions(context: Context, ask: Ask, extra: Sequence[str] = ()) -> Iterator[Question]:
    """What ``hear`` asks every model of the subject."""
    given = context.dataset(ask.subject.dataset)
    for seed, trained in zip(ask.subject.seeds, context.models(ask.subject), strict=False):
        notes: list[str] = []
        model, data = trained.model, given
        if ask.subject.checkpoint is not None:
            data = in_model_labels(data, model, notes)
        further = heard_elsewhere(context, ask, model, data)
        data = data if further is None else further.only_their_texts(data, ask.split)
        examples = draw(data, ask.split, ask.instances, seed)
        methods, left_out = answerable([*ask.methods, *extra], model)
        if not methods:
            raise DoesNotFit(f"No method can explain this model: {'; '.join(left_out)}.")
        behind = background(data, seed), background(data, seed + SHIFT)
        yield Question(
            seed, model, examples, tuple(methods), ask.space, *behind, (*notes, *left_out), further
        )


def _answer(context: Context, q: Question) -> Testimony:
    explanations = context.explanations(*q.asked, **q.how)
    own = Testimony(q.seed, q.model, q.examples, explanations, q.notes, q.behind, q.behind_again, q.space)
    return own if q.further is None else _joined(own, q.further)


def heard_elsewhere(context: Context, ask: Ask, model: Model, data: Dataset) -> Further | None:
    """The explanations by further methods, where there are any."""
    if ask.beside is None:
        return None
    asked = {make_explainer(method).label for method in ask.methods} | {*CONTROLS}
    return further_methods(context.given_explanations(ask.beside), model, data, ask.split, asked)


def _joined(own: Testimony, further: Further) -> Testimony:
    added = further.of(own.examples)
    return replace(
        own,
        explanations=own.explanations + added,
        notes=(*own.notes, *further.notes),
        further=added.methods,
    )


def _asked_for(explanations: Explanations, ask: Ask, extra: Sequence[str]) -> Explanations:
    """What the asked methods say, and the controls where the file has them."""
    if ask.methods == METHODS or not explanations:
        return explanations
    found = {method: find_explainer(method) for method in ask.methods}
    asked = [method if ours is None else ours.label for method, ours in found.items()]
    for method in asked:
        if method not in explanations.methods:
            raise UserError(
                f"{ask.stored} has no explanations by {method!r}, only by {', '.join(explanations.methods)}."
            )
    return explanations.where(method={*asked, *extra})


def _at_most(testimony: Testimony, count: int) -> Testimony:
    """So many of the texts, by a hash of their ids: accounts of the same texts keep the same ones."""
    if count < 1:
        raise UserError(f"At least one text must be explained, not {count}.")
    ids = testimony.explanations.aligned().example_ids
    if len(ids) <= count:
        return testimony
    chosen = set(sorted(ids, key=lambda i: (zlib.crc32(i.encode("utf-8", "replace")), i))[:count])
    note = f"{count} of the {len(ids)} stored texts are used, as asked by instances."
    return replace(
        testimony,
        explanations=testimony.explanations.where(example_id=chosen),
        notes=(*testimony.notes, note),
    )


def from_stored(explanations: Explanations) -> list[Testimony]:
    """Explanations made earlier. Where a method explains a text twice, models and then seeds are told apart.

    Scores of an unknown model, made elsewhere, are put beside those of every model.
    """
    if not explanations:
        raise UserError("The stored explanations are empty.")
    explanations = _without_copies(explanations)
    parts = [explanations]
    if _repeats(explanations):
        models = _distinct(item.model for item in explanations if item.model != UNKNOWN) or [UNKNOWN]
        parts = [Explanations(i for i in explanations if i.model in (model, UNKNOWN)) for model in models]
    parts = [split for part in parts for split in (_by_seed(part) if _repeats(part) else [part])]
    return [Testimony(number, None, (), part, _incomplete(part)) for number, part in enumerate(parts)]


def _without_copies(explanations: Explanations) -> Explanations:
    """Files made with two seeds and then joined hold twice what does not depend on the seed."""
    seen: dict[tuple[str, str, str], list[Explanation]] = {}
    kept = []
    for item in explanations:
        same = seen.setdefault((item.example_id, item.method, item.model), [])
        if item.seed is None and item in same:
            continue
        same.append(item)
        kept.append(item)
    return Explanations(kept)


def _repeats(explanations: Explanations) -> bool:
    return len({(item.example_id, item.method) for item in explanations}) < len(explanations)


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _by_seed(explanations: Explanations) -> list[Explanations]:
    """What has no seed belongs to every seed."""
    seeds = dict.fromkeys(item.seed for item in explanations if item.seed is not None)
    return [Explanations(item for item in explanations if item.seed in (None, seed)) for seed in seeds] or [
        explanations
    ]


def _incomplete(explanations: Explanations) -> tuple[str, ...]:
    count = len(explanations.aligned().incomplete)
    texts = "text is" if count == 1 else "texts are"
    return (f"{count} {texts} left out: not every method explains them.",) if count else ()


def draw(data: Dataset, split: str, count: int, seed: int) -> tuple[Example, ...]:
    """``count`` texts of a split (all when there are fewer), drawn with the seed, in their own order."""
    examples = data[split]
    if not examples:
        raise DoesNotFit(f"The {split} split of {data.name} is empty, so there is nothing to explain.")
    if count < 1:
        raise UserError(f"At least one text must be explained, not {count}.")
    name, times = Counter(example.id for example in examples).most_common(1)[0]
    if times > 1:
        raise UserError(f"{times} examples of {data.name} have the id {name!r}; every example needs its own.")
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
    for label, explainer in {e.label: e for e in map(make_explainer, methods)}.items():
        reason = explainer.refusal(model)
        if reason is None:
            kept.append(label)
        else:
            left_out.append(f"{label} is left out: {reason}")
    return kept, left_out


def notes_of(heard: Sequence[Testimony]) -> tuple[str, ...]:
    """What is missing and how labels were read, each thing once."""
    return tuple(_distinct(note for testimony in heard for note in testimony.notes))


def cautions_about(heard: Sequence[Testimony]) -> tuple[Caution, ...]:
    """What the explanations themselves warn of."""
    return cautions_of(item for testimony in heard for item in testimony.explanations)


def is_signed(method: str) -> bool:
    """Whether a method's sign speaks for or against the class. What is unknown to us counts as signed."""
    ours = find_explainer(method)
    return ours is None or ours.has_sign


def samples(method: str) -> bool:
    """Whether a method draws at random. Of what is unknown to us it must be assumed."""
    ours = find_explainer(method)
    return ours is None or ours.stochastic


def about_stored(path: str) -> tuple[str, str]:
    """The model and the texts of a report on stored explanations, as their records know them."""
    models = _distinct(item.model for item in Explanations.load(path) if item.model != UNKNOWN)
    return ", ".join(models) or "stored explanations", Path(path).name
