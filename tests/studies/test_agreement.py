from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import rashomon as ra
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.figures import Distributions, Matrix, Plot
from rashomon.experiments.repeats import SAMPLING, self_agreement
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask, hear
from rashomon.explainers import Explanations, explain
from rashomon.models.build import load_model
from rashomon.studies.agreement import (
    Agreement,
    agreement,
    judge,
    mean_by_example,
    with_others,
    without_own_noise,
)
from tests.models.tiny import SINGLES, dataset
from tests.studies.planted import planted, subject_in

METHODS = ("attention", "leave-one-out", "gradient-x-input")


def _content(explanations: Explanations, method: str, example: str) -> np.ndarray:
    (item,) = explanations.where(method=method, example_id=example)
    return item.scores[~item.special]


def test_the_matrix_equals_a_plain_loop_over_texts(context: Context) -> None:
    ask = Ask(subject_in(context), METHODS, 12)
    finding = Agreement.of(ask).run(context)
    (heard,) = hear(context, ask)
    summary = finding.tables["summary"].set_index(["measure", "first", "second"])
    instances = finding.tables["instances"].set_index(["measure", "first", "second", "example"])["value"]
    matrix = finding.figures[0]
    assert isinstance(matrix, Matrix)
    for first, second in combinations(METHODS, 2):
        for measure, correlation in (
            ("kendall", stats.kendalltau),
            ("spearman", stats.spearmanr),
            ("pearson", stats.pearsonr),
        ):
            loop = [
                correlation(*(np.abs(_content(heard.explanations, m, e)) for m in (first, second)))[0]
                for e in heard.explanations.example_ids
            ]
            assert instances[measure, first, second].tolist() == pytest.approx(loop, abs=1e-9, nan_ok=True)
            mean = np.nanmean(loop)
            assert summary.loc[(measure, first, second), "mean"] == pytest.approx(mean)
            i, j = METHODS.index(first), METHODS.index(second)
            assert matrix.layers[measure][i][j] == matrix.layers[measure][j][i] == pytest.approx(mean)
            assert f"n = {12 - int(np.isnan(loop).sum())}" in matrix.details[measure][i][j]
    assert matrix.rows == METHODS, "the random control is no row"


def test_a_method_in_two_settings_is_two_methods(context: Context) -> None:
    asked = ("leave-one-out", "leave-one-out( perturbation=mask )", "leave-one-out(perturbation=remove)")
    finding = Agreement(subject_in(context), asked, 6).run(context)
    matrix = finding.figures[0]
    assert isinstance(matrix, Matrix)
    assert matrix.rows == ("leave-one-out", "leave-one-out(perturbation=mask)")


def test_the_random_control_agrees_with_nobody(context: Context) -> None:
    finding = Agreement(subject_in(context, planted(held_out=60)), METHODS, 60, measures=("kendall",)).run(
        context
    )
    with_random = finding.tables["summary"].query("second == 'random'")
    assert len(with_random) == 3
    assert (with_random["low"] < 0.05).all()
    assert (with_random["high"] > -0.05).all()
    assert with_random["mean"].abs().max() < 0.15


@pytest.mark.usefixtures("witnesses")
def test_constants_are_undefined_and_signs_need_a_meaning(context: Context) -> None:
    methods = ("constant", "attention", "leave-one-out", "gradient-x-input")
    finding = Agreement(subject_in(context), methods, 8).run(context)
    summary = finding.tables["summary"].set_index(["measure", "first", "second"])
    assert summary.loc[("kendall", "constant", "attention"), ["n", "undefined"]].tolist() == [0, 8]
    assert summary.loc[("sign-agreement", "attention", "leave-one-out"), "n"] == 0
    assert summary.loc[("sign-agreement", "leave-one-out", "gradient-x-input"), "n"] > 0
    matrix = finding.figures[0]
    assert isinstance(matrix, Matrix)
    assert math.isnan(matrix.layers["kendall"][0][1])
    assert matrix.details["kendall"][0][1] == "undefined, n = 0, 8 undefined"
    assert "nan" not in finding.verdict


def test_special_tokens_cannot_fake_agreement(context: Context, checkpoint: Callable[..., Path]) -> None:
    folder = checkpoint("bert")
    subject = Subject(context.adopt(dataset()), checkpoint=str(folder))
    finding = Agreement(subject, ("attention", "gradient-x-input"), 10, measures=("kendall",)).run(context)
    explanations = explain(load_model(folder), SINGLES, ["attention", "gradient-x-input"])
    assert any(item.special.any() for item in explanations)
    instances = finding.tables["instances"].query("second != 'random'")
    for row in instances.to_dict("records"):
        scores = [
            np.abs(_content(explanations, m, row["example"])) for m in ("attention", "gradient-x-input")
        ]
        assert row["tokens"] == len(scores[0])
        expected = stats.kendalltau(*scores)[0] if len(scores[0]) > 1 else math.nan
        assert row["value"] == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_several_seeds_are_drawn_before_texts(context: Context) -> None:
    ask = Ask(subject_in(context, seeds=(0, 1, 2)), METHODS[:2], 10)
    finding = Agreement.of(ask, measures=("kendall",)).run(context)
    row = finding.tables["summary"].query("second == 'leave-one-out'").iloc[0]
    own = finding.tables["instances"].query("second == 'leave-one-out'")
    by_seed = own.groupby("seed")["value"].mean()
    assert len(by_seed) == 3
    assert row["mean"] == pytest.approx(by_seed.mean())
    assert row["n"] + row["undefined"] == 30
    assert by_seed.min() - 0.5 < row["low"] < row["mean"] < row["high"] < by_seed.max() + 0.5


@pytest.mark.parametrize(("temperature", "flat"), [(1000.0, True), (0.02, False)])
def test_beside_attention_stands_how_even_it_is(context: Context, temperature: float, flat: bool) -> None:
    subject = subject_in(context)
    subject = replace(subject, model=replace(subject.model, temperature=temperature))
    finding = Agreement(subject, METHODS, 12, measures=("kendall",)).run(context)
    (heard,) = hear(context, Ask(subject, METHODS, 12))
    rows = finding.tables["sharpness"].set_index("figure")
    scores = [_content(heard.explanations, "attention", e) for e in heard.explanations.example_ids]
    even = [stats.entropy(row) / math.log(len(row)) for row in scores if len(row) > 1]
    entropy = rows.loc["normalised-entropy"]
    assert (entropy["of"], entropy["n"]) == ("attention", len(even))
    assert entropy["mean"] == pytest.approx(np.mean(even), abs=1e-6)
    assert (entropy["mean"] > 0.95) == flat
    vectors = heard.model.word_vectors()  # type: ignore[union-attr]
    assert vectors is not None
    assert rows.loc["vector-std", "mean"] == pytest.approx(float(vectors.std(correction=0)), rel=1e-4)
    assert ("Attention is nearly uniform" in finding.verdict) == flat
    assert "of the largest possible entropy, with word vectors of standard deviation" in finding.verdict
    words = {judgement.method: judgement.words for judgement in finding.judgements}
    assert [method for method in METHODS if "nearly equal" in words[method]] == ["attention"] * flat


def test_what_is_no_distribution_has_no_entropy(context: Context, checkpoint: Callable[..., Path]) -> None:
    subject = Subject(context.adopt(dataset()), checkpoint=str(checkpoint("bert")))  # [CLS] has its share
    finding = Agreement(subject, ("attention", "gradient-x-input"), 10, measures=("kendall",)).run(context)
    assert "sharpness" not in finding.tables
    assert "entropy" not in finding.verdict


def test_stored_explanations_give_the_same_table(context: Context, tmp_path: Path) -> None:
    ask = Ask(subject_in(context), METHODS, 6)
    (heard,) = hear(context, ask)
    heard.explanations.save(tmp_path / "explanations.parquet")
    stored = Agreement.of(replace(ask, stored=str(tmp_path / "explanations.parquet"))).run(
        Context(context.store)
    )
    fresh = Agreement.of(ask).run(context).tables["summary"]
    fresh = fresh.query("second != 'random'")
    assert stored.tables["summary"].equals(fresh.reset_index(drop=True))
    table = ra.agreement(heard.explanations)
    assert set(table["measure"]) == {"kendall", "pearson"}
    assert (
        table.query("measure == 'kendall'")["mean"].tolist()
        == fresh.query("measure == 'kendall'")["mean"].tolist()
    )


def test_foreign_explanations_are_compared(context: Context) -> None:
    (heard,) = hear(context, Ask(subject_in(context), ("leave-one-out",), 5))
    foreign = Explanations(
        replace(item, method="lib:loo", target=-1, model="unknown", scores=item.scores * 2)
        for item in heard.explanations
    )
    row = agreement(heard.explanations + foreign).iloc[0]
    assert row["mean"] == pytest.approx(1.0)


def test_figures_follow_the_texts(context: Context) -> None:
    finding = Agreement(subject_in(context), METHODS, 24, measures=("kendall",)).run(context)
    _, spread, by_length = finding.figures
    assert isinstance(spread, Distributions)
    assert isinstance(by_length, Plot)
    assert list(spread.groups) == list(METHODS)
    instances = finding.tables["instances"].query("second != 'random'")
    shortest, longest = instances["tokens"].min(), instances["tokens"].max()
    for series in by_length.series:
        assert 2 <= len(series.x) <= 5
        assert list(series.x) == sorted(series.x)
        assert shortest <= series.x[0] < series.x[-1] <= longest
        assert all(-1 <= value <= 1 for value in series.y)
    means = mean_by_example(finding.tables["instances"])
    text = instances["example"].iloc[0]
    assert means[text] == pytest.approx(instances.query("example == @text")["value"].mean())


def test_another_headline_and_two_methods(context: Context) -> None:
    finding = Agreement(subject_in(context), METHODS[:2], 5, measures=("pearson",)).run(context)
    assert finding.verdict.startswith("Attention and leave-one-out")
    assert "pearson" in finding.verdict


@pytest.mark.parametrize(
    ("methods", "measures", "message"),
    [
        (("attention",), ("kendall",), "at least two methods"),
        (METHODS, ("auprc",), "no measure of agreement"),
        (METHODS, ("kendal",), "kendall"),
    ],
)
def test_refusals(context: Context, methods: tuple, measures: tuple, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Agreement(subject_in(context), methods, 3, measures=measures).run(context)


def test_one_stored_method_is_refused(context: Context, tmp_path: Path) -> None:
    hear(context, Ask(subject_in(context), ("attention",), 3))[0].explanations.save(tmp_path / "one.parquet")
    with pytest.raises(UserError, match="at least two methods"):
        Agreement(stored=str(tmp_path / "one.parquet")).run(context)


def _taus(pairs: dict[tuple[str, str], float], n: int = 100) -> pd.DataFrame:
    rows = [
        {"measure": "kendall", "first": f, "second": s, "seed": 0, "example": f"e{i}", "value": tau}
        for (f, s), tau in pairs.items()
        for i in range(n)
    ]
    return pd.DataFrame(rows)


def _repeat(mean: float, n: int = 100) -> dict[str, float]:
    return {"mean": mean, "low": np.nan, "high": np.nan, "n": n}


@pytest.mark.parametrize(
    ("mean", "repeat", "rating", "words"),
    [
        (0.85, 1.0, "good", "agrees with the others"),
        (0.72, 0.7, "good", "as far as its own noise lets it"),  # .82 without it
        (0.65, 0.9, "mixed", "mostly"),
        (0.45, 0.5, "mixed", "partly"),  # noise explains a part of what is missing, not all: .56 without it
        (0.45, 0.9, "mixed", "partly"),
        (0.45, None, "mixed", "partly"),
        (0.65, None, "mixed", "mostly"),  # the word that the verdict has for this tau
        (0.10, 0.9, "poor", "another story"),
        (0.10, 0.1, "poor", "another story"),  # a method that is noise agrees with nothing
        (-0.2, -0.3, "poor", "another story"),
    ],
)
def test_a_method_is_judged_by_its_own_repetition(
    mean: float, repeat: float | None, rating: str, words: str
) -> None:
    taus = _taus({("a", "b"): mean, ("a", "c"): mean})
    judged = judge("a", taus, None if repeat is None else _repeat(repeat), 3)
    assert (judged.method, judged.aspect, judged.rating) == ("a", "agreement", rating)
    assert words in judged.words
    assert f"tau {mean:.2f}" in judged.number
    assert (SAMPLING in judged.number) == (repeat is not None)


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("apart", [0.2, 1.0, 3.0])
def test_the_noise_of_a_method_is_taken_out_of_its_agreement(noise: float, apart: float) -> None:
    """Simulated: what a method would say without noise, two noisy readings of it, and another method."""
    generator = np.random.default_rng(7)
    true, other, *readings = generator.normal(size=(4, 4000))
    other, (one, again) = true + apart * other, (true + noise * reading for reading in readings)
    found = without_own_noise(stats.kendalltau(one, other).statistic, stats.kendalltau(one, again).statistic)
    assert found == pytest.approx(stats.kendalltau(true, other).statistic, abs=0.03)


def test_a_deterministic_method_agrees_with_itself() -> None:
    """However much it changes when the model is trained again: that is another question."""
    taus = _taus({("attention", "b"): 0.45, ("deeplift", "b"): 0.85})
    partly, fully = (judge(method, taus, None, 3) for method in ("attention", "deeplift"))
    assert (partly.rating, fully.rating) == ("mixed", "good")
    assert "1.00 with itself, being deterministic" in partly.number


def test_too_few_texts_tell_nothing() -> None:
    """Four texts cannot tell one method from chance, nor five three methods."""
    for n, methods, known in ((4, 1, False), (5, 1, True), (5, 3, False), (6, 3, True)):
        judged = judge("a", _taus({("a", "b"): 0.9}, n), None, methods)
        assert (judged.rating != "unknown") == known
        assert known or "too few texts" in judged.words
        assert f"(n = {n})" in judged.number
    assert judge("a", _taus({("a", "b"): 0.85}), _repeat(1.0, 3), 2).rating == "mixed", (
        "a ceiling of three texts is none"
    )


def test_what_cannot_be_compared_is_unknown() -> None:
    undefined = judge("a", _taus({("a", "b"): np.nan}), None, 2)
    assert (undefined.rating, undefined.words) == ("unknown", "cannot be compared")


def test_a_family_that_estimates_one_quantity_is_one_voice() -> None:
    pairs = {
        ("attention", "integrated-gradients"): 0.2,
        ("attention", "gradient-shap(samples=7)"): 0.4,
        ("attention", "lime"): 0.6,
        ("attention", "kernel-shap"): 0.8,
        ("attention", "leave-one-out"): 0.1,
        ("attention", "leave-one-out(perturbation=mask)"): 0.3,
        ("integrated-gradients", "gradient-shap(samples=7)"): 0.95,
        ("integrated-gradients", "lime"): 0.3,
    }
    taus = _taus(pairs, 3)
    by_method = {m: with_others(m, taus) for m in ("attention", "integrated-gradients", "kernel-shap")}
    # .3 of the gradients' family, .7 of the linear models', and two questions that only look alike
    assert by_method["attention"]["mean"] == pytest.approx((0.3 + 0.7 + 0.1 + 0.3) / 4)  # type: ignore[index]
    # its own family is no witness for it
    assert by_method["integrated-gradients"]["mean"] == pytest.approx((0.2 + 0.3) / 2)  # type: ignore[index]
    alone = with_others("lime", _taus({("lime", "kernel-shap"): 0.9}))
    assert alone is None


def test_agreement_is_told_with_its_interval() -> None:
    taus = _taus({("a", "b"): 0.5, ("a", "c"): 0.5})
    taus["value"] += [0.1 * (i % 2) for i in range(len(taus))]
    assert judge("a", taus, None, 3).number == "tau 0.55 [0.54, 0.56] (n = 100) with the others"


def test_methods_that_sample_are_asked_again(context: Context, asked: list[tuple[str, ...]]) -> None:
    study = Agreement(subject_in(context), ("attention", "lime(samples=30)"), 12, measures=("kendall",))
    finding = study.run(context)
    assert asked == [("attention", "lime", "random"), ("lime",)]
    by_method = {judgement.method: judgement for judgement in finding.judgements}
    assert set(by_method) == {"attention", "lime(samples=30)"}, "the control is not judged"
    (heard,) = hear(context, study.ask)
    assert heard.model is not None
    again = explain(heard.model, heard.examples, ["lime(samples=30)"], seed=1000, background=heard.behind)
    mean = np.nanmean(self_agreement(heard.explanations.by_method("lime(samples=30)"), again))
    assert f"{mean:.2f} [" in by_method["lime(samples=30)"].number.split(SAMPLING)[0].split("others, ")[1]
    assert len(finding.judgements) == 2
    other = Agreement(subject_in(context), ("attention", "lime(samples=30)"), 12, measures=("pearson",))
    assert other.run(context).judgements == ()
