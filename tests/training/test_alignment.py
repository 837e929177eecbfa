"""What equalities teach: closed forms, slopes, rows without any, and that no prediction sees one."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rashomon.data import Dataset
from rashomon.data.batches import Rows
from rashomon.errors import DoesNotFit, UserError
from rashomon.experiments.phrases import human_pairs
from rashomon.experiments.students import ON_QUESTIONS, StudentRows
from rashomon.models.base import Model, Output
from rashomon.models.build import build_model
from rashomon.models.evaluator import evaluating, predict, rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.training.alignment import EQUALITIES, AttentionAlignment, alignment_loss
from rashomon.training.learning_from_marks import (
    MARKS,
    AttentionRegularisation,
    LearningFromMarks,
    attention_loss,
)
from rashomon.training.loop import fit
from rashomon.training.objectives import CrossEntropy
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import train
from tests.models.tiny import tiny_checkpoint
from tests.studies.planted_questions import BARE, planted_questions

QUICK = TrainingSpec(epochs=3, batch_size=16, learning_rate=3e-3, patience=None, select="loss")
EVERY = [way() for way in ON_QUESTIONS.values()]


@pytest.fixture(scope="module")
def data() -> Dataset:
    return planted_questions(train=48, held_out=16)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    return ModelSpec(name=str(tiny_checkpoint("bert", tmp_path_factory.mktemp("encoder") / "bert")))


def with_pairs(model: Model, data: Dataset, split: str) -> Rows:
    """The rows of a split as if they were to be learned from."""
    alone = replace(data, splits={"train": data[split]})
    return StudentRows(alone, ModelSpec(), human_pairs(data[split])).rows(model, "train")


def pairs(*pairs_of_places: tuple[list[int], list[int]], width: int = 4) -> Tensor:
    """``[1, K, 2, T]`` of places in the question and in the passage."""
    given = torch.zeros(1, len(pairs_of_places), 2, width)
    for k, sides in enumerate(pairs_of_places):
        for side, places in enumerate(sides):
            given[0, k, side, places] = 1
    return given


def uniform(heads: int = 2, width: int = 4) -> Tensor:
    return torch.full((1, heads, width, width), 1 / width)


def test_a_phrase_that_attends_to_its_own_alone_has_no_loss() -> None:
    attention = uniform()
    attention[0, :, 0] = torch.tensor([0.0, 0.0, 0.3, 0.7])
    attention[0, :, 1] = torch.tensor([0.0, 0.0, 1.0, 0.0])
    assert alignment_loss(attention, pairs(([0, 1], [2, 3]))).item() == pytest.approx(0.0, abs=1e-6)


def test_the_loss_of_uniform_attention_is_known() -> None:
    """A quarter of it goes to each token: to one ln 4, to two ln 2, of both on average ln of 8 / 3."""
    one, two = ([0, 1], [2]), ([0], [2, 3])
    for pairs_of_places, wanted in (
        ((one,), math.log(4)),
        ((two,), math.log(2)),
        ((one, two), math.log(8 / 3)),
    ):
        assert alignment_loss(uniform(), pairs(*pairs_of_places)).item() == pytest.approx(wanted, rel=1e-6)


def test_the_loss_is_that_of_its_definition() -> None:
    """Token by token and head by head, as the paper writes it."""
    generator = torch.Generator().manual_seed(0)
    attention = torch.rand(1, 3, 6, 6, generator=generator).softmax(-1)
    pairs_of_places = (([0, 1], [3, 4]), ([1], [5]), ([0, 1, 2], [4]))
    each = [
        sum(attention[0, :, q, p].mean().item() for q in question for p in passage) / len(question)
        for question, passage in pairs_of_places
    ]
    wanted = -math.log(sum(each) / 3)
    assert alignment_loss(attention, pairs(*pairs_of_places, width=6)).item() == pytest.approx(
        wanted, rel=1e-5
    )


def test_it_is_what_the_question_pays_and_not_what_it_receives() -> None:
    attention = uniform()
    attention[0, :, 0] = torch.tensor([0.1, 0.1, 0.7, 0.1])
    assert alignment_loss(attention, pairs(([0], [2]))).item() == pytest.approx(-math.log(0.7), rel=1e-5)
    assert alignment_loss(attention, pairs(([2], [0]))).item() == pytest.approx(math.log(4), rel=1e-5)


def test_rows_without_equalities_and_equalities_without_a_phrase_teach_nothing() -> None:
    assert alignment_loss(uniform(), pairs(([], []))).item() == 0.0
    assert alignment_loss(uniform(), pairs(([0], []), ([], [2]))).item() == 0.0  # the passage was cut
    both = alignment_loss(uniform(), pairs(([0], [2, 3]), ([1], [])))
    assert both.item() == pytest.approx(math.log(2), rel=1e-6)


def test_attention_that_dropout_thinned_out_adds_up_again() -> None:
    whole = alignment_loss(uniform(), pairs(([0], [2])))
    assert alignment_loss(uniform() * 0.9, pairs(([0], [2]))).item() == pytest.approx(whole.item(), rel=1e-6)


def test_slopes_against_differences() -> None:
    given = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.1
    equalities = torch.cat((pairs(([0, 1], [2, 3]), ([1], [3])), pairs(([0], [2]), ([], []))))

    def pulled(attention: Tensor) -> Tensor:
        return alignment_loss(attention, equalities)

    assert torch.autograd.gradcheck(pulled, (given.requires_grad_(),))
    nowhere = torch.eye(4).expand(1, 1, 4, 4).clone().requires_grad_()
    alignment_loss(nowhere, pairs(([0], [2]))).backward()
    assert nowhere.grad is not None
    assert torch.isfinite(nowhere.grad).all()


def test_equalities_find_their_tokens(data: Dataset, spec: ModelSpec) -> None:
    model = build_model(spec, data, 0)
    rows = with_pairs(model, data, "train")
    equalities = rows.whole.extras[EQUALITIES]
    assert equalities.shape == (48, 1, 2, rows.whole.ids.shape[1])
    for row, (example, encoding) in enumerate(rows.source or ()):
        words = [{encoding.tokens[int(t)] for t in side.nonzero()} for side in equalities[row, 0]]
        asked = example.text.removeprefix("is ")
        assert words == ([set(), set()] if row % BARE == BARE - 1 else [{asked}, {asked}])
    union = equalities.any(2).any(1)
    assert torch.equal(union, rows.whole.extras[MARKS] > 0)


@pytest.mark.parametrize("objective", EVERY, ids=lambda o: o.name)
def test_without_weight_or_without_equalities_it_is_the_loss_of_the_answer(
    objective: LearningFromMarks, data: Dataset, spec: ModelSpec
) -> None:
    model = build_model(spec, data, 0).eval()
    batch = with_pairs(model, data, "train").batch(torch.arange(8))
    companion = objective.companion(model, 0)
    alone = CrossEntropy().loss(model, batch).item()
    assert objective.loss(model, batch, companion).item() > alone
    assert replace(objective, weight=0.0).loss(model, batch, companion).item() == pytest.approx(
        alone, rel=1e-5
    )
    bare = batch.with_extras(**{name: torch.zeros_like(batch.extras[name]) for name in (MARKS, EQUALITIES)})
    assert objective.loss(model, bare, companion).item() == pytest.approx(alone, rel=1e-5)


def test_marks_pull_at_the_first_row_of_the_last_layer(data: Dataset, spec: ModelSpec) -> None:
    model = build_model(spec, data, 0)
    batch = with_pairs(model, data, "train").batch(torch.arange(8))
    with evaluating(model), torch.no_grad():
        output = model(batch)
        wanted = attention_loss(output.layers[-1][:, :, 0], batch.extras[MARKS], batch.mask.unsqueeze(0))
        lesson = AttentionRegularisation().lesson(model, batch, output, None)
    assert lesson.item() == pytest.approx(wanted.mean().item(), rel=1e-5)


def test_training_aligns_questions_that_were_never_seen(data: Dataset, spec: ModelSpec) -> None:
    lessons = {}
    for objective in (CrossEntropy(), AttentionAlignment()):
        model = build_model(spec, data, 0)
        longer = replace(QUICK, epochs=15, select="train-loss")
        fit(model, with_pairs(model, data, "train"), rows_of(model, data["dev"]), objective, longer, seed=0)
        batch = with_pairs(model, data, "test").batch(torch.arange(16))
        with evaluating(model), torch.no_grad():
            lessons[objective.name] = AttentionAlignment().lesson(model, batch, model(batch), None).item()
    assert lessons["attention-alignment"] < 0.75 * lessons["cross-entropy"]


@pytest.mark.parametrize("objective", EVERY, ids=lambda o: o.name)
def test_no_answer_sees_an_equality(objective: LearningFromMarks, data: Dataset, spec: ModelSpec) -> None:
    model = build_model(spec, data, 0)
    fit(model, with_pairs(model, data, "train"), rows_of(model, data["dev"]), objective, QUICK, seed=0)
    marked, plain = with_pairs(model, data, "test"), rows_of(model, data["test"])
    others = marked.with_extras(**{name: marked.whole.extras[name].flip(0) for name in (MARKS, EQUALITIES)})
    assert not torch.equal(others.whole.extras[EQUALITIES], marked.whole.extras[EQUALITIES])
    bare = predict(model, plain).logits
    for rows in (marked, others):
        assert (predict(model, rows).logits == bare).all()
        assert objective.scores(model, rows) == objective.scores(model, plain)


def test_a_student_without_attention_between_tokens_is_refused(data: Dataset, spec: ModelSpec) -> None:
    model = build_model(spec, data, 0)
    batch = with_pairs(model, data, "train").batch(torch.arange(2))
    silent = Output(torch.zeros(1), None, torch.zeros(1), torch.zeros(1))
    for objective in (AttentionAlignment(), AttentionRegularisation()):
        with pytest.raises(DoesNotFit, match="could pull at"):
            objective.lesson(model, batch, silent, None)


def test_it_cannot_be_asked_for_by_name(data: Dataset, spec: ModelSpec, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="only a study"):
        train(spec, data, objective="attention-alignment")
