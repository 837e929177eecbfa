"""What an explainer is, what it is asked, and what it answers."""

from __future__ import annotations

import json
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, asdict, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rashomon.data.batches import Encoding
from rashomon.errors import UserError
from rashomon.models.base import Model
from rashomon.registry import Registry
from rashomon.runs.specifications import from_plain, to_plain

if TYPE_CHECKING:
    from rashomon.explainers.engine import Engine

Floats = NDArray[np.float64]
OutputSpace = Literal["logit", "probability"]
Aggregation = Literal["sum", "norm"]  # over the embedding dimension
REASONS = {  # why a method is refused, by the capability it needs
    "attention": "the model does not say what it attends to",
    "layers": "the model has no layers of self-attention",
    "gradients": "the model's output cannot be differentiated",
}
_BETWEEN = re.compile(r",(?![^\[]*\])")  # commas, except those inside brackets


@dataclass(frozen=True, slots=True)
class Scores:
    """One method's answer for one example: a signed score per token, special tokens included."""

    values: Floats
    gap: float | None = None  # how far the scores are from adding up, relative to what they should add up to
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """The question: these examples, of this model, about these classes."""

    engine: Engine
    encodings: Sequence[Encoding]
    targets: NDArray[np.int64]  # [N]
    probabilities: Floats  # [N, C]
    space: OutputSpace
    seed: int
    background: Sequence[Encoding] = ()  # training examples, for methods that average over them
    asked: Sequence[Explainer] = ()  # everyone who is asked the same, for those who can share

    @property
    def model(self) -> Model:
        return self.engine.model

    def generator(self, index: int, salt: str) -> np.random.Generator:
        """Randomness that depends on the seed and the example's tokens alone, so never on the batch."""
        content = zlib.crc32(self.encodings[index].ids.tobytes())
        return np.random.default_rng([self.seed, content, zlib.crc32(salt.encode())])


class Explainer(ABC):
    """One method. Subclasses are frozen dataclasses: their fields are the configuration stored with a score."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()  # capabilities a model must have
    signed: ClassVar[bool] = True  # whether its scores have a sign, where no ``aggregation`` decides that
    stochastic: ClassVar[bool] = False  # whether another seed gives other scores

    @abstractmethod
    def attribute(self, job: Job) -> list[Scores]:
        """Scores for every example of the job, in order."""

    @property
    def label(self) -> str:
        """The name, with the settings that differ from the usual ones; ``make_explainer`` reads it back."""
        values = [(name, getattr(self, name), usual) for name, usual in self.settings().items()]
        told = [written(name, value) for name, value, usual in values if value != usual]
        return f"{self.name}({', '.join(told)})" if told else self.name

    @property
    def has_sign(self) -> bool:
        """Whether the sign of a score speaks for or against the class; a norm has none."""
        aggregation = getattr(self, "aggregation", None)
        return self.signed if aggregation is None else aggregation != "norm"

    @classmethod
    def settings(cls) -> dict[str, Any]:
        """What can be set, with the usual values."""
        known: tuple[Field[Any], ...] = fields(cls) if is_dataclass(cls) else ()
        made = {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in known}
        return {name: None if usual is MISSING else usual for name, usual in made.items()}

    def configuration(self) -> dict[str, Any]:
        """The exact settings, in plain JSON types."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}  # type: ignore[call-overload]

    def refusal(self, model: Model) -> str | None:
        """Why this method cannot be used on this model, if it cannot."""
        missing = sorted(self.needs - model.capabilities)
        return "; ".join(REASONS.get(need, f"the model lacks {need}") for need in missing) or None


explainers: Registry[type[Explainer]] = Registry("explainer", "explainers", "rashomon.explainers")


def make_explainer(method: str | Explainer, **settings: Any) -> Explainer:
    """An explainer by name, with settings other than the usual ones: ``"lime(samples=500, perturbation=mask)"``."""
    if isinstance(method, Explainer):
        return method
    name, asked = _apart(method)
    kind = explainers.get(name)
    unknown = sorted({*asked, *settings} - {*kind.settings()})
    if unknown:
        known = ", ".join(kind.settings())
        raise UserError(f"{name} has no setting {unknown[0]!r}; it has: {known or 'none'}.")
    return from_plain(kind, asked | settings) if asked else kind(**settings)


def find_explainer(method: str) -> Explainer | None:
    """The explainer of this name (with or without settings), or None when it is none of ours."""
    try:
        return make_explainer(method)
    except UserError:
        return None


def written(name: str, value: object) -> str:
    """A setting as it is written behind a method's name."""
    return f"{name}={value if isinstance(value, str) else json.dumps(to_plain(value))}"


def _apart(method: str) -> tuple[str, dict[str, Any]]:
    """A name and the settings written behind it in parentheses."""
    name, opened, rest = method.strip().partition("(")
    if not opened:
        return name, {}
    if not rest.endswith(")"):
        raise UserError(f"Write settings as in lime(samples=500, perturbation=mask), not as in {method!r}.")
    settings: dict[str, Any] = {}
    for part in filter(str.strip, _BETWEEN.split(rest[:-1])):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key and equals and value):
            raise UserError(f"In {method!r}, {part.strip()!r} is not a setting such as samples=500.")
        if key in settings:
            raise UserError(f"In {method!r}, {key} is set twice.")
        settings[key] = _value(value)
    return name.strip(), settings


def _value(text: str) -> object:
    """A number, true, false or a list in brackets; anything else is a word."""
    for read in (int, float, json.loads):
        with suppress(ValueError):
            return read(text)
    return text


def relative_gap(total: Floats | float, expected: Floats | float) -> Floats:
    """|sum of scores - change of the output|, relative to the change (floored, so that no change is no crime)."""
    return np.asarray(np.abs(total - expected) / np.maximum(np.abs(expected), 1e-3))
