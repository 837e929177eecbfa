"""How good is the classifier? Accuracy, F1 and ROC-AUC from probabilities [N, C] and labels [N].

Used to pick the best epoch and in reports. What cannot be computed (no instances, one class only for
ROC-AUC) is NaN, never 0.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from rashomon.errors import UserError
from rashomon.measures.base import Floats, Ints


def _checked(probabilities: ArrayLike, labels: ArrayLike) -> tuple[Floats, Ints]:
    p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.int64)
    if p.ndim != 2 or p.shape[1] < 2 or y.shape != p.shape[:1]:
        raise UserError("Scores need probabilities [N, C] with C of at least 2, and one label for each of N.")
    if y.size and (y.min() < 0 or y.max() >= p.shape[1]):
        raise UserError(f"Labels must lie in 0..{p.shape[1] - 1}, the classes of the probabilities.")
    return p, y


def accuracy(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Share of instances whose most probable class is the label."""
    p, y = _checked(probabilities, labels)
    return float((p.argmax(axis=1) == y).mean()) if y.size else math.nan


def f1(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """F1 of class 1 for two classes, the mean of the classes' F1 (macro) for more.

    A class that is neither a label nor predicted has no F1: it is left out of the mean, and for two
    classes the score is NaN.
    """
    from sklearn import metrics  # slow to load, and not everyone scores

    p, y = _checked(probabilities, labels)
    if not y.size:
        return math.nan
    classes = [1] if p.shape[1] == 2 else list(range(p.shape[1]))
    each = metrics.f1_score(y, p.argmax(axis=1), labels=classes, average=None, zero_division=np.nan)
    return float(np.nanmean(each)) if np.isfinite(each).any() else math.nan


def roc_auc(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Area under the ROC curve of class 1; for more classes the mean of each class against the rest.

    Classes without an instance, or with nothing but instances, have no curve and are left out.
    """
    from sklearn import metrics

    p, y = _checked(probabilities, labels)
    if not np.isfinite(p).all():
        return math.nan
    classes = [1] if p.shape[1] == 2 else range(p.shape[1])
    areas = [metrics.roc_auc_score(y == c, p[:, c]) for c in classes if 0 < int((y == c).sum()) < y.size]
    return float(np.mean(areas)) if areas else math.nan
