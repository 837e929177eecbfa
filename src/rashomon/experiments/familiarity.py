"""Are erased texts still like texts that the model has seen?

That is the standard objection to erasure: what the prediction loses may be due to a text that is strange, not to the
tokens that are gone. So the representations of erased texts are set beside those of real texts that the model has not
been trained on either: how far is each from the nearest of some training texts?
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rashomon.data.batches import Bools, Encoding, Ints
from rashomon.experiments.erasing import accounts, explained_texts, kept_tokens, operators
from rashomon.experiments.summaries import summary_of
from rashomon.experiments.testimony import Testimony
from rashomon.explainers.perturbed_rows import Perturbation, Table, perturbed
from rashomon.measures.base import Floats
from rashomon.measures.familiarity import distance_to_nearest, farther_than_usual
from rashomon.models.base import Model
from rashomon.models.evaluator import Evaluator

MOST_TEXTS = 50  # of each model; a share needs no more
REAL = "real texts"
UNERASED = "none"
KINDS = ("sufficiency", "comprehensiveness")  # the top tokens alone; the text without them
KEYS = ["perturbation", "measure", "method"]


def unfamiliarity(
    model: Model,
    testimony: Testimony,
    fractions: Sequence[float],
    perturbations: Sequence[Perturbation],
) -> pd.DataFrame:
    """Of every real and every erased text its distance to training texts, and whether that is unusually large.

    Texts are erased at the median threshold. ``distance`` is in units of the median distance of real texts. Empty
    where no training texts are known.
    """
    ids, encodings = explained_texts(model, testimony)
    explained = set(ids)
    known = model.encode([example for example in testimony.behind if example.id not in explained])
    if not known or not ids:
        return pd.DataFrame()
    places = np.linspace(0, len(ids) - 1, min(len(ids), MOST_TEXTS)).round().astype(int)
    ids, encodings = [ids[i] for i in places], [encodings[i] for i in places]
    seen = _whole(model, known)
    real = distance_to_nearest(_whole(model, encodings), seen)
    unit = float(np.median(real)) or float("nan")

    def rows(distances: Floats, how: str, kind: str, method: str) -> pd.DataFrame:
        named = {"seed": testimony.seed, "example": ids, "perturbation": how, "measure": kind}
        told = {"distance": distances / unit, "farther": farther_than_usual(distances, real).astype(float)}
        return pd.DataFrame({**named, "method": method, **told})

    middle = sorted(fractions)[len(fractions) // 2]
    parts = [rows(real, UNERASED, UNERASED, REAL)]
    for method in testimony.told.methods:
        kept = kept_tokens(accounts(testimony, method, ids), method, encodings, (middle,))
        for how in operators(model, perturbations):
            for place, kind in enumerate(KINDS, start=1):
                vectors = _represented(model, encodings, [of_text[place] for of_text in kept], how)
                parts.append(rows(distance_to_nearest(vectors, seen), how, kind, method))
    return pd.concat(parts, ignore_index=True)


def familiarity_table(texts: pd.DataFrame) -> pd.DataFrame:
    """By operator, measure and method: the share of texts that are farther from training texts than is usual."""
    return pd.DataFrame(
        [
            dict(zip(KEYS, names, strict=True))
            | summary_of(group, "farther", (0.0, 1.0))
            | {"median_distance": group["distance"].median()}
            for names, group in texts.groupby(KEYS, sort=False)
        ]
    )


def _whole(model: Model, encodings: Sequence[Encoding]) -> Floats:
    return _represented(model, encodings, [np.ones(len(e), dtype=np.bool_) for e in encodings], "pad")


def _represented(
    model: Model, encodings: Sequence[Encoding], kept: Sequence[Bools], how: Perturbation
) -> Floats:
    """The vector that the prediction is read from, of every text with some of its tokens ``[N, P]``."""
    table = Table(encodings, model.pad_id)
    stays = np.zeros(table.ids.shape, dtype=np.bool_)
    for row, (encoding, tokens) in enumerate(zip(encodings, kept, strict=True)):
        stays[row, : len(encoding)] = tokens | encoding.special

    def work(index: Ints) -> Floats:
        batch = perturbed(table, model, index, stays[index], how)
        return np.asarray(model(batch.to(model.device)).pooled.double().cpu().numpy())

    return np.array(Evaluator(model).run(table.lengths, work))
