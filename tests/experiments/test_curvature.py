"""Norms of the Jacobian: against autograd's own, alone and in a batch, and estimates that converge."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rashomon.errors import UserError
from rashomon.experiments.curvature import gradient_norms, representations
from rashomon.models.base import Model
from rashomon.models.build import build_model
from rashomon.models.evaluator import rows_of
from rashomon.models.huggingface import HuggingFaceClassifier
from rashomon.models.model_spec import ModelSpec
from tests.models.tiny import SINGLES, dataset, tiny_checkpoint


@pytest.fixture(scope="module", params=["bilstm", "mlp", "bert"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    if request.param == "bert":
        return HuggingFaceClassifier.load(tiny_checkpoint("bert", tmp_path_factory.mktemp("bert") / "model"))
    return build_model(ModelSpec(name=request.param, embedding_dim=6, hidden=5), dataset(), 0).eval()


def by_autograd(model: Model, number: int) -> float:
    batch = rows_of(model, SINGLES[number : number + 1]).whole

    def pooled(embedded: torch.Tensor) -> torch.Tensor:
        return model(batch, embeddings=embedded).pooled[0]

    jacobian = torch.autograd.functional.jacobian(pooled, model.embed(batch).detach())
    return float(jacobian.double().norm())


def test_exact_norms_equal_autograds(model: Model) -> None:
    found = gradient_norms(model, rows_of(model, SINGLES), projections=0)
    assert found.exact
    assert not found.error.any()
    np.testing.assert_allclose(found.norms, [by_autograd(model, n) for n in range(len(SINGLES))], rtol=1e-4)


def test_estimates_converge_and_say_how_far_off_they_are(model: Model) -> None:
    rows = rows_of(model, SINGLES)
    exact = gradient_norms(model, rows, projections=0).norms
    rough, fine = (gradient_norms(model, rows, projections=count) for count in (8, 512))
    assert not fine.exact
    assert (np.abs(fine.norms - exact) < 4 * fine.error + 1e-6).all()
    assert np.abs(fine.norms / exact - 1).max() < 0.15
    assert fine.error.mean() < 0.3 * rough.error.mean()


def test_a_text_has_the_same_estimate_beside_others(model: Model) -> None:
    together = gradient_norms(model, rows_of(model, SINGLES), projections=4).norms
    alone = gradient_norms(model, rows_of(model, SINGLES[:1]), projections=4).norms
    assert alone[0] == pytest.approx(together[0], rel=1e-4)


def test_representations_are_what_the_decoder_reads(model: Model) -> None:
    rows = rows_of(model, SINGLES)
    with torch.no_grad():
        pooled = model(rows.whole).pooled
    np.testing.assert_allclose(representations(model, rows), pooled.numpy(), atol=1e-5)


def test_one_projection_has_no_error(model: Model) -> None:
    with pytest.raises(UserError, match="at least two"):
        gradient_norms(model, rows_of(model, SINGLES), projections=1)
