"""Gradient methods against Captum on the same configuration, and against closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import GradientShap, InputXGradient, IntegratedGradients, LayerConductance, Saliency
from torch import Tensor

from rashomon.errors import UserError
from rashomon.explainers import Job, explain, make_explainer
from rashomon.explainers.paths import path_ends
from tests.explainers.conftest import Families, Jobs
from tests.models.tiny import PAIRS, SINGLES

SOME = ("bilstm", "cnn", "mlp", "transformer", "bert", "distilbert", "roberta")
CAPTUM_RULES = {
    "gauss-legendre": "gausslegendre",
    "left": "riemann_left",
    "right": "riemann_right",
    "middle": "riemann_middle",
    "trapezoid": "riemann_trapezoid",
}


class Wrapped(torch.nn.Module):
    """A model as Captum wants it: embeddings in, logits out."""

    def __init__(self, job: Job, index: int) -> None:
        super().__init__()
        self.model, self.batch = job.model, job.model.collate([job.encodings[index]])

    def forward(self, embeddings: Tensor) -> Tensor:
        rows = torch.zeros(len(embeddings), dtype=torch.long)
        batch = self.batch.rows(rows)
        logits: Tensor = self.model(batch, embeddings=embeddings).logits
        return logits


def check(job: Job, method: str, captum: Any, settings: dict[str, Any], scale: float = 1.0) -> None:
    """``captum(wrapped, inputs, reference, target)`` gives ``[1, T, D]``."""
    attributions = make_explainer(method, **settings).attribute(job)
    for i, scores in enumerate(attributions):
        ends = path_ends(job, [(i, "pad")])
        theirs = captum(Wrapped(job, i), ends.inputs, ends.others, int(job.targets[i]))
        summed = theirs[0].detach().sum(-1).numpy() if theirs.dim() == 3 else theirs.detach().numpy()
        np.testing.assert_allclose(scores.values, scale * summed, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("rule", CAPTUM_RULES)
@pytest.mark.parametrize("name", SOME)
def test_integrated_gradients_equal_captums(jobs: Jobs, name: str, rule: str) -> None:
    def captum(wrapped: Wrapped, inputs: Tensor, reference: Tensor, target: int) -> Tensor:
        method = IntegratedGradients(wrapped)
        return method.attribute(inputs, reference, target, n_steps=7, method=CAPTUM_RULES[rule])  # type: ignore[no-any-return]

    # Captum's trapezoid weights of n points add up to (n - 1) / n; ours to one.
    scale = 7 / 6 if rule == "trapezoid" else 1.0
    check(jobs(name), "integrated-gradients", captum, {"steps": 7, "rule": rule}, scale)


@pytest.mark.parametrize("name", ["gru", "bert"])
def test_integrated_gradients_of_pairs_equal_captums(jobs: Jobs, name: str) -> None:
    def captum(wrapped: Wrapped, inputs: Tensor, reference: Tensor, target: int) -> Tensor:
        return IntegratedGradients(wrapped).attribute(inputs, reference, target, n_steps=20)  # type: ignore[no-any-return]

    check(jobs(name, pair=True), "integrated-gradients", captum, {"steps": 20})


@pytest.mark.parametrize("name", SOME)
def test_gradient_x_input_equals_captums(jobs: Jobs, name: str) -> None:
    def captum(wrapped: Wrapped, inputs: Tensor, _: Tensor, target: int) -> Tensor:
        return InputXGradient(wrapped).attribute(inputs.requires_grad_(), target)  # type: ignore[no-any-return]

    check(jobs(name), "gradient-x-input", captum, {})


@pytest.mark.parametrize("name", SOME)
def test_gradient_norm_equals_the_norm_of_captums_saliency(jobs: Jobs, name: str) -> None:
    def captum(wrapped: Wrapped, inputs: Tensor, _: Tensor, target: int) -> Tensor:
        method = Saliency(wrapped)
        return method.attribute(inputs.requires_grad_(), target, abs=False)[0].norm(dim=-1)  # type: ignore[no-any-return]

    check(jobs(name), "gradient-norm", captum, {})


@pytest.mark.parametrize("rule", ["gauss-legendre", "trapezoid"])
@pytest.mark.parametrize("name", SOME)
def test_conductance_equals_captums(jobs: Jobs, name: str, rule: str) -> None:
    def captum(wrapped: Wrapped, inputs: Tensor, reference: Tensor, target: int) -> Tensor:
        method = LayerConductance(wrapped, wrapped.model.first_layer())
        attributions = method.attribute(inputs, reference, target, n_steps=6, method=CAPTUM_RULES[rule])
        return attributions[0] if isinstance(attributions, tuple) else attributions

    # Captum takes the nodes of n + 1 steps and, between two of them, the gradient at the left one.
    settings = {"steps": 7, "rule": rule, "trapezoid": False, "endpoints": False}
    check(jobs(name), "layer-conductance", captum, settings)


@pytest.mark.parametrize("name", ["bilstm", "bert"])
def test_gradient_shap_converges_to_integrated_gradients_and_to_captum(jobs: Jobs, name: str) -> None:
    job = jobs(name, examples=SINGLES[:1])
    (exact,) = make_explainer("integrated-gradients", steps=64).attribute(job)
    scale = np.abs(exact.values).max()
    errors = []
    for samples in (4, 40, 1200):
        (attribution,) = make_explainer("gradient-shap", samples=samples).attribute(job)
        errors.append(np.abs(attribution.values - exact.values).max() / scale)
    assert errors[2] < 0.002  # stratified points: far better than one over the root of samples
    assert errors[2] < errors[0]
    ends = path_ends(job, [(0, "pad")])
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        method = GradientShap(Wrapped(job, 0))
        theirs = method.attribute(
            ends.inputs, ends.others, n_samples=1200, stdevs=0.0, target=int(job.targets[0])
        )
    distance = np.abs(theirs[0].detach().sum(-1).numpy() - exact.values).max() / scale
    assert distance < 0.15
    assert errors[2] < distance


def test_gradient_shap_over_training_references_is_the_mean_of_their_paths(jobs: Jobs) -> None:
    behind = jobs("bilstm").encodings[:3]
    job = jobs("bilstm", examples=SINGLES[:1], background=behind)
    (attribution,) = make_explainer("gradient-shap", samples=3000, references="training").attribute(job)
    steps = 200
    total = np.zeros(len(job.encodings[0]))
    for reference in behind:
        ends = path_ends(job, [(0, reference)] * steps)
        at = ends.at(((np.arange(steps) + 0.5) / steps).tolist())
        value = job.model(ends.batch, embeddings=at).logits[:, job.targets[0]].sum()
        (gradient,) = torch.autograd.grad(value, at)
        total += (gradient * (ends.inputs - ends.others)).detach().sum(-1).mean(0).numpy() / len(behind)
    np.testing.assert_allclose(attribution.values, total, atol=0.02 * np.abs(total).max())


def test_gradient_shap_says_when_it_is_noise(families: Families) -> None:
    """T15: few samples of a rough function are noise; the explanation says so."""
    model = families("transformer")
    few = explain(model, SINGLES, [make_explainer("gradient-shap", samples=4)])
    many = explain(model, SINGLES, [make_explainer("gradient-shap", samples=400)])
    assert any("not settled after 4 samples" in warning for item in few for warning in item.warnings)
    assert not any("not settled" in warning for item in many for warning in item.warnings)
    with pytest.raises(UserError, match="at least two samples"):
        explain(model, SINGLES, [make_explainer("gradient-shap", samples=1)])


@pytest.mark.parametrize("how", ["sum", "norm"])
@pytest.mark.parametrize("references", ["pad", "training"])
def test_gradient_shaps_spread_is_the_scatter_of_repeats(jobs: Jobs, references: str, how: str) -> None:
    behind = jobs("transformer").encodings
    attributions = []
    for seed in range(40):
        job = jobs("transformer", examples=SINGLES[:1], background=behind, seed=seed)
        shap = make_explainer("gradient-shap", samples=12, references=references, aggregation=how)
        attributions += shap.attribute(job)
    scatter = np.stack([scores.values for scores in attributions]).std(0, ddof=1)
    stated = np.sqrt(
        np.mean([scores.spread**2 for scores in attributions if scores.spread is not None], axis=0)
    )
    ratio = np.sqrt((stated**2).mean() / (scatter**2).mean())
    # References without repetition vary less than stated, and a norm by no more than its vector.
    assert 0.8 < ratio < (1.3 if (references, how) == ("pad", "sum") else 8)


def test_auto_gradient_shap_draws_until_it_is_settled(families: Families) -> None:
    model = families("transformer")
    explanations = explain(model, SINGLES, ["gradient-shap"])
    alone = [explain(model, [example], ["gradient-shap"], token_budget=64)[0] for example in SINGLES]
    assert {item.configuration["used"] for item in explanations} <= {8, 24, 56, 120}
    assert len({item.configuration["used"] for item in explanations}) > 1  # easy and hard ones
    for one, other in zip(explanations, alone, strict=True):
        assert one.configuration["used"] == other.configuration["used"]
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)


def test_sum_and_norm_are_different_scores(families: Families) -> None:
    """T10: the aggregation is explicit, stored, and changes the scores."""
    asked = [make_explainer("integrated-gradients", aggregation=how, steps=8) for how in ("sum", "norm")]
    explanations = explain(families("bert"), SINGLES[:1], asked)
    assert [item.configuration["aggregation"] for item in explanations] == ["sum", "norm"]
    assert (explanations[1].scores >= 0).all()
    assert (explanations[0].scores < 0).any()
    assert (
        explanations[1].scores >= np.abs(explanations[0].scores) / np.sqrt(32) - 1e-6
    ).all()  # Cauchy-Schwarz, D = 32


def test_the_explained_class_is_the_one_asked_for(families: Families) -> None:
    """T17: a model with one logit explains either class; two targets of it mirror each other."""
    model = families("one-logit")
    methods = ["integrated-gradients", "gradient-x-input", "deeplift", "lime", "leave-one-out"]
    for_one = explain(model, SINGLES[:2], methods, targets=[1, 1])
    for_other = explain(model, SINGLES[:2], methods, targets=[0, 0])
    for one, other in zip(for_one, for_other, strict=True):
        np.testing.assert_allclose(one.scores, -other.scores, atol=1e-5)
        assert np.abs(one.scores).max() > 5e-5
    predicted = explain(model, SINGLES[:2], methods)
    for item in predicted:
        assert item.target == int(np.argmax(item.probabilities))


def test_pairs_add_up_over_both_texts(families: Families) -> None:
    for item in explain(families("bert", pair=True), PAIRS, ["integrated-gradients"]):
        assert item.gap is not None
        assert item.gap <= 0.01
        assert {int(s) for s in item.segments[item.content & (item.scores != 0)]} == {0, 1}


@pytest.mark.parametrize("targets", [None, 0, 1])
@pytest.mark.parametrize("name", SOME)
def test_gradients_at_inputs_come_with_the_prediction(jobs: Jobs, name: str, targets: int | None) -> None:
    model = jobs(name).model
    texts, alone = SINGLES[:3], ["gradient-norm", "gradient-x-input"]
    passes = []
    hook = model.first_layer().register_forward_hook(lambda *_: passes.append(1))
    try:
        both = explain(model, texts[:1], alone, targets=targets)
        assert len(passes) == 1
    finally:
        hook.remove()
    both = explain(model, texts, alone, targets=targets)
    beside = explain(model, texts, [*alone, "leave-one-out"], targets=targets)  # predicts on its own first
    for one, other in zip(both, beside, strict=False):
        assert (one.method, one.example_id, one.target) == (other.method, other.example_id, other.target)
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-6)
