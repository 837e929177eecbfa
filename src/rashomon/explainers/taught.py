"""What would a teacher say that learned to teach? A weighted mean of other methods, its weights kept in a folder.

The weights are learned in `experiments.teaching` so that students simulate a model better (Fernandes et al. 2022). What
a method says of a text is taken as shares of its tokens: what speaks for the class, adding up to one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rashomon.data.batches import Bools
from rashomon.errors import UserError
from rashomon.explainers.base import Explainer, Floats, Job, Scores, explainers, make_explainer
from rashomon.models.base import Model
from rashomon.runs.by_name import in_one_word
from rashomon.runs.files import read_json, write_json
from rashomon.runs.folders import write_folder

FORMAT, CONFIG = "rashomon-taught-explainer", "config.json"
ROUNDING = 1e-6
UNTAUGHT = {"leave-one-out": 0.5, "lime(samples=100)": 0.5}  # which every model can answer


@explainers.register("taught")
@dataclass(frozen=True, slots=True)
class TaughtExplainer(Explainer):
    """Other methods, weighted so that students learn most by them; the weights lie in the folder `path`."""

    name: ClassVar[str] = "taught"
    signed: ClassVar[bool] = False
    stochastic: ClassVar[bool] = True  # as some of the methods may be
    path: str = ""  # the folder that it is kept in
    methods: tuple[str, ...] = ()  # none: those of the folder, else two that every model can answer
    weights: tuple[float, ...] = ()  # of these, each above 0 and at most 1

    def __post_init__(self) -> None:
        """What is wrong with a folder is told before any work is done."""
        methods, weights = self.methods, self.weights
        if not methods:
            known = read_weights(Path(self.path)) if self.path else UNTAUGHT
            methods, weights = tuple(known), tuple(known.values())
        object.__setattr__(self, "methods", tuple(methods))
        object.__setattr__(self, "weights", tuple(weights))
        if len(self.methods) != len(self.weights) or not all(0 < w <= 1 + ROUNDING for w in self.weights):
            raise UserError("Every method of taught needs a weight above 0 and at most 1.")
        for method in self.methods:
            make_explainer(method)

    @property
    def label(self) -> str:
        """Short: where it is kept says all."""
        if self.path or dict(zip(self.methods, self.weights, strict=True)) == UNTAUGHT:
            return f"{self.name}(path={self.path})" if self.path else self.name
        return in_one_word(self.name, self)

    def attribute(self, job: Job) -> list[Scores]:
        totals = [np.zeros(len(encoding)) for encoding in job.encodings]
        warnings: list[list[str]] = [[] for _ in job.encodings]
        for method, weight in zip(self.methods, self.weights, strict=True):
            attributed = make_explainer(method).suited(job.model).attribute(job)
            for row, (encoding, scores) in enumerate(zip(job.encodings, attributed, strict=True)):
                totals[row] += weight * shares(scores.values, encoding.content)
                warnings[row] += [f"{method}: {warning}" for warning in scores.warnings]
        return [Scores(total, warnings=tuple(of_row)) for total, of_row in zip(totals, warnings, strict=True)]

    def refusal(self, model: Model) -> str | None:
        parts = ((name, make_explainer(name).suited(model).refusal(model)) for name in self.methods)
        return "; ".join(f"it asks {name}, and {reason}" for name, reason in parts if reason) or None


def shares(scores: Floats, content: Bools) -> Floats:
    """What speaks for the class as shares that add up to one; all tokens alike where nothing does."""
    for_it = np.where(content, np.clip(np.nan_to_num(scores), 0, None), 0.0)
    total = float(for_it.sum())
    return np.asarray(for_it / total if total > 0 else content / max(1, int(content.sum())))


def save_weights(folder: Path, weights: Mapping[str, float], about: Mapping[str, Any]) -> None:
    """Keep weights in a folder, to be asked as ``taught(path=FOLDER)``; methods without weight are left out."""
    write_folder(Path(folder), "explainer", partial(write_weights, weights, about))


def write_weights(weights: Mapping[str, float], about: Mapping[str, Any], folder: Path) -> None:
    kept = {name: float(weight) for name, weight in weights.items() if weight > 0}
    write_json(folder / CONFIG, {"format": FORMAT, "weights": kept, "about": dict(about)})


def read_weights(folder: Path) -> dict[str, float]:
    """The weights in a folder by method."""
    try:
        config = read_json(folder / CONFIG)
        if config["format"] != FORMAT:
            raise ValueError(config["format"])
        weights = {str(name): float(weight) for name, weight in config["weights"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"There is no explainer that was taught in {folder}.") from error
    if not weights:
        raise UserError(f"The explainer in {folder} has no method with a weight.")
    return weights
