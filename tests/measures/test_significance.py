from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
from scipy import stats

from rashomon.errors import UserError
from rashomon.measures import significance as sig


def test_summary_counts_and_spread() -> None:
    summary = sig.summarise([1.0, 2.0, math.nan, 6.0])
    assert (summary.n, summary.undefined) == (3, 1)
    assert summary.mean == pytest.approx(3.0)
    assert summary.std == pytest.approx(np.std([1, 2, 6], ddof=1))
    assert 1.0 <= summary.low < 3.0 < summary.high <= 6.0


def test_summaries_of_little() -> None:
    nothing, one = sig.summarise([math.nan]), sig.summarise([2.0])
    assert (nothing.n, nothing.undefined) == (0, 1)
    assert math.isnan(nothing.mean)
    assert (one.n, one.mean) == (1, 2.0)
    assert math.isnan(one.std)
    assert math.isnan(one.low)


def test_interval_equals_scipys_bootstrap() -> None:
    values = np.random.default_rng(0).gamma(2.0, size=300)
    ours = sig.summarise(values, seed=1, resamples=20_000)
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=2
    ).confidence_interval
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.03 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.03 * width)


def test_interval_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    summaries = sig.summarise_columns(rng.normal(size=(80, 400)), resamples=1000)
    covered = np.mean([s.low <= 0.0 <= s.high for s in summaries])
    assert 0.91 <= covered <= 0.98


def test_the_seed_decides_and_nothing_else() -> None:
    values = np.random.default_rng(0).normal(size=50)
    assert sig.summarise(values, seed=3) == sig.summarise(values, seed=3)
    assert sig.summarise(values, seed=3) != sig.summarise(values, seed=4)


def test_columns_agree_with_one_at_a_time() -> None:
    table = np.random.default_rng(0).normal(size=(60, 3))
    table[:10, 1] = np.nan
    table[:, 2] = np.nan
    first, second, third = sig.summarise_columns(table, seed=5)
    alone = sig.summarise(table[:, 0], seed=5)
    assert (first.n, first.mean, first.std) == (alone.n, alone.mean, alone.std)
    assert (first.low, first.high) == pytest.approx((alone.low, alone.high))
    assert (second.n, second.undefined) == (50, 10)
    assert second.mean == pytest.approx(np.nanmean(table[:, 1]))
    assert second.low < second.mean < second.high
    assert (third.n, third.undefined) == (0, 60)
    assert math.isnan(third.low)


def test_seeds_widen_the_interval_when_they_differ() -> None:
    rng = np.random.default_rng(0)
    groups = [rng.normal(loc=shift, size=200) for shift in (0.0, 1.0, 2.0)]
    groups[0][:3] = np.nan
    both = sig.summarise_seeds(groups)
    pooled = sig.summarise(np.concatenate(groups))
    assert (both.n, both.undefined) == (597, 3)
    assert both.mean == pytest.approx(np.mean([np.nanmean(group) for group in groups]))
    assert both.std == pytest.approx(np.std([np.nanmean(group) for group in groups], ddof=1))
    assert both.high - both.low > 3 * (pooled.high - pooled.low)


def test_seeds_of_one_value_each_are_a_bootstrap_over_seeds() -> None:
    values = np.random.default_rng(0).normal(size=40)
    nested = sig.summarise_seeds([[value] for value in values], resamples=20_000)
    flat = sig.summarise(values, resamples=20_000)
    assert nested.low == pytest.approx(flat.low, abs=0.03)
    assert nested.high == pytest.approx(flat.high, abs=0.03)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_permutation_test_is_exact_on_few_pairs(alternative: sig.Alternative) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.5, size=10), rng.normal(size=10)
    result = sig.permutation_test(a, b, alternative=alternative)
    signs = np.array(np.meshgrid(*[[-1, 1]] * 10)).reshape(10, -1)
    null = (a - b) @ signs / 10
    mean = (a - b).mean()
    greater, less = (null >= mean - 1e-12).mean(), (null <= mean + 1e-12).mean()
    expected = {"greater": greater, "less": less, "two-sided": min(1.0, 2 * min(greater, less))}
    assert result.p == pytest.approx(expected[alternative])
    assert result.difference == pytest.approx(mean)


def test_permutation_test_on_many_pairs_sees_a_difference_and_only_that() -> None:
    rng = np.random.default_rng(2)
    a = rng.normal(size=300)
    assert sig.permutation_test(a + 0.2 + 0.1 * rng.normal(size=300), a).p < 0.001
    assert sig.permutation_test(a + 0.1 * rng.permutation(np.repeat([1, -1], 150)), a).p > 0.5


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_wilcoxon_is_scipys_and_counts_what_it_left_out(alternative: sig.Alternative) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0.3, size=30), rng.normal(size=30)
    expected = stats.wilcoxon(a[1:], b[1:], alternative=alternative).pvalue
    a[0] = np.nan
    result = sig.wilcoxon_test(a, b, alternative)
    assert (result.n, result.undefined) == (29, 1)
    assert result.p == pytest.approx(expected)


def test_tests_of_nothing_are_undefined() -> None:
    assert math.isnan(sig.wilcoxon_test([1, 2], [1, 2]).p)
    assert math.isnan(sig.wilcoxon_test([], []).p)
    assert math.isnan(sig.permutation_test([1], [2]).p)
    assert math.isnan(sig.mcnemar_test([], []).p)


def test_mcnemar_is_a_binomial_test_on_the_disagreements() -> None:
    first = np.array([1] * 12 + [0] * 3 + [1] * 40)
    second = np.array([0] * 12 + [1] * 3 + [1] * 40)
    result = sig.mcnemar_test(first, second)
    assert result.n == 55
    assert result.difference == pytest.approx(9 / 55)
    assert result.p == pytest.approx(stats.binomtest(3, 15).pvalue)
    assert sig.mcnemar_test([1, 0], [1, 0]).p == 1.0


def test_holm_by_hand_with_an_undefined_test() -> None:
    family = sig.holm_bonferroni([0.01, math.nan, 0.04, 0.03])
    np.testing.assert_allclose(family.p, [0.03, math.nan, 0.06, 0.06])
    assert family.rejected.tolist() == [True, False, False, False]
    assert (family.n, family.undefined) == (3, 1)
    assert sig.holm_bonferroni([math.nan]).n == 0


def test_user_mistakes_are_one_sentence() -> None:
    with pytest.raises(UserError, match="same instances"):
        sig.wilcoxon_test([1, 2], [1])
    with pytest.raises(UserError, match="0 and 1"):
        sig.mcnemar_test([0.5], [0.2])
    with pytest.raises(UserError, match="table"):
        sig.summarise_columns([1.0, 2.0])


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize(
    "values", [[1, 1, -2, 2, 3], [0, 0.5, 0.5, -0.5, 1, 1], [1, 1, 1, 1, 1, 1], [-1, 0, -1, 2]]
)
def test_wilcoxon_with_ties_on_few_pairs_equals_scipy(values: list[float], alternative: str) -> None:
    expected = stats.wilcoxon(values, alternative=alternative)
    ours = sig.wilcoxon_test(values, np.zeros(len(values)), alternative=alternative)
    assert ours.p == pytest.approx(expected.pvalue)
    assert ours.statistic == pytest.approx(expected.statistic)


def test_columns_over_seeds_equal_one_column_after_the_other() -> None:
    rng = np.random.default_rng(4)
    tables = [rng.normal(size=(size, 3)) for size in (20, 30)]
    together = sig.summarise_seed_columns(tables)
    for column, summary in enumerate(together):
        alone = sig.summarise_seeds([table[:, column] for table in tables])
        assert astuple(summary) == pytest.approx(astuple(alone))
    tables[0][:, 1] = np.nan
    tables[1][:5, 1] = np.nan
    gaps = sig.summarise_seed_columns(tables)[1]
    assert (gaps.n, gaps.undefined) == (25, 25)
    assert gaps.mean == pytest.approx(np.nanmean(tables[1][:, 1]))
    assert gaps.low < gaps.mean < gaps.high


def _seeds(rng: np.random.Generator, effect: float, seeds: int, between: float) -> list[np.ndarray]:
    return [effect + rng.normal(scale=between) + rng.normal(size=50) for _ in range(seeds)]


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("between", [1.0, 0.3, 0.0])
def test_seeds_that_differ_by_chance_are_no_effect(seeds: int, between: float) -> None:
    rng = np.random.default_rng(seeds)
    trials = [_seeds(rng, 0.0, seeds, between) for _ in range(600)]
    found = np.mean([sig.hierarchical_test(groups, "greater").p < 0.05 for groups in trials])
    assert found <= 0.12
    if between == 1.0:
        pooled = [np.concatenate(groups) for groups in trials]
        fooled = [sig.wilcoxon_test(values, np.zeros_like(values), "greater").p < 0.05 for values in pooled]
        assert np.mean(fooled) > 0.3, "what pooling seeds and texts would say"


@pytest.mark.parametrize(("seeds", "between"), [(2, 0.0), (3, 0.05), (5, 0.3)])
def test_a_clear_effect_over_seeds_is_found(seeds: int, between: float) -> None:
    rng = np.random.default_rng(1)
    trials = [_seeds(rng, 1.5, seeds, between) for _ in range(100)]
    assert np.mean([sig.hierarchical_test(groups, "greater").p < 0.05 for groups in trials]) > 0.9
    assert np.mean([sig.hierarchical_test(groups, "less").p > 0.9 for groups in trials]) > 0.9


def test_the_standard_error_is_that_of_the_hierarchical_bootstrap() -> None:
    rng = np.random.default_rng(3)
    groups = [rng.normal(loc=shift, size=200) for shift in rng.normal(size=30)]
    found = sig.hierarchical_test(groups)
    drawn = sig.summarise_seeds(groups, resamples=20_000)
    error = found.difference / found.statistic
    assert drawn.high - drawn.low == pytest.approx(2 * 1.96 * error, rel=0.05)
    assert (found.test, found.n, found.difference) == ("hierarchical t", 6000, pytest.approx(drawn.mean))


def test_seeds_of_one_value_each_are_a_t_test() -> None:
    values = np.random.default_rng(4).normal(0.5, size=8)
    for side in ("greater", "less", "two-sided"):
        found = sig.hierarchical_test([[value] for value in values], side)  # type: ignore[arg-type]
        theirs = stats.ttest_1samp(values, 0.0, alternative=side)
        assert (found.statistic, found.p) == pytest.approx((theirs.statistic, theirs.pvalue))


def test_differences_that_never_vary() -> None:
    assert sig.hierarchical_test([[0.5] * 4, [0.5] * 4], "greater").p == pytest.approx(0.5**8)
    assert sig.hierarchical_test([[0.5] * 4, [0.5] * 4], "less").p == 1.0
    assert sig.hierarchical_test([[0.0] * 4, [0.0] * 4]).p == 1.0
    alone = sig.hierarchical_test([[1.0, 2.0], [math.nan]])
    assert (alone.n, alone.undefined, alone.difference) == (2, 1, 1.5)
    assert math.isnan(alone.p), "one seed says nothing about seeds"
