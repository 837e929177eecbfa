"""Conicity and tying: hand-computed values, padding, gradients, and what a training with them lowers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rashomon.data import Dataset
from rashomon.data.batches import Batch
from rashomon.errors import UserError
from rashomon.models.build import build_model
from rashomon.models.evaluator import rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.training.loop import fit
from rashomon.training.objectives import CrossEntropy, make_objective
from rashomon.training.regularisers import (
    PENALTY,
    Conicity,
    PenaltyReading,
    Tying,
    conicity,
    mean_penalty,
    tying,
    widths,
)
from rashomon.training.settings import TrainingSpec

READINGS: tuple[PenaltyReading, ...] = ("as-written", "as-coded")
MASK = torch.tensor([[True, True, False]])


def test_conicity_by_hand() -> None:
    hidden = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [9.0, 9.0]]])
    expected = 2**-0.5  # both lie at 45 degrees to their mean
    assert conicity(hidden, MASK).item() == pytest.approx(expected, abs=1e-6)
    assert conicity(hidden, MASK, "as-coded").item() == pytest.approx(2 * expected / 3, abs=1e-6)


def test_conicity_of_identical_vectors_is_one() -> None:
    hidden = torch.randn(1, 1, 5, generator=torch.Generator().manual_seed(0)).expand(2, 4, 5)
    assert conicity(hidden, torch.ones(2, 4, dtype=torch.bool)).tolist() == pytest.approx([1.0, 1.0])


def test_tying_by_hand() -> None:
    hidden = torch.tensor([[[3.0, 0.0], [0.0, 0.0], [9.0, 9.0]]])
    embedded = torch.tensor([[[0.0, 4.0], [0.0, 1.0], [0.0, 0.0]]])
    assert tying(hidden, embedded, MASK).item() == pytest.approx((25 + 1) / 2)
    assert tying(hidden, embedded, MASK, "as-coded").item() == pytest.approx((5 + 1) / 3)


@pytest.mark.parametrize("objective", [Conicity(), Tying()], ids=lambda o: o.name)
def test_padding_changes_nothing_as_written(objective: Conicity | Tying) -> None:
    generator = torch.Generator().manual_seed(1)
    hidden, embedded = (torch.randn(2, 5, 4, generator=generator) for _ in range(2))
    mask = torch.ones(2, 5, dtype=torch.bool)
    wider = [torch.cat((x, torch.randn(2, 3, 4, generator=generator)), 1) for x in (hidden, embedded)]
    padded = torch.cat((mask, torch.zeros(2, 3, dtype=torch.bool)), 1)
    before, after = objective.penalty(hidden, embedded, mask), objective.penalty(*wider, padded)
    torch.testing.assert_close(before, after)


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("kind", [Conicity, Tying])
def test_gradients_by_finite_differences(kind: type[Conicity | Tying], reading: PenaltyReading) -> None:
    generator = torch.Generator().manual_seed(2)
    hidden, embedded = (torch.randn(2, 3, 4, generator=generator, dtype=torch.float64) for _ in range(2))
    mask = torch.tensor([[True, True, True], [True, False, False]])
    objective = kind(reading=reading)
    assert torch.autograd.gradcheck(
        lambda h, e: objective.penalty(h, e, mask), (hidden.requires_grad_(), embedded.requires_grad_())
    )


def test_the_plain_norm_has_finite_gradients_where_nothing_differs() -> None:
    same = torch.ones(1, 2, 3, requires_grad=True)
    tying(same, same.detach(), MASK[:, :2], "as-coded").sum().backward()
    assert same.grad is not None
    assert torch.isfinite(same.grad).all()


@pytest.mark.parametrize("objective", ["conicity(weight=5)", "tying(weight=5)"])
def test_training_lowers_what_it_penalises(planted: Dataset, objective: str) -> None:
    spec = ModelSpec(name="bilstm", embedding_dim=12, hidden=6)  # 2 x 6 = 12: no projection
    training = TrainingSpec(epochs=3, patience=None, learning_rate=0.01, select="loss")
    regulariser = make_objective(objective)
    assert isinstance(regulariser, Conicity | Tying)
    found = []
    for pulled in (CrossEntropy(), regulariser):
        model = build_model(spec, planted, 0)
        rows = rows_of(model, planted["train"])
        history = fit(model, rows, rows, pulled, training, seed=0)
        found.append(mean_penalty(regulariser, model, rows))
    assert found[1] < 0.9 * found[0]
    assert history.best_record[PENALTY] == pytest.approx(found[1])


def test_a_projection_stands_between_different_widths(planted: Dataset) -> None:
    model = build_model(ModelSpec(name="bilstm", embedding_dim=10, hidden=6), planted, 0)
    assert widths(model) == (10, 12)
    projection = Tying().companion(model, 3)
    assert projection is not None
    rows = rows_of(model, planted["train"])
    batch: Batch = rows.batch(torch.arange(4))
    loss = Tying(weight=2.0).loss(model, batch, projection)
    plain = CrossEntropy().loss(model, batch)
    penalty = tying(model(batch).hidden, projection(model.embed(batch)), batch.mask).mean()
    assert loss.item() == pytest.approx((plain + 2 * penalty).item(), rel=1e-5)
    before = projection.weight.detach().clone()
    fit(model, rows, rows, Tying(), TrainingSpec(epochs=1), seed=3)
    assert torch.equal(before, projection.weight)  # the training makes its own, and leaves it behind
    assert not any("projection" in name for name in model.state_dict())
    again = Tying().companion(model, 3)
    assert again is not None
    assert np.array_equal(again.weight.detach().numpy(), before.numpy())


def test_negative_weights_are_refused() -> None:
    with pytest.raises(UserError, match="cannot be negative"):
        make_objective("tying(weight=-1)")
