"""What is to be built: one frozen, JSON-able description of a model, checked when it is written down.

The same object comes from Python, from a file and from the command line; its JSON is part of the key under
which a trained model is kept. Defaults are those of the papers' BiLSTM with additive attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rashomon.data.example import Dataset
from rashomon.data.preprocess import parse_step
from rashomon.errors import UserError, unknown_name
from rashomon.models.base import Model
from rashomon.registry import Registry

ENCODERS: Mapping[str, str] = {
    "bilstm": "bidirectional LSTM",
    "gru": "bidirectional GRU",
    "cnn": "convolutions of several widths",
    "mlp": "affine map and tanh of each token alone, without context",
    "transformer": "small pre-norm transformer, trained from scratch",
}
PRETRAINED: Mapping[str, str] = {
    "minilm": "sentence-transformers/all-MiniLM-L6-v2",
    "distilbert": "distilbert/distilbert-base-uncased",
    "bert": "google-bert/bert-base-uncased",
}
ATTENTIONS = ("additive", "dot")
WEIGHTS = ("softmax", "sparsemax", "entmax15", "uniform", "preset")


@dataclass(frozen=True, kw_only=True)
class ModelSpec:
    """``name``: a built-in encoder, a pretrained model, a checkpoint folder or a hub id (``owner/name``).

    Pretrained models and checkpoints read only ``max_length``; the rest describes built-in classifiers.
    """

    name: str = "bilstm"
    embedding_dim: int = 100
    hidden: int = 128  # units a direction for recurrent encoders, output size for the others
    layers: int = 0  # 0: two for the transformer, one for the others
    self_heads: int = 4  # heads of the transformer's self-attention
    widths: tuple[int, ...] = (1, 3, 5)  # of the convolutions
    attention: str = "additive"
    heads: int = 1  # of the attention that pools
    weights: str = "softmax"
    temperature: float = 1.0
    dropout: float = 0.0
    max_length: int = 512
    steps: tuple[str, ...] = ("lowercase",)
    vocabulary_size: int | None = None
    min_count: int = 1
    embeddings: str | None = None  # path of word vectors; they then decide the embedding size
    freeze_embeddings: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(self.widths))
        object.__setattr__(self, "steps", tuple(self.steps))
        if self.layers == 0:
            object.__setattr__(self, "layers", 2 if self.name == "transformer" else 1)
        self._check_names()
        self._check_numbers()

    @property
    def is_builtin(self) -> bool:
        return self.name in ENCODERS

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
        known = self.name in ENCODERS or self.name in PRETRAINED or is_checkpoint_name(self.name)
        if not (known or self.name in models):
            raise unknown_name("model", self.name, {*ENCODERS, *PRETRAINED, *models.names()})
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
        if not 0 <= self.dropout < 1:
            raise UserError(f"The model's dropout must be at least 0 and below 1, not {self.dropout}.")
        if not self.widths or any(width < 1 or width % 2 == 0 for width in self.widths):
            raise UserError(
                f"The widths of the convolutions must be odd numbers such as 1 3 5, not {self.widths}."
            )
        if self.name == "cnn" and self.hidden < len(self.widths):
            raise UserError(f"A hidden size of {self.hidden} is too small for {len(self.widths)} widths.")
        if self.name == "transformer" and self.hidden % self.self_heads:
            raise UserError(f"A hidden size of {self.hidden} cannot be split into {self.self_heads} heads.")


models: Registry[Callable[[ModelSpec, Dataset, int], Model]] = Registry("model")
"""Makers of models by name, filled by ``build`` and by other packages' entry points."""


def is_checkpoint_name(name: str) -> bool:
    """A folder that is there, something written like a path, or a hub id ``owner/name``."""
    return Path(name).is_dir() or "/" in name or name.startswith(".")


def _positive(name: str, value: int) -> None:
    if value < 1:
        raise UserError(f"The model's {name} must be at least 1, not {value}.")


def _one_of(kind: str, name: str, known: Iterable[str]) -> None:
    if name not in known:
        raise unknown_name(kind, name, known)
