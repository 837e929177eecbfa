from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from rashomon.errors import UserError
from rashomon.measures import intervals
from rashomon.measures.base import Floats
from rashomon.measures.intervals import summarise, summarise_seed_columns, summarise_seeds


def test_counts_spread_and_the_interval_of_a_t_test() -> None:
    summary = summarise([1.0, 2.0, math.nan, 6.0])
    theirs = stats.ttest_1samp([1.0, 2.0, 6.0], 0.0).confidence_interval(0.95)
    assert (summary.n, summary.undefined, summary.kind) == (3, 1, "95 %")
    assert summary.mean == pytest.approx(3.0)
    assert summary.std == pytest.approx(np.std([1, 2, 6], ddof=1))
    assert (summary.low, summary.high) == pytest.approx((theirs.low, theirs.high))


def test_little_has_a_range_or_nothing() -> None:
    nothing, one, two = summarise([math.nan]), summarise([2.0]), summarise([2.0, 3.0])
    assert (nothing.n, nothing.undefined, nothing.kind) == (0, 1, "none")
    assert (one.n, one.mean, one.kind) == (1, 2.0, "none")
    assert all(math.isnan(x) for x in (nothing.mean, nothing.std, nothing.low, one.std, one.low, one.high))
    assert (two.mean, two.low, two.high, two.kind) == (2.5, 2.0, 3.0, "range")
    assert summarise([]).n == summarise_seeds([]).n == 0


def test_under_three_seeds_the_range_of_their_means_is_given() -> None:
    summary = summarise_seeds([[0.0, 2.0, 4.0], [3.0, 5.0], [math.nan]], texts=[[0, 1, 2], [0, 1], [0]])
    assert (summary.n, summary.undefined, summary.kind) == (5, 1, "range")
    assert (summary.mean, summary.low, summary.high) == (3.0, 2.0, 4.0)
    assert summary.std == pytest.approx(np.std([0, 2, 4, 3, 5], ddof=1))


def test_one_number_a_seed_is_a_t_interval_however_it_is_given() -> None:
    values = np.random.default_rng(0).normal(size=5)
    theirs = stats.t.interval(0.95, 4, loc=values.mean(), scale=stats.sem(values))
    for summary in (summarise(values), summarise_seeds([[value] for value in values])):
        assert (summary.low, summary.high) == pytest.approx(theirs)


def test_seeds_with_other_texts_are_a_t_interval_of_their_means() -> None:
    rng = np.random.default_rng(1)
    groups = [rng.normal(size=n) for n in (8, 5, 12, 3)]
    means = [group.mean() for group in groups]
    theirs = stats.t.interval(0.95, 3, loc=np.mean(means), scale=stats.sem(means))
    summary = summarise_seeds(groups)
    assert (summary.low, summary.high) == pytest.approx(theirs)


def _by_anova(values: Floats) -> tuple[float, float]:
    """Standard error and degrees of freedom from the mean squares of a two-way analysis of variance."""
    seeds, texts = values.shape
    frame = pd.DataFrame([{"s": s, "t": t, "y": values[s, t]} for s in range(seeds) for t in range(texts)])
    squares = anova_lm(ols("y ~ C(s) + C(t)", frame).fit())
    of_seed, of_text, noise = (squares["sum_sq"] / squares["df"])[["C(s)", "C(t)", "Residual"]] / values.size
    shared = max(of_text - noise, 0.0)
    damped = shared * (seeds - 1) / (seeds + 1)
    freedom = (of_seed + damped) ** 2 / (of_seed**2 / (seeds - 1) + damped**2 / (texts - 1))
    return math.sqrt(of_seed + shared), freedom


@pytest.mark.parametrize(("seeds", "texts"), [(2, 12), (3, 7), (5, 20)])
@pytest.mark.parametrize("of_text", [0.0, 0.7, 3.0])
def test_the_same_texts_equal_an_analysis_of_variance(seeds: int, texts: int, of_text: float) -> None:
    rng = np.random.default_rng(seeds)
    values = (
        rng.normal(size=(seeds, texts)) + of_text * rng.normal(size=texts) + 0.3 * rng.normal(size=(seeds, 1))
    )
    found = intervals.standard_errors(values[:, :, None])
    error, freedom = _by_anova(values)
    assert float(found.error[0]) == pytest.approx(error)
    assert float(found.freedom[0]) == pytest.approx(freedom)


def test_texts_that_some_seeds_share_by_brute_force() -> None:
    """The covariance of each pair of seeds over its common texts, unbiased, as their means have it."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=(3, 9)) + 2 * rng.normal(size=9)
    values[0, :2] = values[1, 3:5] = values[2, 7:] = np.nan
    shared = []
    for one, other in ((0, 1), (0, 2), (1, 2)):
        a, b = values[one], values[other]
        both = np.isfinite(a) & np.isfinite(b)
        n1, n2, n12 = np.isfinite(a).sum(), np.isfinite(b).sum(), both.sum()
        products = ((a - np.nanmean(a)) * (b - np.nanmean(b)))[both].sum()
        covariance = products / (n12 * (1 - 1 / n1 - 1 / n2 + n12 / (n1 * n2)))
        shared.append(covariance * n12 / (n1 * n2))
    between = np.var(np.nanmean(values, axis=1), ddof=1) / 3
    found = intervals.standard_errors(values[:, :, None])
    assert float(found.error[0]) == pytest.approx(math.sqrt(between + np.mean(shared)))
    assert (found.seeds.tolist(), found.texts.tolist()) == ([3], [9])


def test_one_text_in_common_by_hand() -> None:
    values = np.array([[1.0, 5.0, np.nan], [np.nan, 8.0, 2.0]])
    found = intervals.standard_errors(values[:, :, None])
    between, shared = (5.0 - 3.0) ** 2 / 2 / 2, 2.0 * 3.0 / (2 * 2 - 2 - 2 + 1)
    assert float(found.error[0]) == pytest.approx(math.sqrt(between + shared))


def test_a_seed_without_values_counts_for_nothing() -> None:
    rng = np.random.default_rng(7)
    values = rng.normal(size=(3, 10, 1)) + 2 * rng.normal(size=(1, 10, 1))
    alone = intervals.standard_errors(values)
    more = intervals.standard_errors(np.concatenate([values, np.full((2, 10, 1), np.nan)]))
    assert (more.error[0], more.freedom[0], more.seeds[0]) == pytest.approx(
        (alone.error[0], alone.freedom[0], 3)
    )


def test_the_covariance_of_partly_shared_texts_is_unbiased() -> None:
    rng = np.random.default_rng(3)
    values = 1.5 * rng.normal(size=(1, 8, 20_000)) + rng.normal(size=(2, 8, 20_000))
    values[0, 5:], values[1, :2] = np.nan, np.nan
    means = np.nanmean(values, axis=1)
    found = intervals._shared(values, means, np.isfinite(values))
    sums = np.where(np.isfinite(values), values - means[:, None], 0.0)
    raw = sums.prod(0).sum(0) / (5 * 6 - 5 - 6 + 3)
    assert raw.mean() == pytest.approx(np.cov(means)[0, 1], rel=0.05)
    np.testing.assert_allclose(found, np.maximum(raw, 0.0))


def test_the_scale_changes_nothing_but_the_scale() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=(4, 15, 1)) + rng.normal(size=(1, 15, 1)) + 5.0
    small, large = (summarise_seed_columns(scale * values)[0] for scale in (1e-3, 1e3))
    assert (large.low, large.high) == pytest.approx((1e6 * small.low, 1e6 * small.high))


def test_many_columns_equal_one_after_the_other() -> None:
    rng = np.random.default_rng(5)
    table = rng.normal(size=(3, 20, 4))
    table[0, :, 1] = table[1, :5, 1] = np.nan
    table[:, :, 2] = np.nan
    table[1:, :, 3] = np.nan
    for column, summary in enumerate(summarise_seed_columns(table)):
        groups = [table[seed, :, column] for seed in range(3)]
        alone = summarise_seeds(groups, [range(20)] * 3)
        assert astuple(alone)[:-1] == pytest.approx(astuple(summary)[:-1], nan_ok=True)
        assert alone.kind == summary.kind
    kinds = [summary.kind for summary in summarise_seed_columns(table)]
    assert kinds == ["95 %", "range", "none", "95 %"]


def test_more_seeds_do_not_average_out_what_the_texts_have() -> None:
    text = np.random.default_rng(6).normal(size=50)
    one = summarise(text)
    nine = summarise_seeds([text] * 9, [range(50)] * 9)
    assert nine.high - nine.low == pytest.approx(one.high - one.low, rel=0.01)
    unknown = summarise_seeds([text] * 9)
    assert unknown.high == pytest.approx(unknown.low), (
        "what would be said if nobody knew that the texts are the same"
    )


def test_one_text_says_nothing_about_texts() -> None:
    shared = summarise_seeds([[0.1], [0.2], [0.4]], [["a"]] * 3)
    assert (shared.kind, shared.low, shared.high) == ("range", 0.1, 0.4)
    two = summarise_seeds([[0.1, 0.3]] * 4, [["a", "b"]] * 4)
    assert two.kind == "range"
    assert summarise_seeds([[0.1], [0.2]], [["a"], ["a"]]).kind == "range"


def test_what_never_varies_has_no_width_and_no_spread() -> None:
    same = summarise([0.1 + 0.2, 0.3, 0.3, 0.3])
    assert same.std == 0.0
    assert same.high - same.low == pytest.approx(0.0, abs=1e-15)
    assert summarise_seeds([[0.5, 0.5]] * 3).low == 0.5


def test_no_interval_beyond_what_is_possible() -> None:
    summary = summarise([0.9, 0.98, 1.0])
    assert summary.high > 1.0
    assert summary.within(0.0, 1.0).high == 1.0
    assert summary.within(0.0, 1.0).low == summary.low
    assert summarise([-1.0, 0.0, 0.2]).within(-1.0, 1.0).low == -1.0
    assert summarise([1.0]).within(0.0, 1.0).kind == "none"


def test_user_mistakes_are_one_sentence() -> None:
    with pytest.raises(UserError, match="table"):
        summarise_seed_columns([[1.0, 2.0]])
    with pytest.raises(UserError, match="needs the text"):
        summarise_seeds([[1.0, 2.0]], [["a"]])
    with pytest.raises(UserError, match="two values for one text"):
        summarise_seeds([[1.0, 2.0]], [["a", "a"]])
