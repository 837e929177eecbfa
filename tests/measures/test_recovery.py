from __future__ import annotations

from math import isnan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from rashomon.errors import UserError
from rashomon.measures import recovery
from rashomon.measures.base import Floats, Ragged
from rashomon.measures.ranks import in_top


@st.composite
def marked(draw: st.DrawFn) -> tuple[Ragged, Ragged]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    decimals = draw(st.sampled_from([0, 1, 9]))
    rows = [int(n) for n in rng.integers(0, 40, size=4)]
    scores = [np.round(rng.normal(size=n), decimals) for n in rows]
    share = draw(st.sampled_from([0.1, 0.5, 0.95]))
    return Ragged.from_list(scores), Ragged.from_list([(rng.random(n) < share).astype(float) for n in rows])


def undefined(marks: Floats) -> bool:
    return len(marks) == 0 or marks.sum() in (0, len(marks))


def sklearn_auprc(marks: Floats, scores: Floats) -> float:
    precision, recall, _ = metrics.precision_recall_curve(marks, scores)
    return float(metrics.auc(recall, precision))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(recovery.average_precision, metrics.average_precision_score), (recovery.auprc, sklearn_auprc)],
)
@settings(max_examples=60, deadline=None)
@given(pair=marked())
def test_areas_equal_scikit_learn(ours, theirs, pair: tuple[Ragged, Ragged]) -> None:  # type: ignore[no-untyped-def]
    scores, marks = pair
    expected = [
        float("nan") if undefined(marks.row(i)) else theirs(marks.row(i), scores.row(i)) for i in range(4)
    ]
    np.testing.assert_allclose(ours(scores, marks), expected, atol=1e-12, rtol=0)


@settings(max_examples=40, deadline=None)
@given(pair=marked(), k=st.sampled_from([None, 3, 0.2]))
def test_token_f1_equals_scikit_learn(pair: tuple[Ragged, Ragged], k: int | float | None) -> None:
    scores, marks = pair
    found = recovery.token_f1(scores, marks, k)
    counts = marks.sum(marks.values).astype(np.int64) if k is None else recovery.top_count(scores.lengths, k)
    tops = scores.split(in_top(scores, counts))
    for i in range(4):
        if undefined(marks.row(i)) or np.ptp(scores.row(i)) == 0:
            assert isnan(found[i])
        else:
            assert found[i] == pytest.approx(metrics.f1_score(marks.row(i), tops[i]))


def test_precision_and_perfect_by_hand() -> None:
    scores = Ragged.from_list([[9, 1, 8, 0, 7], [9, 1, 8, 0, 7]])
    marks = Ragged.from_list([[1, 0, 1, 0, 0], [1, 1, 0, 0, 0]])
    np.testing.assert_allclose(recovery.precision_at(scores, marks, 1), [1, 1])
    np.testing.assert_allclose(recovery.precision_at(scores, marks, 3), [2 / 3, 1 / 3])
    np.testing.assert_allclose(recovery.precision_at(scores, marks, 10), [0.4, 0.4])  # the whole text
    np.testing.assert_allclose(recovery.perfect_top(scores, marks), [1, 0])


def brute_iou_f1(top: np.ndarray, marks: np.ndarray) -> float:
    def spans(mask: np.ndarray) -> list[set[int]]:
        runs: list[set[int]] = []
        for i in np.flatnonzero(mask).tolist():
            if runs and i - 1 in runs[-1]:
                runs[-1].add(i)
            else:
                runs.append({i})
        return runs

    guesses, truths = spans(top), spans(marks)
    hits = sum(any(len(g & t) / len(g | t) >= 0.5 for t in truths) for g in guesses)
    return 2 * hits / (len(guesses) + len(truths))


@settings(max_examples=60, deadline=None)
@given(pair=marked())
def test_iou_f1_is_its_definition(pair: tuple[Ragged, Ragged]) -> None:
    scores, marks = pair
    found = recovery.iou_f1(scores, marks)
    tops = scores.split(in_top(scores, marks.sum(marks.values).astype(np.int64)))
    for i in range(4):
        if undefined(marks.row(i)) or np.ptp(scores.row(i)) == 0:
            assert isnan(found[i])
        else:
            assert found[i] == pytest.approx(brute_iou_f1(tops[i], marks.row(i)))


def test_spans_do_not_run_from_one_text_into_the_next() -> None:
    scores = Ragged.from_list([[0, 1, 2], [3, 1, 0]])
    marks = Ragged.from_list([[0, 0, 1], [1, 0, 0]])
    np.testing.assert_allclose(recovery.iou_f1(scores, marks), [1, 1])


def test_constant_scores_have_an_average_precision_but_no_top() -> None:
    scores, marks = Ragged.from_list([[0.25] * 4]), Ragged.from_list([[1, 0, 0, 0]])
    assert recovery.average_precision(scores, marks)[0] == 0.25
    for function in (recovery.perfect_top, recovery.token_f1, recovery.iou_f1):
        assert isnan(function(scores, marks)[0])


def test_empty_full_and_broken_are_undefined() -> None:
    scores = Ragged.from_list([[1, 2], [1, 2], [1, np.nan]])
    marks = Ragged.from_list([[0, 0], [1, 1], [1, 0]])
    for function in (recovery.average_precision, recovery.auprc, recovery.token_f1, recovery.iou_f1):
        assert np.isnan(function(scores, marks)).all()


def test_weights_are_no_rationale() -> None:
    with pytest.raises(UserError, match="0 or 1"):
        recovery.average_precision(Ragged.from_list([[1, 2]]), Ragged.from_list([[0.5, 0]]))
