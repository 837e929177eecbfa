"""The best alternative that anything found, and when a search was not carried to its end."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from rashomon.experiments.adversaries import Outcome
from rashomon.experiments.alternatives import Alternative, alternatives_in, best_alternative, still_learning
from rashomon.measures.divergence import LN2


def test_the_lowest_score_among_those_apart_wins() -> None:
    near = Alternative("seed", 0.0001, 0.05)  # cheap, but hardly elsewhere
    uniform = Alternative("uniform", 0.02, 0.5 * LN2)
    adversary = Alternative("adversary", 0.3, LN2)
    assert best_alternative([near, adversary, uniform]) is uniform
    assert uniform.score == pytest.approx(0.04)
    assert uniform.finder == "a model with uniform weights"
    assert best_alternative([near]) is near  # better than nothing, and it says that it is not apart
    assert not near.is_apart
    assert best_alternative([]) is None


def test_an_undefined_score_is_no_alternative() -> None:
    still = Alternative("adversary", 0.0, 0.0)
    assert best_alternative([still]) is None or still.score == still.score


def test_one_alternative_a_kind_and_seed() -> None:
    table = pd.DataFrame(
        {"kind": "seed", "seed": [1, 1, 2, 2], "tvd": [0.0, 0.2, 0.4, 0.4], "jsd": [0.1, 0.3, 0.5, 0.5]}
    )
    found = alternatives_in([table, table.assign(kind="uniform", seed=0)])
    assert [(a.kind, round(a.tvd, 6), round(a.jsd, 6)) for a in found] == [
        ("seed", 0.1, 0.2),
        ("seed", 0.4, 0.5),
        ("uniform", 0.25, 0.35),
    ]


@pytest.mark.parametrize(("epochs", "expected"), [((5, 5, 3), True), ((5, 3, 4), False), ((5, 4), False)])
def test_most_must_have_been_cut_off(epochs: tuple[int, ...], expected: bool) -> None:
    member = SimpleNamespace(training=SimpleNamespace(epochs=5))
    outcomes = [Outcome(member, None, epoch, 5, {}, {}) for epoch in epochs]  # type: ignore[arg-type]
    assert still_learning(outcomes) is expected
