from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import combinations
from math import comb, isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from rashomon.errors import UserError
from rashomon.measures import agreement, measures
from rashomon.measures.base import Floats, Ragged

from .strategies import pairs

SCIPY: dict[str, tuple[Callable[[Ragged, Ragged], Floats], Callable[..., object]]] = {
    "kendall": (agreement.kendall, stats.kendalltau),
    "spearman": (agreement.spearman, stats.spearmanr),
    "pearson": (agreement.pearson, stats.pearsonr),
    "weighted-tau": (agreement.weighted_tau, stats.weightedtau),
}


def by_scipy(function: Callable[..., object], x: Floats, y: Floats) -> float:
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(function(x, y).statistic)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", SCIPY)
@settings(max_examples=60, deadline=None)
@given(pair=pairs())
def test_equal_to_scipy_on_random_tied_and_constant_rows(name: str, pair: tuple[Ragged, Ragged]) -> None:
    ours, theirs = SCIPY[name]
    a, b = pair
    expected = [by_scipy(theirs, a.row(i), b.row(i)) for i in range(len(a))]
    np.testing.assert_allclose(ours(a, b), expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("tokens", [2, 63, 64, 65, 128, 129, 240, 700])
def test_kendall_matrix_around_the_word_size(tokens: int) -> None:
    rng = np.random.default_rng(tokens)
    scores = rng.normal(size=(4, 3, tokens))
    scores[1] = np.round(scores[1])
    scores[2] = np.round(scores[2], 1)
    matrix = agreement.kendall_matrix([Ragged.from_list(method) for method in scores])
    assert matrix.shape == (4, 4, 3)
    for a, b in combinations(range(4), 2):
        for n in range(3):
            expected = by_scipy(stats.kendalltau, scores[a, n], scores[b, n])
            np.testing.assert_allclose([matrix[a, b, n], matrix[b, a, n]], expected, atol=1e-12)


def test_kendall_matrix_counts_a_constant_method_as_undefined() -> None:
    ranked, constant = Ragged.from_list([[1, 2, 3]]), Ragged.from_list([[1, 1, 1]])
    matrix = agreement.kendall_matrix([ranked, constant])[:, :, 0]
    assert matrix[0, 0] == 1
    assert np.isnan([matrix[0, 1], matrix[1, 0], matrix[1, 1]]).all()


def test_toy_case_of_two_readings_of_the_same_scores() -> None:
    a = Ragged.from_list([[0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 1.00]])
    b = Ragged.from_list([[0.06, 0.05, 0.04, 0.03, 0.02, 0.01, 0.80]])
    assert round(agreement.kendall(a, b)[0], 2) == -0.43
    assert round(agreement.pearson(a, b)[0], 2) == 0.99


def test_padding_would_fake_agreement_and_cannot() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200, 30)) ** 2
    padded_a, padded_b = (np.pad(x, ((0, 0), (0, 30))) for x in (a, b))
    bare = agreement.kendall(Ragged.from_list(a), Ragged.from_list(b))
    faked = agreement.kendall(Ragged.from_list(padded_a), Ragged.from_list(padded_b))
    assert abs(bare.mean()) < 0.05
    assert faked.mean() > 0.5  # what a measure over padded rows would have said


def test_tiny_scores_keep_their_correlation() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 50))
    small = agreement.pearson(Ragged.from_list([x * 1e-180]), Ragged.from_list([y * 1e-180]))
    np.testing.assert_allclose(small, stats.pearsonr(x, y).statistic, atol=1e-12)


def brute_kendall_top(x: Floats, y: Floats, k: int) -> float:
    """The definition, word by word: union of the top k, the rest of each method tied at the bottom."""
    top_x, top_y = (set(sorted(range(len(v)), key=lambda i: (-v[i], i))[:k]) for v in (x, y))
    union = sorted(top_x | top_y)
    if len(union) == 1:
        return 1.0
    floor = min(x.min(), y.min()) - 1
    return by_scipy(
        stats.kendalltau,
        np.array([x[i] if i in top_x else floor for i in union]),
        np.array([y[i] if i in top_y else floor for i in union]),
    )


@settings(max_examples=60, deadline=None)
@given(pair=pairs(smallest=2, longest=30), k=st.integers(1, 12))
def test_top_k_kendall_is_its_definition(pair: tuple[Ragged, Ragged], k: int) -> None:
    a, b = pair
    expected = [brute_kendall_top(a.row(i), b.row(i), k) for i in range(len(a))]
    constant = [np.ptp(a.row(i)) == 0 or np.ptp(b.row(i)) == 0 for i in range(len(a))]
    np.testing.assert_allclose(
        agreement.kendall_top(a, b, k), np.where(constant, np.nan, expected), atol=1e-12, rtol=0
    )


def test_one_top_token_is_the_same_or_another() -> None:
    rng = np.random.default_rng(0)
    a, b = (Ragged.from_list(rng.normal(size=(200, 4))) for _ in range(2))
    same = [np.argmax(a.row(i)) == np.argmax(b.row(i)) for i in range(200)]
    for k in (1, 0.25):
        assert agreement.kendall_top(a, b, k).tolist() == np.where(same, 1.0, -1.0).tolist()
    assert measures.get("kendall-top-25pct")(a, b).mean() == pytest.approx(2 * np.mean(same) - 1)
    assert "same single token" in measures.get("kendall-top-25pct").summary
    constant = Ragged.from_list([[1.0, 1.0, 1.0, 1.0]] * 200)
    assert np.isnan(agreement.kendall_top(a, constant, 1)).all()
    single = Ragged.from_list([[1.0]])
    assert isnan(agreement.kendall_top(single, single, 1)[0])


def test_top_k_kendall_with_all_tokens_is_kendall() -> None:
    rng = np.random.default_rng(3)
    a, b = (Ragged.from_list([np.round(rng.normal(size=9), 1)]) for _ in range(2))
    np.testing.assert_allclose(agreement.kendall_top(a, b, 9), agreement.kendall(a, b))
    assert agreement.kendall_top(a, b, 50) == agreement.kendall(a, b)


def test_nonzero_kendall_drops_tokens_that_neither_method_names() -> None:
    a = Ragged.from_list([[0, 3, 1, 0, 0, 0], [0, 0, 5, 0, 0, 0]])
    b = Ragged.from_list([[0, 1, 2, 0, 4, 0], [0, 0, 7, 0, 0, 0]])
    expected = stats.kendalltau([3, 1, 0], [1, 2, 4]).statistic
    found = agreement.kendall_nonzero(a, b)
    assert found[0] == pytest.approx(expected)
    assert isnan(found[1])  # one token is left


@pytest.mark.parametrize(
    ("function", "k", "expected"),
    [
        (agreement.overlap_top, 2, 0.5),  # {0, 1} and {0, 2}
        (agreement.overlap_top, 0.5, 2 / 3),  # {0, 1, 2} and {0, 2, 4}
        (agreement.overlap_top, 6, float("nan")),  # the whole text
        (agreement.rank_agreement, 2, 0.5),
        (agreement.rank_agreement, 3, 1 / 3),
        (agreement.sign_top, 2, 0.5),  # {0, 3} by magnitude in both; token 3 changes sides
    ],
)
def test_overlaps_by_hand(function: Callable[..., Floats], k: int | float, expected: float) -> None:
    a = Ragged.from_list([[9.0, 5.0, 4.0, -8.0, 1.0, 0.0]])
    b = Ragged.from_list([[9.0, 1.0, 5.0, 8.0, 3.0, 0.0]] if function is agreement.sign_top else
                         [[9.0, 1.0, 5.0, -8.0, 3.0, 0.0]])  # fmt: skip
    np.testing.assert_allclose(function(a, b, k), [expected])


def test_of_equal_scores_the_first_token_is_taken() -> None:
    a = Ragged.from_list([[1, 1, 1, 0]])
    b = Ragged.from_list([[0, 0, 1, 1]])
    assert agreement.overlap_top(a, b, 2)[0] == 0.0  # {0, 1} and {2, 3}
    assert agreement.overlap_top(a, b, 1)[0] == 0.0  # {0} and {2}


def test_sign_agreement_leaves_out_common_zeros() -> None:
    a = Ragged.from_list([[1, -1, 0, 0, 2], [0, 0, 0, 0, 1]])
    b = Ragged.from_list([[3, 1, 0, 1, 1], [0, 0, 0, 0, 2]])
    np.testing.assert_allclose(agreement.sign_agreement(a, b), [0.5, 1.0])


def test_random_rankings_overlap_by_chance() -> None:
    rng = np.random.default_rng(0)
    a, b = (Ragged.from_list(rng.normal(size=(4000, 10))) for _ in range(2))
    assert agreement.overlap_top(a, b, 5).mean() == pytest.approx(0.5, abs=0.01)
    perfect = (agreement.overlap_top(a, b, 5) == 1).mean()
    assert perfect == pytest.approx(1 / comb(10, 5), abs=0.003)


@pytest.mark.parametrize("k", [0, -1, 1.5, 0.0, 1.0])
def test_a_wrong_k_is_refused(k: int | float) -> None:
    rows = Ragged.from_list([[1, 2]])
    with pytest.raises(UserError, match="top-k"):
        agreement.overlap_top(rows, rows, k)


def test_torch_keeps_its_threads() -> None:
    """Compiled loops and torch may share one OpenMP; a measure must not change how torch computes."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        agreement.kendall_matrix([Ragged.from_list([[1.0, 2.0, 3.0]]), Ragged.from_list([[3.0, 1.0, 2.0]])])
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_kappa_is_the_overlap_beyond_chance() -> None:
    """As scikit-learn's kappa of two raters who mark the same number of tokens."""
    rng = np.random.default_rng(4)
    lengths = [6, 9, 20, 50]
    a, b = (Ragged.from_list([rng.random(n) for n in lengths]) for _ in range(2))
    marks = [
        [np.isin(np.arange(n), np.argsort(-scores.row(i))[:5]) for i, n in enumerate(lengths)]
        for scores in (a, b)
    ]
    expected = [cohen_kappa_score(one, other) for one, other in zip(*marks, strict=True)]
    np.testing.assert_allclose(agreement.kappa_top(a, b, 5), expected, atol=1e-12)
    assert agreement.kappa_top(a, a, 5).tolist() == [1.0] * 4
    assert isnan(agreement.kappa_top(*[Ragged.from_list([[1.0, 2.0, 3.0]])] * 2, 3)[0])
    many = [Ragged.from_list(list(rng.random((2000, 8)))) for _ in range(2)]
    assert agreement.kappa_top(*many, 5).mean() == pytest.approx(0, abs=0.03)


def test_rounding_leads_to_no_correlation_beyond_one() -> None:
    rows = Ragged.from_list(np.random.default_rng(0).normal(size=(3000, 7)))
    opposite = rows.with_values(-rows.values)
    assert agreement.pearson(rows, rows).max() == 1.0
    assert agreement.pearson(rows, opposite).min() == -1.0


def test_the_measures_of_tops_say_what_they_span() -> None:
    spans = {"kendall": -1, "overlap": 0, "kappa": -1, "rank": 0, "sign": 0}
    for name, low in spans.items():
        found = measures.get(f"{name}-top-5")
        assert (found.low, found.high, found.better) == (low, 1, "higher")
        assert ("k covers the text" in found.undefined) == (name in ("overlap", "kappa"))
