"""Which class of a model does a label of the data mean? By name where possible, and said where it is a guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rashomon.data import Dataset
from rashomon.models.base import Model


def in_model_labels(data: Dataset, model: Model, notes: list[str]) -> Dataset:
    """The data with labels counted as the model counts its classes; ``notes`` is told of what is not certain."""
    if not data.labels or data.labels == model.labels:
        return data
    places, note = _places(data.labels, model.labels)
    if note:
        notes.append(note)
    splits = {
        split: tuple(
            replace(e, label=places[e.label] if places and e.label is not None else None) for e in data[split]
        )
        for split in data
    }
    return Dataset(data.name, splits, model.labels, data.notes)


def _places(given: Sequence[str], known: Sequence[str]) -> tuple[list[int], str]:
    """The class of every label (none when they cannot be matched), and what to say of it."""
    classes = [label.casefold().strip() for label in known]
    names = [label.casefold().strip() for label in given]
    if len(set(classes)) == len(classes) and set(names) <= set(classes) and len(set(names)) == len(names):
        return [classes.index(name) for name in names], ""
    said = f"The labels {', '.join(given)} are not the model's {', '.join(known)}"
    if all(name.isdecimal() and int(name) < len(known) for name in names):
        return [int(name) for name in names], f"{said}; they were read as numbers of its classes, from 0."
    if len(given) == len(known):
        return list(range(len(known))), f"{said}; they were matched in order."
    return [], f"{said}, so nothing that needs labels was done."
