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
from rashomon.explainers.coalitions import Sampled, draw_coalitions, explained_values, log_chance
from rashomon.explainers.perturbation import KernelShap, Lime, shapley_regression, weighted_ridge
from rashomon.explainers.settling import settled, unsettled
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


@pytest.mark.parametrize("space", ["logit", "probability", "centred"])
@pytest.mark.parametrize("name", ["bilstm", "bert", "roberta", "mlp"])
def test_kernel_shap_over_all_coalitions_is_exact(jobs: Jobs, name: str, space: str) -> None:
    job = jobs(name, examples=(SINGLES[2], SINGLES[1]), space=space)
    attributions = KernelShap().attribute(job)
    for index, encoding in enumerate(job.encodings):
        assert encoding.content.sum() <= 9
        np.testing.assert_allclose(
            attributions[index].values[encoding.content], shapley(job, index), atol=1e-5
        )


def test_kernel_shap_is_exact_on_ten_tokens(jobs: Jobs) -> None:
    job = jobs("gru", examples=(TEN,))
    (attribution,) = KernelShap(samples=1022).attribute(job)
    np.testing.assert_allclose(attribution.values, shapley(job), atol=1e-6)
    (coins,) = KernelShap(samples=1022, draw="coins").attribute(job)
    np.testing.assert_allclose(attribution.values, coins.values, atol=1e-6)


@pytest.mark.parametrize("name", ["bilstm", "bert"])
def test_tokens_of_both_texts_are_features_of_their_own(jobs: Jobs, name: str) -> None:
    """T2: equal positions and equal words of premise and hypothesis are not one feature."""
    job = jobs(name, pair=True, examples=(FOUR_AND_FOUR,))
    encoding = job.encodings[0]
    (shap,) = KernelShap().attribute(job)
    exact = shapley(job)
    assert len(exact) == 8
    np.testing.assert_allclose(shap.values[encoding.content], exact, atol=1e-5)
    (lime,) = Lime().attribute(job)
    for scores in (shap.values, lime.values):
        first, second = (scores[encoding.content & (encoding.segments == side)] for side in (0, 1))
        assert abs(first[0] - second[0]) > 1e-4  # "people" and "people"


@pytest.mark.parametrize("draw", ["sizes", "coins"])
def test_sampled_kernel_shap_converges(jobs: Jobs, draw: str) -> None:
    exact = shapley(jobs("bilstm", examples=(TWELVE,)))
    errors = {}
    for samples in (60, 3000):
        attributions = []
        for seed in range(8):
            job = jobs("bilstm", examples=(TWELVE,), seed=seed)
            attributions += KernelShap(samples=samples, draw=draw).attribute(job)  # type: ignore[arg-type]
            assert attributions[-1].values.sum() == pytest.approx(exact.sum(), abs=1e-6)
        apart = np.stack([scores.values - exact for scores in attributions]) / np.abs(exact).max()
        errors[samples] = np.sqrt((apart**2).mean())
        assert np.abs(apart.mean(0)).max() < 4 * apart.std(0, ddof=1).max() / np.sqrt(8)  # no bias
    assert errors[3000] < (
        0.02 if draw == "sizes" else 0.1
    )  # coins hardly ever draw the sets that matter most
    # One over the root of the samples would be a seventh; coins hardly get there.
    assert errors[3000] < errors[60] / (3 if draw == "sizes" else 2)


@pytest.mark.parametrize("settings", [{}, {"draw": "coins", "kernel_width": 0.6}, {"penalty": 0.01}])
@pytest.mark.parametrize("name", ["bilstm", "bert"])
def test_lime_equals_ridge_on_the_same_samples(jobs: Jobs, name: str, settings: dict[str, object]) -> None:
    job = jobs(name, examples=(SINGLES[2], TWELVE))
    lime = make_explainer("lime", samples=150, **settings)
    assert isinstance(lime, Lime)
    attributions = lime.attribute(job)
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
        np.testing.assert_allclose(attributions[index].values[encoding.content], exact.coef_, atol=1e-6)
        assert (attributions[index].values[encoding.special] == 0).all()


def test_enumerated_lime_is_what_many_samples_lead_to(jobs: Jobs) -> None:
    job = jobs("bilstm", examples=(Example("six", "the plot is not very good"),))
    lime = Lime(samples=62, penalty=1e-6)
    (attribution,) = lime.attribute(job)
    generator = np.random.default_rng(0)
    sizes = generator.integers(1, 6, 40000)
    kept = generator.random((40000, 6)).argsort(1).argsort(1) < sizes[:, None]
    values = explained_values(job, [np.vstack([kept, np.ones((1, 6)), np.zeros((1, 6))]) > 0], "remove")[0]
    design = np.vstack([kept, np.ones((1, 6)), np.zeros((1, 6))])
    share = np.r_[np.full(40000, 62 / 40000), 1, 1]
    exact = Ridge(alpha=1e-6).fit(design, values, sample_weight=share * lime.kernel(design))
    np.testing.assert_allclose(attribution.values, exact.coef_, atol=0.01 * np.abs(exact.coef_).max())


@pytest.mark.parametrize("draw", ["sizes", "coins"])
@pytest.mark.parametrize("n", [2, 5, 9])
def test_chances_are_those_of_the_draw(n: int, draw: str) -> None:
    sizes = np.arange(0 if draw == "coins" else 1, n + 1 if draw == "coins" else n)
    counts = np.array([comb(n, int(size)) for size in sizes])
    assert (counts * np.exp(log_chance(sizes, n, draw))).sum() == pytest.approx(1)  # type: ignore[arg-type]


def test_coalitions_are_drawn_with_their_complements() -> None:
    drawn = draw_coalitions(30, 400, "sizes", np.random.default_rng(0))
    assert drawn.kept.shape == (400, 30)
    np.testing.assert_array_equal(drawn.kept[::2], ~drawn.kept[1::2])
    sizes = drawn.kept.sum(1)
    assert sizes.min() >= 1
    assert sizes.max() <= 29
    assert sizes.std() > 7  # uniform sizes; coins would give 2.7
    assert (
        np.bincount(sizes, minlength=30)[1:].std() < 4
    )  # stratified; without strata 3.6 by pairs, which add up
    assert draw_coalitions(30, 33, "coins", np.random.default_rng(0)).kept.shape == (33, 30)
    few = draw_coalitions(3, 10, "sizes", np.random.default_rng(0))
    assert few.enumerated
    assert len({row.tobytes() for row in few.kept}) == len(few.kept) == 6
    assert few.times.sum() == pytest.approx(10)


@pytest.mark.parametrize("draw", ["sizes", "coins"])
def test_fewer_samples_are_the_beginning_of_more(draw: str) -> None:
    many, few = (draw_coalitions(25, count, draw, np.random.default_rng(3)) for count in (500, 77))  # type: ignore[arg-type]
    np.testing.assert_array_equal(many.kept[:77], few.kept)


def test_fits_are_those_of_other_solvers() -> None:
    generator = np.random.default_rng(0)
    kept = (generator.random((40, 7)) < 0.5).astype(float)
    values, weights = generator.normal(size=40), generator.random(40)
    exact = Ridge(alpha=0.7).fit(kept, values, sample_weight=weights)
    np.testing.assert_allclose(weighted_ridge(kept, values, weights, 0.7)[0], exact.coef_, atol=1e-10)
    fitted, _ = shapley_regression(kept, values, weights, 1.3, kept[:, :0])
    assert fitted.sum() == pytest.approx(1.3)
    root = np.sqrt(weights)[:, None]  # the constrained least squares by its optimality system
    design = kept * root
    system = np.block([[design.T @ design, np.ones((7, 1))], [np.ones((1, 7)), np.zeros((1, 1))]])
    solved = np.linalg.solve(system, np.r_[design.T @ (values * root[:, 0]), 1.3])
    np.testing.assert_allclose(fitted, solved[:7], atol=1e-7)


def test_standard_errors_are_those_of_leaving_pairs_out() -> None:
    """The closed form against fits in which each pair of coalitions is really left out."""
    generator = np.random.default_rng(0)
    drawn = draw_coalitions(6, 40, "sizes", generator)
    kept, values = drawn.kept.astype(float), generator.normal(size=40)
    for explainer in (Lime(), KernelShap()):

        def fit(
            chosen: np.ndarray, explainer: Lime | KernelShap = explainer
        ) -> tuple[np.ndarray, np.ndarray]:
            return explainer.fit(Sampled(kept[chosen], values[chosen], np.ones(len(chosen)), 0.1, 0.9))

        scores, spread = fit(np.arange(40))
        left = np.stack([fit(np.delete(np.arange(40), [i, i + 1]))[0] for i in range(0, 40, 2)])
        np.testing.assert_allclose(spread, np.sqrt(((left - scores) ** 2).sum(0)), rtol=1e-3)


@pytest.mark.parametrize("method", ["lime", "kernel-shap"])
def test_spread_is_the_scatter_of_repeats(jobs: Jobs, method: str) -> None:
    attributions = []
    for seed in range(30):
        attributions += make_explainer(method, samples=120).attribute(
            jobs("bilstm", examples=(TWELVE,), seed=seed)
        )
    scatter = np.stack([scores.values for scores in attributions]).std(0, ddof=1)
    stated = np.sqrt(
        np.mean([scores.spread**2 for scores in attributions if scores.spread is not None], axis=0)
    )
    assert 0.8 < np.sqrt((stated**2).mean() / (scatter**2).mean()) < 1.35
    (exact,) = make_explainer(method).attribute(jobs("bilstm", examples=(SINGLES[2],)))
    assert exact.spread is not None
    assert not exact.spread.any()  # enumerated


@pytest.mark.parametrize("how", ["remove", "mask", "pad"])
@pytest.mark.parametrize("name", FAMILIES)
def test_leave_one_out_is_the_fall_of_the_output(jobs: Jobs, name: str, how: str) -> None:
    job = jobs(name)
    attributions = make_explainer("leave-one-out", perturbation=how).attribute(job)
    for index, encoding in enumerate(job.encodings):
        target = job.targets[index]
        for place in np.flatnonzero(encoding.content):
            kept = np.ones((2, len(encoding)), dtype=np.bool_)
            kept[1, place] = False
            (logits,) = job.engine.logits([encoding], [kept], how)  # type: ignore[arg-type]
            fall = logits[0, target] - logits[1, target]
            assert attributions[index].values[place] == pytest.approx(fall, abs=1e-6)


def test_variance_reduction_changes_noise_alone(jobs: Jobs) -> None:
    """Where nothing is drawn nothing changes; where it is, the errors shrink, most when the empty text is far off."""
    job = jobs("gru", examples=(TEN,))
    (one,), (other,) = (KernelShap(1022, variance_reduction=on).attribute(job) for on in (True, False))
    np.testing.assert_allclose(one.values, other.values, atol=1e-6)
    n, planted, jump = 60, 7, 5.0
    drawn = draw_coalitions(n, 1000, "sizes", np.random.default_rng(0))
    values = jump + drawn.kept[:, planted]  # any text at all is far from none, and one token counts
    exact = np.full(n, jump / n)
    exact[planted] += 1.0
    sampled = Sampled(drawn.kept.astype(float), values, drawn.times, 0.0, jump + 1)
    errors = {
        on: np.abs(KernelShap(variance_reduction=on).fit(sampled)[0] - exact).max() for on in (True, False)
    }
    assert errors[True] < 1e-6
    assert errors[False] > 0.1


def test_kernel_shap_of_an_additive_output_is_exact() -> None:
    """Forty tokens, two hundred of their 2^40 coalitions: nothing is left to chance where nothing interacts."""
    generator = np.random.default_rng(0)
    drawn = draw_coalitions(40, 200, "sizes", generator)
    effects = generator.normal(size=40)
    kept = drawn.kept.astype(float)
    sampled = Sampled(kept, kept @ effects + 3, drawn.times, 3.0, 3 + effects.sum())
    scores, spread = KernelShap().fit(sampled)
    np.testing.assert_allclose(scores, effects, atol=1e-6)
    assert spread.max() < 1e-6


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_short_texts_are_enumerated(n: int) -> None:
    """A game with interactions, against the definition."""
    game = np.random.default_rng(n).normal(size=2**n)
    drawn = draw_coalitions(n, 1000, "sizes", np.random.default_rng(0))
    assert len(drawn.kept) == 2**n - 2
    values = game[(drawn.kept * 2 ** np.arange(n)).sum(1)]
    scores, _ = KernelShap().fit(Sampled(drawn.kept.astype(float), values, drawn.times, game[0], game[-1]))
    exact = np.zeros(n)
    for token in range(n):
        for without in range(2**n):
            if not without >> token & 1:
                size = without.bit_count()
                share = factorial(size) * factorial(n - size - 1) / factorial(n)
                exact[token] += share * (game[without | 1 << token] - game[without])
    np.testing.assert_allclose(scores, exact, atol=1e-6)


def test_both_fits_share_their_evaluations(jobs: Jobs) -> None:
    job = jobs("bert", examples=(TWELVE, SINGLES[0]))
    Lime(samples=200).attribute(job)
    evaluated = job.engine.counts.evaluated
    KernelShap(samples=200).attribute(job)
    assert job.engine.counts.evaluated == evaluated
    KernelShap(samples=150).attribute(job)  # fewer are the beginning of more
    assert job.engine.counts.evaluated == evaluated


LONG = Example("long", "the movie was not very good but people walk and run and the plot is slow " * 2)


@pytest.mark.parametrize("method", ["lime", "kernel-shap"])
def test_auto_is_the_same_alone_and_under_any_budget(families: Families, method: str) -> None:
    """What was used, and that it did not do, are in the record."""
    examples = (LONG, TWELVE, SINGLES[2])
    model = families("transformer")
    explanations = explain(model, examples, [method])
    alone = [explain(model, [example], [method], token_budget=200)[0] for example in examples]
    for one, other in zip(explanations, alone, strict=True):
        assert one.configuration["samples"] == "auto"
        assert one.configuration["used"] == other.configuration["used"]
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)
        assert one.spread is not None
        scores, spread = one.scores[one.content], one.spread[one.content]
        open_tops = tuple(warning for warning in one.warnings if "not settled" in warning)
        assert open_tops == unsettled(scores, spread, one.configuration["used"])
        assert settled(scores, spread) or one.configuration["used"] == one.configuration["most"]
    assert explanations[2].configuration["used"] == 2 ** int(explanations[2].content.sum()) - 2
    if method == "lime":
        assert explanations[0].configuration["used"] < 1000
    (stopped,) = explain(model, [LONG], [make_explainer(method, most=60)])
    assert stopped.configuration["used"] == 60
    assert any("not settled after 60 samples" in warning for warning in stopped.warnings)


def test_auto_spends_on_the_hard_text_alone(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """An additive output is known at the first look; noise on top of it has to be averaged out."""
    hard = Example("hard", "people walk and run and the movie was not very good but the plot is slow")
    easy = Example("easy", "the plot is slow but the movie was very good and people walk and run not")

    def values(job: Job, kept: list[np.ndarray], how: str) -> list[np.ndarray]:
        made = []
        for encoding, rows in zip(job.encodings, kept, strict=True):
            noise = np.random.default_rng(len(rows)).normal(size=len(rows)) * 3
            additive = rows @ np.arange(rows.shape[1], dtype=float)
            made.append(additive + (noise if encoding.example_id == "hard" else 0.0))
        return made

    monkeypatch.setattr("rashomon.explainers.coalitions.explained_values", values)
    one, other = KernelShap().attribute(jobs("bilstm", examples=(easy, hard)))
    assert one.used == 100
    assert other.used is not None
    assert other.used > 100
    np.testing.assert_allclose(one.values, np.arange(len(one.values)), atol=1e-6)


def test_what_cannot_be_fitted_is_said(families: Families) -> None:
    model = families("bilstm")
    with pytest.raises(UserError, match="at least two samples"):
        explain(model, SINGLES, [make_explainer("lime", samples=1)])
    with pytest.raises(UserError, match="above zero"):
        explain(model, SINGLES, [make_explainer("lime", penalty=0.0)])
    with pytest.raises(UserError, match="no way to draw coalitions"):
        explain(model, [TWELVE], [make_explainer("lime", samples=20, draw="dice")])
    (explanation,) = explain(model, [TWELVE], [make_explainer("kernel-shap", samples=8)])
    assert "8 samples are too few for 12 tokens" in explanation.warnings[0]
    assert np.isfinite(explanation.scores).all()


def test_one_token_is_the_whole_change(jobs: Jobs) -> None:
    job = jobs("bert", examples=(SINGLES[1],))
    (shap,), (left,) = KernelShap().attribute(job), make_explainer("leave-one-out").attribute(job)
    np.testing.assert_allclose(shap.values, left.values, atol=1e-9)
    assert np.count_nonzero(shap.values) == 1
