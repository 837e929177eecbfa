"""DeepLIFT whose scores add up, on any model, and its average over references, Deep SHAP.

The rules live in ``rules.py``. Where an operation has no rule, it passes its plain gradient and the explanation
carries a warning with the count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from rashomon.data.batches import Batch, Encoding
from rashomon.explain.base import Aggregation, Explainer, Floats, Job, Scores, explainers, relative_gap
from rashomon.explain.gradients import NEEDS_GRADIENTS, aggregate, draw_references, gap_warning
from rashomon.explain.paths import Reference, References, reference_embeddings, select
from rashomon.explain.rules import difference_rules
from rashomon.models.predict import evaluating


@dataclass(frozen=True, slots=True)
class _Lifted:
    values: Floats  # [n, D]
    change: float
    warnings: tuple[str, ...]


def lift(job: Job, pairs: Sequence[tuple[int, Encoding | Reference]]) -> list[_Lifted]:
    """Contributions of every (example, reference) pair, batched by length."""
    lengths = np.array([len(job.encodings[i]) for i, _ in pairs])
    lifted: dict[int, _Lifted] = {}
    with evaluating(job.model):
        for index in job.engine.batches(lengths, rows_each=2):
            for p, done in zip(index.tolist(), _lift_batch(job, [pairs[p] for p in index]), strict=True):
                lifted[p] = done
    job.engine.counts.evaluated += 2 * len(pairs)
    return [lifted[p] for p in range(len(pairs))]


def _lift_batch(job: Job, pairs: Sequence[tuple[int, Encoding | Reference]]) -> list[_Lifted]:
    encodings = [job.encodings[i] for i, _ in pairs]
    batch = job.model.collate(encodings)
    inputs = job.model.embed(batch).detach()
    others = reference_embeddings(job, batch, inputs, encodings, [end for _, end in pairs])
    targets = torch.from_numpy(job.targets[[i for i, _ in pairs]]).to(inputs.device)
    both = torch.cat([inputs, others]).requires_grad_(True)
    with difference_rules() as rules:
        values = select(job.model(_twice(batch), embeddings=both), targets.repeat(2), job.space)
        (multipliers,) = torch.autograd.grad(values[: len(pairs)].sum(), both)
    contributions = (multipliers[: len(pairs)] * (inputs - others)).double().cpu().numpy()
    changes = (values[: len(pairs)] - values[len(pairs) :]).detach().double().cpu().numpy()
    warnings: tuple[str, ...] = ()
    if rules.missing:
        listed = ", ".join(f"{name} x{count}" for name, count in sorted(rules.missing.items()))
        warnings = (f"no DeepLIFT rule for {listed}; plain gradients there",)
    return [
        _Lifted(contributions[row, : len(encoding)], float(changes[row]), warnings)
        for row, encoding in enumerate(encodings)
    ]


def _twice(batch: Batch) -> Batch:
    return Batch(*(torch.cat([t, t]) for t in (batch.ids, batch.mask, batch.segments, batch.positions)))


@explainers.register("deeplift")
@dataclass(frozen=True, slots=True)
class DeepLift(Explainer):
    """Contributions to the change from a reference, every function passing back its slope between the two."""

    name: ClassVar[str] = "deeplift"
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    reference: Reference = "pad"
    aggregation: Aggregation = "sum"

    def attribute(self, job: Job) -> list[Scores]:
        lifted = lift(job, [(i, self.reference) for i in range(len(job.encodings))])
        return [_scores([done], self.aggregation) for done in lifted]


@explainers.register("deep-shap")
@dataclass(frozen=True, slots=True)
class DeepShap(Explainer):
    """DeepLIFT averaged over references: random training examples, or padding, zero and mask without any."""

    name: ClassVar[str] = "deep-shap"
    needs: ClassVar[frozenset[str]] = NEEDS_GRADIENTS
    stochastic: ClassVar[bool] = True
    samples: int = 8
    references: References = "training"
    aggregation: Aggregation = "sum"

    def attribute(self, job: Job) -> list[Scores]:
        ends = [self._references(job, i) for i in range(len(job.encodings))]
        lifted = lift(job, [(i, end) for i, several in enumerate(ends) for end in several])
        scores: list[Scores] = []
        for several in ends:
            scores.append(_scores(lifted[: len(several)], self.aggregation))
            lifted = lifted[len(several) :]
        return scores

    def _references(self, job: Job, index: int) -> list[Encoding | Reference]:
        if self.references == "training" and not job.background:
            return ["pad", "zero", "mask"]
        return draw_references(job, self.references, self.samples, job.generator(index, self.name))


def _scores(lifted: Sequence[_Lifted], how: Aggregation) -> Scores:
    values = np.mean([done.values for done in lifted], axis=0)
    change = np.mean([done.change for done in lifted])
    gap = float(relative_gap(values.sum(), change))
    warnings = {warning: None for done in lifted for warning in done.warnings}
    return Scores(aggregate(values, how), gap, (*warnings, *gap_warning(gap)))
