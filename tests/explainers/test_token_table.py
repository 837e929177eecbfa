"""Tokens are led through a model's first map once, whenever they are first met."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rashomon.explainers import explain
from rashomon.explainers.token_table import NOTHING, TokenTable
from rashomon.models.base import Model
from tests.explainers.conftest import SINGLES, Families


@pytest.fixture
def model(families: Families) -> Model:
    return families("bilstm").eval().requires_grad_(False)


def entered(model: Model, ids: np.ndarray) -> torch.Tensor:
    return model.enter(model.embedding(torch.from_numpy(ids))).detach()  # type: ignore[operator]


def test_every_token_has_a_row_of_its_own_however_the_table_grew(model: Model) -> None:
    table = TokenTable(model)
    generator = np.random.default_rng(0)
    asked = [generator.integers(0, 20, (3, n)) for n in (1, 2, 9, 4)]
    rows = [table.rows(ids) for ids in asked]
    assert len(table.values) == 1 + len(np.unique(np.concatenate([ids.ravel() for ids in asked])))
    for ids, found in zip(asked, rows, strict=True):
        torch.testing.assert_close(table.values[found], entered(model, ids), atol=1e-6, rtol=0)
        assert np.array_equal(table.rows(ids), found)  # nothing moves
    zero = model.enter(torch.zeros(1, model.embedding.weight.shape[1]))  # type: ignore[operator,union-attr]
    torch.testing.assert_close(table.values[NOTHING], zero[0].detach())


def test_a_token_is_read_once_for_all_methods(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    learn = TokenTable._learn

    def count(self: TokenTable, ids: np.ndarray) -> None:
        seen.extend(ids.tolist())
        learn(self, ids)

    monkeypatch.setattr(TokenTable, "_learn", count)
    explain(
        model, SINGLES, ["integrated-gradients", "gradient-shap", "deeplift", "deep-shap"], background=SINGLES
    )
    assert seen
    assert len(seen) == len(set(seen))
