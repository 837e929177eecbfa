"""From a specification to a model, and from a folder back to one.

The Hugging Face adaptor is imported only when it is needed: transformers takes seconds to load, and neither
the command line nor the worker processes of built-in models should pay for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
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
from rashomon.models.locate import locate
from rashomon.models.model_spec import ENCODERS, PRETRAINED, ModelSpec, is_checkpoint_name, models
from rashomon.models.tasks import SPAN, task_of


def build_model(spec: ModelSpec, dataset: Dataset, seed: int) -> Model:
    """An untrained (or pretrained) model for what a dataset asks for; its vocabulary is the train split's."""
    if spec.name in models:
        return models.get(spec.name)(spec, dataset, seed)
    if _is_own(Path(spec.name)):
        model = AttentionClassifier.load(Path(spec.name))
        if model.labels != dataset.labels:
            raise UserError(
                f"The model in {spec.name} knows the labels {', '.join(model.labels)}, "
                f"and {dataset.name} has {', '.join(dataset.labels)}."
            )
        return model
    return _pretrained(spec, dataset, seed)


def load_model(source: str | Path) -> Model:
    """A trained model: a folder written by ``save``, a plain Hugging Face checkpoint, or a hub id."""
    if not Path(source).expanduser().is_dir() and str(source) in models:
        raise UserError(
            f"The model {str(source)!r} is not trained yet; train it, then give the folder it is in."
        )
    place = locate(source)
    if isinstance(place, Path) and _is_own(place):
        return AttentionClassifier.load(place)
    from rashomon.models.huggingface import load_huggingface

    return load_huggingface(place)


def is_pretrained(name: str) -> bool:
    """Whether a model of this name starts from trained weights and is fine-tuned."""
    return name in PRETRAINED or (name not in models and is_checkpoint_name(name))


def _builtin(spec: ModelSpec, dataset: Dataset, seed: int) -> Model:
    if task_of(dataset) is SPAN:
        raise UserError(
            f"A {spec.name} chooses between classes and cannot answer the questions of {dataset.name}; "
            "take a pretrained model such as minilm, or a checkpoint."
        )
    vocabulary = Vocabulary.build(_word_lists(spec, dataset), spec.vocabulary_size, spec.min_count)
    vectors = None
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
    vectors, found = load_vectors(Path(str(spec.embeddings)), wider, np.random.default_rng(seed))
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


def _is_own(folder: Path) -> bool:
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and config.get("format") == FORMAT


for _name, _summary in ENCODERS.items():
    models.register(_name, f"attention classifier: {_summary}")(_builtin)
for _name, _summary in PRETRAINED.items():
    models.register(_name, f"fine-tuned transformer: {_summary}")(_pretrained)
