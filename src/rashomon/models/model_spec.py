"""What is to be built: one frozen, JSON-able description of a model, checked when it is written down.

The same object comes from Python, from a file and from the command line; its JSON is part of the key under
which a trained model is kept. Defaults are those of the papers' BiLSTM with additive attention.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rashomon.errors import UserError, unknown_name
from rashomon.fields import setting
from rashomon.registry import Registry

if TYPE_CHECKING:  # the command line reads the fields below, and must not wait for torch
    from rashomon.data.example import Dataset
    from rashomon.models.base import Model
    from rashomon.models.encoders import EncoderKind

PRETRAINED: Mapping[str, str] = {
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "distilbert": "distilbert/distilbert-base-uncased",
    "bert": "google-bert/bert-base-uncased",
}
ATTENTIONS = ("additive", "dot")
LARGEST_SIZE = 1_000_000  # what nobody means; what merely does not fit into memory is told when it does not
LARGEST = {"layers": 1000, "min_count": 2**31, "vocabulary_size": 2**31}
WEIGHTS = ("softmax", "sparsemax", "entmax15", "uniform", "preset")


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """``name``: a built-in encoder, a pretrained model, a checkpoint folder or a hub id (``owner/name``).

    Pretrained models and checkpoints read only ``max_length``; the rest describes built-in classifiers.
    """

    name: str = setting(
        "bilstm",
        "An encoder (bilstm, gru, cnn, mlp, transformer), a pretrained model (minilm, distilbert, bert), "
        "a checkpoint folder, or another of `rashomon list models`.",
        "--model",
        "--encoder",
        "-m",
    )
    embedding_dim: int = setting(100, "Size of word embeddings.")
    hidden: int = setting(128, "Units a direction for recurrent encoders, output size for the others.")
    layers: int = setting(0, "Layers of the encoder; 0 is two for the transformer, one for the others.")
    self_heads: int = setting(4, "Heads of the transformer's self-attention.")
    widths: tuple[int, ...] = setting((1, 3, 5), "Width of a convolution, an odd number.", "--width")
    attention: str = setting("additive", "Scoring of the built-in attention.", choices=ATTENTIONS)
    heads: int = setting(1, "Heads of the built-in attention, which pools.")
    weights: str = setting("softmax", "How attention becomes a distribution.", choices=WEIGHTS)
    temperature: float = setting(1.0, "Temperature of the softmax.")
    dropout: float = setting(0.0, "Dropout on embeddings and on the pooled vector.")
    max_length: int = setting(512, "Longest text in tokens; the rest is cut, and the cut is reported.")
    steps: tuple[str, ...] = setting(
        ("lowercase",),
        "Token preprocessing: lowercase, alphanumeric, truncate:200; none leaves words as they are.",
        "--step",
    )
    vocabulary_size: int | None = setting(None, "Largest number of words; none takes all.")
    min_count: int = setting(1, "How often a word must occur to be known.")
    embeddings: str | None = setting(
        None, "File of word vectors (.npz, GloVe text or fastText .vec); they decide the embedding size."
    )
    embedding_scale: float | None = setting(
        None, "Scale those word vectors to this standard deviation; none takes them as they are."
    )
    decay_embeddings: bool = setting(False, "Let weight decay reach word vectors from a file, too.")
    freeze_embeddings: bool = setting(False, "Leave the word embeddings as they are at the start.")

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(self.widths))
        object.__setattr__(self, "steps", tuple(self.steps))
        if self.layers == 0:
            layers = encoders().get(self.name).layers if self.is_builtin else 1
            object.__setattr__(self, "layers", layers)
        self._check_names()
        self._check_numbers()

    @property
    def is_builtin(self) -> bool:
        """Whether this is an attention classifier around one of the registered encoders."""
        return self.name in encoders()

    def without_vectors(self) -> ModelSpec:
        """The same model with random word embeddings: vectors take long to read and add no ability."""
        return replace(self, embeddings=None, embedding_scale=None)

    def to_json(self) -> dict[str, Any]:
        return {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ModelSpec:
        known = [field.name for field in fields(cls)]
        for key in values:
            if key not in known:
                raise unknown_name("model setting", key, known)
        return cls(**values)

    def _check_names(self) -> None:
        from rashomon.data.preprocess import parse_step

        known = self.is_builtin or self.name in PRETRAINED or is_checkpoint_name(self.name)
        if not (known or self.name in models):
            raise unknown_name("model", self.name, {*encoders().names(), *PRETRAINED, *models.names()})
        _one_of("attention", self.attention, ATTENTIONS)
        _one_of("attention weighting", self.weights, WEIGHTS)
        for step in self.steps:
            parse_step(step)

    def _check_numbers(self) -> None:
        positive = ("embedding_dim", "hidden", "layers", "self_heads", "heads", "max_length", "min_count")
        for name in positive:
            _positive(name, getattr(self, name))
        if self.vocabulary_size is not None:
            _positive("vocabulary_size", self.vocabulary_size)
        if not self.temperature > 0:
            raise UserError(f"The model's temperature must be above 0, not {self.temperature}.")
        if self.embedding_scale is not None and not 0 < self.embedding_scale < math.inf:
            raise UserError(
                f"Word vectors are scaled to a standard deviation above 0, not to {self.embedding_scale}."
            )
        if not 0 <= self.dropout < 1:
            raise UserError(f"The model's dropout must be at least 0 and below 1, not {self.dropout}.")
        if not self.widths or any(not 1 <= w <= LARGEST_SIZE or w % 2 == 0 for w in self.widths):
            raise UserError(
                f"The widths of the convolutions must be odd numbers such as 1 3 5, not {self.widths}."
            )
        refusal = encoders().get(self.name).refusal(self) if self.is_builtin else None
        if refusal is not None:
            raise UserError(refusal)


class ModelFamily(Protocol):
    """Who makes and reads models of one kind: often a class of models itself, with two class methods.

    ``format`` is what the config.json of a folder names that such a model was saved in.
    """

    @property
    def format(self) -> str: ...

    def build(self, spec: ModelSpec, dataset: Dataset, seed: int) -> Model:
        """An untrained model for the labels of a dataset."""
        ...

    def load(self, folder: Path) -> Model:
        """The model that was saved in a folder."""
        ...


models: Registry[ModelFamily] = Registry("model", "models")
"""Models by name, beside the attention classifiers, which go by the names of their encoders."""


def encoders() -> Registry[EncoderKind]:
    """The registry of encoders, imported when it is needed."""
    from rashomon.models.encoders import encoders as registry

    return registry


def is_checkpoint_name(name: str) -> bool:
    """A folder that is there, something written like a path, or a hub id ``owner/name``."""
    return Path(name).is_dir() or "/" in name or name.startswith(".")


def _positive(name: str, value: int) -> None:
    most = LARGEST.get(name, LARGEST_SIZE)
    if not 1 <= value <= most:
        raise UserError(f"The model's {name} must be at least 1 and at most {most}, not {value}.")


def _one_of(kind: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise unknown_name(kind, name, known)
