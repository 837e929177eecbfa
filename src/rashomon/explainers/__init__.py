"""Every witness: the engine, the explainers and the record of what they said."""

from rashomon.explainers.attention import Attention, AttentionFlow, AttentionRollout
from rashomon.explainers.base import Explainer, Job, Scores, explainers, find_explainer, make_explainer
from rashomon.explainers.collection import Explanations
from rashomon.explainers.controls import Random, Trivial
from rashomon.explainers.difference.deeplift import DeepLift, DeepShap
from rashomon.explainers.engine import Engine
from rashomon.explainers.explaining import DEFAULT_METHODS, explain
from rashomon.explainers.gradients import (
    GradientDelta,
    GradientInput,
    GradientNorm,
    GradientShap,
    IntegratedGradients,
    LayerConductance,
)
from rashomon.explainers.importers import from_captum, from_eraser, from_scores
from rashomon.explainers.model_check import ModelCheck, check_model
from rashomon.explainers.perturbation import KernelShap, LeaveOneOut, Lime
from rashomon.explainers.record import Explanation, merge_words
from rashomon.explainers.windows import explain_windows

__all__ = [
    "DEFAULT_METHODS",
    "Attention",
    "AttentionFlow",
    "AttentionRollout",
    "DeepLift",
    "DeepShap",
    "Engine",
    "Explainer",
    "Explanation",
    "Explanations",
    "GradientDelta",
    "GradientInput",
    "GradientNorm",
    "GradientShap",
    "IntegratedGradients",
    "Job",
    "KernelShap",
    "LayerConductance",
    "LeaveOneOut",
    "Lime",
    "ModelCheck",
    "Random",
    "Scores",
    "Trivial",
    "check_model",
    "explain",
    "explain_windows",
    "explainers",
    "find_explainer",
    "from_captum",
    "from_eraser",
    "from_scores",
    "make_explainer",
    "merge_words",
]
