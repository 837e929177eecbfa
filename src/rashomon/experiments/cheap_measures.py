"""Which explanations look good without any student? Erasure, agreement with the others, and the known evidence.

Set beside the ranks that students give, these say which cheap measure predicts what an explanation is worth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rashomon.data import Example
from rashomon.data.rationales import marks_of, marks_of_tokens
from rashomon.experiments.erasing import erase
from rashomon.experiments.testimony import Testimony
from rashomon.measures import measures
from rashomon.measures.base import Ragged

LOWER_IS_BETTER = ("sufficiency",)
AGREEMENT, RECOVERY = "kendall", "average-precision"


def cheap_measures(testimony: Testimony, share: float) -> pd.DataFrame:
    """The mean of each measure for each method on the texts, with the method's rank by it (1 is best)."""
    assert testimony.model is not None
    erased = erase(testimony.model, testimony, (share,), ("remove",))
    table = pd.concat([erased, _agreement(testimony), _recovery(testimony)], ignore_index=True)
    means = (
        table.groupby(["measure", "method"], sort=False)["value"].agg(n="count", mean="mean").reset_index()
    )
    sign = np.where(means["measure"].isin(LOWER_IS_BETTER), -1.0, 1.0)
    ranks = (sign * means["mean"]).groupby(means["measure"]).rank(ascending=False)
    return means.rename(columns={"method": "explanation"}).assign(rank=ranks)


def _agreement(testimony: Testimony) -> pd.DataFrame:
    """Of each text, the mean correlation of a method with the others."""
    scores = testimony.scores()
    tau = measures.get(AGREEMENT)
    parts = []
    for method, own in scores.items():
        others = [tau(own, other) for name, other in scores.items() if name != method]
        if others:
            values = np.stack(others)
            known = np.isfinite(values)
            mean = np.where(known, values, 0).sum(0) / np.maximum(known.sum(0), 1)
            parts.append(pd.DataFrame({"method": method, "measure": "agreement", "value": mean}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _recovery(testimony: Testimony) -> pd.DataFrame:
    """Average precision against what is known to matter, where that is known."""
    by_id = {example.id: example for example in testimony.examples if marks_of(example)}
    parts = []
    for method in testimony.explanations.methods:
        items = [i for i in testimony.explanations.by_method(method) if i.example_id in by_id]
        if not items:
            continue
        known = [
            marks_of_tokens(i.segments, i.word_ids, marks_of(by_id[i.example_id]))[i.content] for i in items
        ]
        scores = Ragged.from_list([i.magnitude[i.content] for i in items])
        values = measures.get(RECOVERY)(scores, Ragged.from_list(known))
        parts.append(pd.DataFrame({"method": method, "measure": "recovery", "value": values}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def of_texts(testimony: Testimony, examples: Sequence[Example]) -> Testimony:
    """What was said of some of the texts."""
    ids = {example.id for example in examples}
    explanations = testimony.explanations.where(example_id=ids)
    return Testimony(testimony.seed, testimony.model, tuple(examples), explanations)
