"""What an explainer is, what it is asked, and what it answers."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rashomon.data.batches import Encoding
from rashomon.errors import UserError
from rashomon.models.base import Model, Output
from rashomon.models.tasks import Space
from rashomon.registry import Registry
from rashomon.runs.by_name import in_one_word, make_by_name, settings_of

if TYPE_CHECKING:
    from rashomon.explainers.engine import Engine

Floats = NDArray[np.float64]
Aggregation = Literal["sum", "norm"]  # over the embedding dimension
REASONS = {  # why a method is refused, by the capability it needs
    "attention": "the model does not say what it attends to",
    "layers": "the model has no layers of self-attention",
    "gradients": "the model's output cannot be differentiated",
    "classes": "the model does not choose between classes",
}


@dataclass(frozen=True, slots=True)
class Scores:
    """One method's answer for one example: a signed score per token, special tokens included."""

    values: Floats
    gap: float | None = None  # how far the scores are from adding up, relative to what they should add up to
    warnings: tuple[str, ...] = ()
    spread: Floats | None = None  # standard error of each value, for methods that sample
    used: int | None = None  # how many samples


@dataclass(frozen=True)
class Job:
    """The question: these examples, of this model, about these classes."""

    engine: Engine
    encodings: Sequence[Encoding]
    targets: NDArray[np.int64]  # [N] classes, or [N, 2] first and last tokens of spans
    space: Space
    seed: int
    background: Sequence[Encoding] = ()  # training examples, for methods that average over them
    asked: Sequence[Explainer] = ()  # everyone who is asked the same, for those who can share

    @property
    def model(self) -> Model:
        return self.engine.model

    def value(self, output: Output, targets: Tensor) -> Tensor:
        """The number that is explained, for each row of a batch ``[B]``."""
        return self.model.task.value(output.logits, targets, self.space)

    def values(self, logits: Sequence[Floats]) -> list[Floats]:
        """The same from evaluations of the engine: for each example one number a row of its logits."""
        task = self.model.task
        return [task.values(rows, t, self.space) for rows, t in zip(logits, self.targets, strict=True)]

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
    at_inputs_alone: ClassVar[bool] = False  # whether gradients of texts as they are is all that it looks at

    @abstractmethod
    def attribute(self, job: Job) -> list[Scores]:
        """Scores for every example of the job, in order."""

    @property
    def label(self) -> str:
        """The name, with the settings that differ from the usual ones; ``make_explainer`` reads it back."""
        return in_one_word(self.name, self)

    @property
    def has_sign(self) -> bool:
        """Whether the sign of a score speaks for or against the class; a norm has none."""
        aggregation = getattr(self, "aggregation", None)
        return self.signed if aggregation is None else aggregation != "norm"

    @classmethod
    def settings(cls) -> dict[str, Any]:
        """What can be set, with the usual values."""
        return settings_of(cls)

    def configuration(self) -> dict[str, Any]:
        """The exact settings, in plain JSON types."""
        return {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}  # type: ignore[call-overload]

    def suited(self, model: Model) -> Explainer:
        """The same method as this model can answer it: where places must stay, tokens are masked, not taken out."""
        if model.task.keeps_positions and getattr(self, "perturbation", None) == "remove":
            return replace(self, perturbation="mask")  # type: ignore[type-var]
        return self

    def refusal(self, model: Model) -> str | None:
        """Why this method cannot be used on this model, if it cannot."""
        missing = sorted(self.needs - model.capabilities)
        reasons = {**REASONS, **model.lacks}
        said = dict.fromkeys(reasons.get(need, f"the model lacks {need}") for need in missing)
        return "; ".join(said) or None


explainers: Registry[type[Explainer]] = Registry("explainer", "explainers", "rashomon.explainers")


def make_explainer(method: str | Explainer, **settings: Any) -> Explainer:
    """An explainer by name.

    Args:
        method: a name, with settings in parentheses if any: ``"lime(samples=500, perturbation=mask)"``. An explainer
            is returned as it is.
        settings: the same by keyword: ``make_explainer("lime", samples=500)``.

    Returns:
        The explainer, for ``explain``; its ``label`` is the name it goes by in tables.
    """
    return method if isinstance(method, Explainer) else make_by_name(explainers, method, **settings)


def find_explainer(method: str) -> Explainer | None:
    """The explainer of this name (with or without settings), or None when it is none of ours."""
    try:
        return make_explainer(method)
    except UserError:
        return None


def relative_gap(total: Floats | float, expected: Floats | float) -> Floats:
    """|sum of scores - change of the output|, relative to the change (floored, so that no change is no crime)."""
    return np.asarray(np.abs(total - expected) / np.maximum(np.abs(expected), 1e-3))
