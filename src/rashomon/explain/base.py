"""What an explainer is, what it is asked, and what it answers."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from rashomon.data.batches import Encoding
from rashomon.errors import UserError
from rashomon.models.base import Model
from rashomon.registry import Registry

if TYPE_CHECKING:
    from rashomon.explain.engine import Engine

Floats = NDArray[np.float64]
OutputSpace = Literal["logit", "probability"]
Aggregation = Literal["sum", "norm"]  # over the embedding dimension
REASONS = {  # why a method is refused, by the capability it needs
    "attention": "the model does not say what it attends to",
    "layers": "the model has no layers of self-attention",
    "gradients": "the model's output cannot be differentiated",
}


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
    signed: ClassVar[bool] = True  # whether the sign of a score speaks for or against the class
    stochastic: ClassVar[bool] = False  # whether another seed gives other scores

    @abstractmethod
    def attribute(self, job: Job) -> list[Scores]:
        """Scores for every example of the job, in order."""

    def configuration(self) -> dict[str, Any]:
        """The exact settings, in plain JSON types."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}  # type: ignore[call-overload]

    def refusal(self, model: Model) -> str | None:
        """Why this method cannot be used on this model, if it cannot."""
        missing = sorted(self.needs - model.capabilities)
        return "; ".join(REASONS.get(need, f"the model lacks {need}") for need in missing) or None


explainers: Registry[type[Explainer]] = Registry("explainer")


def make_explainer(method: str | Explainer, **settings: Any) -> Explainer:
    """An explainer by name, with settings other than the defaults."""
    if isinstance(method, Explainer):
        return method
    kind = explainers.get(method)
    fields = getattr(kind, "__dataclass_fields__", {})
    unknown = sorted(set(settings) - set(fields))
    if unknown:
        raise UserError(f"{method} has no setting {unknown[0]!r}; it has: {', '.join(fields) or 'none'}.")
    return kind(**settings)


def relative_gap(total: Floats | float, expected: Floats | float) -> Floats:
    """|sum of scores - change of the output|, relative to the change (floored, so that no change is no crime)."""
    return np.asarray(np.abs(total - expected) / np.maximum(np.abs(expected), 1e-3))
