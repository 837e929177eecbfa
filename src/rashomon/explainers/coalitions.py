"""Which tokens are kept together? The coalitions behind LIME and Kernel SHAP, and least squares on them.

Both methods draw from one sequence for each text - a size uniform between 1 and n - 1 (stratified), then tokens at
random, and each set's complement - so that asking for both costs one set of evaluations, and asking for more
samples continues the sequence. Texts with no more coalitions than samples are enumerated, each coalition weighing as
often as it would be drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from rashomon.data.batches import Bools
from rashomon.errors import unknown_name
from rashomon.explainers.base import Floats, Job
from rashomon.explainers.path_integrals import sub_job
from rashomon.explainers.perturbed_rows import Perturbation
from rashomon.explainers.settling import Samples, looks, settled, unsettled

Draw = Literal["sizes", "coins"]
BLOCK = 16  # pairs whose sizes are stratified together
FIRST = 100  # samples before the first look, at least


@dataclass(frozen=True, slots=True)
class Coalitions:
    """Sets of kept tokens ``[S, n]`` and how often each was drawn (enumerated: is expected to be drawn)."""

    kept: Bools
    times: Floats
    enumerated: bool = False


def draw_coalitions(n: int, samples: int, draw: Draw, generator: np.random.Generator) -> Coalitions:
    """Every proper coalition when they are no more than ``samples``, otherwise as many drawn ones.

    Each second one is the complement of the one before. Fewer samples are the beginning of more.
    """
    if draw not in get_args(Draw):
        raise unknown_name("way to draw coalitions", draw, get_args(Draw))
    if n <= 20 and 2**n - 2 <= samples:
        kept = ((np.arange(1, 2**n - 1)[:, None] >> np.arange(n)) & 1).astype(np.bool_)
        return Coalitions(kept, samples * np.exp(log_chance(kept.sum(1), n, draw)), enumerated=True)
    blocks = [_block(n, draw, generator) for _ in range(-(-samples // (2 * BLOCK)))]
    drawn = np.concatenate(blocks)
    kept = np.stack([drawn, ~drawn], axis=1).reshape(-1, n)[:samples]
    return Coalitions(kept, np.ones(samples))


def _block(n: int, draw: Draw, generator: np.random.Generator) -> Bools:
    chances = generator.random((BLOCK, n))
    if draw == "coins":
        return chances < 0.5
    strata = (generator.permutation(BLOCK) + generator.random(BLOCK)) / BLOCK
    sizes = 1 + (strata * (n - 1)).astype(np.int64)
    return chances.argsort(1).argsort(1) < sizes[:, None]


def log_chance(size: NDArray[Any], n: int, draw: Draw) -> Floats:
    """The logarithm of the probability with which one certain coalition of this size is drawn."""
    if draw == "coins":
        return np.full(np.shape(size), -n * np.log(2.0))
    return np.asarray(-np.log(max(n - 1, 1)) - log_binomial(n, size))


def log_binomial(n: int, k: NDArray[Any]) -> Floats:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


@dataclass(frozen=True, slots=True)
class Sampled:
    """One example's coalitions with the explained output under each."""

    kept: Floats  # [S, n]
    values: Floats  # [S]
    times: Floats  # [S], adding up to the samples that are allowed, so that a penalty means the same for all texts
    empty: float  # the output without any content token
    whole: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """Scores of one example's content tokens, their standard errors, and what they rest on."""

    scores: Floats  # [n]
    spread: Floats  # [n]
    used: int
    settled: bool

    @property
    def warnings(self) -> tuple[str, ...]:
        return unsettled(self.scores, self.spread, self.used)


Fit = Callable[[Sampled], tuple[Floats, Floats]]


def fit_coalitions(
    job: Job, samples: Samples, most: int, draw: Draw, how: Perturbation, fit: Fit
) -> list[Fitted]:
    """Draw, evaluate and fit for every example, with as many samples as asked for or as are needed."""
    sizes = [int(encoding.content.sum()) for encoding in job.encodings]
    limit = most if samples == "auto" else samples
    drawn = [draw_coalitions(n, limit, draw, job.generator(i, "coalitions")) for i, n in enumerate(sizes)]
    plans = [
        [len(coalitions.kept)]
        if samples != "auto" or coalitions.enumerated
        else looks(max(FIRST, 2 * n + 20), limit)
        for n, coalitions in zip(sizes, drawn, strict=True)
    ]
    values: list[Floats] = [np.zeros(0)] * len(sizes)
    found: dict[int, Fitted] = {}
    while pending := [i for i in range(len(sizes)) if i not in found]:
        asked = [_next_rows(drawn[i].kept, len(values[i]), plans[i][0]) for i in pending]
        for i, new in zip(pending, explained_values(sub_job(job, pending), asked, how), strict=True):
            values[i] = np.concatenate([values[i], new])
            fitted = _fitted(drawn[i], values[i], plans[i].pop(0), limit, fit)
            if fitted.settled or not plans[i]:
                found[i] = fitted
    return [found[i] for i in range(len(sizes))]


def _next_rows(kept: Bools, known: int, until: int) -> Bools:
    """The coalitions to be evaluated next, the empty and the whole text before all others."""
    if known:
        return kept[known - 2 : until]
    ends = np.repeat([[False], [True]], kept.shape[1], axis=1)
    return np.vstack([ends, kept[:until]])


def _fitted(drawn: Coalitions, values: Floats, count: int, limit: int, fit: Fit) -> Fitted:
    times = drawn.times[:count] * (1 if drawn.enumerated else limit / count)
    ends = float(values[0]), float(values[1])
    scores, spread = fit(Sampled(drawn.kept[:count].astype(np.float64), values[2:], times, *ends))
    if drawn.enumerated:
        spread = np.zeros_like(scores)
    return Fitted(scores, spread, count, settled(scores, spread))


def explained_values(job: Job, kept: Sequence[Bools], how: Perturbation) -> list[Floats]:
    """The explained output of every example under every one of its coalitions over content tokens."""
    full: list[Bools] = []
    for encoding, matrix in zip(job.encodings, kept, strict=True):
        whole = np.ones((len(matrix), len(encoding)), dtype=np.bool_)
        whole[:, encoding.content] = matrix
        full.append(whole)
    return job.values(job.engine.logits(job.encodings, full, how))


@dataclass(frozen=True, slots=True)
class LeastSquares:
    """Coefficients ``[p]`` of a weighted regression, and what each pair of neighbouring rows adds to their error.

    ``pulls`` ``[P, p]`` are how far the coefficients would move without the pair (a jackknife over pairs, because a
    coalition and its complement are drawn together): the root of their summed squares is the standard error.
    """

    coefficients: Floats
    pulls: Floats


def least_squares(design: Floats, values: Floats, weights: Floats, penalty: Floats) -> LeastSquares:
    """Solved in closed form. ``design`` is ``[S, p]``, ``penalty`` ``[p]`` is added to the squares' diagonal."""
    if len(design) % 2:  # a row of no weight, so that every row has a neighbour
        design, values, weights = (
            np.concatenate([a, np.zeros_like(a[:1])]) for a in (design, values, weights)
        )
    weighted = design * weights[:, None]
    inverse = np.linalg.inv(weighted.T @ design + np.diag(penalty))
    coefficients = inverse @ (weighted.T @ values)
    missed = (values - design @ coefficients).reshape(-1, 2)
    shares = (design @ inverse).reshape(-1, 2, design.shape[1])
    weights = weights.reshape(-1, 2)
    leverage = shares @ design.reshape(shares.shape).transpose(0, 2, 1)
    # What the pair misses when it is left out: (1 - leverage) ^ -1 times what it misses now, two by two.
    alone = np.eye(2) - leverage * weights[:, None, :]
    determinant = np.maximum(alone[:, 0, 0] * alone[:, 1, 1] - alone[:, 0, 1] * alone[:, 1, 0], 1e-9)
    first = (alone[:, 1, 1] * missed[:, 0] - alone[:, 0, 1] * missed[:, 1]) / determinant
    second = (alone[:, 0, 0] * missed[:, 1] - alone[:, 1, 0] * missed[:, 0]) / determinant
    force = weights * np.column_stack([first, second])
    return LeastSquares(coefficients, (shares * force[..., None]).sum(1))
