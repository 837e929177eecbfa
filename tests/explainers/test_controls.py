"""Controls know nothing about the model, and the trivial one gives the class away by place."""

from __future__ import annotations

import numpy as np
import pytest

from rashomon.explainers import explain, make_explainer
from rashomon.explainers.controls import Trivial
from tests.explainers.conftest import Families, Jobs
from tests.models.tiny import SINGLES


def test_random_scores_differ_by_text_and_seed_and_are_signed(families: Families) -> None:
    one, two = families("bert"), families("distilbert")
    scores = np.concatenate([item.scores[item.content] for item in explain(one, SINGLES, ["random"])])
    assert -1 <= scores.min() < 0 < scores.max() <= 1
    assert len(np.unique(scores)) == len(scores)
    again = np.concatenate([item.scores[item.content] for item in explain(two, SINGLES, ["random"])])
    np.testing.assert_array_equal(scores, again)  # the same tokens, so the same draw, whatever the model
    other = np.concatenate([item.scores[item.content] for item in explain(one, SINGLES, ["random"], seed=7)])
    assert np.abs(scores - other).max() > 0.1


@pytest.mark.parametrize(
    ("target", "percent", "marked"),
    [(1, 10.0, [0]), (0, 10.0, [1]), (1, 25.0, [0, 1]), (0, 25.0, [2, 3])],
)
def test_trivial_marks_the_first_share_for_class_one_and_the_next_for_class_zero(
    jobs: Jobs, target: int, percent: float, marked: list[int]
) -> None:
    job = jobs("bilstm", examples=(SINGLES[2],), targets=np.array([target]))
    (scores,) = Trivial(percent).attribute(job)
    assert np.flatnonzero(scores.values).tolist() == marked
    (one,) = Trivial(percent).attribute(jobs("bert", examples=(SINGLES[1],), targets=np.array([target])))
    assert np.flatnonzero(one.values).tolist() == [1]  # a single content token, behind [CLS]


def test_further_classes_follow(jobs: Jobs) -> None:
    places = []
    for target in (1, 0, 2):
        job = jobs("bilstm", pair=True, targets=np.full(4, target))
        places.append(np.flatnonzero(Trivial(20).attribute(job)[2].values).tolist())
    assert places == [[0, 1], [2, 3], [4, 5]]


def test_controls_ask_nothing_of_the_model(jobs: Jobs) -> None:
    job = jobs("bilstm")
    before = job.engine.counts.evaluated
    for method in ("random", "trivial"):
        make_explainer(method).attribute(job)
    assert job.engine.counts.evaluated == before
