"""Every witness: the engine, the explainers and the record of what they said."""

from rashomon.explain import (  # registers the explainers
    attention,
    controls,
    deeplift,
    gradients,
    perturbation,
)
from rashomon.explain.base import Explainer, Job, Scores, explainers, find_explainer, make_explainer
from rashomon.explain.collection import Explanations
from rashomon.explain.engine import Engine
from rashomon.explain.foreign import from_captum, from_eraser, from_scores
from rashomon.explain.record import Explanation, merge_words
from rashomon.explain.run import DEFAULT_METHODS, explain

__all__ = [
    "DEFAULT_METHODS",
    "Engine",
    "Explainer",
    "Explanation",
    "Explanations",
    "Job",
    "Scores",
    "attention",
    "controls",
    "deeplift",
    "explain",
    "explainers",
    "find_explainer",
    "from_captum",
    "from_eraser",
    "from_scores",
    "gradients",
    "make_explainer",
    "merge_words",
    "perturbation",
]
