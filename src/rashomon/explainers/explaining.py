"""Ask several methods about several examples, sharing what they share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version

import numpy as np
from scipy.special import softmax

from rashomon.data.batches import Encoding
from rashomon.data.example import Example
from rashomon.data.texts import Texts, as_examples
from rashomon.explainers.base import Explainer, Floats, Job, OutputSpace, Scores
from rashomon.explainers.collection import Explanations
from rashomon.explainers.engine import Engine
from rashomon.explainers.record import Explanation
from rashomon.explainers.request import (
    Method,
    Target,
    check_count,
    check_space,
    chosen_explainers,
    chosen_targets,
    require_model,
)
from rashomon.models.base import Model
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
    space: OutputSpace = "logit",
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
        space: what is explained, the ``logit`` or the ``probability`` of a class.
        targets: the classes to explain, by number or name, one for each example or one for all; by default
            what the model predicts.
        background: training examples, for the methods that average over references.
        token_budget: how many tokens go through the model at once.

    Returns:
        One record for each method and example, method by method.
    """
    require_model(model)
    asked = chosen_explainers(model, methods)
    check_space(space)
    check_count("A seed", seed, 0)
    check_count("A token budget", token_budget, 1)
    given = as_examples(examples)
    classes = chosen_targets(model, targets, len(given))
    encodings = model.encode(given)
    engine = Engine(model, token_budget)
    references = as_examples(background)
    behind = model.encode(references) if references else []
    records: list[list[Explanation]] = [[] for _ in asked]
    about = _About(model)
    # Who computes what others can reuse goes first.
    order = sorted(range(len(asked)), key=lambda number: asked[number].name not in FIRST)
    with progress(
        f"explaining {len(given)} texts by {len(asked)} methods", len(given) * len(asked)
    ) as advance:
        for chunk in chunks(encodings):
            part = [encodings[i] for i in chunk]
            probabilities = predictions(engine, part)
            chosen = probabilities.argmax(1) if classes is None else np.asarray([classes[i] for i in chunk])
            job = Job(engine, part, chosen, probabilities, space, seed, behind, asked)
            for number in order:
                scores = asked[number].attribute(job)
                records[number] += [
                    about.record(given[i], asked[number], job, row, scores[row])
                    for row, i in enumerate(chunk)
                ]
                advance(len(chunk), asked[number].label)
            engine.forget()
    return Explanations(record for of_method in records for record in of_method)


def predictions(engine: Engine, encodings: Sequence[Encoding]) -> Floats:
    """Class probabilities ``[N, C]``."""
    whole = [np.ones((1, len(encoding)), dtype=np.bool_) for encoding in encodings]
    return np.asarray(softmax(np.concatenate(engine.logits(encodings, whole)), axis=1))


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


class _About:
    """What is the same for every record of a run."""

    def __init__(self, model: Model) -> None:
        self.labels = model.labels
        self.fingerprint = model.fingerprint()
        self.versions = {name: version(name) for name in ("rashomon", "torch", "transformers", "numpy")}

    def record(
        self, example: Example, explainer: Explainer, job: Job, row: int, scores: Scores
    ) -> Explanation:
        encoding = job.encodings[row]
        cut = (f"{encoding.cut} tokens did not fit into the model and were cut",) if encoding.cut else ()
        target = int(job.targets[row])
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
            method=explainer.label,
            configuration=explainer.configuration(),
            seed=job.seed if explainer.stochastic else None,
            target=target,
            target_label=self.labels[target],
            probabilities=tuple(job.probabilities[row].tolist()),
            output_space=job.space,
            model=self.fingerprint,
            gap=scores.gap,
            versions=self.versions,
            warnings=scores.warnings + cut,
        )
