"""Can a trained model attend elsewhere and predict the same? The model-consistent adversary over a sweep of lambda.

Each lambda trains a model of the base's architecture on TVD - lambda KL (paper *not-not*, section 4). The curve of TVD
against JSD tells what moving the attention costs; other seeds, uniform weights and the per-instance adversary lie on
the same axes. Lambda means what it means in the paper, whose TVD is half of ours (see ``PUBLISHED_SCALE``).

A curve of searches that were cut short would mislead, so it is no part of an audit: its AtteFa asks the same question
with two adversaries, which can be trained to their end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from rashomon.errors import UserError
from rashomon.experiments.adversaries import (
    Member,
    Outcome,
    adversary_training,
    train_adversaries,
    usual_adversary,
)
from rashomon.experiments.alternatives import (
    JSD_AXIS,
    TVD_AXIS,
    Alternative,
    alternatives_in,
    alternatives_of,
    beside_adversaries,
    best_alternative,
    points_beside,
    still_learning,
)
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Plot, Series
from rashomon.experiments.instance_search import Search
from rashomon.experiments.subject import Subject
from rashomon.experiments.summaries import summary_of, summary_row
from rashomon.experiments.trials import (
    OTHER_SEEDS,
    SelectionSplit,
    Trial,
    prepare,
    selecting,
)
from rashomon.measures.classification import f1
from rashomon.measures.curves import (
    bootstrap_above,
    bootstrap_area,
    bounded,
    normalised_area,
    points_between,
    shape_of,
)
from rashomon.measures.divergence import LN2
from rashomon.measures.intervals import ENOUGH
from rashomon.studies.base import ON_TRIAL, AttentionStudy, Finding, studies
from rashomon.training.adversarial import PUBLISHED_SCALE, ModelConsistentAdversary, Reading
from rashomon.training.settings import TrainingSpec
from rashomon.wording import capitalised, decimal, interval_words, with_interval

UNFAITHFUL = 0.1  # a score like AtteFa's below which another attention gives the same predictions
SAME_F1 = 0.03  # an adversary this close to the base predicts as well
LAMBDAS = (0.0, 1e-4, 5e-4, 1e-3, 5e-3, 1e-2, 0.1, 1.0)


@studies.register("adversary")
@dataclass(frozen=True)
class AdversarySweep(AttentionStudy):
    """Can a model be trained that predicts the same and attends elsewhere, and at what cost?"""

    name: ClassVar[str] = "adversary"
    question: ClassVar[str] = "Can a model be trained that predicts the same and attends elsewhere?"
    title: ClassVar[str] = "Adversary"
    chapter: ClassVar[str | None] = ON_TRIAL
    order: ClassVar[int] = 90

    lambdas: tuple[float, ...] = LAMBDAS  # how much moving the attention weighs; one adversary each
    seeds: tuple[int, ...] = (1,)  # of the adversaries
    other_seeds: tuple[int, ...] = OTHER_SEEDS  # of ordinary models beside them; () leaves them out
    uniform: bool = True  # whether a model with uniform attention stands beside them
    search: Search | None = field(default_factory=Search)  # the per-instance adversary; None leaves it out
    instances: int = 500  # texts for the per-instance adversary
    floor: float = 0.4  # JSD above which the best F1 is reported
    selection: SelectionSplit = "dev"  # the split that picks a model's epoch: dev, or test as some papers did
    training: TrainingSpec | None = None  # of the adversaries; None: what suits the model
    warm: bool = False  # whether adversaries start near the base instead of from nothing
    reading: Reading | None = None  # what of the attention is compared; None: heads, a transformer's mean

    def needed_models(self) -> tuple[Subject, ...]:
        if self.subject.checkpoint is not None:
            return (self.first_base,)
        others = (self.base.with_seeds(self.other_seeds),) if self.other_seeds else ()
        return (self.first_base, *others, *([self.first_base.uniform_twin] if self.uniform else []))

    def run(self, context: Context) -> Finding:
        if not self.lambdas or not self.seeds or min(self.lambdas) < 0:
            raise UserError("The sweep needs at least one lambda, none of them negative, and one seed.")
        context = selecting(context, [self.subject.dataset], self.selection)
        self.check_fit(context)
        trial = prepare(context, [self.base], self.reading)[0]
        outcomes = self._sweep(context, trial)
        instances = pd.concat([_instances(outcome) for outcome in outcomes], ignore_index=True)
        uniform = self.first_base.uniform_twin if self.uniform else None
        beside, warnings = beside_adversaries(
            context, trial, self.other_seeds, uniform, self.search, self.instances
        )
        instances = pd.concat([instances, *beside], ignore_index=True)
        instances["label_name"] = [trial.data.labels[label] for label in instances["label"]]
        ids = instances["position"].map(dict(enumerate(example.id for example in trial.data["test"])))
        instances = instances.assign(example=instances.get("example", ids).fillna(ids)).drop(
            columns="position"
        )
        points = _points(instances, trial)
        curve = _curve(points, instances)
        best = self._best(points, outcomes, trial)
        other = best_alternative([*alternatives_of(outcomes), *alternatives_in(beside)])
        return self.finding(
            _verdict(points, curve, best, self.floor, other, _unfinished(points, outcomes)),
            {"summary": points, "curve": curve, "best": best, "instances": instances},
            figures=_figures(points),
            warnings=(*trial.data.notes, *warnings),
        )

    def _sweep(self, context: Context, trial: Trial) -> list[Outcome]:
        training = adversary_training(trial, self.training)
        members = [
            Member(trial, ModelConsistentAdversary(trial.reading, weight), training, seed, self.warm)
            for weight in sorted(set(self.lambdas))
            for seed in self.seeds
        ]
        return train_adversaries(context, members)

    def left_open(self) -> dict[str, object]:
        return {"training": usual_adversary(self.subject)}

    def _best(self, points: pd.DataFrame, outcomes: Sequence[Outcome], trial: Trial) -> pd.DataFrame:
        """The lambda with the best F1 (without labels: the least TVD) among those with a mean JSD above the floor.

        It is chosen on dev, where the epochs were chosen, and told as it is on test. Empty if there is none.
        """
        on_dev = [{"lambda": _weight(o), "f1": np.nan, **o.dev} for o in outcomes]
        by_lambda = pd.DataFrame(on_dev).groupby("lambda")[["f1", "tvd", "jsd"]].mean()
        far = by_lambda[by_lambda["jsd"] > self.floor]
        if far.empty:
            return pd.DataFrame()
        chosen = far["tvd"].idxmin() if far["f1"].isna().all() else far["f1"].idxmax()
        of_all = points[(points["kind"] == "adversary") & (points["class"] == "all")]
        row = of_all[of_all["lambda"] == chosen].iloc[0]
        ends = [f"{figure}_{end}" for figure in ("f1", "tvd", "jsd") for end in ("low", "high")]
        fields: dict[str, Any] = {
            name: row[name] for name in ("lambda", "f1", "tvd", "halved_tvd", "jsd", "n", *ends)
        }
        fields["base_f1"] = trial.base_scores.get("f1", float("nan"))
        return pd.DataFrame([fields])


def _weight(outcome: Outcome) -> float:
    objective = outcome.member.objective
    assert isinstance(objective, ModelConsistentAdversary)
    return objective.weight


def _instances(outcome: Outcome) -> pd.DataFrame:
    about: dict[str, Any] = {"kind": "adversary", "lambda": _weight(outcome)}
    about |= {"seed": outcome.member.seed, "epoch": outcome.epoch}
    return outcome.instances.assign(**about)


def _points(instances: pd.DataFrame, trial: Trial) -> pd.DataFrame:
    """Every point of the curve and beside it, over all texts and by class: TVD and JSD with n and interval."""
    rows = []
    frame = instances.assign(**{"lambda": instances["lambda"].fillna(-1.0)})
    for label in ("all", *trial.data.labels):
        of_class = frame if label == "all" else frame[frame["label_name"] == label]
        for _, group in of_class.groupby(["kind", "lambda"], sort=False):
            kind, weight = str(group["kind"].iloc[0]), float(group["lambda"].iloc[0])
            # other seeds are points of their own; the seeds of an adversary are one point with its spread
            parts = [part for _, part in group.groupby("seed")] if kind == "seed" else [group]
            rows += [_point(kind, weight, label, part, trial) for part in parts]
    return pd.DataFrame(rows)


def _point(kind: str, weight: float, label: str, part: pd.DataFrame, trial: Trial) -> dict[str, Any]:
    by_seed = [group for _, group in part.groupby("seed")]
    changed, moved = summary_of(part, "tvd", (0.0, 1.0)), summary_of(part, "jsd", (0.0, LN2))
    scores = [_f1(group, trial) for group in by_seed] if label == "all" and kind != "instance" else []
    row: dict[str, Any] = {
        "kind": kind,
        "lambda": weight if weight >= 0 else np.nan,
        "seed": part["seed"].iloc[0] if kind == "seed" else np.nan,
        "class": label,
        "n": moved["n"],
        "undefined": moved["undefined"],
        "halved_tvd": changed["mean"] * PUBLISHED_SCALE,
    }
    row |= _over_seeds("f1", scores)
    row["interval"] = moved["interval"]
    for figure, summary in (("tvd", changed), ("jsd", moved)):
        row |= {figure: summary["mean"]}
        row |= {f"{figure}_{name}": summary[name] for name in ("std", "low", "high")}
    return row


def _over_seeds(figure: str, values: Sequence[float]) -> dict[str, float]:
    """The mean of what a model has once, with its interval where there are seeds enough for one."""
    if not values:
        return dict.fromkeys((figure, f"{figure}_low", f"{figure}_high"), float("nan"))
    row = summary_row([values], bounds=(0.0, 1.0))
    known = len(values) >= ENOUGH
    ends = {f"{figure}_{end}": row[end] if known else float("nan") for end in ("low", "high")}
    return {figure: row["mean"], **ends}


def _f1(group: pd.DataFrame, trial: Trial) -> float:
    if not trial.base_scores:
        return float("nan")
    classes = group["class"].astype(int).to_numpy()
    return f1(np.eye(trial.data.classes)[classes], group["label"].to_numpy())


def _curve(points: pd.DataFrame, instances: pd.DataFrame) -> pd.DataFrame:
    """The area under the normalised curve and its shape, over all texts and by class."""
    rows = []
    sweep = instances[instances["kind"] == "adversary"]
    for label in points["class"].unique():
        mine = points[(points["kind"] == "adversary") & (points["class"] == label)]
        texts = sweep if label == "all" else sweep[sweep["label_name"] == label]
        moved, changed = _grid(texts, "jsd"), _grid(texts, "tvd")
        beside = points[(points["kind"] != "adversary") & (points["class"] == label)]
        others = beside["jsd"].to_numpy(), beside["tvd"].to_numpy()
        places = mine["jsd"].to_numpy(), bounded(mine["jsd"].to_numpy(), mine["tvd"].to_numpy(), others)
        area = normalised_area(*places)
        low, high = bootstrap_area(moved, changed, others)
        row = {"class": label, "points": len(mine), "n": moved.shape[1], "area": area}
        row |= {"between": points_between(places[0]), "low": low, "high": high, "interval": "95 %"}
        row["shape"] = shape_of(low, high, *places)
        row |= {"least_tvd": mine["tvd"].min(), "most_tvd": mine["tvd"].max(), "most_jsd": mine["jsd"].max()}
        named = instances if label == "all" else instances[instances["label_name"] == label]
        rows.append(row | _uniform_above(named, moved, changed))
    return pd.DataFrame(rows)


def _grid(texts: pd.DataFrame, figure: str) -> np.ndarray:
    """[lambdas, texts], seeds averaged."""
    order = texts.groupby(["lambda", "seed"]).cumcount()
    table = texts.assign(text=order).groupby(["lambda", "text"])[figure].mean().unstack()
    return table.to_numpy()


def _uniform_above(texts: pd.DataFrame, moved: np.ndarray, changed: np.ndarray) -> dict[str, float]:
    """By how much TVD uniform weights lie above the curve at their JSD, with its interval over texts."""
    uniform = texts[texts["kind"] == "uniform"]
    if len(uniform) != moved.shape[1]:
        return {}
    above, low, high = bootstrap_above(
        (uniform["jsd"].to_numpy(), uniform["tvd"].to_numpy()), (moved, changed)
    )
    name = "uniform_above_curve"
    return {name: above, f"{name}_low": low, f"{name}_high": high}


def _figures(points: pd.DataFrame) -> tuple[Plot, ...]:
    plots = []
    for label in points["class"].unique():
        of_class = points[points["class"] == label]
        series = [_line(of_class[of_class["kind"] == "adversary"].sort_values(["jsd", "tvd"]))]
        series.append(_bound(of_class))
        series += points_beside(of_class)
        where = "all texts" if label == "all" else f"texts of class {label}"
        plots.append(
            Plot(
                f"What it costs to attend elsewhere: {where}",
                JSD_AXIS,
                TVD_AXIS,
                tuple(series),
                "Lower and further right is a better adversary. Means over texts; the band is their "
                f"{interval_words(of_class['interval'])}.",
            )
        )
    return tuple(plots)


def _bound(of_class: pd.DataFrame) -> Series:
    """The best that anything found at each distance of the curve."""
    defined = of_class.dropna(subset=["jsd", "tvd"])
    beside = defined[defined["kind"] != "adversary"]
    mine = defined[defined["kind"] == "adversary"].sort_values(["jsd", "tvd"])
    x = mine["jsd"].to_numpy()
    y = bounded(x, mine["tvd"].to_numpy(), (beside["jsd"].to_numpy(), beside["tvd"].to_numpy()))
    return Series("best that anything found", x.tolist(), y.tolist())


def _line(part: pd.DataFrame) -> Series:
    x, y, low, high = (part[name].tolist() for name in ("jsd", "tvd", "tvd_low", "tvd_high"))
    return Series("adversaries over lambda", x, y, low, high)


def _unfinished(points: pd.DataFrame, outcomes: Sequence[Outcome]) -> str:
    """Why a search that found nothing proves nothing, in words; empty where it was carried to its end."""
    of_all = points[points["class"] == "all"]
    plain = of_all[(of_all["kind"] == "adversary") & (of_all["lambda"] == 0)]["tvd"]
    seeds = of_all[of_all["kind"] == "seed"]["tvd"]
    if len(plain) and len(seeds) and plain.iloc[0] > seeds.mean():
        return (
            "even the adversary that was only to imitate predicts further from the base "
            f"(TVD {decimal(plain.iloc[0], 3)}) than another seed does ({decimal(seeds.mean(), 3)})"
        )
    if still_learning(outcomes):
        return "most adversaries were still improving in their last epoch"
    return ""


def _verdict(
    points: pd.DataFrame,
    curve: pd.DataFrame,
    best: pd.DataFrame,
    floor: float,
    other: Alternative | None,
    unfinished: str,
) -> str:
    row = curve[curve["class"] == "all"].iloc[0]
    shape = {
        "convex": "the curve is convex: attention moves far before predictions change",
        "concave": "the curve is concave: already small moves of attention cost predictions",
        "flat": "the curve is flat: moving attention costs next to nothing",
        "undecided": "the texts do not decide whether the curve is convex or concave",
        "straight": "the curve is straight: attention moves in proportion to what it costs",
        "undefined": "the curve has no points between its ends, or no range, and so no shape",
    }[str(row["shape"])]
    area = "" if row["shape"] == "undefined" else f" (area {with_interval({**row, 'mean': row['area']})})"
    shape = f"{shape}{area}" if not unfinished else "a curve of unfinished searches has no shape to speak of"
    seeds = points[(points["kind"] == "seed") & (points["class"] == "all")]
    normal = f"; other seeds alone move it by {decimal(seeds['jsd'].mean())}" if len(seeds) else ""
    found = _outcome(points, best, floor, other, unfinished)
    return f"{capitalised(found)}; {shape}{normal}."


def _outcome(
    points: pd.DataFrame, best: pd.DataFrame, floor: float, other: Alternative | None, unfinished: str
) -> str:
    """What was found: by an adversary, else by anything; and where nothing was, whether that means anything."""
    if not best.empty and _as_good(best.iloc[0]):
        return _found(best.iloc[0])
    if other is not None and other.is_apart and other.score < UNFAITHFUL:
        return (
            f"{other.finder} attends elsewhere and predicts nearly the same (JSD {decimal(other.jsd)}, TVD "
            f"{decimal(other.tvd, 3)}), so the base's attention is not the only account of its predictions"
        )
    if unfinished:
        return (
            f"it cannot be told yet whether another attention would do: {unfinished}; longer training "
            "(`rashomon study adversary`) would tell"
        )
    if best.empty and not points["lambda"].max() > 0:
        return "no lambda above 0 asked the adversary to move attention"
    if best.empty:
        return (
            f"no adversary moved attention by more than {floor:g} JSD, which speaks for attention as explanation "
            "as far as these trainings went"
        )
    return _found(best.iloc[0])


def _as_good(best: pd.Series[Any]) -> bool:
    return bool(best["base_f1"] - best["f1"] <= SAME_F1)


def _found(best: pd.Series[Any]) -> str:
    figures = f"JSD {decimal(best['jsd'])}, TVD {decimal(best['tvd'], 3)}"
    if np.isnan(best["base_f1"]) or np.isnan(best["f1"]):
        return f"an adversary attends elsewhere ({figures}; how well it predicts needs labels)"
    figures = f"F1 {decimal(best['f1'], 3)} (base {decimal(best['base_f1'], 3)}), {figures}"
    if _as_good(best):
        return (
            f"an adversary attends elsewhere and predicts as well ({figures}), so the base's attention is not the "
            "only account of its predictions"
        )
    return (
        f"no adversary that attends elsewhere predicts as well (best: {figures}), which speaks for attention as "
        "explanation as far as these trainings went"
    )
