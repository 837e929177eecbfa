"""Figures of AtteFa's adversaries: by seed, by base, and by dataset and encoder, bounded by whatever else was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from rashomon.experiments.adversaries import Outcome
from rashomon.experiments.alternatives import Alternative, best_alternative
from rashomon.experiments.summaries import summary_row
from rashomon.experiments.trials import Trial
from rashomon.measures.divergence import attefa_score, tvd
from rashomon.measures.significance import holm_bonferroni, permutation_test
from rashomon.training.adversarial import ATTENTION, PROBABILITIES, PUBLISHED_SCALE, attention_distance

FIGURES = ("attefa", "f1", "accuracy", "tvd", "halved_tvd", "jsd", "epoch")


def seed_row(outcome: Outcome) -> dict[str, Any]:
    trial, scores = outcome.member.trial, outcome.scores
    nothing = float("nan")
    return {
        "dataset": trial.data.name,
        "encoder": trial.subject.describe(),
        "base": trial.subject.seeds[0],
        "seed": outcome.member.seed,
        "epoch": outcome.epoch,
        "cut_off": outcome.was_cut_off,
        "f1": scores.get("f1", nothing),
        "accuracy": scores.get("accuracy", nothing),
        "tvd": scores["tvd"],
        "halved_tvd": scores["tvd"] * PUBLISHED_SCALE,
        "jsd": scores["jsd"],
        "attefa": attefa_score(scores["tvd"], scores["jsd"]),
        "gave_up": outcome.gave_up,
    }


def between_bases(trials: Sequence[Trial]) -> pd.DataFrame:
    """Ordinary models that differ in the seed alone, set against each other by the same score."""
    rows = []
    for first, second in combinations(trials, 2):
        if (first.data.name, first.subject.describe()) != (second.data.name, second.subject.describe()):
            continue
        one, other = first.rows("test").whole.extras, second.rows("test").whole.extras
        changed = float(tvd(one[PROBABILITIES], other[PROBABILITIES]).mean())
        moved = float(attention_distance(one[ATTENTION], other[ATTENTION]).mean())
        told: dict[str, Any] = {"dataset": first.data.name, "encoder": first.subject.describe()}
        told |= {"base": first.subject.seeds[0], "other": second.subject.seeds[0]}
        rows.append(told | {"tvd": changed, "jsd": moved, "attefa": attefa_score(changed, moved)})
    return pd.DataFrame(rows)


def by_base(seeds: pd.DataFrame, trials: Sequence[Trial], pairs: pd.DataFrame) -> pd.DataFrame:
    """A row for every base model: how well it predicts, where it attends (if that is known), and its AtteFa.

    ``another_base`` is the lowest score that another base reaches against it, with that base's JSD.
    """
    rows = []
    for trial in trials:
        where = {"dataset": trial.data.name, "encoder": trial.subject.describe()}
        base = trial.subject.seeds[0]
        row: dict[str, Any] = where | {"base": base, "f1": trial.base_scores.get("f1", float("nan"))}
        if trial.on_evidence:
            shares = list(trial.on_evidence.values())
            row |= {"on_evidence": float(np.mean(shares)), "least_class": min(shares)}
        own = rows_where(seeds, where | {"base": base})
        row |= summary_row([own["attefa"].to_numpy()], bounds=(0.0, 1.0))
        if len(pairs):
            alike = rows_where(pairs, where)
            alike = alike[(alike["base"] == base) | (alike["other"] == base)].sort_values("attefa")
            row |= {"another_base": alike["attefa"].iloc[0], "another_base_jsd": alike["jsd"].iloc[0]}
        rows.append(row)
    return pd.DataFrame(rows)


def with_bounds(bases: pd.DataFrame, seeds: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    """Each base's score as far as anything found: ``bound``, with that alternative's JSD and who found it."""
    rows = []
    for base in bases.to_dict("records"):
        where = {name: base[name] for name in ("dataset", "encoder", "base")}
        found = [
            Alternative("adversary", row["tvd"], row["jsd"]) for _, row in rows_where(seeds, where).iterrows()
        ]
        if len(others):
            own = rows_where(others, where)
            found += [Alternative(row["kind"], row["tvd"], row["jsd"]) for _, row in own.iterrows()]
        best = best_alternative(found)
        if best is not None:
            base |= {"bound": best.score, "bound_jsd": best.jsd, "bound_by": best.finder}
        rows.append(base)
    return pd.DataFrame(rows)


def attefa_summary(seeds: pd.DataFrame, bases: pd.DataFrame, trials: Sequence[Trial]) -> pd.DataFrame:
    """A row for every dataset and encoder: AtteFa over bases and seeds, and other figures."""
    rows = []
    for trial in {(trial.data.name, trial.subject.describe()): trial for trial in trials}.values():
        where = {"dataset": trial.data.name, "encoder": trial.subject.describe()}
        group, own = rows_where(seeds, where), rows_where(bases, where)
        by_base = [part["attefa"].to_numpy() for _, part in group.groupby("base", sort=False)]
        score = summary_row(by_base, bounds=(0.0, 1.0))  # adversaries of one base share its luck
        row: dict[str, Any] = where | {"bases": len(own), **score}
        row |= {"gave_up": group["gave_up"].mean(), "cut_off": group["cut_off"].mean()}
        row["base_f1"] = own["f1"].mean()
        if "bound" in own:
            row |= {"bound": own["bound"].mean(), "bound_jsd": own["bound_jsd"].mean()}
            row["bound_by"] = own["bound_by"].mode().iloc[0]
        if "on_evidence" in own:
            row["base_on_evidence"] = own["on_evidence"].mean()
        if "another_base" in own:
            closest = own.sort_values("another_base").iloc[0]
            row |= {name: closest[name] for name in ("another_base", "another_base_jsd")}
        for figure in FIGURES[1:]:
            row |= {figure: group[figure].mean(), f"{figure}_std": group[figure].std()}
        rows.append(row)
    return pd.DataFrame(rows)


def rows_where(table: pd.DataFrame, values: Mapping[str, Any]) -> pd.DataFrame:
    return table[np.logical_and.reduce([table[column] == value for column, value in values.items()])]


def compare_subjects(seeds: pd.DataFrame) -> pd.DataFrame:
    """Encoders on the same data, and datasets under the same encoder; Holm-adjusted together.

    Paired by base where there are several (adversaries of one base are not independent), else by seed.
    """
    unit = "base" if seeds["base"].nunique() > 1 else "seed"
    rows = []
    for common, varied in (("dataset", "encoder"), ("encoder", "dataset")):
        for name, group in seeds.groupby(common, sort=False):
            table = group.pivot_table("attefa", unit, varied, sort=False, dropna=False)
            for first, second in combinations(table.columns, 2):
                test = permutation_test(table[first].to_numpy(), table[second].to_numpy())
                told = {"n": test.n, "undefined": test.undefined, "difference": test.difference, "p": test.p}
                rows.append({"of": name, "first": first, "second": second, "paired_by": unit, **told})
    table = pd.DataFrame(rows)
    return table.assign(p_holm=holm_bonferroni(table["p"].to_numpy()).p) if len(table) else table
