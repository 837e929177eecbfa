"""Is this a model yet? What users hand over instead, answered with the way to make one of it."""

from __future__ import annotations

from rashomon.errors import UserError
from rashomon.models.base import Model


def require_model(model: object) -> None:
    """Refuse what is no model."""
    if isinstance(model, Model):
        return
    if isinstance(model, str):
        raise UserError(f"{model!r} is a name; load the model with load_model, or train it with train.")
    raise UserError(f"{not_a_model(model)}; make one of a network and its tokenizer with wrap.")


def not_a_model(given: object) -> str:
    return f"An object of type {type(given).__name__} is not a model here"
