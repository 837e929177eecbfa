"""LIME, Kernel SHAP and leave-one-out against exact solutions on the same perturbed texts."""

from __future__ import annotations

from itertools import combinations
from math import comb, factorial

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from rashomon.data.example import Example
from rashomon.errors import UserError
from rashomon.explainers import Job, explain, make_explainer
from rashomon.explainers.perturbation import (
    KernelShap,
    Lime,
    draw_coalitions,
    explained_values,
    log_chance,
    shapley_regression,
    symmetric_part,
    weighted_ridge,
)
from tests.explainers.conftest import FAMILIES, Families, Jobs
from tests.models.tiny import SINGLES

TEN = Example("ten", "the movie was not very good but people walk slow")
TWELVE = Example("twelve", "the movie was not very good but people walk and run and")
FOUR_AND_FOUR = Example("pair", "people walk and run", None, "people sleep and walk")


def shapley(job: Job, index: int = 0) -> np.ndarray:
    """By definition, over all subsets."""
    n = int(job.encodings[index].content.sum())
    numbers = np.arange(2**n)
    kept = ((numbers[:, None] >> np.arange(n)) & 1).astype(np.bool_)
    asked = [np.zeros((0, int(e.content.sum())), dtype=np.bool_) for e in job.encodings]
    asked[index] = kept
    values = explained_values(job, asked, "remove")[index]
    scores = np.zeros(n)
    for token in range(n):
        others = [other for other in range(n) if other != token]
        for size in range(n):
            share = factorial(size) * factorial(n - size - 1) / factorial(n)
            for chosen in combinations(others, size):
                without = sum(1 << other for other in chosen)
                scores[token] += share * (values[without | 1 << token] - values[without])
    return scores


@pytest.mark.parametrize("space", ["logit", "probability"])
@pytest.mark.parametrize("name", ["bilstm", "bert", "roberta", "mlp"])
def test_kernel_shap_over_all_coalitions_is_exact(jobs: Jobs, name: str, space: str) -> None:
    job = jobs(name, examples=(SINGLES[2], SINGLES[1]), space=space)
    told = KernelShap().attribute(job)
    for index, encoding in enumerate(job.encodings):
        assert encoding.content.sum() <= 9
        np.testing.assert_allclose(told[index].values[encoding.content], shapley(job, index), atol=1e-5)


def test_kernel_shap_is_exact_on_ten_tokens(jobs: Jobs) -> None:
    job = jobs("gru", examples=(TEN,))
    (told,) = KernelShap(samples=1022).attribute(job)
    np.testing.assert_allclose(told.values, shapley(job), atol=1e-6)
    (coins,) = KernelShap(samples=1022, draw="coins").attribute(job)
    np.testing.assert_allclose(told.values, coins.values, atol=1e-6)


@pytest.mark.parametrize("name", ["bilstm", "bert"])
def test_tokens_of_both_texts_are_features_of_their_own(jobs: Jobs, name: str) -> None:
    """T2: equal positions and equal words of premise and hypothesis are not one feature."""
    job = jobs(name, pair=True, examples=(FOUR_AND_FOUR,))
    encoding = job.encodings[0]
    (told,) = KernelShap().attribute(job)
    exact = shapley(job)
    assert len(exact) == 8
    np.testing.assert_allclose(told.values[encoding.content], exact, atol=1e-5)
    (lime,) = Lime().attribute(job)
    for scores in (told.values, lime.values):
        first, second = (scores[encoding.content & (encoding.segments == side)] for side in (0, 1))
        assert abs(first[0] - second[0]) > 1e-4  # "people" and "people"


@pytest.mark.parametrize("draw", ["sizes", "coins"])
def test_sampled_kernel_shap_converges(jobs: Jobs, draw: str) -> None:
    exact = shapley(jobs("bilstm", examples=(TWELVE,)))
    errors = {}
    for samples in (60, 3000):
        told = []
        for seed in range(8):
            job = jobs("bilstm", examples=(TWELVE,), seed=seed)
            told += KernelShap(samples=samples, draw=draw).attribute(job)  # type: ignore[arg-type]
            assert told[-1].values.sum() == pytest.approx(exact.sum(), abs=1e-6)
        apart = np.stack([scores.values - exact for scores in told]) / np.abs(exact).max()
        errors[samples] = np.sqrt((apart**2).mean())
        assert np.abs(apart.mean(0)).max() < 4 * apart.std(0, ddof=1).max() / np.sqrt(8)  # no bias
    assert errors[3000] < (
        0.02 if draw == "sizes" else 0.1
    )  # coins hardly ever draw the sets that matter most
    assert errors[3000] < errors[60] / 3  # one over the root of the samples would be a seventh


@pytest.mark.parametrize("settings", [{}, {"draw": "coins", "kernel_width": 0.6}, {"penalty": 0.01}])
@pytest.mark.parametrize("name", ["bilstm", "bert"])
def test_lime_equals_ridge_on_the_same_samples(jobs: Jobs, name: str, settings: dict[str, object]) -> None:
    job = jobs(name, examples=(SINGLES[2], TWELVE))
    lime = make_explainer("lime", samples=150, **settings)
    assert isinstance(lime, Lime)
    told = lime.attribute(job)
    for index, encoding in enumerate(job.encodings):
        n = int(encoding.content.sum())
        drawn = draw_coalitions(n, 150, lime.draw, job.generator(index, "coalitions"))
        kept = np.vstack([np.zeros((1, n)), np.ones((1, n)), drawn.kept]).astype(np.bool_)
        asked = [np.zeros((0, int(e.content.sum())), dtype=np.bool_) for e in job.encodings]
        asked[index] = kept
        values = explained_values(job, asked, "remove")[index]
        norms = np.sqrt(kept.sum(1)) * np.sqrt(n)
        cosine = np.divide(kept.sum(1), norms, out=np.zeros(len(kept)), where=norms > 0)
        weights = np.exp(-((1 - cosine) ** 2) / (2 * lime.kernel_width**2)) * np.r_[1, 1, drawn.times]
        exact = Ridge(alpha=lime.penalty).fit(kept, values, sample_weight=weights)
        np.testing.assert_allclose(told[index].values[encoding.content], exact.coef_, atol=1e-6)
        assert (told[index].values[encoding.special] == 0).all()


def test_enumerated_lime_is_what_many_samples_lead_to(jobs: Jobs) -> None:
    job = jobs("bilstm", examples=(Example("six", "the plot is not very good"),))
    lime = Lime(samples=62, penalty=1e-6)
    (told,) = lime.attribute(job)
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 6, 40000)
    kept = generator.random((40000, 6)).argsort(1).argsort(1) < sizes[:, None]
    values = explained_values(job, [np.vstack([kept, np.ones((1, 6)), np.zeros((1, 6))]) > 0], "remove")[0]
    design = np.vstack([kept, np.ones((1, 6)), np.zeros((1, 6))])
    share = np.r_[np.full(40000, 62 / 40000), 1, 1]
    exact = Ridge(alpha=1e-6).fit(design, values, sample_weight=share * lime.kernel(design))
    np.testing.assert_allclose(told.values, exact.coef_, atol=0.01 * np.abs(exact.coef_).max())


@pytest.mark.parametrize("draw", ["sizes", "coins"])
@pytest.mark.parametrize("n", [2, 5, 9])
def test_chances_are_those_of_the_draw(n: int, draw: str) -> None:
    sizes = np.arange(0 if draw == "coins" else 1, n + 1 if draw == "coins" else n)
    counts = np.array([comb(n, int(size)) for size in sizes])
    assert (counts * np.exp(log_chance(sizes, n, draw))).sum() == pytest.approx(1)  # type: ignore[arg-type]


def test_coalitions_are_drawn_with_their_complements() -> None:
    drawn = draw_coalitions(30, 400, "sizes", np.random.default_rng(0))
    assert drawn.kept.shape == (400, 30)
    np.testing.assert_array_equal(drawn.kept[:200], ~drawn.kept[200:])
    sizes = drawn.kept.sum(1)
    assert sizes.min() >= 1
    assert sizes.max() <= 29
    assert sizes.std() > 7  # uniform sizes; coins would give 2.7
    assert draw_coalitions(30, 33, "coins", np.random.default_rng(0)).kept.shape == (33, 30)
    few = draw_coalitions(3, 10, "sizes", np.random.default_rng(0))
    assert len({row.tobytes() for row in few.kept}) == len(few.kept) == 6
    assert few.times.sum() == pytest.approx(10)


def test_systems_are_solved_alike_alone_and_stacked() -> None:
    generator = np.random.default_rng(0)
    kept = (generator.random((3, 40, 7)) < 0.5).astype(float)
    values, weights = generator.normal(size=(3, 40)), generator.random((3, 40))
    stacked = weighted_ridge(kept, values, weights, 0.7)
    for row in range(3):
        exact = Ridge(alpha=0.7).fit(kept[row], values[row], sample_weight=weights[row])
        np.testing.assert_allclose(stacked[row], exact.coef_, atol=1e-10)
    empty, whole = np.zeros(3), generator.normal(size=3)
    fitted = shapley_regression(kept, values, weights, empty, whole)
    np.testing.assert_allclose(fitted.sum(1), whole - empty, atol=1e-10)
    for row in range(3):  # the constrained least squares by its optimality system
        root = np.sqrt(weights[row])[:, None]
        design = kept[row] * root
        system = np.block([[design.T @ design, np.ones((7, 1))], [np.ones((1, 7)), np.zeros((1, 1))]])
        solved = np.linalg.solve(system, np.r_[design.T @ (values[row] * root[:, 0]), whole[row]])
        np.testing.assert_allclose(fitted[row], solved[:7], atol=1e-7)


@pytest.mark.parametrize("how", ["remove", "mask", "pad"])
@pytest.mark.parametrize("name", FAMILIES)
def test_leave_one_out_is_the_fall_of_the_output(jobs: Jobs, name: str, how: str) -> None:
    job = jobs(name)
    told = make_explainer("leave-one-out", perturbation=how).attribute(job)
    for index, encoding in enumerate(job.encodings):
        target = job.targets[index]
        for place in np.flatnonzero(encoding.content):
            kept = np.ones((2, len(encoding)), dtype=np.bool_)
            kept[1, place] = False
            (logits,) = job.engine.logits([encoding], [kept], how)  # type: ignore[arg-type]
            fall = logits[0, target] - logits[1, target]
            assert told[index].values[place] == pytest.approx(fall, abs=1e-6)


def test_variance_reduction_changes_noise_alone(jobs: Jobs) -> None:
    """Where nothing is drawn nothing changes; where it is, the errors shrink, most when the empty text is far off."""
    job = jobs("gru", examples=(TEN,))
    (one,), (other,) = (KernelShap(1022, variance_reduction=on).attribute(job) for on in (True, False))
    np.testing.assert_allclose(one.values, other.values, atol=1e-6)
    n, planted, jump = 60, 7, 5.0
    exact = np.full(n, jump / n)
    exact[planted] += 1.0
    errors = {}
    for reduced in (True, False):
        drawn = draw_coalitions(n, 1000, "sizes", np.random.default_rng(0))
        values = jump + drawn.kept[:, planted]  # any text at all is far from none, and one token counts
        shap = KernelShap(variance_reduction=reduced)
        weights = drawn.times * shap.kernel(drawn.kept.astype(float))
        group = (drawn.kept[None].astype(float), values[None].astype(float), weights[None])
        if reduced:
            left = group[1] - symmetric_part(*group)
            told = shapley_regression(group[0], left, group[2], np.zeros(1), np.zeros(1))[0] + (jump + 1) / n
        else:
            told = shapley_regression(*group, np.zeros(1), np.array([jump + 1.0]))[0]
        errors[reduced] = np.abs(told - exact).max()
    assert errors[True] < 0.1
    assert errors[True] < 0.2 * errors[False]


def test_both_fits_share_their_evaluations(jobs: Jobs) -> None:
    job = jobs("bert", examples=(TWELVE, SINGLES[0]))
    Lime(samples=200).attribute(job)
    evaluated = job.engine.counts.evaluated
    KernelShap(samples=200).attribute(job)
    assert job.engine.counts.evaluated == evaluated


def test_what_cannot_be_fitted_is_said(families: Families) -> None:
    model = families("bilstm")
    with pytest.raises(UserError, match="at least two samples"):
        explain(model, SINGLES, [make_explainer("lime", samples=1)])
    with pytest.raises(UserError, match="above zero"):
        explain(model, SINGLES, [make_explainer("lime", penalty=0.0)])
    with pytest.raises(UserError, match="no way to draw coalitions"):
        explain(model, [TWELVE], [make_explainer("lime", samples=20, draw="dice")])
    (told,) = explain(model, [TWELVE], [make_explainer("kernel-shap", samples=8)])
    assert "8 samples are too few for 12 tokens" in told.warnings[0]
    assert np.isfinite(told.scores).all()


def test_one_token_is_the_whole_change(jobs: Jobs) -> None:
    job = jobs("bert", examples=(SINGLES[1],))
    (shap,), (left,) = KernelShap().attribute(job), make_explainer("leave-one-out").attribute(job)
    np.testing.assert_allclose(shap.values, left.values, atol=1e-9)
    assert np.count_nonzero(shap.values) == 1
