"""Is one variant of a model higher than another on the same seeds and texts? Over texts, and over seeds and texts.

Of figures that a model has once, such as F1, the difference is taken seed by seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import numpy as np
import pandas as pd

from rashomon.experiments.summaries import Row, summary_row
from rashomon.measures.significance import (
    compare_variants,
    hierarchical_test,
    holm_bonferroni,
    wilcoxon_test,
)

PAIRED = ("n", "undefined", "seeds", "difference", "low", "high", "interval", "p_texts", "p_seeds")


def compare_each(instances: pd.DataFrame, compared: str = "variant", within: str = "measure") -> pd.DataFrame:
    """Every variant against every other, one-sided: over texts as published, and over seeds and texts.

    So it does with what another column tells apart, as measures of the same variant.

    For Wilcoxon's test a text's value is its mean over seeds, as in the paper; what one training owes to luck it cannot
    tell. ``p_seeds`` can, and is undefined with one seed. Each is Holm-adjusted over the whole table.
    """
    rows = []
    for group, table in instances.groupby(within, sort=False):
        values = {
            str(name): part.set_index(["seed", "example"])["value"]
            for name, part in table.groupby(compared, sort=False)
        }
        for one, than in permutations(values, 2):
            rows.append({within: group, compared: one, "than": than, **paired(values[one], values[than])})
    frame = pd.DataFrame(rows, columns=[within, compared, "than", *PAIRED])
    adjusted = {f"{p}_holm": holm_bonferroni(frame[p].to_numpy(dtype=np.float64)).p for p in PAIRED[-2:]}
    return frame.assign(**adjusted)


def gaps_over_seeds(scores: pd.DataFrame, compared: str, than: str, by: Sequence[str]) -> pd.DataFrame:
    """How far each ``compared`` lies above ``than`` in the mean over seeds, which both were trained with.

    ``scores`` has a ``value`` for every seed. With the luck of a seed in both, the difference has less of it.
    """
    table = scores.pivot(index=[*by, "seed"], columns=compared, values="value")
    rows = []
    for other in table.columns.drop(than):
        apart = table[other] - table[than]
        for keys, part in apart.groupby(level=list(by), sort=False):
            named = dict(zip(by, keys if isinstance(keys, tuple) else (keys,), strict=True))
            row = summary_row([part.to_numpy(dtype=np.float64)])
            rows.append({compared: other, "than": than, **named, "difference": row.pop("mean"), **row})
    return pd.DataFrame(rows)


def paired(first: pd.Series[float], second: pd.Series[float]) -> Row:
    """Two variants on the same seeds and texts: the difference, its interval, and whether the first is higher."""
    second = second.reindex(first.index)
    seeds = [part for _, part in first.groupby(level="seed", sort=False)]
    texts = [part.index.get_level_values("example").tolist() for part in seeds]
    ours = [part.to_numpy(dtype=np.float64) for part in seeds]
    theirs = [second.loc[part.index].to_numpy(dtype=np.float64) for part in seeds]
    found = compare_variants(ours, theirs, texts).row()
    difference = (first - second).groupby(level="example").mean()
    tested = wilcoxon_test(difference.to_numpy(), np.zeros(len(difference)), "greater")
    over_seeds = hierarchical_test(
        [one - other for one, other in zip(ours, theirs, strict=True)], "greater", texts
    )
    return {name: found[name] for name in PAIRED if name in found} | {
        "p_texts": tested.p,
        "p_seeds": over_seeds.p,
    }
