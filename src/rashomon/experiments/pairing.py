"""Is one variant of a model higher than another on the same seeds and texts? Over texts, and over seeds and texts."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd

from rashomon.experiments.summaries import Row
from rashomon.measures.significance import (
    compare_variants,
    hierarchical_test,
    holm_bonferroni,
    wilcoxon_test,
)

PAIRED = ("n", "undefined", "seeds", "difference", "low", "high", "interval", "p_texts", "p_seeds")


def compare_each(instances: pd.DataFrame) -> pd.DataFrame:
    """Every variant against every other, one-sided: over texts as published, and over seeds and texts.

    For Wilcoxon's test a text's value is its mean over seeds, as in the paper; what one training owes to luck it cannot
    tell. ``p_seeds`` can, and is undefined with one seed. Each is Holm-adjusted over the whole table.
    """
    rows = []
    for measure, table in instances.groupby("measure", sort=False):
        by_variant = {
            str(name): part.set_index(["seed", "example"])["value"]
            for name, part in table.groupby("variant", sort=False)
        }
        for variant, than in permutations(by_variant, 2):
            rows.append(
                {
                    "measure": measure,
                    "variant": variant,
                    "than": than,
                    **paired(by_variant[variant], by_variant[than]),
                }
            )
    frame = pd.DataFrame(rows, columns=["measure", "variant", "than", *PAIRED])
    adjusted = {f"{p}_holm": holm_bonferroni(frame[p].to_numpy(dtype=np.float64)).p for p in PAIRED[-2:]}
    return frame.assign(**adjusted)


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
