"""DeepLIFT whose scores add up, on any model, and its average over references, Deep SHAP.

The rules live in ``rules.py``. Where an operation has no rule, it passes its plain gradient and the explanation
carries a warning with the count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy  # its parts load when they are first used
import torch
from torch import Tensor

from rashomon.data.batches import Encoding, Ints
from rashomon.errors import UserError
from rashomon.explainers.base import Aggregation, Explainer, Floats, Job, Scores, explainers, relative_gap
from rashomon.explainers.difference.rules import DifferenceRules, difference_rules
from rashomon.explainers.gradients import NEEDS_GRADIENTS, gap_warning
from rashomon.explainers.lines import ways_of
from rashomon.explainers.paths import aggregate, path_ends
from rashomon.explainers.references import Pair, Reference, References, draw_references
from rashomon.explainers.settling import TOP

NO_BACKGROUND = "no training examples to refer to were given; padding, zero and mask stand in for them"
ONE_STAND_IN = f"{NO_BACKGROUND}, which are one vector in this model, so that this is DeepLIFT"

TOGETHER, MANY_TOGETHER = 128, 8192  # texts times references whose values, or whose sums, are held at once
LEAST_AGREEMENT = 0.8  # of two halves of the references
REPLACED = 2  # of their top five tokens, from which on it is worth a word


@dataclass(frozen=True, slots=True)
class _Lifted:
    values: Floats  # [n, D], or [n, 1] of sums
    change: float
    warnings: tuple[str, ...]


def lift(job: Job, pairs: Sequence[Pair], how: Aggregation) -> list[_Lifted]:
    """Contributions of every (example, reference) pair, batched by length."""

    def work(index: Ints) -> list[_Lifted]:
        return _lift_batch(job, [pairs[p] for p in index], how)

    lengths = np.array([len(job.encodings[i]) for i, _ in pairs])
    return job.engine.run(lengths, work, rows=np.full(len(pairs), 2), gradients=True)


def _lift_batch(job: Job, pairs: Sequence[Pair], how: Aggregation) -> list[_Lifted]:
    contribute = _along_lines if how == "sum" and job.model.enters else _between_embeddings
    contributions, values, rules = contribute(job, pairs)
    if (
        rules.missing and len(pairs) > 1
    ):  # what is not followed may mix rows (experts do), so that each goes alone
        return [lifted for pair in pairs for lifted in _lift_batch(job, [pair], how)]
    if how == "sum":
        contributions = contributions.sum(-1, keepdim=True)
    scores = contributions.double().cpu().numpy()
    inputs, references = values.detach().double().cpu().chunk(2)
    changes = (inputs - references).numpy()
    warnings: tuple[str, ...] = ()
    if rules.missing:
        listed = ", ".join(f"{name} x{times}" for name, times in sorted(rules.missing.items()))
        warnings = (f"no DeepLIFT rule for {listed}; plain gradients there",)
    return [
        _Lifted(scores[row, : len(job.encodings[i])], float(changes[row]), warnings)
        for row, (i, _) in enumerate(pairs)
    ]


def _between_embeddings(job: Job, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor, DifferenceRules]:
    """Contributions ``[B, T, D]``, outputs of all inputs and then of all references, and the rules that were used."""
    ends, count = path_ends(job, pairs), len(pairs)
    both = torch.cat([ends.inputs, ends.others]).requires_grad_(True)
    twice = ends.batch.rows(torch.arange(count, device=both.device).repeat(2))
    with difference_rules() as rules:
        values = job.value(job.model(twice, embeddings=both), torch.cat([ends.targets, ends.targets]))
        (multipliers,) = torch.autograd.grad(values[:count].sum(), both)
    return multipliers[:count] * (ends.inputs - ends.others), values, rules


def _along_lines(job: Job, pairs: Sequence[Pair]) -> tuple[Tensor, Tensor, DifferenceRules]:
    """The same ``[B, T, 1]`` of a model that begins with an affine map, behind it."""
    ways, count = ways_of(job, pairs), len(pairs)
    twice, lines = ways.both_ends()
    with difference_rules() as rules:
        values = job.value(job.model(twice, embeddings=lines), torch.cat([ways.targets, ways.targets]))
        (scores,) = torch.autograd.grad(values[:count].sum(), lines.share)
    return scores[:count, :, None], values, rules


@explainers.register("deeplift")
@dataclass(frozen=True, slots=True)
class DeepLift(Explainer):
    """Contributions to the change from a reference, every function passing back its slope between the two."""

    name: ClassVar[str] = "deeplift"
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    reference: Reference = "pad"
    aggregation: Aggregation = "sum"

    def attribute(self, job: Job) -> list[Scores]:
        lifted = lift(job, [(i, self.reference) for i in range(len(job.encodings))], self.aggregation)
        return [_scores([done], self.aggregation) for done in lifted]


@explainers.register("deep-shap")
@dataclass(frozen=True, slots=True)
class DeepShap(Explainer):
    """DeepLIFT averaged over references: training examples, or padding, zero and mask when none were given.

    All training examples that are given are used, up to ``samples``; of more, as many are drawn. The standard error is
    that of the mean over references, and two halves of them say whether a repeat would tell the same.
    """

    name: ClassVar[str] = "deep-shap"
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    stochastic: ClassVar[bool] = True
    samples: int = 64
    references: References = "training"
    aggregation: Aggregation = "sum"

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise UserError(f"{self.name} needs at least one sample, not {self.samples}.")

    def attribute(self, job: Job) -> list[Scores]:
        untold = self.references == "training" and not job.background and len(job.encodings) > 0
        stand_ins = _stand_ins(job) if untold else []
        ends = [list(stand_ins) or self._references(job, i) for i in range(len(job.encodings))]
        # Embedding-wise values of all references are large, so that only as many are held as fill a batch.
        held = TOGETHER if self.aggregation == "norm" else MANY_TOGETHER
        together = max(1, held // max(map(len, ends), default=1))
        scores: list[Scores] = []
        for first in range(0, len(ends), together):
            some = range(first, min(first + together, len(ends)))
            lifted = iter(lift(job, [(i, end) for i in some for end in ends[i]], self.aggregation))
            scores += [self._scores(job.encodings[i], [next(lifted) for _ in ends[i]]) for i in some]
        if stand_ins:
            note = ONE_STAND_IN if len(stand_ins) == 1 else NO_BACKGROUND
            return [replace(one, warnings=(note, *one.warnings)) for one in scores]
        return scores

    def _references(self, job: Job, index: int) -> list[Encoding | Reference]:
        if self.references != "training":
            return [self.references]
        if len(job.background) <= self.samples:
            return list(job.background)
        return draw_references(job, self.references, self.samples, job.generator(index, self.name))

    def _scores(self, encoding: Encoding, lifted: Sequence[_Lifted]) -> Scores:
        scores, count = _scores(lifted, self.aggregation), len(lifted)
        if self.references != "training" or count < 4:
            return scores
        values = np.stack([done.values for done in lifted])
        apart = aggregate(values - values.mean(0), self.aggregation)
        spread = np.sqrt((apart**2).sum(0) / (count * (count - 1)))
        halves = [aggregate(values[side::2].mean(0), self.aggregation)[encoding.content] for side in (0, 1)]
        warnings = (*scores.warnings, *_repeat_warning(halves[0], halves[1], count))
        return replace(scores, warnings=warnings, spread=spread, used=count)


def _stand_ins(job: Job) -> list[Reference]:
    """Padding, zero and mask; padding alone where they are one vector, as in decoders without a mask token."""
    names: list[Reference] = ["pad", "zero", "mask"]
    first, *others = path_ends(job, [(0, name) for name in names]).others
    return names[:1] if all(torch.equal(first, other) for other in others) else names


def _repeat_warning(one: Floats, other: Floats, count: int) -> tuple[str, ...]:
    """Where two halves of the references name other tokens first; that lesser ones change their order does no harm."""
    tops = [set(np.argsort(-np.abs(half), kind="stable")[:TOP].tolist()) for half in (one, other)]
    replaced = len(tops[0] - tops[1])
    if replaced < REPLACED:
        return ()
    agreement = scipy.stats.kendalltau(one, other).statistic
    if not agreement < LEAST_AGREEMENT:  # undefined where nothing can be ranked
        return ()
    return (
        f"the halves of its {count} references share {TOP - replaced} of their top {TOP} tokens (Kendall tau "
        f"{agreement:.2f} over all tokens): other references may name other tokens, so give more `background` texts",
    )


def _scores(lifted: Sequence[_Lifted], how: Aggregation) -> Scores:
    values = np.mean([done.values for done in lifted], axis=0)
    change = float(np.mean([done.change for done in lifted]))
    gap = float(relative_gap(values.sum(), change))
    warnings = {warning: None for done in lifted for warning in done.warnings}
    return Scores(aggregate(values, how), gap, (*warnings, *gap_warning(gap)))
