"""The field against every sequence of tags written out, against another package, and its slopes against differences."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import pytest
import torch
from torch import Tensor

from rashomon.training.crf import LinearChainCrf


def field(seed: int, tags: int = 2) -> LinearChainCrf:
    crf = LinearChainCrf(tags).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return crf


def texts(seed: int, rows: int = 5, width: int = 7, holes: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Scores, tags and a mask that, with holes, leaves out tokens anywhere; lengths from 1 up."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, width, 2, generator=generator, dtype=torch.float64) * 2
    tags = torch.randint(0, 2, (rows, width), generator=generator)
    if holes:
        mask = torch.rand(rows, width, generator=generator) < 0.6
        mask[:, 3] = True
    else:
        lengths = torch.randint(1, width + 1, (rows, 1), generator=generator)
        mask = torch.arange(width) < lengths
    return scores, tags, mask


def by_hand(crf: LinearChainCrf, scores: Tensor, tags: tuple[int, ...]) -> Tensor:
    """The score of one sequence, of tokens that all are there."""
    total = crf.first[tags[0]] + crf.last[tags[-1]] + scores[torch.arange(len(tags)), list(tags)].sum()
    for before, after in pairwise(tags):
        total = total + crf.following[before, after]
    return total


def enumerated(crf: LinearChainCrf, scores: Tensor) -> dict[tuple[int, ...], float]:
    """The probability of every sequence."""
    ways = list(product(range(scores.shape[-1]), repeat=len(scores)))
    values = torch.stack([by_hand(crf, scores, way) for way in ways]).softmax(0)
    return dict(zip(ways, values.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("holes", [True, False])
def test_all_three_against_enumeration(seed: int, holes: bool) -> None:
    crf, (scores, tags, mask) = field(seed), texts(seed, holes=holes)
    likelihood = crf.log_likelihood(scores, tags, mask)
    marginals, best = crf.marginals(scores, mask), crf.viterbi(scores, mask)
    for row in range(len(scores)):
        kept = mask[row]
        ways = enumerated(crf, scores[row, kept])
        mine = tuple(tags[row, kept].tolist())
        assert likelihood[row].exp().item() == pytest.approx(ways[mine], rel=1e-9)
        assert tuple(best[row, kept].tolist()) == max(ways, key=lambda way: ways[way])
        for place, found in enumerate(marginals[row, kept].tolist()):
            wanted = [sum(p for way, p in ways.items() if way[place] == tag) for tag in (0, 1)]
            assert found == pytest.approx(wanted, abs=1e-9)
    assert not marginals[~mask].any()
    assert not best[~mask].any()


def test_three_tags() -> None:
    crf = field(0, tags=3)
    scores = torch.randn(1, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    ways = enumerated(crf, scores[0])
    found = crf.log_likelihood(scores, torch.tensor([[2, 0, 1, 1]]), torch.ones(1, 4, dtype=torch.bool))
    assert found.exp().item() == pytest.approx(ways[2, 0, 1, 1])


def test_a_row_without_tokens_says_nothing() -> None:
    scores, tags, mask = texts(0)
    mask[2] = False
    crf = field(0)
    scores.requires_grad_()
    likelihood = crf.log_likelihood(scores, tags, mask)
    likelihood.sum().backward()
    assert likelihood[2] == 0
    assert scores.grad is not None
    assert not scores.grad[2].any()
    assert torch.isfinite(scores.grad).all()
    assert not crf.marginals(scores, mask)[2].any()


def test_what_is_masked_changes_nothing() -> None:
    scores, tags, mask = texts(1)
    other = torch.where(mask.unsqueeze(-1), scores, 100.0)
    crf = field(1)
    torch.testing.assert_close(crf.log_likelihood(other, tags, mask), crf.log_likelihood(scores, tags, mask))


def test_slopes_against_differences() -> None:
    crf, (scores, tags, mask) = field(2), texts(2, rows=3, width=5)

    def loss(scores: Tensor, first: Tensor, last: Tensor, following: Tensor) -> Tensor:
        given = {"first": first, "last": last, "following": following}
        return torch.func.functional_call(_Likelihood(crf), given, (scores, tags, mask))

    start = (scores, crf.first.detach(), crf.last.detach(), crf.following.detach())
    assert torch.autograd.gradcheck(loss, tuple(t.clone().requires_grad_() for t in start))


class _Likelihood(torch.nn.Module):
    """``forward`` for ``functional_call``."""

    def __init__(self, crf: LinearChainCrf) -> None:
        super().__init__()
        self.first, self.last, self.following = crf.first, crf.last, crf.following

    def forward(self, *given: Any) -> Tensor:
        return LinearChainCrf.log_likelihood(self, *given)  # type: ignore[arg-type]

    _log_partition = LinearChainCrf._log_partition


@pytest.mark.parametrize("seed", range(3))
def test_against_another_package(seed: int) -> None:
    torchcrf = pytest.importorskip("torchcrf")
    scores, tags, mask = texts(seed, rows=6, width=40, holes=False)
    mask[0] = True  # it wants the longest row to be full
    crf, theirs = field(seed), torchcrf.CRF(2, batch_first=True).double()
    with torch.no_grad():
        theirs.start_transitions.copy_(crf.first)
        theirs.end_transitions.copy_(crf.last)
        theirs.transitions.copy_(crf.following)
    wanted = theirs(scores, tags, mask=mask, reduction="none")
    torch.testing.assert_close(crf.log_likelihood(scores, tags, mask), wanted)
    best = crf.viterbi(scores, mask)
    assert [row[kept].tolist() for row, kept in zip(best, mask, strict=True)] == theirs.decode(scores, mask)


def test_long_texts_in_single_precision() -> None:
    """Padding stands for a matrix that changes nothing; over hundreds of tokens nothing may leak in."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(2, 700, 2, generator=generator)
    tags = torch.randint(0, 2, (2, 700), generator=generator)
    mask = torch.arange(700) < torch.tensor([[700], [13]])
    crf = field(0).float()
    both = crf.log_likelihood(scores, tags, mask)
    alone = crf.log_likelihood(scores[1:, :13], tags[1:, :13], mask[1:, :13])
    assert both[1].item() == pytest.approx(alone[0].item(), rel=1e-6)
    exact = field(0).log_likelihood(scores.double(), tags, mask)
    assert both.tolist() == pytest.approx(exact.tolist(), rel=1e-4)
