from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy

from rashomon.errors import UserError
from rashomon.measures import divergence
from rashomon.measures.base import Floats, Ragged
from rashomon.measures.divergence import (
    LN2,
    attefa_loss,
    attefa_score,
    jsd,
    kl,
    matched_heads_jsd,
    mean_pairwise_jsd,
    normalised_entropy,
    scaled_jsd,
    scaled_tvd,
    tvd,
)

ROWS = {"tvd": (tvd, divergence.tvd_rows), "kl": (kl, divergence.kl_rows), "jsd": (jsd, divergence.jsd_rows)}


def distributions(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).dirichlet(np.full(shape[-1], 0.7), size=shape[:-1])


def test_closed_forms() -> None:
    p, q, half = np.array([1.0, 0.0]), np.array([0.0, 1.0]), np.array([0.5, 0.5])
    assert tvd(p, q) == pytest.approx(1.0)
    assert tvd(p, half) == pytest.approx(0.5)
    assert jsd(p, q) == pytest.approx(LN2, abs=1e-9)
    assert jsd(p, q) <= LN2
    assert kl(p, half) == pytest.approx(LN2, abs=1e-9)
    assert kl(p, q) == pytest.approx(-math.log(1e-10), abs=1e-6)  # the log's floor
    assert kl(half, half) == jsd(half, half) == tvd(p, p) == 0.0
    assert tvd(np.array([0.8, 0.1, 0.1]), np.array([0.1, 0.1, 0.8])) == pytest.approx(0.7)  # three classes


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 60))
def test_equal_to_scipy(seed: int, n: int) -> None:
    p, q = distributions(seed, 2, n) + 1e-4
    p, q = p / p.sum(), q / q.sum()
    assert kl(p, q) == pytest.approx(entropy(p, q), abs=1e-5)
    assert jsd(p, q) == pytest.approx(jensenshannon(p, q) ** 2, abs=1e-6)
    assert 0.0 <= jsd(p, q) <= LN2
    assert jsd(p, q) == pytest.approx(float(jsd(q, p)), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), lengths=st.lists(st.integers(2, 60), min_size=1, max_size=8))
def test_normalised_entropy_equals_scipys_and_knows_its_ends(seed: int, lengths: list[int]) -> None:
    rows = [distributions(seed + i, 1, n)[0] for i, n in enumerate(lengths)]
    found = normalised_entropy(Ragged.from_list(rows))
    assert found.tolist() == pytest.approx([entropy(row) / math.log(len(row)) for row in rows], abs=1e-9)
    order = np.random.default_rng(seed)
    shuffled = normalised_entropy(Ragged.from_list([order.permutation(row) for row in rows]))
    np.testing.assert_allclose(found, shuffled, atol=1e-12)
    assert normalised_entropy(Ragged.from_list([np.full(n, 1 / n) for n in lengths])) == pytest.approx(1.0)
    assert normalised_entropy(Ragged.from_list([np.eye(n)[0] for n in lengths])).tolist() == [0.0] * len(
        lengths
    )


def test_normalised_entropy_is_undefined_where_nothing_is_distributed() -> None:
    rows = Ragged.from_list([[1.0], [], [0.5, 0.6], [1.5, -0.5], [math.nan, 1.0], [0.5, 0.5]])
    assert normalised_entropy(rows).tolist() == pytest.approx([math.nan] * 5 + [1.0], nan_ok=True)


@pytest.mark.parametrize("name", ROWS)
def test_ragged_padded_numpy_and_torch_say_the_same(name: str) -> None:
    over_axis, over_rows = ROWS[name]
    lengths = [1, 3, 7, 20]
    pairs = [distributions(n, 2, n) if n > 1 else np.ones((2, 1)) for n in lengths]
    expected = over_rows(Ragged.from_list(p[0] for p in pairs), Ragged.from_list(p[1] for p in pairs))
    padded = np.full((2, len(lengths), 20), np.nan)  # padding may hold anything
    for i, pair in enumerate(pairs):
        padded[:, i, : pair.shape[1]] = pair
    mask = np.arange(20) < np.array(lengths)[:, None]
    np.testing.assert_allclose(over_axis(padded[0], padded[1], mask), expected, atol=1e-12)
    tensors = torch.tensor(padded)
    np.testing.assert_allclose(over_axis(tensors[0], tensors[1], torch.tensor(mask)), expected, atol=1e-12)


@pytest.mark.parametrize("function", [tvd, kl, jsd])
def test_gradients_are_finite_with_zeros_and_padding(function) -> None:  # type: ignore[no-untyped-def]
    p = torch.tensor([[0.5, 0.5, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]], requires_grad=True)
    q = torch.tensor([[0.0, 0.2, 0.8, 0.0], [0.0, 0.0, 1.0, 0.0]], requires_grad=True)
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 0]])
    function(p, q, mask).sum().backward()
    for given_ in (p, q):
        assert given_.grad is not None
        assert torch.isfinite(given_.grad).all()
        assert (given_.grad[:, 3] == 0).all()
        assert (given_.grad[:, :3] != 0).any()


def test_gradient_of_jsd_is_right() -> None:
    p, q = (torch.tensor(x, requires_grad=True) for x in distributions(3, 2, 5))
    assert torch.autograd.gradcheck(jsd, (p, q))


def test_rows_that_are_no_distribution_are_undefined() -> None:
    good = Ragged.from_list([[0.5, 0.5]] * 4)
    bad = Ragged.from_list([[0.5, 0.6], [1.5, -0.5], [math.nan, 1.0], [0.5, 0.5]])
    for _, over_rows in ROWS.values():
        assert np.isnan(over_rows(good, bad)).tolist() == [True, True, True, False]


def test_rounding_leads_nowhere_beyond_the_ends() -> None:
    """Sums may be off by a thousandth; what is told of them stays within its bounds."""
    above, below = 1.0005, 0.4996
    apart = Ragged.from_list([[above, 0.0]]), Ragged.from_list([[0.0, above]])
    assert divergence.tvd_rows(*apart).tolist() == [1.0]
    assert divergence.jsd_rows(*apart).tolist() == [LN2]
    assert normalised_entropy(Ragged.from_list([[below, below]])).tolist() == [1.0]


def test_entries_without_weight_add_no_entropy() -> None:
    rows = Ragged.from_list([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(normalised_entropy(rows), [math.log(2) / math.log(3), 0.0], atol=1e-12)


def test_permuted_heads_are_the_same_attention() -> None:
    heads = distributions(0, 4, 9)
    shuffled = heads[[2, 0, 3, 1]]
    assert matched_heads_jsd(heads, shuffled) == pytest.approx(0.0, abs=1e-12)
    assert jsd(heads, shuffled).mean() > 0.05  # head by head they differ


def test_matching_is_the_cheapest_of_all() -> None:
    from itertools import permutations

    a, b = distributions(1, 2, 3, 6)
    best = min(jsd(a, b[list(order)]).mean() for order in permutations(range(3)))
    assert matched_heads_jsd(a, b) == pytest.approx(best)


def test_matching_works_in_batches_with_padding_and_gradients() -> None:
    a, b = distributions(2, 2, 5, 3, 6)
    each = [float(matched_heads_jsd(x, y)) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(matched_heads_jsd(a, b), each)
    wide = [torch.tensor(np.pad(x, ((0, 0), (0, 0), (0, 2)), constant_values=7.0)) for x in (a, b)]
    wide[0].requires_grad_()
    mask = torch.arange(8).expand(5, 8) < 6
    found = matched_heads_jsd(wide[0], wide[1], mask)
    np.testing.assert_allclose(found.detach(), each)
    found.sum().backward()
    assert wide[0].grad is not None
    assert torch.isfinite(wide[0].grad).all()
    assert (wide[0].grad != 0).any()


def test_the_mean_distance_between_all_pairs_of_models() -> None:
    models = list(distributions(5, 4, 6, 2, 7))  # four models, six texts, two heads
    found, pairs = mean_pairwise_jsd(models)
    assert pairs == 6
    for text in range(6):
        each = [
            float(matched_heads_jsd(models[i][text], models[j][text])) for i in range(4) for j in range(i)
        ]
        assert found[text] == pytest.approx(np.mean(each))
    again, _ = mean_pairwise_jsd([torch.tensor(model) for model in models])
    np.testing.assert_allclose(again, found)
    longer = [np.pad(model, ((0, 0), (0, 0), (0, 3)), constant_values=9.0) for model in models]
    mask = np.arange(10) < np.full((6, 1), 7)
    np.testing.assert_allclose(mean_pairwise_jsd(longer, mask)[0], found)


def test_the_mean_over_pairs_does_not_grow_with_the_number_of_models() -> None:
    models = list(distributions(6, 12, 300, 1, 10))
    few, many = (float(mean_pairwise_jsd(models[:k])[0].mean()) for k in (3, 12))
    assert many == pytest.approx(few, rel=0.02)
    largest = [float(np.max([jsd(m, models[0])[:, 0] for m in models[1:k]], axis=0).mean()) for k in (3, 12)]
    assert largest[1] > 1.2 * largest[0], "which the largest distance from one of them does"
    with pytest.raises(UserError, match="at least two"):
        mean_pairwise_jsd(models[:1])


def test_matching_in_batches_of_batches() -> None:
    a, b = distributions(8, 2, 4, 3, 2, 6)  # [4, 3, heads, tokens]
    found = matched_heads_jsd(a, b)
    assert found.shape == (4, 3)
    assert found[3, 1] == pytest.approx(float(matched_heads_jsd(a[3, 1], b[3, 1])))


def test_one_head_needs_no_matching() -> None:
    a, b = distributions(7, 2, 5, 1, 8)
    np.testing.assert_allclose(matched_heads_jsd(a, b), jsd(a, b)[:, 0])


def test_matching_needs_equal_shapes() -> None:
    with pytest.raises(UserError, match="same shape"):
        matched_heads_jsd(np.ones((2, 3)), np.ones((3, 3)))


@pytest.mark.parametrize(
    ("tvd_mean", "jsd_mean", "score"),
    [
        (0.0, LN2, 0.0),  # another attention, the same predictions
        (1.0, LN2, 1.0),
        (0.25, LN2 / 2, 0.5),
        (0.9, LN2 / 10, 1.0),  # capped
        (0.3, 0.0, 1.0),
        (1e-7, -3e-9, 1.0),  # equal attentions, up to rounding
        (0.0, 0.0, math.nan),
        (math.nan, 0.1, math.nan),
    ],
)
def test_attefa_score(tvd_mean: float, jsd_mean: float, score: float) -> None:
    assert attefa_score(tvd_mean, jsd_mean) == pytest.approx(score, nan_ok=True)


def test_attefa_loss_on_constructed_pairs() -> None:
    same, moved = torch.tensor([0.9, 0.1]), torch.tensor([0.1, 0.9])
    here, there = torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 0.0, 1.0])
    assert float(attefa_loss(tvd(same, same), jsd(here, there))) == pytest.approx(-1.0, abs=1e-6)
    assert float(attefa_loss(tvd(same, moved), jsd(here, here))) == pytest.approx(0.8, abs=1e-6)


def test_both_readings_of_the_binary_tvd_scale_alike() -> None:
    y1, y2 = np.array([0.3, 0.7]), np.array([0.8, 0.2])
    halved = abs(y1[1] - y2[1]) / 2  # half of the absolute difference of the single sigmoid output
    assert scaled_tvd(np.asarray(halved), largest=0.5) == pytest.approx(float(scaled_tvd(tvd(y1, y2))))
    assert scaled_jsd(np.asarray(LN2)) == pytest.approx(1.0)
