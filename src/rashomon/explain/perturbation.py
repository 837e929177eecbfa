"""Explainers that take tokens out and watch the output: leave-one-out, LIME, Kernel SHAP.

LIME and Kernel SHAP are two weightings of one linear fit. By default they draw the same coalitions - a size
uniform between 1 and n - 1, then tokens at random, each set followed by its complement - so that asking for both
costs one set of evaluations. Under this draw the Shapley kernel becomes an importance weight proportional to
1 / (s (n - s)). Texts with no more coalitions than samples are enumerated, which makes Kernel SHAP exact.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.special import softmax

from rashomon.data.batches import Bools
from rashomon.errors import UserError
from rashomon.explain.base import Explainer, Floats, Job, Scores, explainers
from rashomon.explain.engine import Perturbation

Draw = Literal["sizes", "coins"]


def explained_values(job: Job, kept: list[Bools], how: Perturbation) -> list[Floats]:
    """The explained output of every example under every one of its coalitions over content tokens."""
    full: list[Bools] = []
    for encoding, matrix in zip(job.encodings, kept, strict=True):
        whole = np.ones((len(matrix), len(encoding)), dtype=np.bool_)
        whole[:, encoding.content] = matrix
        full.append(whole)
    values: list[Floats] = []
    for logits, target in zip(job.engine.logits(job.encodings, full, how), job.targets, strict=True):
        outputs = softmax(logits, axis=1) if job.space == "probability" else logits
        values.append(outputs[:, target])
    return values


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


def coalitions(n: int, samples: int, draw: Draw, generator: np.random.Generator) -> Bools:
    """Sets of kept tokens ``[S, n]``: every proper one when they are few, otherwise ``samples`` drawn ones."""
    if n <= 20 and 2**n - 2 <= samples:
        numbers = np.arange(1, 2**n - 1)
        return ((numbers[:, None] >> np.arange(n)) & 1).astype(np.bool_)
    half = (samples + 1) // 2
    if draw == "coins":
        drawn = generator.random((half, n)) < 0.5
    else:
        sizes = generator.integers(1, n, size=half)
        ranks = generator.random((half, n)).argsort(1).argsort(1)
        drawn = ranks < sizes[:, None]
    return np.concatenate([drawn, ~drawn])[:samples]


def weighted_ridge(kept: Floats, values: Floats, weights: Floats, penalty: float) -> Floats:
    """Coefficients ``[B, n]`` of weighted ridge regressions with a free intercept, solved in closed form.

    ``kept`` is ``[B, S, n]``, ``values`` and ``weights`` are ``[B, S]``.
    """
    share = weights / weights.sum(1, keepdims=True)
    features = kept - np.einsum("bs,bsn->bn", share, kept)[:, None]
    centred = values - (share * values).sum(1, keepdims=True)
    weighted = features * weights[..., None]
    gram = np.einsum("bsn,bsm->bnm", weighted, features, optimize=True)
    gram += penalty * np.eye(kept.shape[2])
    moment = np.einsum("bsn,bs->bn", weighted, centred)
    solved: Floats = np.linalg.solve(gram, moment[..., None])[..., 0]
    return solved


def shapley_regression(kept: Floats, values: Floats, weights: Floats, empty: Floats, whole: Floats) -> Floats:
    """Coefficients ``[B, n]`` that add up to ``whole - empty`` exactly and fit the coalitions best otherwise."""
    change = whole - empty
    last = kept[..., -1]
    features = kept[..., :-1] - last[..., None]
    residual = values - empty[:, None] - last * change[:, None]
    weighted = features * weights[..., None]
    gram = np.einsum("bsn,bsm->bnm", weighted, features, optimize=True)
    # Drawn coalitions may leave a direction undetermined; a whisper of ridge keeps the solve defined.
    gram += 1e-10 * np.trace(gram, axis1=1, axis2=2)[:, None, None] * np.eye(gram.shape[1])
    solved = np.linalg.solve(gram, np.einsum("bsn,bs->bn", weighted, residual)[..., None])[..., 0]
    return np.concatenate([solved, (change - solved.sum(1))[:, None]], axis=1)


@dataclass(frozen=True, slots=True)
class _Drawn:
    kept: list[Bools]
    values: list[Floats]
    empty: Floats
    whole: Floats

    def same_shape(self) -> list[list[int]]:
        """Examples whose systems have one shape, to be solved together."""
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for i, matrix in enumerate(self.kept):
            groups[matrix.shape].append(i)
        return list(groups.values())

    def stack(self, group: list[int]) -> tuple[Floats, Floats]:
        kept = np.stack([self.kept[i] for i in group]).astype(np.float64)
        return kept, np.stack([self.values[i] for i in group])


def draw_and_evaluate(job: Job, samples: int, draw: Draw, how: Perturbation) -> _Drawn:
    if samples < 2:
        raise UserError(f"A fit over perturbed texts needs at least two samples, not {samples}.")
    kept: list[Bools] = []
    for i, encoding in enumerate(job.encodings):
        n = int(encoding.content.sum())
        proper = coalitions(n, samples, draw, job.generator(i, "coalitions"))
        kept.append(np.vstack([np.zeros((1, n), dtype=np.bool_), np.ones((1, n), dtype=np.bool_), proper]))
    values = explained_values(job, kept, how)
    ends = np.array([(v[0], v[1]) for v in values])
    return _Drawn([k[2:] for k in kept], [v[2:] for v in values], ends[:, 0], ends[:, 1])


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

    def attribute(self, job: Job) -> list[Scores]:
        drawn = draw_and_evaluate(job, self.samples, self.draw, self.perturbation)
        scores: list[Floats] = [np.zeros(0)] * len(job.encodings)
        for group in drawn.same_shape():
            kept, values = drawn.stack(group)
            # The whole and the empty text are samples too; a text of one token has no others.
            one = np.ones((len(group), 1, kept.shape[2]))
            kept = np.concatenate([one, 0 * one, kept], axis=1)
            ends = np.stack([drawn.whole[group], drawn.empty[group]], axis=1)
            values = np.concatenate([ends, values], axis=1)
            fitted = weighted_ridge(kept, values, self.kernel(kept), self.penalty)
            for i, coefficients in zip(group, fitted, strict=True):
                scores[i] = coefficients
        return [Scores(values) for values in on_content(job, scores)]

    def kernel(self, kept: Floats) -> Floats:
        distance = 1 - np.sqrt(kept.mean(2))
        weights: Floats = np.exp(-((distance / self.kernel_width) ** 2) / 2)
        return weights


@explainers.register("kernel-shap")
@dataclass(frozen=True, slots=True)
class KernelShap(Explainer):
    """Shapley values by weighted regression; exact when the text has no more coalitions than ``samples``."""

    name: ClassVar[str] = "kernel-shap"
    stochastic: ClassVar[bool] = True
    samples: int = 1000
    draw: Draw = "sizes"
    perturbation: Perturbation = "remove"

    def attribute(self, job: Job) -> list[Scores]:
        drawn = draw_and_evaluate(job, self.samples, self.draw, self.perturbation)
        scores: list[Floats] = [np.zeros(0)] * len(job.encodings)
        for group in drawn.same_shape():
            n = drawn.kept[group[0]].shape[1]
            ends = drawn.empty[group], drawn.whole[group]
            if n == 1:
                fitted = (ends[1] - ends[0])[:, None]
            else:
                kept, values = drawn.stack(group)
                fitted = shapley_regression(kept, values, self.kernel(kept), *ends)
            for i, coefficients in zip(group, fitted, strict=True):
                scores[i] = coefficients
        return [Scores(values, gap=0.0) for values in on_content(job, scores)]

    def kernel(self, kept: Floats) -> Floats:
        """The Shapley kernel divided by the probability with which a set was drawn."""
        n = kept.shape[2]
        size = kept.sum(2)
        enumerated = n <= 20 and 2**n - 2 == kept.shape[1]
        inside = np.clip(
            size, 1, n - 1
        )  # coins may draw the empty or the whole set, whose weight is the constraint
        weights = (n - 1) / (inside * (n - inside))
        if enumerated or self.draw == "coins":
            weights = weights / _binomial(n, inside)
            weights = weights / weights.max(axis=1, keepdims=True)
        return np.where((size > 0) & (size < n), weights, 0.0)


def _binomial(n: int, k: Floats) -> Floats:
    from scipy.special import gammaln

    logs = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    return np.asarray(np.exp(logs - logs.min()), dtype=np.float64)
