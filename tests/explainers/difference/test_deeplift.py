"""DeepLIFT adds up on every family, Deep SHAP is its mean, and what has no rule is said."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau
from torch import Tensor, nn

from rashomon.errors import UserError
from rashomon.explainers import explain, make_explainer
from rashomon.explainers.difference.deeplift import (
    NO_BACKGROUND,
    ONE_STAND_IN,
    DeepShap,
    _repeat_warning,
    lift,
)
from rashomon.models import ModelSpec, build_model
from rashomon.models.huggingface import HuggingFaceClassifier
from tests.explainers.conftest import FAMILIES, Families, Jobs
from tests.models.architectures import BY_NAME, small_network, small_tokenizer
from tests.models.tiny import PAIRS, SINGLES, dataset


@pytest.mark.parametrize("space", ["logit", "probability", "centred"])
@pytest.mark.parametrize("reference", ["pad", "zero", "mask"])
@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("name", FAMILIES)
def test_scores_add_up(jobs: Jobs, name: str, pair: bool, reference: str, space: str) -> None:
    job = jobs(name, pair, space=space)
    for scores in make_explainer("deeplift", reference=reference).attribute(job):
        assert scores.gap is not None
        assert scores.gap < 1e-3
        assert scores.warnings == ()


@pytest.mark.parametrize("name", FAMILIES)
def test_plain_gradients_do_not_add_up(families: Families, name: str) -> None:
    """T1: gradient x difference, which DeepLIFT is where no rule applies, is another method by another name."""
    delta = explain(families(name), SINGLES, ["gradient-x-delta"])
    assert max(item.gap for item in delta if item.gap is not None) > 0.05
    assert any("miss the output's change" in warning for item in delta for warning in item.warnings)


def test_a_linear_model_gets_its_own_coefficients() -> None:
    spec = ModelSpec(name="mlp", embedding_dim=6, hidden=6, weights="uniform")
    model = build_model(spec, dataset(), seed=0).eval()
    layer = model.first_layer()
    layer.forward = lambda x, layout=None: layer.affine(x)  # type: ignore[method-assign, operator, union-attr]
    explanations = explain(model, SINGLES, ["deeplift", "gradient-x-delta", "leave-one-out"])
    for one, other in zip(
        explanations.by_method("deeplift"), explanations.by_method("gradient-x-delta"), strict=True
    ):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)
        assert other.gap is not None
        assert other.gap < 1e-3


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("name", ["bilstm", "transformer", "bert"])
def test_deep_shap_is_the_mean_over_its_references(jobs: Jobs, name: str, pair: bool) -> None:
    behind = jobs(name, pair).encodings[:3]
    job = jobs(name, pair, background=behind)
    attributions = DeepShap(samples=10).attribute(job)  # more than there are: every one once
    for i, scores in enumerate(attributions):
        each = [lift(job, [(i, reference)], "norm")[0] for reference in behind]
        np.testing.assert_allclose(scores.values, np.mean([e.values.sum(1) for e in each], axis=0), atol=1e-5)
        assert scores.gap is not None
        assert scores.gap < 1e-3
    few = DeepShap(samples=2).attribute(job)
    pairs = [(a, b) for a in range(3) for b in range(a)]
    for i, scores in enumerate(few):
        each = [lift(job, [(i, reference)], "norm")[0].values.sum(1) for reference in behind]
        assert min(np.abs(scores.values - (each[a] + each[b]) / 2).max() for a, b in pairs) < 1e-5


def test_deep_shap_without_training_examples_says_so(jobs: Jobs) -> None:
    job = jobs("gru", examples=PAIRS, pair=True)
    attributions = DeepShap().attribute(job)
    for i, scores in enumerate(attributions):
        each = [lift(job, [(i, kind)], "norm")[0].values.sum(1) for kind in ("pad", "zero", "mask")]  # type: ignore[list-item]
        np.testing.assert_allclose(scores.values, np.mean(each, axis=0), atol=1e-5)
        assert NO_BACKGROUND in scores.warnings
    (fixed,) = DeepShap(references="zero").attribute(jobs("gru", examples=SINGLES[:1]))
    (plain,) = make_explainer("deeplift", reference="zero").attribute(jobs("gru", examples=SINGLES[:1]))
    np.testing.assert_allclose(fixed.values, plain.values, atol=1e-6)
    with pytest.raises(UserError, match="at least one sample"):
        DeepShap(samples=0).attribute(job)


@pytest.mark.parametrize(("zero", "said"), [(False, NO_BACKGROUND), (True, ONE_STAND_IN)])
def test_stand_ins_that_are_one_vector_are_told_of(zero: bool, said: str) -> None:
    """A decoder that was made without a mask token, and perhaps with padding that is zero."""
    family = BY_NAME["qwen2"]
    tokenizer = small_tokenizer(family)
    model = HuggingFaceClassifier(small_network(family, len(tokenizer)), tokenizer).eval()
    model.mask_id = model.pad_id
    with torch.no_grad():
        model.network.get_input_embeddings().weight[model.pad_id] = 0.0 if zero else 0.5
    explanations = explain(model, SINGLES[:3], ["deep-shap", "deeplift", "deeplift(reference=zero)"])
    for i in range(3):
        mean = (2 * explanations[3 + i].scores + explanations[6 + i].scores) / 3
        np.testing.assert_allclose(explanations[i].scores, mean, atol=1e-5)
        assert said in explanations[i].warnings
        assert (np.abs(explanations[3 + i].scores - explanations[6 + i].scores).max() < 1e-6) == zero


def test_halves_are_told_of_when_they_name_other_tokens() -> None:
    """That tokens of no weight change their order, which halves tau, is not worth a word."""
    generator = np.random.default_rng(0)
    strong = np.array([9.0, -8.0, 7.0, 6.0, 5.0])
    one, other = (np.concatenate([strong, generator.normal(size=30)]) for _ in range(2))
    assert kendalltau(one, other).statistic < 0.5
    assert _repeat_warning(one, other, 64) == ()
    other[[3, 4, 20, 21]] = other[[20, 21, 3, 4]]
    (said,) = _repeat_warning(one, other, 64)
    assert said.startswith("the halves of its 64 references share 3 of their top 5 tokens (Kendall tau ")
    assert _repeat_warning(np.zeros(9), np.zeros(9), 64) == ()


class _Strange(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.special.i0(x)


def test_an_operation_without_a_rule_is_counted_in_a_warning() -> None:
    model = build_model(ModelSpec(name="mlp", embedding_dim=6, hidden=6), dataset(), seed=0).eval()
    decoder = model.decoder
    model.decoder = nn.Sequential(decoder, _Strange())  # type: ignore[assignment]
    for item in explain(model, SINGLES[:2], ["deeplift"]):
        assert any("no DeepLIFT rule for" in w and "i0 x1" in w for w in item.warnings), item.warnings
