"""Models that map texts to class probabilities and say what they attended to."""

from rashomon.models.base import Model, Output, without_attention
from rashomon.models.build import build_model, is_pretrained, load_model
from rashomon.models.classifier import AttentionClassifier
from rashomon.models.model_spec import ModelSpec, models

__all__ = [
    "AttentionClassifier",
    "Model",
    "ModelSpec",
    "Output",
    "build_model",
    "is_pretrained",
    "load_model",
    "models",
    "without_attention",
]
