from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from rashomon.errors import UserError
from rashomon.measures import significance as sig
from rashomon.measures.intervals import summarise_seeds


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
    assert sig.permutation_test(a + 1, a).p == 2 / 10_000, "the least that 9999 resamples can say"
    assert sig.permutation_test(a + 0.1 * rng.permutation(np.repeat([1, -1], 150)), a).p > 0.5


@pytest.mark.parametrize("changed", [0, 1, 2, 9])
def test_equal_pairs_change_nothing_but_the_mean(changed: int) -> None:
    few = np.linspace(0.2, 1.0, 9)[:changed]
    many = np.concatenate([few, np.zeros(600)])
    tested = sig.permutation_test(many, np.zeros_like(many), alternative="greater")
    assert tested.p == 0.5**changed, "all flips were counted, however many pairs are equal"
    assert (tested.n, tested.difference) == (600 + changed, pytest.approx(few.sum() / (600 + changed)))


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
    assert sig.mcnemar_test([], []).n == 0


def test_mcnemar_is_a_binomial_test_on_the_disagreements() -> None:
    first = np.array([1] * 12 + [0] * 3 + [1] * 40)
    second = np.array([0] * 12 + [1] * 3 + [1] * 40)
    result = sig.mcnemar_test(first, second)
    assert result.n == 55
    assert result.difference == pytest.approx(9 / 55)
    assert result.p == pytest.approx(stats.binomtest(3, 15).pvalue)
    theirs = mcnemar([[40, 12], [3, 0]], exact=True)
    assert (result.statistic, result.p) == pytest.approx((theirs.statistic, theirs.pvalue))
    assert sig.mcnemar_test([1, 0], [1, 0]).p == 1.0
    assert sig.mcnemar_test([1, 0], [0, 1]).p == 1.0
    assert sig.mcnemar_test([1], [0]).p == 1.0, "one instance is few, and still a test"


def test_holm_by_hand_with_an_undefined_test() -> None:
    family = sig.holm_bonferroni([0.01, math.nan, 0.04, 0.03])
    np.testing.assert_allclose(family.p, [0.03, math.nan, 0.06, 0.06])
    assert family.rejected.tolist() == [True, False, False, False]
    assert (family.n, family.undefined) == (3, 1)
    assert sig.holm_bonferroni([math.nan]).n == 0
    assert sig.holm_bonferroni([0.05]).rejected.tolist() == [True], "at the level is still within it"


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_holm_equals_statsmodels(count: int) -> None:
    p = np.random.default_rng(count).beta(0.3, 2.0, size=count).round(2)  # with ties
    rejected, adjusted, _, _ = multipletests(p, 0.05, method="holm")
    family = sig.holm_bonferroni(p)
    np.testing.assert_allclose(family.p, adjusted)
    assert family.rejected.tolist() == rejected.tolist()


def test_user_mistakes_are_one_sentence() -> None:
    with pytest.raises(UserError, match="same instances"):
        sig.wilcoxon_test([1, 2], [1])
    with pytest.raises(UserError, match="0 and 1"):
        sig.mcnemar_test([0.5], [0.2])
    with pytest.raises(UserError, match="same seeds"):
        sig.compare_variants([[1.0]], [], [["a"]])
    with pytest.raises(UserError, match="same instances"):
        sig.compare_variants([[1.0]], [[1.0, 2.0]], [["a"]])


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize(
    "values", [[1, 1, -2, 2, 3], [0, 0.5, 0.5, -0.5, 1, 1], [1, 1, 1, 1, 1, 1], [-1, 0, -1, 2]]
)
def test_wilcoxon_with_ties_on_few_pairs_equals_scipy(values: list[float], alternative: str) -> None:
    expected = stats.wilcoxon(values, alternative=alternative)
    ours = sig.wilcoxon_test(values, np.zeros(len(values)), alternative=alternative)
    assert ours.p == pytest.approx(expected.pvalue)
    assert ours.statistic == pytest.approx(expected.statistic)


def _seeds(rng: np.random.Generator, effect: float, seeds: int, between: float) -> list[np.ndarray]:
    return [effect + rng.normal(scale=between) + rng.normal(size=50) for _ in range(seeds)]


@pytest.mark.parametrize("seeds", [2, 3, 5])
@pytest.mark.parametrize("between", [1.0, 0.3, 0.0])
def test_seeds_that_differ_by_chance_are_no_effect(seeds: int, between: float) -> None:
    rng = np.random.default_rng(seeds)
    trials = [_seeds(rng, 0.0, seeds, between) for _ in range(600)]
    found = np.mean([sig.hierarchical_test(groups, "greater").p < 0.05 for groups in trials])
    assert 0.03 <= found <= 0.07
    if between == 1.0:
        pooled = [np.concatenate(groups) for groups in trials]
        fooled = [sig.wilcoxon_test(values, np.zeros_like(values), "greater").p < 0.05 for values in pooled]
        assert np.mean(fooled) > 0.3, "what pooling seeds and texts would say"


@pytest.mark.parametrize(("seeds", "between"), [(3, 0.05), (5, 0.3)])
def test_a_clear_effect_over_seeds_is_found(seeds: int, between: float) -> None:
    rng = np.random.default_rng(1)
    trials = [_seeds(rng, 1.5, seeds, between) for _ in range(100)]
    assert np.mean([sig.hierarchical_test(groups, "greater").p < 0.05 for groups in trials]) > 0.9
    assert np.mean([sig.hierarchical_test(groups, "less").p > 0.9 for groups in trials]) > 0.9


def test_seeds_of_one_value_each_are_a_t_test() -> None:
    values = np.random.default_rng(4).normal(0.5, size=8)
    for side in ("greater", "less", "two-sided"):
        found = sig.hierarchical_test([[value] for value in values], side)  # type: ignore[arg-type]
        theirs = stats.ttest_1samp(values, 0.0, alternative=side)
        assert (found.statistic, found.p) == pytest.approx((theirs.statistic, theirs.pvalue))


def test_texts_that_all_seeds_share_make_two_seeds_enough_for_a_clear_effect() -> None:
    rng = np.random.default_rng(7)
    text = 0.5 + rng.normal(size=60)
    groups = [text + 0.1 * rng.normal(size=60) for _ in range(2)]
    known = sig.hierarchical_test(groups, "greater", [range(60)] * 2)
    one = stats.ttest_1samp(np.mean(groups, axis=0), 0.0, alternative="greater")
    assert known.p < 0.01
    assert known.p == pytest.approx(one.pvalue, rel=0.5), "as sure as their mean over texts"
    assert (known.n, known.undefined, known.test) == (120, 0, "hierarchical t")


def test_sides_and_scale() -> None:
    rng = np.random.default_rng(8)
    groups, texts = list(0.3 + rng.normal(size=(3, 30))), [range(30)] * 3
    greater, less, both = (
        sig.hierarchical_test(groups, side, texts).p  # type: ignore[arg-type]
        for side in ("greater", "less", "two-sided")
    )
    assert greater + less == pytest.approx(1.0)
    assert both == pytest.approx(2 * min(greater, less))
    assert sig.hierarchical_test([1000 * group for group in groups], "greater", texts).p == pytest.approx(
        greater
    )


def test_two_variants_over_seeds_and_texts() -> None:
    rng = np.random.default_rng(9)
    second = rng.normal(size=(4, 25))
    first = second + 0.4 + 0.1 * rng.normal(size=(4, 25))
    first[0, 0] = math.nan
    found = sig.compare_variants(list(first), list(second), [range(25)] * 4)
    test = sig.hierarchical_test(list(first - second), texts=[range(25)] * 4)
    whole = summarise_seeds(list(first - second), [range(25)] * 4)
    assert (found.seeds, found.n, found.undefined, found.interval) == (4, 99, 1, "95 %")
    assert (found.difference, found.p, found.test) == (test.difference, test.p, test.test)
    assert (found.low, found.high) == (whole.low, whole.high)
    assert found.low < 0.4 < found.high
    assert list(found.row()) == sig.PairedDifference.columns()


def test_two_variants_of_one_seed_are_tested_over_texts() -> None:
    rng = np.random.default_rng(10)
    first, second = rng.normal(size=(2, 30))
    found = sig.compare_variants([first], [second], [range(30)])
    assert (found.seeds, found.test) == (1, "permutation")
    assert found.p == sig.permutation_test(first, second).p
    assert sig.compare_variants([first, [math.nan]], [second, [1.0]], [range(30), [0]]).seeds == 1


def test_differences_that_never_vary() -> None:
    assert sig.hierarchical_test([[0.5] * 4, [0.5] * 4], "greater").p == pytest.approx(0.5**8)
    assert sig.hierarchical_test([[0.5] * 4, [0.5] * 4], "less").p == 1.0
    assert sig.hierarchical_test([[0.0] * 4, [0.0] * 4]).p == 1.0
    assert sig.hierarchical_test([[0.5] * 4, [0.5] * 4]).p == pytest.approx(2 * 0.5**8)
    assert sig.hierarchical_test([[-0.5] * 4, [-0.5] * 4], "less").p == pytest.approx(0.5**8)
    shared = sig.hierarchical_test([[0.5] * 4] * 2, "greater", [range(4)] * 2)
    assert shared.p == pytest.approx(0.5**4), "the same four texts are four trials, not eight"
    assert math.isnan(sig.hierarchical_test([[0.5], [0.7]], texts=[["a"], ["a"]]).p), "one text is no sample"
    two = sig.hierarchical_test([[0.5, 0.75], [0.75, 1.5]], texts=[["a", "b"]] * 2)
    assert 0 < two.p < 1, "two seeds on two texts are few, and still a sample"
    alone = sig.hierarchical_test([[1.0, 2.0], [math.nan]])
    assert (alone.n, alone.undefined, alone.difference) == (2, 1, 1.5)
    assert math.isnan(alone.p), "one seed says nothing about seeds"
