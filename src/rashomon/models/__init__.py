"""Models that map texts to class probabilities and say what they attended to."""

from typing import TYPE_CHECKING

from rashomon.lazy import lazily

if TYPE_CHECKING:
    from rashomon.models.base import Model as Model
    from rashomon.models.base import Output as Output
    from rashomon.models.base import without_attention as without_attention
    from rashomon.models.build import build_model as build_model
    from rashomon.models.build import is_pretrained as is_pretrained
    from rashomon.models.build import known_models as known_models
    from rashomon.models.build import load_model as load_model
    from rashomon.models.classifier import AttentionClassifier as AttentionClassifier
    from rashomon.models.model_spec import ModelFamily as ModelFamily
    from rashomon.models.model_spec import ModelSpec as ModelSpec
    from rashomon.models.model_spec import models as models

__getattr__, __all__ = lazily(
    __name__,
    {
        "AttentionClassifier": "classifier",
        "Model": "base",
        "ModelFamily": "model_spec",
        "ModelSpec": "model_spec",
        "Output": "base",
        "build_model": "build",
        "is_pretrained": "build",
        "known_models": "build",
        "load_model": "build",
        "models": "model_spec",
        "without_attention": "base",
    },
)
