"""Explainers that take tokens out and watch the output: leave-one-out, LIME, Kernel SHAP.

LIME and Kernel SHAP are two weightings of one linear fit. By default they draw the same coalitions - a size
uniform between 1 and n - 1, then tokens at random, and each set's complement - so that asking for both costs one
set of evaluations. Under this draw the Shapley kernel becomes an importance weight proportional to
1 / (s (n - s)). Texts with no more coalitions than samples are enumerated, each coalition weighing as often as it
would be drawn: Kernel SHAP is then exact, and LIME what more and more samples would lead to.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from rashomon.data.batches import Bools
from rashomon.errors import UserError, unknown_name
from rashomon.explainers.base import Explainer, Floats, Job, Scores, explainers
from rashomon.explainers.engine import Perturbation

Draw = Literal["sizes", "coins"]


def explained_values(job: Job, kept: list[Bools], how: Perturbation) -> list[Floats]:
    """The explained output of every example under every one of its coalitions over content tokens."""
    full: list[Bools] = []
    for encoding, matrix in zip(job.encodings, kept, strict=True):
        whole = np.ones((len(matrix), len(encoding)), dtype=np.bool_)
        whole[:, encoding.content] = matrix
        full.append(whole)
    return job.values(job.engine.logits(job.encodings, full, how))


def on_content(job: Job, values: list[Floats]) -> list[Floats]:
    """Scores of content tokens put back among the special tokens, which get exactly zero."""
    spread: list[Floats] = []
    for encoding, of_content in zip(job.encodings, values, strict=True):
        scores = np.zeros(len(encoding))
        scores[encoding.content] = of_content
        spread.append(scores)
    return spread


@explainers.register("leave-one-out")
@dataclass(frozen=True, slots=True)
class LeaveOneOut(Explainer):
    """How much the output falls when one token is taken out."""

    name: ClassVar[str] = "leave-one-out"
    perturbation: Perturbation = "remove"

    def attribute(self, job: Job) -> list[Scores]:
        kept = []
        for encoding in job.encodings:
            n = int(encoding.content.sum())
            kept.append(np.vstack([np.ones((1, n), dtype=np.bool_), ~np.eye(n, dtype=np.bool_)]))
        values = explained_values(job, kept, self.perturbation)
        return [Scores(scores) for scores in on_content(job, [v[0] - v[1:] for v in values])]


@dataclass(frozen=True, slots=True)
class Coalitions:
    """Sets of kept tokens ``[S, n]`` and how often each was drawn (enumerated: is expected to be drawn)."""

    kept: Bools
    times: Floats


def draw_coalitions(n: int, samples: int, draw: Draw, generator: np.random.Generator) -> Coalitions:
    """Every proper coalition when they are no more than ``samples``, otherwise as many drawn ones."""
    if n <= 20 and 2**n - 2 <= samples:
        kept = ((np.arange(1, 2**n - 1)[:, None] >> np.arange(n)) & 1).astype(np.bool_)
        return Coalitions(kept, samples * np.exp(log_chance(kept.sum(1), n, draw)))
    half = (samples + 1) // 2
    if draw == "coins":
        drawn = generator.random((half, n)) < 0.5
    elif draw == "sizes":
        sizes = generator.integers(1, n, size=half)
        ranks = generator.random((half, n)).argsort(1).argsort(1)
        drawn = ranks < sizes[:, None]
    else:
        raise unknown_name("way to draw coalitions", draw, get_args(Draw))
    return Coalitions(np.concatenate([drawn, ~drawn])[:samples], np.ones(samples))


def log_chance(size: NDArray[Any], n: int, draw: Draw) -> Floats:
    """The logarithm of the probability with which one certain coalition of this size is drawn."""
    if draw == "coins":
        return np.full(np.shape(size), -n * np.log(2.0))
    return np.asarray(-np.log(max(n - 1, 1)) - _log_binomial(n, size))


def _log_binomial(n: int, k: NDArray[Any]) -> Floats:
    return np.asarray(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))


def weighted_ridge(kept: Floats, values: Floats, weights: Floats, penalty: float) -> Floats:
    """Coefficients ``[B, n]`` of weighted ridge regressions with a free intercept, solved in closed form.

    ``kept`` is ``[B, S, n]``, ``values`` and ``weights`` are ``[B, S]``.
    """
    share = weights / weights.sum(1, keepdims=True)
    features = kept - share[:, None, :] @ kept
    centred = values - (share * values).sum(1, keepdims=True)
    weighted = features * weights[..., None]
    gram = weighted.transpose(0, 2, 1) @ features
    gram += penalty * np.eye(kept.shape[2])
    solved: Floats = np.linalg.solve(gram, weighted.transpose(0, 2, 1) @ centred[..., None])[..., 0]
    return solved


def shapley_regression(kept: Floats, values: Floats, weights: Floats, empty: Floats, whole: Floats) -> Floats:
    """Coefficients ``[B, n]`` that add up to ``whole - empty`` exactly and fit the coalitions best otherwise."""
    change = whole - empty
    last = kept[..., -1]
    features = kept[..., :-1] - last[..., None]
    residual = values - empty[:, None] - last * change[:, None]
    weighted = features * weights[..., None]
    gram = weighted.transpose(0, 2, 1) @ features
    # Drawn coalitions may leave a direction undetermined; a whisper of ridge keeps the solve defined.
    gram += 1e-10 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(gram.shape[1])
    solved = np.linalg.solve(gram, weighted.transpose(0, 2, 1) @ residual[..., None])[..., 0]
    return np.concatenate([solved, (change - solved.sum(1))[:, None]], axis=1)


def symmetric_part(kept: Floats, values: Floats, weights: Floats) -> Floats:
    """What the number of kept tokens alone says about the values ``[B, S]``: a weighted parabola in it."""
    share = kept.mean(2)
    design = np.stack([np.ones_like(share), share, share**2], axis=2)
    weighted = (design * weights[..., None]).transpose(0, 2, 1)
    fitted = np.linalg.pinv(weighted @ design, hermitian=True) @ weighted @ values[..., None]
    return np.asarray((design @ fitted)[..., 0])


@dataclass(frozen=True, slots=True)
class _Group:
    """Examples whose systems have one shape, to be solved together."""

    members: list[int]
    kept: Floats  # [B, S, n]
    values: Floats  # [B, S]
    times: Floats  # [B, S]
    empty: Floats  # [B], the output without any content token
    whole: Floats  # [B]


def evaluate_coalitions(job: Job, samples: int, draw: Draw, how: Perturbation) -> list[_Group]:
    """Coalitions of every example with the explained output under each."""
    drawn: list[Coalitions] = []
    asked: list[Bools] = []
    for i, encoding in enumerate(job.encodings):
        n = int(encoding.content.sum())
        drawn.append(draw_coalitions(n, samples, draw, job.generator(i, "coalitions")))
        ends = np.repeat([[False], [True]], n, axis=1)
        asked.append(np.vstack([ends, drawn[-1].kept]))
    values = explained_values(job, asked, how)
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, coalitions in enumerate(drawn):
        groups[coalitions.kept.shape].append(i)
    return [
        _Group(
            members,
            np.stack([drawn[i].kept for i in members]).astype(np.float64),
            np.stack([values[i][2:] for i in members]),
            np.stack([drawn[i].times for i in members]),
            np.array([values[i][0] for i in members]),
            np.array([values[i][1] for i in members]),
        )
        for members in groups.values()
    ]


def _check_samples(explainer: Lime | KernelShap) -> None:
    if explainer.samples < 2:
        raise UserError(f"{explainer.name} needs at least two samples, not {explainer.samples}.")


@explainers.register("lime")
@dataclass(frozen=True, slots=True)
class Lime(Explainer):
    """A ridge regression of the output on which tokens are there, near texts weighing more.

    Distance is one minus the cosine to the whole text, the kernel exp(-(d / width)^2 / 2).
    """

    name: ClassVar[str] = "lime"
    stochastic: ClassVar[bool] = True
    samples: int = 1000
    kernel_width: float = 0.25
    penalty: float = 1.0
    draw: Draw = "sizes"
    perturbation: Perturbation = "remove"

    def __post_init__(self) -> None:
        _check_samples(self)
        if not (self.penalty > 0 and self.kernel_width > 0):
            raise UserError("The penalty and the kernel width of lime must be above zero.")

    def attribute(self, job: Job) -> list[Scores]:
        scores: list[Floats] = [np.zeros(0)] * len(job.encodings)
        for group in evaluate_coalitions(job, self.samples, self.draw, self.perturbation):
            # The whole and the empty text are samples too; a text of one token has no others.
            one = np.ones((len(group.members), 1, group.kept.shape[2]))
            kept = np.concatenate([one, 0 * one, group.kept], axis=1)
            values = np.column_stack([group.whole, group.empty, group.values])
            times = np.column_stack([one[:, :, 0], one[:, :, 0], group.times])
            fitted = weighted_ridge(kept, values, times * self.kernel(kept), self.penalty)
            for i, coefficients in zip(group.members, fitted, strict=True):
                scores[i] = coefficients
        return [Scores(values) for values in on_content(job, scores)]

    def kernel(self, kept: Floats) -> Floats:
        distance = 1 - np.sqrt(kept.mean(-1))
        weights: Floats = np.exp(-((distance / self.kernel_width) ** 2) / 2)
        return weights


@explainers.register("kernel-shap")
@dataclass(frozen=True, slots=True)
class KernelShap(Explainer):
    """Shapley values by weighted regression; exact when the text has no more coalitions than ``samples``.

    ``variance_reduction`` fits what the number of kept tokens does not explain: a function of that number is a game
    whose Shapley values are known and equal, so taking it out and adding them again changes noise alone - a lot of
    it where the empty text is far from all others.
    """

    name: ClassVar[str] = "kernel-shap"
    stochastic: ClassVar[bool] = True
    samples: int = 1000
    draw: Draw = "sizes"
    perturbation: Perturbation = "remove"
    variance_reduction: bool = True

    def __post_init__(self) -> None:
        _check_samples(self)

    def attribute(self, job: Job) -> list[Scores]:
        scores: list[Floats] = [np.zeros(0)] * len(job.encodings)
        warnings: list[tuple[str, ...]] = [()] * len(job.encodings)
        for group in evaluate_coalitions(job, self.samples, self.draw, self.perturbation):
            n = group.kept.shape[2]
            fitted = self._fit(group)
            few = (f"{self.samples} samples are too few for {n} tokens; raise samples",)
            for i, coefficients in zip(group.members, fitted, strict=True):
                scores[i] = coefficients
                warnings[i] = few if n > self.samples else ()
        spread = on_content(job, scores)
        return [Scores(values, 0.0, warning) for values, warning in zip(spread, warnings, strict=True)]

    def _fit(self, group: _Group) -> Floats:
        change = group.whole - group.empty
        n = group.kept.shape[2]
        if n == 1:
            return change[:, None]
        weights = group.times * self.kernel(group.kept)
        if not self.variance_reduction:
            return shapley_regression(group.kept, group.values, weights, group.empty, group.whole)
        left = group.values - symmetric_part(group.kept, group.values, weights)
        nothing = np.zeros(len(change))
        fitted = shapley_regression(group.kept, left, weights, nothing, nothing)
        return np.asarray(fitted + change[:, None] / n)

    def kernel(self, kept: Floats) -> Floats:
        """The Shapley kernel divided by the probability with which a coalition is drawn, up to a factor."""
        n = kept.shape[-1]
        size = kept.sum(-1)
        inside = np.clip(size, 1, n - 1)  # coins may draw the empty or the whole text, which are constraints
        log_kernel = -np.log(inside * (n - inside)) - _log_binomial(n, inside)
        logs = log_kernel - log_chance(inside, n, self.draw)
        weights: Floats = np.exp(logs - logs.max(-1, keepdims=True))
        return np.where((size > 0) & (size < n), weights, 0.0)
