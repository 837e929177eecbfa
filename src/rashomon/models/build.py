"""From a specification to a model, and from a folder back to one.

A folder says in the ``format`` of its config.json which family of models it is of; what says nothing is a Hugging
Face checkpoint. Families of other packages are registered in ``models`` and are built, stored and read like ours.
The Hugging Face adaptor is imported only when it is needed: transformers takes seconds to load, and neither
the command line nor the worker processes of built-in models should pay for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rashomon.data.example import Dataset
from rashomon.data.preprocess import apply_token_steps
from rashomon.data.tokens import words_of
from rashomon.data.vectors import load_vectors
from rashomon.data.vocabulary import Vocabulary
from rashomon.errors import UserError
from rashomon.models.base import Model
from rashomon.models.classifier import CONFIG, FORMAT, AttentionClassifier
from rashomon.models.encoders import encoders
from rashomon.models.locate import locate
from rashomon.models.model_spec import PRETRAINED, ModelFamily, ModelSpec, is_checkpoint_name, models
from rashomon.models.tasks import SPAN, task_of


def build_model(spec: ModelSpec, dataset: Dataset, seed: int) -> Model:
    """An untrained (or pretrained) model for what a dataset asks for; its vocabulary is the train split's."""
    if spec.is_builtin:
        return ATTENTION.build(spec, dataset, seed)
    if spec.name in models:
        return models.get(spec.name).build(spec, dataset, seed)
    family = _family(Path(spec.name).expanduser())
    if family is not HUGGING_FACE:
        model = family.load(Path(spec.name).expanduser())
        if model.labels != dataset.labels:
            raise UserError(
                f"The model in {spec.name} knows the labels {', '.join(model.labels)}, "
                f"and {dataset.name} has {', '.join(dataset.labels)}."
            )
        return model
    return _pretrained(spec, dataset, seed)


def load_model(source: str | Path) -> Model:
    """Load a trained model.

    Args:
        source: a folder written by ``model.save`` or by ``rashomon train``, the folder of any Hugging Face sequence
            classifier or question answerer, or a hub id (``owner/name``).

    Returns:
        A model for ``explain``, ``evaluate``, ``study`` and ``audit``, in eval mode.
    """
    if not Path(source).expanduser().is_dir() and (str(source) in encoders or str(source) in models):
        raise UserError(
            f"The model {str(source)!r} is not trained yet; train it, then give the folder it is in."
        )
    place = locate(source)
    return _family(place).load(place) if isinstance(place, Path) else _load_pretrained(place)


def is_pretrained(name: str) -> bool:
    """Whether a model of this name starts from trained weights and is fine-tuned."""
    own = name in encoders or name in models
    return name in PRETRAINED or (not own and is_checkpoint_name(name))


def known_models() -> list[tuple[str, str]]:
    """Every name that a model can be built by, with a line each."""
    ours = [(entry.name, f"attention classifier: {entry.summary}") for entry in encoders]
    return sorted([*ours, *((entry.name, entry.summary) for entry in models)])


def is_trained_checkpoint(name: str) -> bool:
    """Whether a folder or a hub id is meant, to be used as it is, rather than a name to be trained.

    The ids behind the short names are encoders without a head, which can only be fine-tuned.
    """
    to_be_tuned = {*PRETRAINED, *PRETRAINED.values()}
    return Path(name).is_dir() or (is_pretrained(name) and name not in to_be_tuned)


def _builtin(spec: ModelSpec, dataset: Dataset, seed: int) -> Model:
    if task_of(dataset) is SPAN:
        raise UserError(
            f"A {spec.name} chooses between classes and cannot answer the questions of {dataset.name}; "
            "take a pretrained model such as minilm, or a checkpoint."
        )
    vocabulary = Vocabulary.build(_word_lists(spec, dataset), spec.vocabulary_size, spec.min_count)
    vectors = None
    if spec.embeddings is None and spec.embedding_scale is not None:
        raise UserError("Word vectors from a file are what is scaled; say which with embeddings.")
    if spec.embeddings is not None:
        vocabulary, vectors = _with_vectors(spec, vocabulary, dataset, seed)
        spec = replace(spec, embedding_dim=vectors.shape[1])
    return AttentionClassifier(spec, vocabulary, dataset.labels, dataset.is_pair, seed, vectors)


def _with_vectors(
    spec: ModelSpec, vocabulary: Vocabulary, dataset: Dataset, seed: int
) -> tuple[Vocabulary, NDArray[np.float32]]:
    """Ready-made vectors for the words of the train split, and for those of the other splits that have one.

    A word that training never saw is then not unknown; that is what the vectors are for.
    """
    others = [split for split in dataset if split != "train"]
    further = (word for split in others for words in _word_lists(spec, dataset, split) for word in words)
    known = len(vocabulary)
    wider = vocabulary if spec.vocabulary_size is not None else vocabulary.extended(further)
    generator = np.random.default_rng(seed)
    vectors, found = load_vectors(Path(str(spec.embeddings)), wider, generator, spec.embedding_scale)
    found[:known] = True  # these stay, with a vector of their own if need be
    return Vocabulary(tuple(w for w, keep in zip(wider.words, found, strict=True) if keep)), vectors[found]


def _pretrained(spec: ModelSpec, dataset: Dataset, seed: int) -> Model:
    from rashomon.models.huggingface import HuggingFaceClassifier, HuggingFaceSpanModel

    uniform = spec.weights == "uniform"
    if task_of(dataset) is SPAN:
        return HuggingFaceSpanModel.pretrained(spec.name, seed, spec.max_length, uniform)
    return HuggingFaceClassifier.pretrained(spec.name, dataset.labels, seed, spec.max_length, uniform)


def _word_lists(spec: ModelSpec, dataset: Dataset, split: str = "train") -> Iterator[list[str]]:
    for example in dataset[split]:
        for side in (0, 1) if example.is_pair else (0,):
            yield [word.form for word in apply_token_steps(words_of(example, side), spec.steps)]


def _load_pretrained(place: str | Path) -> Model:
    from rashomon.models.huggingface import load_huggingface

    return load_huggingface(place)


@dataclass(frozen=True, slots=True)
class _Family:
    """A ``ModelFamily`` of ours, whose models need not be imported to be named."""

    format: str
    build: Callable[[ModelSpec, Dataset, int], Model]
    load: Callable[[Path], Model]


ATTENTION = _Family(FORMAT, _builtin, AttentionClassifier.load)
HUGGING_FACE = _Family("", _pretrained, _load_pretrained)


def _family(folder: Path) -> ModelFamily:
    """Who can read a folder, by the format that its config.json names."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return HUGGING_FACE  # which says what is wrong with it
    named = config.get("format") if isinstance(config, dict) else None
    if not isinstance(named, str):
        return HUGGING_FACE
    for family in (ATTENTION, *(entry.value for entry in models)):
        if family.format == named:
            return family
    raise UserError(
        f"The model in {folder} is of the format {named!r}, which no installed package reads; "
        "install the package that made it."
    )


for _name, _summary in PRETRAINED.items():
    models.register(_name, f"fine-tuned transformer: {_summary}")(HUGGING_FACE)
