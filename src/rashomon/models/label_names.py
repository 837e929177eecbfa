"""Which class of a model does a label of the data mean? By name where possible, and said where it is a guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rashomon.data import Dataset
from rashomon.data.columns import MOST_DIGITS
from rashomon.models.base import Model


@dataclass(frozen=True)
class Matching:
    """How labels were matched with a model's classes.

    Attributes:
        places: the class of every label; none where labels and classes cannot be matched.
        how: in words, as in "were matched by name".
        note: what to tell of it, where it is not a matter of course.
        certain: whether nothing was guessed or given up.
    """

    places: tuple[int, ...]
    how: str
    note: str = ""
    certain: bool = True


def match_labels(given: Sequence[str], known: Sequence[str]) -> Matching:
    """The labels of data matched with the classes of a model."""
    if not given:
        return Matching((), "are not there")
    if tuple(given) == tuple(known):
        return Matching(tuple(range(len(known))), "are the model's own")
    classes = [label.casefold().strip() for label in known]
    names = [label.casefold().strip() for label in given]
    if len(set(classes)) == len(classes) and set(names) <= set(classes) and len(set(names)) == len(names):
        return Matching(tuple(classes.index(name) for name in names), "were matched by name")
    said = f"The labels {', '.join(given)} are not the model's {', '.join(known)}"
    if all(name.isdecimal() and len(name) < MOST_DIGITS and int(name) < len(known) for name in names):
        how = "were read as numbers of its classes, from 0"
        return Matching(tuple(int(name) for name in names), how, f"{said}; they {how}.")
    if len(given) == len(known):
        how = "were matched in order"
        pairs = ", ".join(f"{label} with {name}" for label, name in zip(given, known, strict=True))
        note = f"{said}; they {how}: {pairs}. If that is wrong, so is all that rests on labels."
        return Matching(tuple(range(len(known))), how, note, certain=False)
    return Matching((), "could not be matched", f"{said}, so nothing that needs labels was done.", False)


def in_model_labels(data: Dataset, model: Model, notes: list[str]) -> Dataset:
    """The data with labels counted as the model counts its classes; ``notes`` is told of what is not certain."""
    if not data.labels or data.labels == model.labels:
        return data
    matching = match_labels(data.labels, model.labels)
    if matching.note:
        notes.append(matching.note)
    splits = {
        split: tuple(
            replace(e, label=matching.places[e.label] if matching.places and e.label is not None else None)
            for e in data[split]
        )
        for split in data
    }
    return Dataset(data.name, splits, model.labels, data.notes)
