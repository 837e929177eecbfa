"""How far do methods agree on each text? One value a pair of methods and measure, and a text's mean over pairs.

Magnitudes of the scores over content tokens are compared; sign agreement alone looks at signed scores, and only between
methods whose sign means something.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from rashomon.experiments.summaries import FLOOR
from rashomon.experiments.testimony import Testimony, answerable, is_signed
from rashomon.measures import measures
from rashomon.measures.agreement import kendall_matrix
from rashomon.measures.base import Floats, Ragged
from rashomon.models.base import Model


def witnesses(methods: Sequence[str], model: Model) -> list[str]:
    """The methods that can explain the model, the random control aside."""
    return [method for method in answerable(methods, model)[0] if method != FLOOR]


def agreement_table(testimony: Testimony, names: Sequence[str]) -> pd.DataFrame:
    """One row per text, pair of methods and measure."""
    aligned = testimony.explanations.aligned()
    magnitudes, signed = testimony.scores(), testimony.scores(magnitude=False)
    methods = list(magnitudes)
    lengths = magnitudes[methods[0]].lengths
    taus = kendall_matrix(list(magnitudes.values())) if "kendall" in names else None
    parts: list[pd.DataFrame] = []
    for (i, first), (j, second) in combinations(enumerate(methods), 2):
        for name in names:
            if name == "kendall" and taus is not None:
                values = taus[i, j]
            else:
                values = _compare(name, first, second, magnitudes, signed)
            parts.append(
                pd.DataFrame(
                    {
                        "seed": testimony.seed,
                        "example": aligned.example_ids,
                        "tokens": lengths,
                        "first": first,
                        "second": second,
                        "measure": name,
                        "value": values,
                    }
                )
            )
    return pd.concat(parts, ignore_index=True)


def _compare(
    name: str, first: str, second: str, magnitudes: dict[str, Ragged], signed: dict[str, Ragged]
) -> Floats:
    measure = measures.get(name)
    if not name.startswith("sign-"):
        return measure(magnitudes[first], magnitudes[second])
    if not (is_signed(first) and is_signed(second)):  # a sign that means nothing cannot agree
        return np.full(len(signed[first]), np.nan)
    return measure(signed[first], signed[second])


def mean_over_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """A text's agreement by each measure: the mean over pairs of methods, the random control left out."""
    pairs = pairs[(pairs["first"] != FLOOR) & (pairs["second"] != FLOOR)]
    keys = [name for name in pairs.columns if name not in ("first", "second", "value")]
    return pairs.groupby(keys, sort=False)["value"].mean().reset_index()


def agreement_by_text(testimony: Testimony, names: Sequence[str]) -> pd.DataFrame:
    """One row a text: its seed and, a column a measure, its mean over the pairs of methods."""
    means = mean_over_pairs(agreement_table(testimony, names).drop(columns="tokens"))
    wide = means.pivot(index=["seed", "example"], columns="measure", values="value")
    return wide.reset_index().rename_axis(columns=None)
