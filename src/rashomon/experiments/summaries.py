"""Tidy tables that studies share: figures with n, spread and interval, and tests against the random control."""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from rashomon.errors import UserError
from rashomon.experiments.figures import Distributions
from rashomon.measures import measures
from rashomon.measures.base import Family, family_of
from rashomon.measures.intervals import Summary, summarise_seed_columns, summarise_seeds, summarise_share
from rashomon.measures.significance import (
    Alternative,
    Comparison,
    hierarchical_test,
    holm_bonferroni,
    wilcoxon_test,
)

FLOOR = "random"
ANYWHERE = (-math.inf, math.inf)
Row = dict[str, Any]


def summary_row(
    groups: Sequence[ArrayLike],
    texts: Sequence[Sequence[Hashable]] | None = None,
    bounds: tuple[float, float] = ANYWHERE,
) -> Row:
    """n, undefined, mean, spread and interval over the values of several seeds, one group a seed.

    ``texts`` names the text of every value, so that what seeds share is not counted as often as there are seeds;
    without it no two values are of the same text. No interval goes beyond ``bounds``.
    """
    return _row(summarise_seeds(groups, texts).within(*bounds))


def summary_of(instances: pd.DataFrame, value: str, bounds: tuple[float, float] = ANYWHERE) -> Row:
    """`summary_row` of a column of a table with a row for every ``seed`` and ``example``."""
    parts = [part for _, part in instances.groupby("seed", sort=False)]
    texts = [part["example"].tolist() for part in parts]
    return summary_row([part[value].to_numpy(dtype=np.float64) for part in parts], texts, bounds)


def share_of(instances: pd.DataFrame, value: str) -> Row:
    """`summary_of` a column of values from 0 to 1; of one seed's yes and no, with the interval of a share."""
    values = instances[value].dropna()
    if instances["seed"].nunique() == 1 and values.isin((0.0, 1.0)).all():
        return _row(summarise_share(instances[value].to_numpy(dtype=np.float64)))
    return summary_of(instances, value, (0.0, 1.0))


def _row(summary: Summary) -> Row:
    row = asdict(summary)
    kind = row.pop("kind")
    return {**row, "interval": kind}


def summarise_by(instances: pd.DataFrame, keys: Sequence[str]) -> pd.DataFrame:
    """One row per combination of ``keys``, over the ``value`` of seeds and texts, all rows at once."""
    grouped = instances.groupby(list(keys), sort=False)
    seeds, known_seeds = pd.factorize(instances["seed"].to_numpy())
    texts, known_texts = pd.factorize(instances["example"].to_numpy())
    table = np.full((len(known_seeds), len(known_texts), grouped.ngroups), np.nan)
    table[seeds, texts, grouped.ngroup().to_numpy()] = instances["value"].to_numpy(dtype=np.float64)
    described = []
    for summary, (names, group) in zip(summarise_seed_columns(table), grouped["value"], strict=True):
        named = dict(zip(keys, names, strict=True))
        known = replace(summary, undefined=len(group) - summary.n)  # a text that it lacks is not undefined
        described.append(named | _row(known.within(*_bounds(named.get("measure")))))
    return pd.DataFrame(described)


def _bounds(measure: object) -> tuple[float, float]:
    if not isinstance(measure, str) or measure not in measures:
        return ANYWHERE
    known = measures.get(measure)
    return known.low, known.high


def against_floor(
    instances: pd.DataFrame,
    controls: Collection[str] = (FLOOR,),
    lower_is_better: Collection[str] = (),
    by: Sequence[str] = ("measure",),
) -> pd.DataFrame:
    """Figures by measure and method, each method tested against the random control on the same texts.

    Where ``by`` names more than the measure, all of it is told apart. One-sided tests, Holm-adjusted over the whole
    table: Wilcoxon's signed-rank test over the texts of one seed; of several seeds the hierarchical test, since texts
    of one seed share its luck. ``test`` says which. A method that equals the control on every text does not beat it
    (p = 1); without a control there is no test (NaN).
    """
    keys = [*by, "method"]
    summary = summarise_by(instances, keys)
    by_text = {
        names: group.set_index(["seed", "example"])["value"]
        for names, group in instances.groupby(keys, sort=False)
    }
    tests, p_values = [], []
    for *context, method in summary[keys].itertuples(index=False, name=None):
        measure, floor = context[list(by).index("measure")], by_text.get((*context, FLOOR))
        if method in controls or floor is None:
            tests.append("none")
            p_values.append(np.nan)
            continue
        difference = (by_text[(*context, method)] - floor).dropna()
        tested = _paired_test(difference, "less" if measure in lower_is_better else "greater")
        tests.append(tested.test)
        p_values.append(1.0 if len(difference) and (difference == 0).all() else tested.p)
    return summary.assign(test=tests, p_against_random=p_values, p_holm=holm_bonferroni(p_values).p)


def beyond_others(
    instances: pd.DataFrame,
    controls: Collection[str] = (FLOOR,),
    lower_is_better: Collection[str] = (),
    by: Sequence[str] = ("measure",),
) -> pd.DataFrame:
    """Every method less the best of the others, text by text: by how much the best leads, and the others trail.

    What all methods find hard in a text cancels, so that a difference shows where single intervals overlap. Two-sided
    tests as in `against_floor`, Holm-adjusted over the whole table. The best of the others is the one with the best
    mean on these texts.
    """
    rows: list[Row] = []
    for names, group in instances[~instances["method"].isin(controls)].groupby(list(by), sort=False):
        context = dict(zip(by, names, strict=True))
        table = group.pivot(index=["seed", "example"], columns="method", values="value")
        sign = -1 if context["measure"] in lower_is_better else 1
        order = (sign * table.mean()).dropna().sort_values(ascending=False, kind="stable").index
        for method in order if len(order) > 1 else ():
            rival = order[1] if method == order[0] else order[0]
            difference = (table[method] - table[rival]).dropna().rename("value")
            found = summary_of(difference.reset_index(), "value")
            tested = _paired_test(difference, "two-sided")
            named = context | {"method": method, "than": rival, "difference": found.pop("mean")}
            rows.append(named | found | {"test": tested.test, "p": tested.p})
    compared = pd.DataFrame(rows)
    return compared if compared.empty else compared.assign(p_holm=holm_bonferroni(compared["p"].to_numpy()).p)


def _paired_test(difference: pd.Series[float], side: Alternative) -> Comparison:
    """``difference`` by seed and text."""
    groups = [group for _, group in difference.groupby(level="seed")]
    if len(groups) > 1:
        texts = [group.index.get_level_values("example").tolist() for group in groups]
        return hierarchical_test([group.to_numpy() for group in groups], side, texts)
    values = difference.to_numpy()
    return wilcoxon_test(values, np.zeros_like(values), side)


def ranked_rows(table: pd.DataFrame, defined: bool = True) -> list[Row]:
    """Rows from the lowest mean to the highest; those without one are left out, or come last."""
    rows = table.sort_values("mean").to_dict("records")
    named = [{str(key): value for key, value in row.items()} for row in rows]
    return [row for row in named if not defined or row["mean"] == row["mean"]]


def headline(wanted: str, names: Sequence[str]) -> str:
    """The measure that verdicts and figures speak of: the usual one, or the first that was asked for."""
    return wanted if wanted in names else names[0]


def check_measures(names: Sequence[str], family: Family) -> None:
    """Refuse wrong names before any work is done."""
    if not names:
        raise UserError(f"Name at least one measure of {family}.")
    for name in names:
        if measures.get(name).family != family:
            known = ", ".join(entry.name for entry in family_of(family))
            raise UserError(f"{name} is no measure of {family}; there are: {known}.")


def spread_by_method(
    instances: pd.DataFrame, title: str, label: str, caption: str, span: tuple[float, float]
) -> Distributions:
    """Violins of the values of each method."""
    groups = {
        str(method): part["value"].dropna().tolist()
        for method, part in instances.groupby("method", sort=False)
    }
    return Distributions(title, groups, label, caption, span)
