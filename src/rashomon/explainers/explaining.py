"""Ask several methods about several examples, sharing what they share."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.metadata import version

import numpy as np
import torch
from numpy.typing import NDArray

from rashomon.data.batches import Encoding
from rashomon.data.example import Example
from rashomon.data.texts import Texts, as_examples
from rashomon.errors import DoesNotFit
from rashomon.explainers.base import Explainer, Floats, Job, Scores
from rashomon.explainers.collection import Explanations
from rashomon.explainers.engine import Engine
from rashomon.explainers.paths import Targets, look_at_inputs, looked
from rashomon.explainers.record import UNKNOWN_TARGET, Explanation
from rashomon.explainers.request import (
    Method,
    Target,
    check_count,
    check_targets,
    chosen_explainers,
    chosen_targets,
    space_refusal,
)
from rashomon.models.base import Model
from rashomon.models.given import require_model
from rashomon.models.tasks import Space
from rashomon.progress import progress

CHUNK_TOKENS = 4096  # text on the table at once: enough to fill batches, little enough to keep memory flat
# The papers' six, and Kernel SHAP, whose evaluations are those of LIME.
DEFAULT_METHODS = (
    "attention",
    "lime",
    "kernel-shap",
    "integrated-gradients",
    "deeplift",
    "gradient-shap",
    "deep-shap",
)
# Conductance's path also holds integrated gradients.
FIRST = ("layer-conductance",)


def explain(
    model: Model,
    examples: Texts,
    methods: Method | Iterable[Method] = DEFAULT_METHODS,
    *,
    seed: int = 0,
    space: Space = "logit",
    targets: Target | Sequence[Target] | None = None,
    background: Texts = (),
    token_budget: int = 4096,
) -> Explanations:
    """Explain what a model predicts, by every method.

    Args:
        model: any model; a Hugging Face network in memory becomes one by ``wrap``.
        examples: a text, a list of texts, ``(text, text)`` pairs, dicts or examples, a pandas Series of
            texts, or a frame with a column ``text`` (and ``text_pair``).
        methods: names with settings such as ``"lime(samples=500)"``, explainers, or their classes; one or many.
        seed: of the methods that draw at random.
        space: what is explained: the ``logit`` of a class, its ``probability``, or its ``centred`` logit, which is what
            it lies above the mean over all classes, since what raises them all moves no probability.
        targets: the classes to explain, by number or name, one for each example or one for all; of spans the
            first and the last token. By default what the model predicts.
        background: training examples, for the methods that average over references.
        token_budget: how many tokens go through the model at once.

    Returns:
        One record for each method and example, method by method.
    """
    require_model(model)
    asked = chosen_explainers(model, methods)
    if reason := space_refusal(model, space):
        raise DoesNotFit(reason)
    check_count("A seed", seed, 0)
    check_count("A token budget", token_budget, 1)
    given = as_examples(examples)
    wanted = chosen_targets(model, targets, len(given))
    encodings = model.encode(given)
    check_targets(model, wanted, encodings)
    engine = Engine(model, token_budget)
    references = as_examples(background)
    behind = model.encode(references) if references else []
    records: list[list[Explanation]] = [[] for _ in asked]
    took = dict.fromkeys((explainer.label for explainer in asked), 0.0)
    about = _About(model)
    # Who computes what others can reuse goes first.
    order = sorted(range(len(asked)), key=lambda number: asked[number].name not in FIRST)
    with progress(
        f"explaining {len(given)} texts by {len(asked)} methods", len(given) * len(asked)
    ) as advance:
        for chunk in chunks(encodings):
            part = [encodings[i] for i in chunk]
            given_targets = None if wanted is None else np.asarray([wanted[i] for i in chunk])
            logits, chosen = _looked_at(engine, part, given_targets, asked, space)
            job = Job(engine, part, chosen, space, seed, behind, asked)
            for number in order:
                started, lent = time.perf_counter(), engine.lent
                scores = asked[number].attribute(job)
                took[asked[number].label] += time.perf_counter() - started + engine.lent - lent
                records[number] += [
                    about.record(given[i], asked[number], job, row, scores[row], logits[row])
                    for row, i in enumerate(chunk)
                ]
                advance(len(chunk), asked[number].label)
            engine.forget()
    seconds = {label: spent / max(1, len(given)) for label, spent in took.items()}
    return Explanations((record for of_method in records for record in of_method), seconds)


def _looked_at(
    engine: Engine,
    encodings: Sequence[Encoding],
    targets: Targets | None,
    asked: Sequence[Explainer],
    space: Space,
) -> tuple[list[Floats], Targets]:
    """Logits and targets of texts as they are. Where only gradients there are asked for, the pass brings them too."""
    if not all(explainer.at_inputs_alone for explainer in asked):
        logits = whole_logits(engine, encodings)
        return logits, predicted(engine.model, logits) if targets is None else targets
    started = time.perf_counter()
    logits, chosen, gradients = look_at_inputs(engine, encodings, targets, space)
    engine.share(looked(encodings, chosen, space), gradients, time.perf_counter() - started)
    return logits, chosen


def whole_logits(engine: Engine, encodings: Sequence[Encoding]) -> list[Floats]:
    """What the model says of each text as it is: ``[C]``, or ``[n, 2]`` of spans."""
    whole = [np.ones((1, len(encoding)), dtype=np.bool_) for encoding in encodings]
    return [rows[0] for rows in engine.logits(encodings, whole)]


def predicted(model: Model, logits: Sequence[Floats]) -> NDArray[np.int64]:
    """The target that the model chooses for each text."""
    return np.stack([model.task.answers(torch.from_numpy(row)[None])[0].numpy() for row in logits])


def chunks(encodings: Sequence[Encoding]) -> Iterator[list[int]]:
    """Positions of examples that are worked on together, in order."""
    chunk: list[int] = []
    tokens = 0
    for i, encoding in enumerate(encodings):
        if chunk and tokens + len(encoding) > CHUNK_TOKENS:
            yield chunk
            chunk, tokens = [], 0
        chunk.append(i)
        tokens += len(encoding)
    if chunk:
        yield chunk


def _cut_off(encoding: Encoding) -> str:
    return (
        f"{encoding.cut} tokens ({encoding.unseen:.0%} of the text) did not fit into the model and were cut"
    )


@cache
def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("rashomon", "torch", "transformers", "numpy")}


class _About:
    """What is the same for every record of a run."""

    def __init__(self, model: Model) -> None:
        self.task, self.labels = model.task, model.labels
        self.fingerprint = model.fingerprint()
        self.versions = _versions()

    def record(
        self, example: Example, explainer: Explainer, job: Job, row: int, scores: Scores, logits: Floats
    ) -> Explanation:
        encoding = job.encodings[row]
        cut = (_cut_off(encoding),) if encoding.cut else ()
        target = job.targets[row]
        return Explanation(
            example_id=example.id,
            text=example.text,
            text_pair=example.text_pair,
            tokens=encoding.tokens,
            offsets=encoding.offsets,
            word_ids=encoding.word_ids,
            segments=encoding.segments,
            special=encoding.special,
            scores=scores.values,
            spread=scores.spread,
            method=explainer.label,
            configuration=explainer.configuration() | ({} if scores.used is None else {"used": scores.used}),
            seed=job.seed if explainer.stochastic else None,
            target=UNKNOWN_TARGET if target.ndim else int(target),
            target_label=self.task.describe(target, encoding, example, self.labels),
            probabilities=self.task.probabilities(logits, target),
            output_space=job.space,
            model=self.fingerprint,
            gap=scores.gap,
            versions=self.versions,
            warnings=scores.warnings + cut,
            answer=(int(target[0]), int(target[1])) if target.ndim else None,
            unseen=encoding.unseen,
        )
