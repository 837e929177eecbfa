"""Adversarial objectives: closed forms, heads without order, and what lambda does to a tiny model."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor

from rashomon.data.batches import Batch, Rows
from rashomon.data.planted import mock
from rashomon.errors import UserError
from rashomon.measures.divergence import LN2, attefa_score, kl
from rashomon.models.base import Model, Output
from rashomon.models.build import build_model
from rashomon.models.evaluator import predict, rows_of
from rashomon.models.huggingface import HuggingFaceClassifier
from rashomon.models.model_spec import ModelSpec
from rashomon.training.adversarial import (
    ATTENTION,
    PER_TOKEN,
    PROBABILITIES,
    AttefaAdversary,
    ModelConsistentAdversary,
    Reading,
    attention_distance,
    distances,
    natural_reading,
    outputs_of,
    read_attention,
)
from rashomon.training.loop import fit
from rashomon.training.objectives import CrossEntropy
from rashomon.training.settings import TrainingSpec
from tests.models.tiny import SINGLES, dataset, tiny_checkpoint


class Says(torch.nn.Module):
    """A model that says what it was told to say."""

    classes, capabilities, equal_lengths = 2, frozenset({"attention"}), False
    device = torch.device("cpu")

    def __init__(self, probabilities: list[list[float]], attention: Tensor) -> None:
        super().__init__()
        self.logits, self.weights = torch.tensor(probabilities).clamp_min(1e-30).log(), attention

    def forward(self, batch: Batch) -> Output:
        row = batch.extras["row"]
        return Output(
            self.logits[row], self.weights[row], torch.zeros(len(row), 1, 1), torch.zeros(len(row), 1)
        )


def one_hot(*places: int, width: int = 3) -> Tensor:
    """[1 text, heads, tokens]"""
    return torch.eye(width)[list(places)].unsqueeze(0)


def constructed(base_p: list[float], base_a: Tensor, own_p: list[float], own_a: Tensor) -> tuple[Model, Rows]:
    width = base_a.shape[-1]
    ids = torch.ones(1, width, dtype=torch.long)
    extras = {PROBABILITIES: torch.tensor([base_p]), ATTENTION: base_a, "row": torch.tensor([0])}
    extras["label"] = torch.tensor([1])
    zeros = torch.zeros_like(ids)
    batch = Batch(ids, ids.bool(), zeros, zeros, ids.bool(), extras)
    return Says([own_p], own_a), Rows(batch, PER_TOKEN)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("own_p", "own_a", "tvd", "jsd"),
    [
        ([0.2, 0.8], one_hot(0), 0.0, 0.0),  # the base itself
        ([0.2, 0.8], one_hot(1), 0.0, LN2),  # same prediction, disjoint attention
        ([1.0, 0.0], one_hot(1), 0.8, LN2),
        ([0.7, 0.3], torch.tensor([[[0.5, 0.5, 0.0]]]), 0.5, None),
    ],
)
def test_attefa_on_constructed_pairs(
    own_p: list[float], own_a: Tensor, tvd: float, jsd: float | None
) -> None:
    model, rows = constructed([0.2, 0.8], one_hot(0), own_p, own_a)
    if jsd is None:  # one half against a point mass, by hand
        middle = np.array([0.75, 0.25])
        jsd = 0.5 * (0.5 * np.log(0.5 / middle).sum()) + 0.5 * math.log(1 / 0.75)
    scores = AttefaAdversary().scores(model, rows)
    assert scores["tvd"] == pytest.approx(tvd, abs=1e-6)
    assert scores["jsd"] == pytest.approx(jsd, abs=1e-6)
    assert scores["loss"] == pytest.approx(tvd - jsd / LN2, abs=1e-6)
    assert scores["accuracy"] == float(own_p[1] > 0.5)
    assert AttefaAdversary().loss(model, rows.whole).item() == pytest.approx(scores["loss"], abs=1e-6)
    if jsd > 0:
        assert attefa_score(scores["tvd"], scores["jsd"]) == pytest.approx(
            min(tvd / (jsd / LN2), 1), abs=1e-5
        )


def test_lambda_is_weighed_against_the_papers_halved_tvd_and_summed() -> None:
    own = torch.tensor([[[0.1, 0.6, 0.3]]])
    base = torch.tensor([[[0.5, 0.3, 0.2]]])
    model, rows = constructed([0.2, 0.8], base, [0.5, 0.5], own)
    twice = rows.batch(torch.tensor([0, 0]))
    expected = 0.15 - 0.01 * float((own * (own / base).log()).sum())
    assert ModelConsistentAdversary(weight=0.01).loss(model, twice).item() == pytest.approx(
        2 * expected, abs=1e-6
    )
    assert ModelConsistentAdversary(weight=0.01).scores(model, rows)["loss"] == pytest.approx(
        expected, abs=1e-6
    )


def test_disjoint_attentions_are_ln_2_apart() -> None:
    assert float(attention_distance(one_hot(0), one_hot(2))) == pytest.approx(LN2, abs=1e-6)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_permuted_heads_are_the_same_attention(order: tuple[int, ...]) -> None:
    attention = torch.rand(4, 3, 7, generator=torch.Generator().manual_seed(0)).softmax(-1)
    moved = attention[:, list(order)]
    assert attention_distance(attention, moved).abs().max() < 1e-6
    model, rows = constructed([0.2, 0.8], attention[:1], [0.2, 0.8], moved[:1])
    assert abs(AttefaAdversary().scores(model, rows)["loss"]) < 1e-6
    assert abs(ModelConsistentAdversary(weight=1.0).scores(model, rows)["kl"]) < 1e-6


def test_kl_of_matched_heads_is_that_of_the_pairs() -> None:
    base = torch.stack([one_hot(0)[0, 0], torch.full((3,), 1 / 3)]).unsqueeze(0)
    own = torch.stack([torch.tensor([0.2, 0.4, 0.4]), torch.tensor([0.9, 0.1, 0.0])]).unsqueeze(0)
    model, rows = constructed([0.5, 0.5], base, [0.5, 0.5], own)
    expected = (kl(own[0, 0], base[0, 1]) + kl(own[0, 1], base[0, 0])) / 2
    assert distances(model, rows, "heads").kl.item() == pytest.approx(float(expected), rel=1e-5)


def trained_base(heads: int = 1) -> tuple[Model, dict[str, Rows], Rows]:
    data = mock("mock-1q", train_size=160, dev_size=40, test_size=40)
    spec = ModelSpec(name="mlp", hidden=16, embedding_dim=16, heads=heads)
    base = build_model(spec, data, 0)
    rows = {split: rows_of(base, data[split]) for split in ("train", "dev")}
    fit(base, rows["train"], rows["dev"], CrossEntropy(), TrainingSpec(epochs=8, learning_rate=0.01), seed=0)
    with_base = {}
    for split, given in rows.items():
        outputs = outputs_of(base, given, "heads")
        extras = {PROBABILITIES: outputs.probabilities, ATTENTION: outputs.attention}
        with_base[split] = given.with_extras(PER_TOKEN, **extras)
    fresh = build_model(spec, data, 1)
    return fresh, with_base, rows["dev"]


def test_what_a_base_told_equals_predict_and_travels_with_batches() -> None:
    _, rows, plain = trained_base(heads=2)
    base_rows = rows["dev"]
    batch = base_rows.batch(torch.tensor([3, 1]))
    assert batch.extras[ATTENTION].shape == (2, 2, batch.ids.shape[1])
    sums = base_rows.whole.extras[ATTENTION].sum(-1)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5)
    assert len(plain) == len(base_rows)


def test_lambda_zero_stays_near_the_base_and_larger_lambdas_move_attention() -> None:
    spec = TrainingSpec(epochs=12, learning_rate=0.01, select="loss", patience=10)
    scores = []
    for weight in (0.0, 0.01, 1.0):
        fresh, rows, _ = trained_base()
        objective = ModelConsistentAdversary(weight=weight)
        fit(fresh, rows["train"], rows["dev"], objective, spec, seed=1)
        scores.append(objective.scores(fresh, rows["dev"]))
    assert scores[0]["tvd"] < 0.1
    assert scores[0]["accuracy"] > 0.9
    assert scores[0]["jsd"] < scores[1]["jsd"] < scores[2]["jsd"] <= LN2 + 1e-6


def test_attefa_moves_attention_and_keeps_the_best_epoch() -> None:
    fresh, rows, _ = trained_base()
    before = AttefaAdversary().scores(fresh, rows["dev"])
    spec = TrainingSpec(epochs=6, learning_rate=0.01, select="loss", patience=10, optimizer="adam")
    history = fit(fresh, rows["train"], rows["dev"], AttefaAdversary(), spec, seed=1)
    after = AttefaAdversary().scores(fresh, rows["dev"])
    assert after["loss"] < before["loss"] - 0.2
    assert after["jsd"] > before["jsd"]
    assert after["loss"] == pytest.approx(min(record["loss"] for record in history.records), abs=1e-6)


@pytest.mark.parametrize("reading", ["mean", "rollout"])
def test_transformers_are_read_without_special_tokens_or_dropout(reading: Reading, tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = HuggingFaceClassifier.load(tiny_checkpoint("bert", tmp_path / "bert"))
    rows = rows_of(model, SINGLES)
    content = rows.whole.content
    assert (rows.whole.mask & ~content).sum() == 2 * len(SINGLES)  # [CLS] and [SEP]
    outputs = outputs_of(model, rows, reading)
    assert outputs.attention.shape[1] == 1
    assert not outputs.attention[:, 0][~content].any()
    assert torch.allclose(outputs.attention.sum(-1), torch.ones(len(SINGLES), 1), atol=1e-5)
    np.testing.assert_allclose(outputs.probabilities, predict(model, rows).probabilities, atol=1e-5)
    extras = {PROBABILITIES: outputs.probabilities, ATTENTION: outputs.attention}
    with_base = rows.with_extras(PER_TOKEN, **extras)
    model.train()
    loss = AttefaAdversary(reading).loss(model, with_base.whole)
    assert abs(loss.item()) < 1e-4  # against itself: dropout would have changed both
    assert model.training
    loss.backward()


def test_rollout_equals_the_explainers(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from rashomon.explainers import explain

    model = HuggingFaceClassifier.load(tiny_checkpoint("distilbert", tmp_path / "distilbert"))
    batch = model.collate(model.encode(SINGLES[:1]))
    with torch.no_grad():
        ours = read_attention(model(batch), batch, "rollout")[0, 0].double().numpy()
    (theirs,) = explain(model, SINGLES[:1], ["attention-rollout"])
    on_content = theirs.scores * theirs.content
    np.testing.assert_allclose(ours, on_content / on_content.sum(), atol=1e-5)


def test_readings_that_a_model_has_not_are_refused() -> None:
    model = build_model(ModelSpec(name="mlp", hidden=8, embedding_dim=8), dataset(), 0)
    rows = rows_of(model, SINGLES)
    assert natural_reading(model) == "heads"
    with pytest.raises(UserError, match="Rollout"):
        outputs_of(model, rows, "rollout")
    silent = replace(model(rows.whole), attention=None)
    with pytest.raises(UserError, match="does not tell its attention"):
        read_attention(silent, rows.whole, "mean")
