"""Answers of questions explained: every method that applies, on every family of question answerers."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from rashomon.data.example import Example
from rashomon.errors import UserError
from rashomon.explainers import Explanations, explain, make_explainer
from rashomon.explainers.display import prediction, to_html
from rashomon.models.attention import rollout
from rashomon.models.tasks import SPAN
from tests.explainers.conftest import ANSWERERS, Families
from tests.explainers.test_every_explainer import METHODS as ALL
from tests.explainers.test_every_explainer import UNTOUCHED, quick
from tests.models.tiny import QUESTIONS

LONG = Example(
    "long", "is the plot good", None, "a witty film and the plot is long but good " * 10, answers=()
)
EXAMPLES = (*QUESTIONS, LONG)
METHODS = [method for method in ALL if method != "trivial"]  # which knows classes alone
CASES = [(family, method) for family in ANSWERERS for method in METHODS]


@pytest.fixture(scope="module")
def explanations_of(families: Families) -> Any:
    @cache
    def get(family: str, which: tuple[int, ...] = tuple(range(len(EXAMPLES)))) -> Explanations:
        examples = [EXAMPLES[i] for i in which]
        return explain(families(family), examples, [quick(m) for m in METHODS], background=QUESTIONS)

    return get


def _by(explanations: Explanations, method: str) -> list[Any]:
    return [item for item in explanations if item.method.partition("(")[0] == method]


@pytest.mark.parametrize(("family", "method"), CASES)
def test_one_finite_score_a_token(families: Families, explanations_of: Any, family: str, method: str) -> None:
    model = families(family)
    encodings = model.encode(EXAMPLES)
    items = _by(explanations_of(family), method)
    assert [item.example_id for item in items] == [example.id for example in EXAMPLES]
    for item, encoding, example in zip(items, encodings, EXAMPLES, strict=True):
        assert item.tokens == encoding.tokens
        assert np.isfinite(item.scores).all()
        assert np.abs(item.scores[item.content]).max() > 0
        if method in UNTOUCHED:
            assert (item.scores[item.special] == 0).all()
        batch = model.collate([encoding])
        with torch.no_grad():
            start, end = SPAN.answers(model(batch).logits)[0].tolist()
        assert item.answer == (start, end)
        assert (
            item.target_label
            == (example.text_pair or "")[encoding.offsets[start, 0] : encoding.offsets[end, 1]]
        )


@pytest.mark.parametrize(("family", "method"), CASES)
def test_alone_and_in_a_batch_the_same(explanations_of: Any, family: str, method: str) -> None:
    together = {item.example_id: item for item in _by(explanations_of(family), method)}
    for number in (1, 2):
        (alone,) = _by(explanations_of(family, (number,)), method)
        same = together[alone.example_id]
        np.testing.assert_allclose(same.scores, alone.scores, atol=2e-5, rtol=2e-4)
        assert same.answer == alone.answer


@pytest.mark.parametrize("family", ANSWERERS)
def test_what_adds_up(families: Families, explanations_of: Any, family: str) -> None:
    for method in ("deeplift", "deep-shap"):
        for item in _by(explanations_of(family), method):
            assert item.gap is not None
            assert item.gap < 1e-2
    for item in explain(families(family), QUESTIONS[:2], ["integrated-gradients", "layer-conductance"]):
        assert item.gap is not None
        assert item.gap < 2e-2


@pytest.mark.parametrize("family", ANSWERERS)
def test_leave_one_out_masks_and_keeps_places(families: Families, explanations_of: Any, family: str) -> None:
    """By hand: the sum of the predicted span's logits with one token's id replaced by the mask's."""
    model = families(family)
    item = _by(explanations_of(family), "leave-one-out")[0]
    assert item.configuration["perturbation"] == "mask"
    batch = model.collate(model.encode(EXAMPLES[:1]))
    start, end = item.answer

    def value() -> float:
        with torch.no_grad():
            logits = model(batch).logits[0]
        return float(logits[start, 0] + logits[end, 1])

    whole = value()
    for place in np.flatnonzero(item.content):
        before = int(batch.ids[0, place])
        batch.ids[0, place] = model.mask_id
        assert item.scores[place] == pytest.approx(whole - value(), abs=1e-4)
        batch.ids[0, place] = before


def test_rollout_begins_at_the_answer(families: Families, explanations_of: Any) -> None:
    model = families("bert-qa")
    item = _by(explanations_of("bert-qa"), "attention-rollout")[0]
    with torch.no_grad():
        output = model(model.collate(model.encode(EXAMPLES[:1])))
    readout = torch.zeros(len(item))
    for place in item.answer:
        readout[place] += 0.5
    expected = rollout(tuple(layer[0] for layer in output.layers), readout)
    np.testing.assert_allclose(item.scores, expected.numpy(), atol=1e-6)


def test_another_answer_can_be_asked_for(families: Families) -> None:
    model = families("bert-qa")
    (encoding,) = model.encode(QUESTIONS[:1])
    inside = np.flatnonzero(encoding.content & (encoding.segments == 1))
    target = (int(inside[1]), int(inside[2]))
    methods = [
        "gradient-x-input",
        make_explainer("integrated-gradients", steps=64),
        "deeplift",
        "leave-one-out",
    ]
    asked = explain(model, QUESTIONS[:1], methods, targets=[target])
    usual = explain(model, QUESTIONS[:1], methods)
    with torch.no_grad():
        logits = model(model.collate([encoding])).logits[0]
    for one, other in zip(asked, usual, strict=True):
        assert one.answer == target
        assert one.target_label == "plot was"
        assert np.abs(one.scores - other.scores).max() > 1e-3
    start, end = target
    chance = float(logits[:, 0].softmax(0)[start] * logits[:, 1].softmax(0)[end])
    assert asked[0].probabilities == pytest.approx((chance,), rel=1e-4)
    for wrong in ((0, 1), (target[1], target[0])):
        with pytest.raises(UserError, match="no span of the passage"):
            explain(model, QUESTIONS[:1], ["leave-one-out"], targets=[wrong])


def test_the_product_of_probabilities_is_explained(families: Families) -> None:
    model = families("bert-qa")
    (item,) = explain(model, QUESTIONS[:1], ["deeplift"], space="probability")
    batch = model.collate(model.encode(QUESTIONS[:1]))
    blank = batch.ids.masked_fill(batch.content, model.pad_id)
    with torch.no_grad():
        whole, empty = (
            model(batch).logits[0],
            model(
                type(batch)(
                    blank, *(getattr(batch, name) for name in ("mask", "segments", "positions", "content"))
                )
            ).logits[0],
        )
    start, end = item.answer

    def chance(logits: torch.Tensor) -> float:
        return float(logits[:, 0].softmax(0)[start] * logits[:, 1].softmax(0)[end])

    assert item.probabilities[0] == pytest.approx(chance(whole), rel=1e-4)
    assert item.scores.sum() == pytest.approx(chance(whole) - chance(empty), abs=2e-3)


def test_kept_shown_and_merged(explanations_of: Any, tmp_path: Any) -> None:
    made = explanations_of("bert-qa")
    made.save(tmp_path / "explanations.parquet")
    again = Explanations.load(tmp_path / "explanations.parquet")
    assert again == made
    item = made[0]
    assert prediction(item).startswith(f"Answer: {item.target_label} (")
    page = to_html([item])
    assert page.index("Question") < page.index("Passage")
    for words in made.words():
        first, last = words.answer
        start, end = words.offsets[first, 0], words.offsets[last, 1]
        text = words.text_pair[start:end]
        assert words.target_label in text  # a piece of a word became the word
        assert (words.segments[[first, last]] == 1).all()
