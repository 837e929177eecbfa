"""What does the model say when a method's top tokens are gone, or are all that is left? By more than one operator.

How tokens are erased matters: LIME itself removes tokens and integrated gradients starts from padding, so each has an
operator that is its own. A method is faithful when it does not take its own operator to say so.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rashomon.data.batches import Bools, Encoding
from rashomon.experiments.testimony import Testimony, is_signed
from rashomon.explainers import Engine, Explanation, Explanations
from rashomon.explainers.explaining import predicted
from rashomon.explainers.perturbed_rows import Perturbation
from rashomon.explainers.record import UNKNOWN_TARGET
from rashomon.measures.base import Floats, Ragged
from rashomon.measures.erasure import comprehensiveness, sufficiency, top_masks
from rashomon.models.base import Model

OPERATORS: tuple[Perturbation, ...] = ("remove", "pad")
NOUNS: dict[str, str] = {"remove": "removal", "mask": "masking", "pad": "padding"}
DOING: dict[str, str] = {"remove": "removing", "mask": "masking", "pad": "padding"}


def operators(model: Model, asked: Sequence[Perturbation]) -> tuple[Perturbation, ...]:
    """The operators as they are used: where an answer is a place in the text, tokens are masked, not taken out."""
    stays = model.task.keeps_positions
    return tuple(dict.fromkeys("mask" if stays and how == "remove" else how for how in asked))


def erase(
    model: Model,
    testimony: Testimony,
    fractions: Sequence[float],
    perturbations: Sequence[Perturbation] = OPERATORS,
) -> pd.DataFrame:
    """Sufficiency and comprehensiveness of every method on every text at every threshold, by every operator."""
    ids, encodings = explained_texts(model, testimony)
    # It remembers what it has evaluated, so methods that name the same tokens share the answer.
    engine = Engine(model)
    parts = []
    for method in testimony.told.methods:
        explained = accounts(testimony, method, ids)
        kept = kept_tokens(explained, method, encodings, fractions)
        for how in operators(model, perturbations):
            logits = engine.logits(encodings, kept, how)
            of_target = [_of_target(model, row, item) for row, item in zip(logits, explained, strict=True)]
            erased = _erased(testimony.seed, ids, np.stack(of_target), fractions)
            parts.append(erased.assign(method=method, perturbation=how))
    return pd.concat(parts, ignore_index=True)


def explained_texts(model: Model, testimony: Testimony) -> tuple[list[str], list[Encoding]]:
    """The texts that every method explains."""
    by_id = {example.id: example for example in testimony.examples}
    ids = list(testimony.told.aligned().example_ids)
    return ids, model.encode([by_id[i] for i in ids])


def accounts(testimony: Testimony, method: str, ids: Sequence[str]) -> Explanations:
    """What one method says of these texts, in their order."""
    of_text = {item.example_id: item for item in testimony.told.by_method(method)}
    return Explanations(of_text[i] for i in ids)


def kept_tokens(
    explained: Explanations, method: str, encodings: Sequence[Encoding], fractions: Sequence[float]
) -> list[Bools]:
    """Which tokens of each text stay: all of them, then the top ones alone, then all but the top ones."""
    scores = ranking_scores(explained, method)
    tops = [scores.split(row) for row in top_masks(scores, fractions)]
    return [_rows([top[i] for top in tops], encoding) for i, encoding in enumerate(encodings)]


def _rows(tops: Sequence[Bools], encoding: Encoding) -> Bools:
    top = np.stack(tops)
    rows = np.ones((1 + 2 * len(top), len(encoding)), dtype=np.bool_)
    rows[1 : 1 + len(top), encoding.content] = top
    rows[1 + len(top) :, encoding.content] = ~top
    return rows


def ranking_scores(told: Explanations, method: str) -> Ragged:
    """What the top tokens are taken by: signed scores speak for the class, unsigned ones have only size."""
    rows = [item.scores[item.content] for item in told]
    return Ragged.from_list(rows if is_signed(method) else [np.abs(row) for row in rows])


def _of_target(model: Model, logits: Floats, item: Explanation) -> Floats:
    """Probabilities of what was explained; of explanations that do not say, of what is predicted for the whole text."""
    target = np.asarray(item.target if item.answer is None else item.answer)
    if item.answer is None and item.target == UNKNOWN_TARGET:
        target = predicted(model, [logits[0]])[0]
    return model.task.values(logits, target, "probability")


def _erased(seed: int, ids: Sequence[str], probabilities: Floats, fractions: Sequence[float]) -> pd.DataFrame:
    full, k = probabilities[:, 0], len(fractions)
    values = {
        "sufficiency": sufficiency(full, probabilities[:, 1 : 1 + k]),
        "comprehensiveness": comprehensiveness(full, probabilities[:, 1 + k :]),
    }
    tables = [
        pd.DataFrame(
            {
                "seed": seed,
                "example": np.repeat(np.array(ids, dtype=object), k),
                "measure": measure,
                "fraction": np.tile(fractions, len(ids)),
                "value": table.ravel(),
            }
        )
        for measure, table in values.items()
    ]
    return pd.concat(tables, ignore_index=True)
