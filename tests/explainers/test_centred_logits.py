"""Centred logits: what raises all classes alike moves no probability, and no score either."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rashomon.errors import DoesNotFit, UserError
from rashomon.explainers import explain, make_explainer
from rashomon.explainers.paths import path_ends
from rashomon.models import Model, ModelSpec, build_model
from rashomon.models.tasks import CLASSIFICATION
from rashomon.studies import Agreement
from tests.explainers.conftest import FAMILIES, Families, Jobs
from tests.explainers.test_answers import QUESTIONS
from tests.models.tiny import PAIRS, SINGLES, dataset

METHODS = (
    "gradient-x-input",
    "gradient-x-delta",
    "integrated-gradients",
    "deeplift",
    "lime(samples=40)",
    "kernel-shap(samples=40)",
    "leave-one-out",
)


def linear_model(shared: float = 0.0) -> Model:
    """The mean over tokens of an affine map, decoded; ``shared`` is added to every row of the decoder."""
    spec = ModelSpec(name="mlp", embedding_dim=6, hidden=5, weights="uniform")
    model = build_model(spec, dataset(), seed=0).eval()
    layer = model.first_layer()
    layer.forward = lambda x, layout=None: layer.affine(x)  # type: ignore[method-assign, operator, union-attr]
    with torch.no_grad():
        row = torch.linspace(-1, 1, 5) * shared
        model.decoder.weight += row  # type: ignore[operator, union-attr]
    return model


def test_the_value_is_the_logit_above_the_mean_over_classes() -> None:
    logits = torch.tensor([[1.0, 2.0, 6.0], [0.0, 0.0, -3.0]], dtype=torch.float64)
    targets = torch.tensor([2, 1])
    assert CLASSIFICATION.value(logits, targets, "centred").tolist() == [3.0, 1.0]
    moved = logits + torch.tensor([[7.0], [-2.0]])
    assert CLASSIFICATION.value(moved, targets, "centred").tolist() == [3.0, 1.0]
    two = torch.tensor([[0.25, 1.75]])  # of two classes, half of the difference
    assert CLASSIFICATION.value(two, torch.tensor([1]), "centred").tolist() == [0.75]


@pytest.mark.parametrize("method", METHODS)
def test_a_row_that_all_classes_share_is_not_explained(method: str) -> None:
    plain, moved = linear_model(), linear_model(shared=3.0)
    targets = [0] * len(SINGLES)
    for space, alike in (("centred", True), ("logit", False)):
        one, other = (
            explain(model, SINGLES, method, space=space, targets=targets)  # type: ignore[arg-type]
            for model in (plain, moved)
        )
        apart = max(np.abs(a.scores - b.scores).max() for a, b in zip(one, other, strict=True))
        assert (apart < 1e-4) == alike, (space, apart)
        assert {item.output_space for item in one} == {space}


@pytest.mark.parametrize("method", ["integrated-gradients", "deeplift", "gradient-x-delta"])
def test_a_linear_model_gets_its_centred_coefficients(method: str) -> None:
    model = linear_model(shared=2.0)
    with torch.no_grad():
        rows = model.decoder.weight - model.decoder.weight.mean(0)  # type: ignore[operator, union-attr]
        affine = model.first_layer().affine.weight  # type: ignore[union-attr]
        for example, item in zip(SINGLES, explain(model, SINGLES, method, space="centred"), strict=True):
            batch = model.collate(model.encode([example]))
            embedded = model.embed(batch)[0]  # padding, the reference, is zero
            wanted = embedded @ affine.T @ rows[item.target] / len(embedded)
            np.testing.assert_allclose(item.scores, wanted.numpy(), atol=1e-5)


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("name", FAMILIES)
def test_integrated_gradients_add_up_to_the_change_of_the_centred_logit(
    jobs: Jobs, name: str, pair: bool
) -> None:
    job = jobs(name, pair, space="centred")
    attributions = make_explainer("integrated-gradients").attribute(job)
    ends = path_ends(job, [(i, "pad") for i in range(len(job.encodings))])
    with torch.no_grad():
        logits = [job.model(ends.batch, embeddings=at).logits for at in (ends.inputs, ends.others)]
    change = (logits[0] - logits[1]) - (logits[0] - logits[1]).mean(1, keepdim=True)
    for row, scores in enumerate(attributions):
        assert scores.values.sum() == pytest.approx(float(change[row, job.targets[row]]), rel=0.01, abs=5e-3)


def test_one_logit_is_centred_already(families: Families) -> None:
    model = families("one-logit")
    methods = ["integrated-gradients", "deeplift", "leave-one-out"]
    centred, plain = (explain(model, SINGLES, methods, space=s) for s in ("centred", "logit"))  # type: ignore[arg-type]
    for one, other in zip(centred, plain, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-5)


def test_answers_have_no_centred_logit(families: Families) -> None:
    model = families("bert-qa")
    with pytest.raises(DoesNotFit, match="Of a span model the logit or the probability is explained"):
        explain(model, QUESTIONS[:1], "leave-one-out", space="centred")
    study = Agreement(methods=("lime", "leave-one-out"), space="centred")
    assert "not the centred logit" in (study.fits(model, dataset()) or "")
    assert study.fits(families("bert", pair=True), dataset(pair=True)) is None


@pytest.mark.parametrize("wrong", ["centered", "logits", "Probability"])
def test_a_wrong_space_gets_a_hint(families: Families, wrong: str) -> None:
    with pytest.raises(UserError, match=r"did you mean '(centred|logit|probability)'"):
        explain(families("bert", pair=True), PAIRS, "random", space=wrong)  # type: ignore[arg-type]
