from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.repeats import REPEATED, SAMPLING, SHIFT, self_agreement
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask, background, hear
from rashomon.explainers import Explanations, explain
from rashomon.studies.base import Judgement
from rashomon.studies.noise_ceiling import HEADLINE, MODEL, NoiseCeiling, judgements
from tests.models.tiny import dataset
from tests.studies.planted import planted, sampled_later, subject_in

METHODS = ("attention", "random")


def _rows(finding, against: str, measure: str = "kendall"):  # type: ignore[no-untyped-def]
    table = finding.tables["instances"]
    return table[(table["against"] == against) & (table["measure"] == measure)]


def _loop(one: Explanations, other: Explanations) -> list[float]:
    pairs = zip(one, other, strict=True)
    return [stats.kendalltau(np.abs(a.scores[a.content]), np.abs(b.scores[b.content]))[0] for a, b in pairs]


def test_each_method_against_itself(context: Context) -> None:
    data = planted()
    ask = Ask(subject_in(context, data), METHODS, 10)
    finding = NoiseCeiling.of(ask).run(context)
    (heard,) = hear(context, ask)
    sampling = _rows(finding, SAMPLING).groupby("method")["value"]
    assert sampling.get_group("attention").dropna().tolist() == pytest.approx(np.ones(10))
    drawn = explain(heard.model, heard.examples, ["random"], seed=SHIFT)  # type: ignore[arg-type]
    expected = _loop(heard.explanations.by_method("random"), drawn)
    assert sampling.get_group("random").tolist() == pytest.approx(expected)
    other = context.models(replace(ask.subject, seeds=(1,)))[0].model
    other_explanations = explain(other, heard.examples, ["attention"], background=background(data, 0))
    same = [
        i
        for i, (a, b) in enumerate(zip(heard.explanations, other_explanations, strict=False))
        if a.target == b.target
    ]
    both = (
        Explanations(t[i] for i in same)
        for t in (heard.explanations.by_method("attention"), other_explanations)
    )
    rows = _rows(finding, MODEL).query("method == 'attention'")
    assert rows["value"].tolist() == pytest.approx(_loop(*both), nan_ok=True)
    assert f"same class on {len(same)} of 10 texts" in finding.warnings[0]
    assert "under another model seed the least stable is" in finding.verdict


def test_some_texts_are_enough(context: Context) -> None:
    ask = Ask(subject_in(context), METHODS, 10)
    some = NoiseCeiling.of(ask, repeated=4).run(context).tables["instances"]
    every = NoiseCeiling.of(ask).run(context).tables["instances"]
    assert some["example"].nunique() == 4
    both = some.merge(every, on=["seed", "example", "method", "against", "measure"], how="left")
    assert both["value_x"].equals(both["value_y"]), "a text's value does not depend on the others"


def test_no_model_is_trained_needlessly() -> None:
    assert Subject().with_another_seed.seeds == (1,)
    assert Subject(seeds=(0, 1, 2)).with_another_seed.seeds == (1, 2, 0)
    assert [needed.seeds for needed in NoiseCeiling().needed_models()] == [(0,), (1,)]
    assert NoiseCeiling(stored="explanations.parquet").needed_models() == ()
    assert len(NoiseCeiling(Subject(checkpoint="folder")).needed_models()) == 1


def test_a_checkpoint_has_one_model(context: Context, checkpoint: Callable[..., Path]) -> None:
    subject = Subject(context.adopt(dataset()), checkpoint=str(checkpoint("bert")))
    finding = NoiseCeiling(subject, ("attention", "random"), 4).run(context)
    assert set(finding.tables["summary"]["against"]) == {SAMPLING}
    assert any("one model seed" in warning for warning in finding.warnings)


def test_stored_explanations_must_hold_something_to_compare(context: Context, tmp_path: Path) -> None:
    ask = Ask(subject_in(context, seeds=(0, 1)), METHODS, 24)
    one, two = (t.explanations for t in hear(context, ask))
    path = tmp_path / "explanations.parquet"

    def run(explanations: Explanations):  # type: ignore[no-untyped-def]
        explanations.save(path)
        return NoiseCeiling(stored=str(path)).run(context)

    with pytest.raises(UserError, match="explained twice"):
        run(one)
    again = sampled_later(context, hear(context, ask)[0], ("random",), 3)
    sampled = run(one + again)
    assert _rows(sampled, SAMPLING).query("method == 'random'")["value"].tolist() == pytest.approx(
        _loop(one.by_method("random"), again)
    )
    retrained = run(one + two)
    assert set(retrained.tables["summary"]["against"]) == {MODEL}
    assert set(retrained.tables["summary"]["method"]) == set(METHODS)


def test_a_record_is_not_compared_with_itself(context: Context, tmp_path: Path) -> None:
    ask = Ask(subject_in(context, seeds=(0, 1)), METHODS, 24)
    one, two = (t.explanations for t in hear(context, ask))
    foreign = [replace(i, method="elsewhere", model="unknown", target=-1) for i in one.by_method("attention")]
    again = sampled_later(context, hear(context, ask)[0], METHODS, 3)
    path = tmp_path / "explanations.parquet"
    for explanations, methods in ((one + again, {"random"}), (one + two + foreign, set(METHODS))):
        explanations.save(path)
        finding = NoiseCeiling(stored=str(path)).run(context)
        assert set(finding.tables["instances"]["method"]) == methods


def test_at_least_one_text_is_repeated(context: Context) -> None:
    with pytest.raises(UserError, match="at least one text, not 0"):
        NoiseCeiling(subject_in(context), METHODS, 10, repeated=0).run(context)


def test_an_audit_repeats_some_texts() -> None:
    asked = Ask(Subject(seeds=(4,)), METHODS, 100, "dev")
    study = NoiseCeiling.for_audit(asked)
    assert isinstance(study, NoiseCeiling)
    assert (study.ask, study.repeated) == (asked, REPEATED)


def _judged(
    sampling: float, model: float | None = None, n: int = 100, method: str = "a", **others: float
) -> Judgement:
    """``a`` is no method of ours, so it may sample. ``others`` are measures that are only shown."""
    values = {(HEADLINE, SAMPLING): sampling, (HEADLINE, MODEL): model}
    values |= {(name.replace("_", "-"), SAMPLING): value for name, value in others.items()}
    rows = [
        {"measure": measure, "method": method, "against": against, "mean": mean, "n": n}
        | {"low": np.nan, "high": np.nan}
        for (measure, against), mean in values.items()
        if mean is not None
    ]
    (judgement,) = judgements(pd.DataFrame(rows))
    assert (judgement.method, judgement.aspect) == (method, "stability")
    return judgement


@pytest.mark.parametrize(
    ("sampling", "model", "rating", "words"),
    [
        (1.0, None, "good", "repeats itself, by its top five tokens"),
        (0.7, 0.4, "good", "repeats itself, by its top five tokens"),
        (0.7, 0.39, "mixed", "trained again, by its top five tokens"),
        (0.69, 0.9, "mixed", "partly repeats itself, by its top five tokens"),
        (0.4, 0.9, "mixed", "partly repeats"),
        (0.39, 0.9, "poor", "sampled again, by its top five tokens"),
        (np.nan, np.nan, "unknown", "cannot be compared with itself"),
    ],
)
def test_stability(sampling: float, model: float | None, rating: str, words: str) -> None:
    judged = _judged(sampling, model)
    assert (judged.rating, words in judged.words) == (rating, True)


def test_the_order_of_tokens_that_matter_to_nobody_does_not_decide() -> None:
    """Four of five top tokens of twenty, and a tau of .51."""
    judged = _judged(0.73, overlap_top_5=0.8, weighted_tau=0.7, pearson=0.98, kendall=0.51)
    assert judged.rating == "good"
    assert judged.number == (
        "kappa-top-5 0.73 (n = 100), overlap-top-5 0.80, weighted-tau 0.70, pearson 0.98, kendall 0.51 "
        "under another sampling seed"
    )


@pytest.mark.parametrize(("pearson", "rating"), [(0.9, "mixed"), (0.89, "poor")])
def test_weight_that_stays_in_place_is_not_called_unstable(pearson: float, rating: str) -> None:
    """One token carries all, and four of the five are noise."""
    judged = _judged(0.2, pearson=pearson)
    assert (judged.rating, "puts its weight where it did" in judged.words) == (rating, rating == "mixed")


def test_the_measures_and_the_one_that_is_judged_by(context: Context) -> None:
    ask = Ask(subject_in(context), METHODS, 10)
    finding = NoiseCeiling.of(ask, measures=("pearson",), headline="kendall").run(context)
    assert set(finding.tables["summary"]["measure"]) == {"kendall", "pearson"}
    assert "(kendall)" in finding.verdict
    (of_random,) = [j for j in finding.judgements if j.method == "random"]
    assert of_random.number.startswith("kendall ")
    assert "by kendall" in of_random.words
    heard = hear(context, ask)[0]
    first = heard.explanations.by_method("random")
    second = sampled_later(context, heard, ("random",), SHIFT)
    expected = [
        np.corrcoef(np.abs(a.scores[a.content]), np.abs(b.scores[b.content]))[0, 1]
        for a, b in zip(first, second, strict=True)
    ]
    values = _rows(finding, SAMPLING, "pearson").query("method == 'random'")["value"]
    assert values.tolist() == pytest.approx(expected)
    with pytest.raises(UserError, match="no measure of agreement"):
        NoiseCeiling.of(ask, headline="sufficiency").run(context)


def test_signs_are_compared_where_they_mean_something(context: Context) -> None:
    (heard,) = hear(context, Ask(subject_in(context), ("leave-one-out", "attention"), 4))
    signed = heard.explanations.by_method("leave-one-out")
    turned = Explanations(replace(item, scores=-item.scores) for item in signed)
    assert self_agreement(signed, turned, "sign-agreement").max() == 0
    unsigned = heard.explanations.by_method("attention")
    assert np.isnan(self_agreement(unsigned, unsigned, "sign-agreement")).all()


@pytest.mark.parametrize(("n", "known"), [(4, False), (5, True)])
def test_too_few_texts_tell_nothing(n: int, known: bool) -> None:
    """Four texts cannot tell one method from chance."""
    judged = _judged(0.9, None, n)
    assert (judged.rating != "unknown") == known
    assert known or "too few texts" in judged.words
    assert f"(n = {n})" in judged.number


@pytest.mark.parametrize(
    ("model", "rating", "words"), [(None, "unknown", ""), (0.2, "mixed", "trained again"), (0.7, "good", "")]
)
def test_a_method_that_does_not_sample_is_deterministic(model: float | None, rating: str, words: str) -> None:
    judged = _judged(1.0, model, method="attention")
    assert (judged.rating, words in judged.words) == (rating, True)
    assert "deterministic" in judged.number
    assert SAMPLING not in judged.number
    assert SAMPLING in _judged(1.0, model, method="lime").number
