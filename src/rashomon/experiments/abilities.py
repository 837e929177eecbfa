"""What can the subject's model do? That is known before it is trained."""

from __future__ import annotations

from dataclasses import replace

from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.models.base import Model
from rashomon.models.build import build_model


def able_model(context: Context, subject: Subject) -> Model:
    """The subject's model where there is one already; else an untrained one of its kind, which can do the same."""
    first = replace(subject, seeds=subject.seeds[:1])
    if subject.checkpoint is not None or context.folders(first)[0].is_dir():
        return context.models(first)[0].model
    return build_model(subject.model.without_vectors(), context.dataset(subject.dataset), subject.seeds[0])
