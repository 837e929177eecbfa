"""What other attention did anything find? Whatever was found bounds what a failed search may be taken to prove.

Beside adversaries stand ordinary models of other seeds, a model with uniform weights, and the search text by text. Each
is a mean TVD at a mean JSD from the base. The best of them all says how exclusive the base's attention can be at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from rashomon.experiments.adversaries import Outcome
from rashomon.experiments.context import Context, Work
from rashomon.experiments.instance_search import Search, refusal, search_all, search_work
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import draw
from rashomon.experiments.trials import Trial, against_base, other_models
from rashomon.measures.divergence import LN2, attefa_score

ADVERSARY, SEED, UNIFORM, INSTANCE = "adversary", "seed", "uniform", "instance"
NAMES = {
    ADVERSARY: "an adversary",
    SEED: "an ordinary model of another seed",
    UNIFORM: "a model with uniform weights",
    INSTANCE: "the search text by text",
}
APART = 0.25 * LN2  # attentions at least this far from each other are called different


@dataclass(frozen=True)
class Alternative:
    """One other attention: what it costs in predictions (TVD) and how far it is from the base's (JSD)."""

    kind: str
    tvd: float
    jsd: float

    @property
    def score(self) -> float:
        """AtteFa's: 0 where the same predictions come from a distant attention, 1 where they do not."""
        return attefa_score(self.tvd, self.jsd)

    @property
    def is_apart(self) -> bool:
        return self.jsd >= APART

    @property
    def finder(self) -> str:
        return NAMES[self.kind]


def beside_adversaries(
    context: Context,
    trial: Trial,
    other_seeds: tuple[int, ...],
    uniform: Subject | None,
    search: Search | None,
    instances: int,
) -> tuple[list[pd.DataFrame], list[str]]:
    """Tables of other seeds, uniform weights and the search text by text, where they are to be had; what is missing."""
    parts, notes = [], []
    trainable = trial.subject.checkpoint is None
    if other_seeds and trainable:
        parts.append(other_models(context, trial, other_seeds).assign(kind=SEED))
    if uniform is not None and trainable:
        model = context.trained([uniform])[0][0].model
        parts.append(against_base(trial, model).assign(kind=UNIFORM, seed=trial.subject.seeds[0]))
    replaceable = refusal(trial.base_model()) is None
    if search is not None and replaceable:
        texts = draw(trial.data, "test", instances, 0)
        found = search_all(context, trial.base, texts, search, 0)
        parts.append(found.assign(kind=INSTANCE, seed=0, **{"class": -1}))
    if not trainable:
        notes.append("A checkpoint is not trained again, so other seeds and uniform weights are missing.")
    if search is not None and not replaceable:
        notes.append(
            "The per-instance adversary needs a model whose weights can be replaced, so it is missing."
        )
    return [part for part in parts if len(part)], notes


def searching_work(context: Context, trial: Trial, search: Search | None, instances: int) -> list[Work]:
    """The search text by text, for those who have other work to do beside it."""
    if search is None or refusal(trial.base_model()) is not None:
        return []
    return search_work(context, trial.base, draw(trial.data, "test", instances, 0), search, 0)


def alternatives_in(parts: Sequence[pd.DataFrame]) -> list[Alternative]:
    """One alternative a kind and seed, from tables with a row a text."""
    found = []
    for part in parts:
        for (kind, _), group in part.groupby(["kind", "seed"], sort=False):
            found.append(Alternative(str(kind), float(group["tvd"].mean()), float(group["jsd"].mean())))
    return found


def alternatives_of(outcomes: Sequence[Outcome]) -> list[Alternative]:
    """What adversaries found."""
    return [Alternative(ADVERSARY, outcome.scores["tvd"], outcome.scores["jsd"]) for outcome in outcomes]


def best_alternative(found: Sequence[Alternative]) -> Alternative | None:
    """The one with the lowest score among those that attend apart; where none does, the lowest of all."""
    defined = [alternative for alternative in found if alternative.score == alternative.score]
    apart = [alternative for alternative in defined if alternative.is_apart]
    return min(apart or defined, key=lambda alternative: alternative.score, default=None)


def still_learning(outcomes: Sequence[Outcome]) -> bool:
    """Whether most adversaries were stopped in the epoch that is kept: longer training might find more."""
    return 2 * sum(outcome.was_cut_off for outcome in outcomes) > len(outcomes)
