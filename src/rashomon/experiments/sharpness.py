"""How sharp is attention? How even its weights are, beside the size of the word vectors that they are computed from.

Whether attention agrees with other methods is largely a matter of how far training has moved it away from uniform
weights, which is sooner done with large word vectors than with small ones. Of weights that are nearly equal the order
says little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from rashomon.experiments.summaries import Row, summary_of, summary_row
from rashomon.experiments.testimony import Testimony
from rashomon.explainers import find_explainer
from rashomon.measures.divergence import normalised_entropy

ENTROPY, VECTORS = "normalised-entropy", "vector-std"
NEARLY_UNIFORM = 0.95  # entropy over its largest possible value, from which on weights count as nearly equal


def sharpness(heard: Sequence[Testimony], methods: Sequence[str]) -> dict[str, Row]:
    """The mean normalised entropy of every method that gives attention as a distribution over the tokens, by method."""
    found: dict[str, Row] = {}
    for method in filter(_reads_attention, methods):
        parts = []
        for testimony in heard:
            ids = testimony.explanations.aligned().example_ids
            values = normalised_entropy(testimony.scores(magnitude=False)[method])
            parts.append(pd.DataFrame({"seed": testimony.seed, "example": ids, "value": values}))
        row = summary_of(pd.concat(parts, ignore_index=True), "value", (0.0, 1.0))
        if row["n"]:
            found[method] = row
    return found


def vector_spread(heard: Sequence[Testimony]) -> Row | None:
    """The standard deviation of the models' word vectors, over models; None where they have none."""
    vectors = [t.model.word_vectors() for t in heard if t.model is not None]
    spreads = [float(v.double().std(correction=0)) for v in vectors if v is not None]
    return summary_row([[spread] for spread in spreads]) if spreads else None


def nearly_uniform(entropies: Mapping[str, Row]) -> list[str]:
    """The methods whose weights are so even that their order says little."""
    return [method for method, row in entropies.items() if row["mean"] > NEARLY_UNIFORM]


def sharpness_table(entropies: Mapping[str, Row], vectors: Row | None) -> pd.DataFrame:
    """Both as a table of their own; empty where no method reads attention."""
    rows = [{"figure": ENTROPY, "of": method, **row} for method, row in entropies.items()]
    if entropies and vectors is not None:
        rows.append({"figure": VECTORS, "of": "word vectors", **vectors})
    return pd.DataFrame(rows)


def _reads_attention(method: str) -> bool:
    ours = find_explainer(method)
    return ours is not None and "attention" in ours.needs
