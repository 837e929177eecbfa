"""Are the tokens a method names the ones the model uses? Erase them, or keep nothing else.

Sufficiency is what the prediction loses when only the top tokens stay (low is faithful), comprehensiveness what it
loses when they go (high is faithful), both in the probability of the predicted class and averaged over
thresholds (AOPC). A random order is the floor that a method has to beat, text by text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd

from rashomon.data.batches import Bools, Encoding
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Plot, Series
from rashomon.experiments.judging import Ruling, against_chance
from rashomon.experiments.summaries import FLOOR, Row, against_floor, ranked_rows
from rashomon.experiments.testimony import Ask, Testimony, hear, is_signed, warnings_of
from rashomon.explainers import Engine, Explanation, Explanations
from rashomon.explainers.engine import Perturbation
from rashomon.explainers.explaining import predicted
from rashomon.explainers.record import UNKNOWN_TARGET
from rashomon.measures.base import Floats, Ragged
from rashomon.measures.erasure import ERASER_FRACTIONS, comprehensiveness, sufficiency, top_masks
from rashomon.models.base import Model
from rashomon.studies.base import ExplanationStudy, Finding, Judgement, studies
from rashomon.wording import with_interval

FLOORS = (FLOOR, "trivial")
FAITHFUL_SHARE = 0.7  # of the best method's comprehensiveness
# Probability that erasing must cost beyond a random order's before the model "uses" the tokens.
NOTICEABLE = 0.05


@studies.register("erasure")
@dataclass(frozen=True)
class Erasure(ExplanationStudy):
    """Is a method faithful when its top tokens are erased, or kept alone?"""

    name: ClassVar[str] = "erasure"
    question: ClassVar[str] = "Does the model use the tokens that a method names?"
    title: ClassVar[str] = "Faithfulness under erasure"
    order: ClassVar[int] = 30
    beside_stored: ClassVar[tuple[str, ...]] = ("dataset", "checkpoint", "seeds")

    fractions: tuple[float, ...] = ERASER_FRACTIONS  # shares of a text's tokens that are erased or kept
    perturbation: Perturbation = "remove"  # whether erased tokens are removed or masked

    def run(self, context: Context) -> Finding:
        if not self.fractions or not all(0 < fraction < 1 for fraction in self.fractions):
            raise UserError("Erasure takes fractions of the tokens between 0 and 1, such as 0.1 and 0.5.")
        if self.stored is not None and self.subject.checkpoint is None:
            raise UserError(
                "Erasure asks the model again: give the model that the stored explanations are of."
            )
        self.check_fit(context)
        heard = hear(context, self.ask, extra=FLOORS)
        if self.stored is not None:
            heard = [_with_model(context, self.ask, testimony) for testimony in heard]
        instances = pd.concat([self._instances(t) for t in heard], ignore_index=True)
        summary = self._summary(instances)
        return self.finding(
            _verdict(summary),
            {"summary": summary, "instances": instances},
            figures=tuple(_curve(instances, measure) for measure in ("comprehensiveness", "sufficiency")),
            warnings=warnings_of(heard),
            judgements=judgements(summary),
        )

    def _instances(self, testimony: Testimony) -> pd.DataFrame:
        assert testimony.model is not None
        return erase(testimony.model, testimony, self.fractions, self.perturbation)

    def _summary(self, instances: pd.DataFrame) -> pd.DataFrame:
        """AOPC, the mean over thresholds, per method and measure."""
        keys = ["measure", "method", "seed", "example"]
        means = instances.groupby(keys, sort=False)["value"].mean().reset_index()
        return against_floor(means, FLOORS, lower_is_better=("sufficiency",))


def erase(
    model: Model, testimony: Testimony, fractions: Sequence[float], how: Perturbation = "remove"
) -> pd.DataFrame:
    """Sufficiency and comprehensiveness of every method on every text at every threshold."""
    told = testimony.told
    by_id = {example.id: example for example in testimony.examples}
    ids = told.aligned().example_ids
    encodings = model.encode([by_id[i] for i in ids])
    engine = Engine(
        model
    )  # remembers what it has evaluated, so methods that name the same tokens share the answer
    parts = []
    for method in told.methods:
        of_text = {item.example_id: item for item in told.by_method(method)}
        explained = Explanations(of_text[i] for i in ids)
        scores = ranking_scores(explained, method)
        tops = [scores.split(row) for row in top_masks(scores, fractions)]
        kept = [_rows([top[i] for top in tops], encoding) for i, encoding in enumerate(encodings)]
        probabilities = np.stack(
            [
                _of_target(model, logits, item)
                for logits, item in zip(engine.logits(encodings, kept, how), explained, strict=True)
            ]
        )
        parts += _erased(testimony.seed, method, ids, probabilities, fractions)
    return pd.concat(parts, ignore_index=True)


def _rows(tops: Sequence[Bools], encoding: Encoding) -> Bools:
    """Which tokens stay: all of them, then the top ones alone, then all but the top ones."""
    top = np.stack(tops)
    rows = np.ones((1 + 2 * len(top), len(encoding)), dtype=np.bool_)
    rows[1 : 1 + len(top), encoding.content] = top
    rows[1 + len(top) :, encoding.content] = ~top
    return rows


def _of_target(model: Model, logits: Floats, item: Explanation) -> Floats:
    """Probabilities of what was explained; of explanations that do not say, of what is predicted for the whole text."""
    target = np.asarray(item.target if item.answer is None else item.answer)
    if item.answer is None and item.target == UNKNOWN_TARGET:
        target = predicted(model, [logits[0]])[0]
    return model.task.values(logits, target, "probability")


def _check_tokens(item: Explanation, encoding: Encoding, model: Model) -> None:
    said, read = (np.array(a.tokens, dtype=object)[a.content] for a in (item, encoding))
    if not np.array_equal(said, read):
        raise UserError(
            f"The explanation of {item.example_id!r} by {item.method} is not in the tokens of this model; "
            "erasure needs explanations of this very model, before sub-words are merged."
        )
    if not UNKNOWN_TARGET <= item.target < model.classes:
        raise UserError(
            f"The explanation of {item.example_id!r} by {item.method} is of a class the model lacks."
        )


def ranking_scores(told: Explanations, method: str) -> Ragged:
    """What the top tokens are taken by: signed scores speak for the class, unsigned ones have only size."""
    rows = [item.scores[item.content] for item in told]
    return Ragged.from_list(rows if is_signed(method) else [np.abs(row) for row in rows])


def _erased(
    seed: int, method: str, ids: Sequence[str], probabilities: Floats, fractions: Sequence[float]
) -> list[pd.DataFrame]:
    full, k = probabilities[:, 0], len(fractions)
    values = {
        "sufficiency": sufficiency(full, probabilities[:, 1 : 1 + k]),
        "comprehensiveness": comprehensiveness(full, probabilities[:, 1 + k :]),
    }
    return [
        pd.DataFrame(
            {
                "seed": seed,
                "example": np.repeat(np.array(ids, dtype=object), k),
                "method": method,
                "measure": measure,
                "fraction": np.tile(fractions, len(ids)),
                "value": table.ravel(),
            }
        )
        for measure, table in values.items()
    ]


def _with_model(context: Context, ask: Ask, testimony: Testimony) -> Testimony:
    """Stored explanations beside the model and the texts they are of, and a random order to beat."""
    data = context.dataset(ask.subject.dataset)
    by_id = {example.id: example for split in data for example in data[split]}
    missing = [i for i in testimony.told.example_ids if i not in by_id]
    if missing:
        raise UserError(
            f"The stored explanations are of texts that {data.name} does not have, such as {missing[0]!r}."
        )
    examples = tuple(by_id[i] for i in testimony.told.example_ids)
    model = context.models(ask.subject)[0].model
    read = dict(zip(testimony.told.example_ids, model.encode(examples), strict=True))
    for item in testimony.told:
        _check_tokens(item, read[item.example_id], model)
    told, controls = testimony.told, [floor for floor in FLOORS if floor not in testimony.told.methods]
    if controls:
        classes = {item.example_id: item.target for item in told}
        asked = context.explanations(model, examples, controls, seed=ask.subject.seeds[0])
        told += [replace(item, target=classes[item.example_id]) for item in asked]
    return replace(testimony, model=model, examples=examples, told=told)


def judgements(summary: pd.DataFrame) -> tuple[Judgement, ...]:
    """Every method but the controls, by what the prediction loses with its tokens."""
    gone, kept = (
        {row["method"]: row for row in ranked_rows(summary[summary["measure"] == measure])}
        for measure in ("comprehensiveness", "sufficiency")
    )
    floor = gone.get(FLOOR)
    methods = [method for method in gone if method not in FLOORS]
    best = max((gone[method]["mean"] for method in methods), default=float("nan"))
    tests = int(summary["p_holm"].notna().sum())
    judged = []
    for method in methods:
        told = f"comprehensiveness {with_interval(gone[method])}"
        told += f", {with_interval(floor)} for a random order" if floor else ""
        told += f"; sufficiency {with_interval(kept[method])}" if method in kept else ""
        ruling = _ruling(gone[method], floor, best, tests, told)
        if ruling is not None:
            judged.append(Judgement(method, "faithfulness", *ruling))
    return tuple(judged)


def _ruling(row: Row, floor: Row | None, best: float, tests: int, told: str) -> Ruling | None:
    """None where there is no random order to set the method against."""
    by_chance = against_chance(
        row,
        tests,
        told,
        perhaps="may beat a random order when its tokens are erased, which more texts would tell",
        no_better="does not beat a random order when its tokens are erased",
    )
    if by_chance is not None or floor is None:
        return by_chance
    if row["mean"] - floor["mean"] < NOTICEABLE:
        return Ruling("mixed", "beats chance when its tokens are erased, but the model hardly minds", told)
    if row["mean"] >= FAITHFUL_SHARE * best:
        return Ruling("good", "names tokens that the model uses", told)
    return Ruling("mixed", "beats chance when its tokens are erased, but others do better", told)


def _verdict(summary: pd.DataFrame) -> str:
    gone = summary[summary["measure"] == "comprehensiveness"]
    rows = ranked_rows(gone[~gone["method"].isin(FLOORS)])
    if not rows:
        return "No method was tested."
    best, worst = rows[-1], rows[0]
    if len(rows) == 1:
        cost = with_interval(best)
        return f"Erasing the top tokens of {best['method']} costs {cost} of the prediction's probability."
    floor = ranked_rows(gone[gone["method"] == FLOOR])
    against = f", against {with_interval(floor[0])} for a random order" if floor else ""
    beaten = sum(row["p_holm"] < 0.05 for row in rows)
    tail = f" {beaten} of {len(rows)} methods beat the random order." if floor else ""
    return (
        f"Erasing the top tokens costs the prediction most under {best['method']} ({with_interval(best)}) and least "
        f"under {worst['method']} ({with_interval(worst)}){against}.{tail}"
    )


def _curve(instances: pd.DataFrame, measure: str) -> Plot:
    of_measure = instances[instances["measure"] == measure]
    series = []
    for method, group in of_measure.groupby("method", sort=False):
        means = group.groupby("fraction")["value"].mean()
        series.append(Series(str(method), (means.index * 100).tolist(), means.tolist()))
    good = "high is faithful" if measure == "comprehensiveness" else "low is faithful"
    caption = f"Loss of the predicted class's probability; {good}."
    return Plot(measure.capitalize(), "top tokens, %", "loss of probability", tuple(series), caption)
