"""Every witness: the engine, the explainers and the record of what they said."""

from rashomon.explainers import attention, controls, gradients, perturbation  # registers the explainers
from rashomon.explainers.base import Explainer, Job, Scores, explainers, find_explainer, make_explainer
from rashomon.explainers.collection import Explanations
from rashomon.explainers.difference import deeplift
from rashomon.explainers.engine import Engine
from rashomon.explainers.explaining import DEFAULT_METHODS, explain
from rashomon.explainers.importers import from_captum, from_eraser, from_scores
from rashomon.explainers.record import Explanation, merge_words

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
