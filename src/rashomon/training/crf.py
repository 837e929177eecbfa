"""Which tokens are marked? A linear-chain conditional random field: how likely a sequence of tags is, as a whole.

A tag's score is that of its token plus that of following the tag before it (Lafferty et al. 2001). Tokens that the mask
leaves out are not there: the others are brought together first, so that a mask may have holes. What lies between the
first and the last token is a product of small matrices, which is associative: halving it takes log2 T steps, not T.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rashomon.models.sequences import Sequences

IMPOSSIBLE = -1e4  # a log-probability; finite, so that gradients stay numbers


class LinearChainCrf(nn.Module):
    """Scores ``[B, T, tags]``, tags and a mask ``[B, T]`` come in; nobody learns anything about masked tokens."""

    def __init__(self, tags: int = 2) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(tags))
        self.last = nn.Parameter(torch.zeros(tags))
        self.following = nn.Parameter(torch.zeros(tags, tags))  # from (rows) to (columns)

    def log_likelihood(self, scores: Tensor, tags: Tensor, mask: Tensor) -> Tensor:
        """The log-probability of the tags of each row ``[B]``; 0 of a row without tokens."""
        rows = Sequences(mask.unsqueeze(0))
        chosen = rows.extract(tags.unsqueeze(-1)).squeeze(-1)
        own = rows.extract(scores).gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
        steps = self.following[chosen[:, :-1], chosen[:, 1:]]
        end = chosen.gather(1, (rows.lengths - 1).clamp_min(0)[:, None]).squeeze(1)
        total = (own * rows.mask).sum(1) + (steps * rows.mask[:, 1:]).sum(1)
        total = total + self.first[chosen[:, 0]] + self.last[end]
        return torch.where(rows.lengths > 0, total - self._log_partition(scores, rows), 0.0)

    def marginals(self, scores: Tensor, mask: Tensor) -> Tensor:
        """The probability of each tag at each token ``[B, T, tags]``; 0 where the mask leaves it out.

        They are the slopes of the log of the sum over all sequences.
        """
        with torch.enable_grad():
            free = scores.detach().requires_grad_()
            rows = Sequences(mask.unsqueeze(0))
            total = torch.where(rows.lengths > 0, self._log_partition(free, rows), 0.0).sum()
            return torch.autograd.grad(total, free)[0]

    @torch.no_grad()
    def viterbi(self, scores: Tensor, mask: Tensor) -> Tensor:
        """The most likely tags ``[B, T]``; 0 where the mask leaves a token out."""
        rows = Sequences(mask.unsqueeze(0))
        own, inside = rows.extract(scores), rows.mask
        best, origins = self.first + own[:, 0], []
        stay = torch.arange(best.shape[-1], device=best.device).expand_as(best)
        for place in range(1, rows.width):
            value, origin = (best.unsqueeze(-1) + self.following).max(1)
            here = inside[:, place, None]
            best = torch.where(here, value + own[:, place], best)
            origins.append(torch.where(here, origin, stay))
        path = [(best + self.last).argmax(-1)]
        for origin in reversed(origins):
            path.append(origin.gather(1, path[-1][:, None]).squeeze(1))
        tags = torch.stack(path[::-1], 1)
        return rows.restore(tags.unsqueeze(-1)).squeeze(-1) * mask

    def _log_partition(self, scores: Tensor, rows: Sequences) -> Tensor:
        """The log of the sum over all sequences of tags ``[B]``."""
        own = rows.extract(scores)
        steps = self.following + own[:, 1:].unsqueeze(2)  # [B, W - 1, from, to]
        nothing = torch.full_like(self.following, IMPOSSIBLE).fill_diagonal_(0.0)
        steps = torch.where(rows.mask[:, 1:, None, None], steps, nothing)
        ends = (self.first + own[:, 0]).unsqueeze(2) + self.last
        return torch.logsumexp(ends + _product(steps, nothing), (1, 2))


def _product(steps: Tensor, nothing: Tensor) -> Tensor:
    """The product of matrices of logarithms ``[B, W, K, K]`` in their order ``[B, K, K]``; of none, ``nothing``."""
    if steps.shape[1] == 0:
        return nothing.expand(len(steps), -1, -1)
    while (count := steps.shape[1]) > 1:
        odd = steps[:, count - count % 2 :]
        left, right = steps[:, 0 : count - count % 2 : 2], steps[:, 1::2]
        pairs = torch.logsumexp(left.unsqueeze(-1) + right.unsqueeze(2), 3)
        steps = torch.cat((pairs, odd), 1)
    return steps[:, 0]
