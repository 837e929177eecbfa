"""Explainers that take tokens out and watch the output: leave-one-out, LIME, Kernel SHAP.

LIME and Kernel SHAP are two weightings of one linear fit on the same coalitions (``coalitions.py``), evaluated once for
both. Under their draw the Shapley kernel becomes an importance weight proportional to 1 / (s (n - s)). Texts with no
more coalitions than samples are enumerated: Kernel SHAP is then exact, and LIME what more and more samples would
lead to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rashomon.errors import UserError
from rashomon.explainers.base import Explainer, Floats, Job, Scores, explainers
from rashomon.explainers.coalitions import (
    Draw,
    Fitted,
    Sampled,
    explained_values,
    fit_coalitions,
    least_squares,
    log_binomial,
    log_chance,
)
from rashomon.explainers.perturbed_rows import Perturbation
from rashomon.explainers.settling import Samples, check_samples

MOST = 1000


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


def weighted_ridge(kept: Floats, values: Floats, weights: Floats, penalty: float) -> tuple[Floats, Floats]:
    """Coefficients ``[n]`` of a weighted ridge regression with a free intercept, and their standard errors.

    The last two rows are the empty and the whole text, which are not drawn and so add nothing to the errors.
    """
    n = kept.shape[1]
    design = np.column_stack([kept, np.ones(len(kept))])
    fitted = least_squares(design, values, weights, penalty * np.append(np.ones(n), 0.0))
    return fitted.coefficients[:n], np.linalg.norm(fitted.pulls[:-1, :n], axis=0)


def shapley_regression(
    kept: Floats, values: Floats, weights: Floats, change: float, size_columns: Floats
) -> tuple[Floats, Floats]:
    """Coefficients ``[n]`` that add up to ``change`` exactly and fit the coalitions best otherwise, and their errors.

    ``values`` count from the empty text; ``size_columns`` ``[S, k]`` are fitted beside the tokens and left out.
    """
    n = kept.shape[1]
    last = kept[:, -1]
    design = np.column_stack([kept[:, :-1] - last[:, None], size_columns])
    # Drawn coalitions may leave a direction undetermined; a whisper of ridge keeps the solve defined.
    whisper = np.full(design.shape[1], 1e-10 * (design**2 * weights[:, None]).sum())
    fitted = least_squares(design, values - last * change, weights, whisper)
    tokens, pulls = fitted.coefficients[: n - 1], fitted.pulls[:, : n - 1]
    scores = np.append(tokens, change - tokens.sum())
    return scores, np.append(np.linalg.norm(pulls, axis=0), np.linalg.norm(pulls.sum(1)))


def size_columns(kept: Floats) -> Floats:
    """Functions of the number of kept tokens that vanish at the empty and at the whole text ``[S, k]``.

    Such a function is a game whose Shapley values are all zero, so fitting it beside the tokens changes noise alone:
    what any text has that none has not (1 and u), and how the output bends (s(1-s) and s(1-s)(1-2s)).
    """
    n = kept.shape[1]
    share = kept.mean(1)
    u, bend = 2 * share - 1, share * (1 - share)
    columns = np.column_stack([np.ones_like(share), u, bend, bend * u])
    return columns[:, : n - 1]  # a text of n tokens has n - 1 sizes to tell apart


@explainers.register("lime")
@dataclass(frozen=True, slots=True)
class Lime(Explainer):
    """A ridge regression of the output on which tokens are there, near texts weighing more.

    Distance is one minus the cosine to the whole text, the kernel exp(-(d / width)^2 / 2). ``samples`` are as many as
    it takes to settle the top tokens, at most ``most``, or a number.
    """

    name: ClassVar[str] = "lime"
    stochastic: ClassVar[bool] = True
    samples: Samples = "auto"
    kernel_width: float = 0.25
    penalty: float = 1.0
    draw: Draw = "sizes"
    perturbation: Perturbation = "remove"
    most: int = MOST

    def __post_init__(self) -> None:
        check_samples(self.name, self.samples, self.most)
        if not (self.penalty > 0 and self.kernel_width > 0):
            raise UserError("The penalty and the kernel width of lime must be above zero.")

    def attribute(self, job: Job) -> list[Scores]:
        told = fit_coalitions(job, self.samples, self.most, self.draw, self.perturbation, self.fit)
        return _sampled_scores(job, told, [one.warnings for one in told])

    def fit(self, sampled: Sampled) -> tuple[Floats, Floats]:
        # The whole and the empty text are samples too; a text of one token has no others.
        n = sampled.kept.shape[1]
        ends = np.repeat([[0.0], [1.0]], n, axis=1)
        odd = np.zeros((len(sampled.kept) % 2, n))  # keeps pairs together
        kept = np.vstack([sampled.kept, odd, ends])
        values = np.concatenate([sampled.values, odd[:, 0], [sampled.empty, sampled.whole]])
        times = np.concatenate([sampled.times, odd[:, 0], [1.0, 1.0]])
        return weighted_ridge(kept, values, times * self.kernel(kept), self.penalty)

    def kernel(self, kept: Floats) -> Floats:
        distance = 1 - np.sqrt(kept.mean(-1))
        weights: Floats = np.exp(-((distance / self.kernel_width) ** 2) / 2)
        return weights


@explainers.register("kernel-shap")
@dataclass(frozen=True, slots=True)
class KernelShap(Explainer):
    """Shapley values by weighted regression; exact when the text has no more coalitions than ``samples``.

    ``variance_reduction`` fits functions of the number of kept tokens beside the tokens: their Shapley values are known
    to be zero, so that only noise changes, and none is left where the output is additive.
    """

    name: ClassVar[str] = "kernel-shap"
    stochastic: ClassVar[bool] = True
    samples: Samples = "auto"
    draw: Draw = "sizes"
    perturbation: Perturbation = "remove"
    variance_reduction: bool = True
    most: int = MOST

    def __post_init__(self) -> None:
        check_samples(self.name, self.samples, self.most)

    def attribute(self, job: Job) -> list[Scores]:
        told = fit_coalitions(job, self.samples, self.most, self.draw, self.perturbation, self.fit)
        return _sampled_scores(job, told, [self._warnings(one) for one in told], gap=0.0)

    def _warnings(self, fitted: Fitted) -> tuple[str, ...]:
        n, allowed = len(fitted.scores), self.most if self.samples == "auto" else self.samples
        if n > allowed:
            return (f"{allowed} samples are too few for {n} tokens; raise samples",)
        return fitted.warnings

    def fit(self, sampled: Sampled) -> tuple[Floats, Floats]:
        kept, change = sampled.kept, sampled.whole - sampled.empty
        if kept.shape[1] == 1:
            return np.array([change]), np.zeros(1)
        columns = size_columns(kept) if self.variance_reduction else kept[:, :0]
        weights = sampled.times * self.kernel(kept)
        return shapley_regression(kept, sampled.values - sampled.empty, weights, change, columns)

    def kernel(self, kept: Floats) -> Floats:
        """The Shapley kernel divided by the probability with which a coalition is drawn, up to a factor."""
        n = kept.shape[-1]
        size = kept.sum(-1)
        inside = np.clip(size, 1, n - 1)  # coins may draw the empty or the whole text, which are constraints
        log_kernel = -np.log(inside * (n - inside)) - log_binomial(n, inside)
        logs = log_kernel - log_chance(inside, n, self.draw)
        weights: Floats = np.exp(logs - logs.max(-1, keepdims=True))
        return np.where((size > 0) & (size < n), weights, 0.0)


def _sampled_scores(
    job: Job, told: Sequence[Fitted], warnings: Sequence[tuple[str, ...]], gap: float | None = None
) -> list[Scores]:
    scores = on_content(job, [one.scores for one in told])
    spread = on_content(job, [one.spread for one in told])
    return [
        Scores(values, gap, said, errors, one.used)
        for values, errors, said, one in zip(scores, spread, warnings, told, strict=True)
    ]
