from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics

from rashomon.errors import UserError
from rashomon.measures import classification as scores


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_equal_to_scikit_learn(classes: int) -> None:
    rng = np.random.default_rng(classes)
    labels = rng.integers(0, classes, size=200)
    p = rng.dirichlet(np.ones(classes), size=200)
    p[np.arange(200), labels] += 0.3
    p /= p.sum(axis=1, keepdims=True)
    guess = p.argmax(axis=1)
    average = "binary" if classes == 2 else "macro"
    target = p[:, 1] if classes == 2 else p
    assert scores.accuracy(p, labels) == pytest.approx(metrics.accuracy_score(labels, guess))
    assert scores.f1(p, labels) == pytest.approx(metrics.f1_score(labels, guess, average=average))
    assert scores.roc_auc(p, labels) == pytest.approx(
        metrics.roc_auc_score(labels, target, multi_class="ovr", average="macro")
    )


def test_what_cannot_be_computed_is_nan() -> None:
    nothing = (np.empty((0, 2)), [])
    assert all(math.isnan(score(*nothing)) for score in (scores.accuracy, scores.f1, scores.roc_auc))
    one_class = ([[0.9, 0.1], [0.8, 0.2]], [0, 0])
    assert scores.accuracy(*one_class) == 1.0
    assert math.isnan(scores.f1(*one_class))  # no positive, none predicted
    assert math.isnan(scores.roc_auc(*one_class))
    assert math.isnan(scores.roc_auc([[0.5, 0.5], [math.nan, 0.5]], [0, 1]))
    assert scores.f1([[0.9, 0.1], [0.8, 0.2]], [1, 1]) == 0.0  # positives, none found


def test_a_class_without_instances_is_left_out() -> None:
    p = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.6, 0.1]])
    assert scores.roc_auc(p, [0, 1, 1]) == pytest.approx(1.0)
    assert scores.f1(p, [0, 1, 1]) == pytest.approx(1.0)
    once = np.array([[0.8, 0.1, 0.1], [0.05, 0.85, 0.1], [0.82, 0.15, 0.03]])
    assert scores.roc_auc(once, [0, 1, 1]) == pytest.approx((0.5 + 1.0) / 2), "one instance is a curve"


@pytest.mark.parametrize(
    ("p", "labels"), [([0.1, 0.9], [0, 1]), ([[0.1, 0.9]], [0, 1]), ([[1.0]], [0]), ([[0.5, 0.5]], [2])]
)
def test_wrong_shapes_and_labels_are_refused(p: list[float], labels: list[int]) -> None:
    with pytest.raises(UserError):
        scores.accuracy(p, labels)
