"""Weightings against closed forms, the entmax package and finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rashomon.errors import UserError
from rashomon.models.attention import Attention, entmax15, preset, softmax, sparsemax, uniform

WEIGHTINGS = {"softmax": softmax, "sparsemax": sparsemax, "entmax15": entmax15, "uniform": uniform}


def _case(seed: int, rows: int = 5, width: int = 9, scale: float = 2.0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(rows, width, generator=generator, dtype=torch.float64)
    lengths = torch.randint(1, width + 1, (rows,), generator=generator)
    return logits, torch.arange(width) < lengths[:, None]


@pytest.mark.parametrize("name", WEIGHTINGS)
@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.0, 0.01, 1.0, 30.0, 1e4]))
def test_rows_are_distributions_over_the_mask(name: str, seed: int, scale: float) -> None:
    logits, mask = _case(seed, scale=scale)
    weights = WEIGHTINGS[name](logits.float(), mask)
    assert (weights[~mask] == 0).all()
    assert (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(len(weights)), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_padding_and_gaps_do_not_matter(name: str) -> None:
    logits, _ = _case(0, rows=1)
    mask = torch.tensor([[True, False, True, True, False, True, True, False, False]])
    alone = logits[mask].unsqueeze(0)
    expected = WEIGHTINGS[name](alone, torch.ones_like(alone, dtype=torch.bool))
    got = WEIGHTINGS[name](logits, mask)[mask].unsqueeze(0)
    torch.testing.assert_close(got, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("name", WEIGHTINGS)
def test_a_row_without_tokens_is_zero_and_has_a_finite_gradient(name: str) -> None:
    logits = torch.randn(2, 4, requires_grad=True)
    mask = torch.tensor([[False] * 4, [True] * 4])
    weights = WEIGHTINGS[name](logits, mask)
    assert (weights[0] == 0).all()
    if weights.requires_grad:
        weights.square().sum().backward()
        assert logits.grad is not None
        assert logits.grad.isfinite().all()
        assert (logits.grad[0] == 0).all()


def test_closed_forms() -> None:
    everything = torch.ones(1, 2, dtype=torch.bool)
    near = torch.tensor([[0.5, 0.0]])
    far = torch.tensor([[3.0, 0.0]])
    # Two logits d apart: sparsemax is (1+d)/2 until d = 1.
    torch.testing.assert_close(sparsemax(near, everything), torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(sparsemax(far, everything), torch.tensor([[1.0, 0.0]]))
    # 1.5-entmax: p = (z/2 - t)^2 with t = (d/2 - sqrt(2 - d^2/4)) / 2, until d = 2.
    threshold = (0.25 - math.sqrt(2 - 0.0625)) / 2
    expected = torch.tensor([[(0.25 - threshold) ** 2, threshold**2]])
    torch.testing.assert_close(entmax15(near, everything), expected)
    torch.testing.assert_close(entmax15(far, everything), torch.tensor([[1.0, 0.0]]))
    ties = torch.zeros(1, 4)
    for weighting in WEIGHTINGS.values():
        torch.testing.assert_close(
            weighting(ties, torch.ones(1, 4, dtype=torch.bool)), torch.full((1, 4), 0.25)
        )


@pytest.mark.parametrize("name", ["sparsemax", "entmax15"])
def test_equals_the_entmax_package_with_gradients(name: str) -> None:
    entmax = pytest.importorskip("entmax")
    for seed in range(30):
        logits, mask = _case(seed, width=1 + seed, scale=0.1 * (1 + seed))
        ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        weights = WEIGHTINGS[name](ours, mask)
        # The package turns -inf into NaN gradients, so it gets a finite stand-in.
        expected = getattr(entmax, name)(theirs.masked_fill(~mask, -1e4), dim=-1)
        torch.testing.assert_close(weights, expected, atol=1e-10, rtol=0)
        direction = torch.randn(logits.shape, dtype=torch.float64)
        (weights * direction).sum().backward()
        (expected * direction).sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-10, rtol=0)


@pytest.mark.parametrize("name", ["softmax", "sparsemax", "entmax15"])
def test_gradients_equal_finite_differences(name: str) -> None:
    logits, mask = _case(3, rows=3, width=6, scale=0.7)
    assert torch.autograd.gradcheck(lambda z: WEIGHTINGS[name](z, mask), logits.requires_grad_())


def test_temperature_flattens() -> None:
    hidden = torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(2, 5, dtype=torch.bool)
    cold, hot = (Attention("additive", 6, 1, "softmax", temperature) for temperature in (0.1, 100.0))
    hot.load_state_dict(cold.state_dict())
    logits = cold.logits(hidden)
    assert logits is not None
    torch.testing.assert_close(
        cold(logits, mask), (logits / 0.1).softmax(1).transpose(1, 2), atol=1e-6, rtol=1e-5
    )
    torch.testing.assert_close(hot(logits, mask), torch.full((2, 1, 5), 0.2), atol=0.01, rtol=0)


def test_preset_is_renormalised_and_uniform_where_nothing_is_left() -> None:
    given_ = torch.tensor([[1.0, 3.0, 6.0], [0.0, 0.0, 5.0]])
    mask = torch.tensor([[True, True, False], [True, True, False]])
    torch.testing.assert_close(preset(given_, mask), torch.tensor([[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]]))
    attention = Attention("additive", 4, 2, "preset")
    assert attention(None, mask, given_).shape == (2, 2, 3)
    assert not list(attention.parameters())
    with pytest.raises(UserError, match="preset"):
        attention(None, mask)


def test_dot_scorer_is_the_scaled_product_with_each_query() -> None:
    attention = Attention("dot", 4, 3, "softmax")
    hidden = torch.randn(2, 5, 4)
    logits = attention.logits(hidden)
    assert logits is not None
    expected = torch.einsum("bth,qh->btq", hidden, attention.scorer.query) / 2  # type: ignore[union-attr]
    torch.testing.assert_close(logits, expected)
