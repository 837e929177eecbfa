"""On which texts do methods agree: those that the model learned easily, or those that it wavered on?

The class probabilities after every epoch place each text on a map (Swayamdipta et al. 2020): confidence, variability,
closeness, correctness, forgetting. Paper *hard-to-agree*, section 5, cuts it into easy, ambiguous and hard texts by
how often the class was right. Three groups are a coarse cut, so the line of agreement along the map is drawn as well.
Groups are those of the base under the same seed, so that base and penalty are compared on the same texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import scipy  # its parts load when they are first used

from rashomon.data import Dataset
from rashomon.errors import DoesNotFit
from rashomon.experiments.agreeing import agreement_by_text
from rashomon.experiments.cautions import together
from rashomon.experiments.context import Context
from rashomon.experiments.dynamics_files import (
    Dynamics,
    of_texts,
    read_dynamics_files,
    write_dynamics_files,
)
from rashomon.experiments.figures import Figure, Plot, Series
from rashomon.experiments.maps import ATTRIBUTES, correlations, dynamics_of_run, map_table, text_map
from rashomon.experiments.pairing import PAIRED, paired
from rashomon.experiments.regularised import (
    BASE,
    Run,
    Said,
    explain_runs,
    find_variants,
    hear_run,
    like_a_constant,
    runs_of,
)
from rashomon.experiments.summaries import Row, check_measures, headline, summarise_by
from rashomon.experiments.testimony import Ask
from rashomon.measures.cartography import GROUPS, Closeness
from rashomon.measures.intervals import summarise
from rashomon.measures.relations import smooth_line
from rashomon.measures.significance import holm_bonferroni
from rashomon.models.base import Model
from rashomon.runs.folders import check_folder, write_folder
from rashomon.studies.base import Finding, Study, studies
from rashomon.studies.regularised import RegularisedStudy
from rashomon.wording import p_value, sample, with_interval

HEADLINE = "pearson"
LEVEL = 0.05
DRAWN = ("confidence", "variability")
FEWEST = 3  # texts of a group under one seed, from which on it is compared


@studies.register("cartography")
@dataclass(frozen=True)
class CartographyStudy(RegularisedStudy):
    """Do methods agree more on texts that are easy to learn, or on ambiguous ones? With a map of the texts."""

    name: ClassVar[str] = "cartography"
    question: ClassVar[str] = "On which texts do the methods agree: easy, ambiguous or hard ones?"
    title: ClassVar[str] = "Map of the texts"
    order: ClassVar[int] = 42

    variants: tuple[str, ...] = ("tying",)  # penalties beside the base, with a weight or without; may be none
    ddof: int = 0  # of the spread over epochs: 0 in the cartography paper's code, 1 in that of hard-to-agree
    closeness: Closeness = "of-mean"  # p (1 - p) of the mean probability, or the mean of it over epochs
    dynamics: str | None = None  # a folder of dynamics_epoch_N.jsonl of a training elsewhere, for the base
    export: str | None = None  # a folder to write the dynamics to, in the same format

    @classmethod
    def for_audit(cls, asked: Ask) -> Study | None:
        """Of a model that is trained anyway and its own explanations. Of a checkpoint the dynamics are not known."""
        if asked.subject.checkpoint is not None or asked.beside is not None:
            return None
        return cls(asked.subject, asked.methods, asked.instances, asked.split, variants=())

    def fits(self, model: Model, data: Dataset) -> str | None:
        if self.dynamics is None and self.subject.checkpoint is not None:
            return "Of a checkpoint it is not known how it was trained: give a folder of its dynamics."
        if self.dynamics is None and any(example.label is None for example in data[self.split]):
            return f"A map needs the label of every text, and not every text of {self.split} has one."
        return super().fits(model, data)

    def run(self, context: Context) -> Finding:
        check_measures(self.measures, "agreement")
        if self.export is not None:
            check_folder(Path(self.export), "dynamics")
        self.check_fit(context)
        data, notes = context.data_of(self.base), list[str]()
        given = self._given_dynamics(data, notes)  # what is wrong with them is told before any training
        found = find_variants(context, self.base, self.penalties)
        runs, said = runs_of(context, found.variants), Said([*found.notes, *notes])
        said.notes += like_a_constant(data, runs).values()
        dynamics = [given if given and run.variant == BASE else self._own_dynamics(run, data) for run in runs]
        if self.export is not None:
            _export(Path(self.export), runs, dynamics)
        pairs_of = zip(runs, dynamics, strict=True)
        maps = [map_table(known, run, self.ddof, self.closeness) for run, known in pairs_of]
        whole = pd.concat(maps, ignore_index=True)
        agreed = self._agreement(context, data, runs, said)
        table = whole.merge(agreed, on=["variant", "seed", "example"], how="inner")
        if table.empty:
            raise DoesNotFit("No text that is explained has dynamics.")
        main = headline(HEADLINE, self.measures)
        long = with_base_groups(table, self.measures)
        groups = summarise_by(long[long["group"] != ""], ["measure", "group", "variant"])
        groups = groups.sort_values(
            "group", key=lambda g: g.map(GROUPS.index), kind="stable", ignore_index=True
        )
        between = between_groups(long)
        return self.finding(
            _verdict(groups, between, main),
            {
                "summary": groups,
                "between": between,
                "variants": within_groups(long),
                "relation": correlations(table, self.measures, ATTRIBUTES, ("measure", "attribute")),
                "groups": _counts(whole),
                "grid": found.grid,
                "instances": table,
            },
            figures=self._figures(table, data, main),
            warnings=tuple(dict.fromkeys(said.notes)),
            cautions=together(said.cautions),
        )

    def _given_dynamics(self, data: Dataset, notes: list[str]) -> Dynamics | None:
        if self.dynamics is None:
            return None
        given = read_dynamics_files(Path(self.dynamics))
        return of_texts(given, [example.id for example in data[self.split]], notes)

    def _own_dynamics(self, run: Run, data: Dataset) -> Dynamics:
        known = dynamics_of_run(run, data, self.split)
        assert known is not None, "the base keeps its dynamics"
        return known

    def _agreement(self, context: Context, data: Dataset, runs: Sequence[Run], said: Said) -> pd.DataFrame:
        """Each text's agreement after the last epoch, a column a measure."""
        explain_runs(context, data, [(run, None) for run in runs], self.asked)
        parts = []
        for run in runs:
            testimony = hear_run(context, data, run, self.asked)
            said.hear(testimony)
            parts.append(agreement_by_text(testimony, self.measures).assign(variant=run.variant))
        return pd.concat(parts, ignore_index=True)

    def _figures(self, table: pd.DataFrame, data: Dataset, measure: str) -> tuple[Figure, ...]:
        first = table[table["seed"] == table["seed"].iloc[0]]
        maps = [
            text_map(part, data, self.split, measure, str(variant))
            for variant, part in first.groupby("variant", sort=False)
        ]
        return (*maps, *(_along(table, measure, attribute) for attribute in DRAWN))


def with_base_groups(table: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """A row a text, variant and measure; the group is the base's under the same seed."""
    keys = ["seed", "example"]
    own = table[table["variant"] == BASE].set_index(keys)["group"]
    grouped = table.drop(columns="group").join(own, on=keys)
    grouped["group"] = grouped["group"].fillna("")
    return grouped.melt([*keys, "variant", "group"], list(names), var_name="measure", value_name="value")


def within_groups(long: pd.DataFrame) -> pd.DataFrame:
    """Each penalty against the base on the texts of one group, one-sided, Holm-adjusted over the table."""
    rows: list[Row] = []
    for (measure, group), part in long[long["group"] != ""].groupby(["measure", "group"], sort=False):
        values = {
            str(name): own.set_index(["seed", "example"])["value"] for name, own in part.groupby("variant")
        }
        rows += [
            {"measure": measure, "group": group, "variant": name, "than": BASE, **paired(own, values[BASE])}
            for name, own in values.items()
            if name != BASE
        ]
    frame = pd.DataFrame(rows, columns=["measure", "group", "variant", "than", *PAIRED])
    adjusted = {f"{p}_holm": holm_bonferroni(frame[p].to_numpy(dtype=np.float64)).p for p in PAIRED[-2:]}
    return frame.assign(**adjusted)


def between_groups(long: pd.DataFrame) -> pd.DataFrame:
    """Every two groups of texts, variant by variant: over texts (Mann-Whitney), and over seeds from two seeds on.

    Two-sided, Holm-adjusted over the table. A text's value is its mean over the seeds that put it into the group.
    """
    rows: list[Row] = []
    for (measure, variant), part in long.groupby(["measure", "variant"], sort=False):
        for first, second in combinations(GROUPS[::-1], 2):
            rows.append({"measure": measure, "variant": variant, "group": first, "than": second})
            rows[-1] |= _two_groups(part, first, second)
    frame = pd.DataFrame(rows)
    adjusted = {
        f"{p}_holm": holm_bonferroni(frame[p].to_numpy(dtype=np.float64)).p for p in ("p_texts", "p_seeds")
    }
    return frame.assign(**adjusted)


def _two_groups(part: pd.DataFrame, first: str, second: str) -> Row:
    known = part.dropna(subset="value")
    one, other = (known[known["group"] == group] for group in (first, second))
    texts = [own.groupby("example")["value"].mean().to_numpy(dtype=np.float64) for own in (one, other)]
    enough = min(map(len, texts)) >= FEWEST
    p_texts = float(scipy.stats.mannwhitneyu(texts[0], texts[1]).pvalue) if enough else np.nan
    sizes = [own.groupby("seed")["value"].agg(["mean", "size"]) for own in (one, other)]
    usable = [own.loc[own["size"] >= FEWEST, "mean"] for own in sizes]
    apart = (usable[0] - usable[1]).dropna().to_numpy()
    row: Row = {"n": len(texts[0]), "than_n": len(texts[1]), "seeds": len(apart)}
    if len(apart) == 1:  # one training: the interval is over its texts
        welch = scipy.stats.ttest_ind(*texts, equal_var=False).confidence_interval()
        figures = {"difference": apart[0], "low": welch.low, "high": welch.high, "interval": "95 %"}
    else:
        found = asdict(summarise(apart))
        figures = {"difference": found["mean"], "low": found["low"], "high": found["high"]}
        figures["interval"] = found["kind"]
    varied = len(apart) > 1 and np.ptp(apart) > 0
    return row | figures | {"p_texts": p_texts, "p_seeds": _over_seeds(apart) if varied else np.nan}


def _over_seeds(apart: np.ndarray) -> float:
    return float(scipy.stats.ttest_1samp(apart, 0.0).pvalue)


def _counts(maps: pd.DataFrame) -> pd.DataFrame:
    """How many texts of the split lie in each group on each model's own map, in the mean over seeds."""
    named = maps.assign(group=maps["group"].replace("", "between the groups"))
    counts = named.groupby(["variant", "seed", "group"], sort=False).size().rename("texts").reset_index()
    means = counts.groupby(["variant", "group"], sort=False)["texts"].mean().reset_index()
    totals = maps.groupby(["variant", "seed"]).size().groupby("variant").mean()
    return means.assign(share=means["texts"] / means["variant"].map(totals))


def _along(table: pd.DataFrame, measure: str, attribute: str) -> Plot:
    series = []
    for variant, own in table.groupby("variant", sort=False):
        texts = own.groupby("example")[[attribute, measure]].mean()
        line = smooth_line(texts[attribute], texts[measure])
        series.append(
            Series(str(variant), line.x.tolist(), line.y.tolist(), line.low.tolist(), line.high.tolist())
        )
    caption = (
        "A locally weighted line through one point a text (its mean over seeds); the band holds the line in 95 % of "
        "draws of the texts."
    )
    return Plot(f"Agreement along {attribute}", attribute, f"mean {measure}", tuple(series), caption)


def _export(folder: Path, runs: Sequence[Run], dynamics: Sequence[Dynamics]) -> None:
    def write(place: Path) -> None:
        for run, known in zip(runs, dynamics, strict=True):
            write_dynamics_files(place / f"{run.variant}-{run.seed}", known)

    write_folder(folder, "dynamics", write)


def _verdict(groups: pd.DataFrame, between: pd.DataFrame, measure: str) -> str:
    """Ambiguous against easy texts of the base, and what the penalties do to each group."""
    own = groups[(groups["measure"] == measure) & (groups["variant"] == BASE)]
    rows = {str(row["group"]): {str(k): v for k, v in row.items()} for row in own.to_dict("records")}
    by_group = [
        f"{with_interval(rows[group])} on {group} texts ({sample(rows[group]['n'])})"
        for group in GROUPS
        if group in rows
    ]
    if not by_group:
        return "No text is easy, ambiguous or hard by how often its class was right."
    test = between[
        (between["measure"] == measure)
        & (between["variant"] == BASE)
        & (between["group"] == "ambiguous")
        & (between["than"] == "easy")
    ].iloc[0]
    several = test["seeds"] > 1
    p = float(test["p_seeds_holm" if several else "p_texts_holm"])
    if np.isnan(p):
        words = "There are too few ambiguous texts to set beside the easy ones"
    elif p >= LEVEL:
        words = "Methods agree on ambiguous texts neither clearly more nor less than on easy ones"
    else:
        words = f"Methods agree {'more' if test['difference'] > 0 else 'less'} on ambiguous texts than on easy ones"
    over = "over seeds" if several else "over the texts of one training"
    tested = "" if np.isnan(p) else f" ({p_value(p)} {over})"
    return f"{words}{tested}: mean {measure} {', '.join(by_group)}."
