"""May explanations from elsewhere take part beside methods that are asked? Those of this very model and these texts.

Whatever else they are of is refused in a sentence, because figures of them would say nothing of this model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rashomon.data import Dataset, Example
from rashomon.data.batches import Encoding
from rashomon.errors import UserError
from rashomon.explainers import Explanation, Explanations
from rashomon.explainers.explaining import predicted
from rashomon.explainers.record import UNKNOWN, UNKNOWN_TARGET
from rashomon.models.base import Model
from rashomon.models.evaluator import predict, rows_of

Key = tuple[str, str | None]


@dataclass(frozen=True)
class Further:
    """Explanations by methods that are not asked, of texts of the split that is looked at; what was left out."""

    explanations: Explanations
    notes: tuple[str, ...]

    def only_their_texts(self, data: Dataset, split: str) -> Dataset:
        """The data with a split that has no text but theirs, so that all methods are heard on the same ones."""
        theirs = set(self.explanations.example_ids)
        return replace(data, splits={**data.splits, split: tuple(e for e in data[split] if e.id in theirs)})

    def of(self, examples: Sequence[Example]) -> Explanations:
        return self.explanations.where(example_id={example.id for example in examples})


def further_methods(
    given: Explanations, model: Model, data: Dataset, split: str, asked: Collection[str]
) -> Further:
    """What of the given explanations takes part; ``asked`` are the methods that speak for themselves."""
    known = [method for method in given.methods if method in asked]
    kept = given.where(method=set(given.methods) - set(known))
    if not kept:
        raise UserError(
            "The given explanations are all by methods that are asked anyway, so they add nothing."
        )
    notes = []
    if known:
        named = ", ".join(known)
        notes.append(
            f"The given explanations by {named} are not used, because these methods are asked anyway."
        )
    _refuse_strangers(kept, model)
    own = _as_own_texts(kept, data)
    by_id = {example.id: example for example in data[split]}
    here = own.where(example_id=set(by_id))
    if not here:
        raise UserError(
            f"The given explanations are of texts of {data.name}, but of none of its {split} split."
        )
    ids = here.aligned().example_ids
    right, wrong = _of_predictions(here.where(example_id=set(ids)), [by_id[i] for i in ids], model)
    if wrong:
        notes.append(f"{wrong} of {len(ids)} given texts are left out: another class was explained there.")
    if not right:
        raise UserError("The given explanations are all of other classes than the model predicts.")
    if len(ids) < len(own.example_ids):
        notes.append(
            f"Of {len(own.example_ids)} texts with given explanations {len(ids)} are in the {split} split and "
            "explained by every given method."
        )
    return Further(right, tuple(notes))


def check_tokens(item: Explanation, encoding: Encoding, model: Model, why: str) -> None:
    """Refuse explanations in other tokens than the model's, or of a class that it lacks."""
    said, read = (np.array(a.tokens, dtype=object)[a.content] for a in (item, encoding))
    if item.unit != "token" or not np.array_equal(said, read):
        raise UserError(
            f"The explanation of {item.example_id!r} by {item.method} is not in the tokens of this model; "
            f"{why} needs explanations of this very model, before sub-words are merged."
        )
    if not UNKNOWN_TARGET <= item.target < max(model.classes, 1):
        raise UserError(
            f"The explanation of {item.example_id!r} by {item.method} is of a class the model lacks."
        )


def strangers(explanations: Explanations, model: Model) -> str:
    """How many are of another model, in words; empty where none is known to be."""
    own = model.fingerprint()
    count = sum(item.model not in (own, UNKNOWN) for item in explanations)
    return (
        f"{count} of {len(explanations)} stored explanations are of another model than the one given"
        if count
        else ""
    )


def _refuse_strangers(explanations: Explanations, model: Model) -> None:
    if refusal := strangers(explanations, model):
        raise UserError(f"{refusal}, so they say nothing of it.")


def _as_own_texts(explanations: Explanations, data: Dataset) -> Explanations:
    """With the ids of the dataset: theirs where it is the same text, else that of the only such text."""
    by_text: dict[Key, list[str]] = {}
    for example in (example for split in data for example in data[split]):
        by_text.setdefault((example.text, example.text_pair), []).append(example.id)
    return Explanations(replace(item, example_id=_id_of(item, by_text, data)) for item in explanations)


def _id_of(item: Explanation, by_text: Mapping[Key, Sequence[str]], data: Dataset) -> str:
    key = (item.text, item.text_pair)
    found = by_text.get(key, ())
    if item.example_id in found:
        return item.example_id
    if len(found) != 1:
        what = "which stands there more than once" if found else "which is not there"
        raise UserError(
            f"The given explanations must be of texts of {data.name}: that of {item.example_id!r} by {item.method} "
            f"is of {item.text[:40]!r}, {what}."
        )
    return found[0]


def _of_predictions(
    explanations: Explanations, examples: Sequence[Example], model: Model
) -> tuple[Explanations, int]:
    """Those of what the model predicts, and of how many texts something else was explained."""
    encodings = model.encode(examples)
    read = {example.id: encoding for example, encoding in zip(examples, encodings, strict=True)}
    for item in explanations:
        check_tokens(item, read[item.example_id], model, "an audit")
    logits = predict(model, rows_of(model, examples, encodings)).logits
    answers = dict(zip(read, predicted(model, list(logits)), strict=True))
    others = {item.example_id for item in explanations if not _is_of(item, answers[item.example_id])}
    return explanations.where(lambda item: item.example_id not in others), len(others)


def _is_of(item: Explanation, answer: np.ndarray) -> bool:
    if answer.ndim:
        return item.answer is None or item.answer == tuple(answer.tolist())
    return item.target in (UNKNOWN_TARGET, int(answer))
