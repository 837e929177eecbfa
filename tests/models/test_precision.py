"""Networks in half precision and with quantised weights: what is explained of them, and what is refused."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerFast

import rashomon as ra
from rashomon.errors import Caution, UserError
from rashomon.explainers import check_model, explain, explainers, make_explainer
from rashomon.models.base import Model
from rashomon.models.wrapping import wrap
from tests.models.architectures import BY_NAME, small_network, small_tokenizer
from tests.models.test_architectures import REFUSED
from tests.models.tiny import SINGLES

FAMILIES = ("bert", "gpt2", "llama", "qwen2", "t5", "bart")
METHODS = ("attention", "integrated-gradients(steps=5)", "deeplift", "leave-one-out")
NEED_GRADIENTS = {name for name in explainers.names() if "gradients" in explainers.get(name).needs}
FOLLOWED = {"attention-rollout", "attention-flow"}  # not through two stacks, where padding changes the answer


def parts(name: str) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    tokenizer = small_tokenizer(BY_NAME[name])
    return small_network(BY_NAME[name], len(tokenizer)), tokenizer


def refused(model: Model) -> dict[str, str]:
    reasons = {name: make_explainer(name).refusal(model) for name in explainers.names()}
    return {name: why for name, why in reasons.items() if why}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", FAMILIES)
def test_half_precision_is_explained_in_float32(name: str, dtype: torch.dtype, training: bool) -> None:
    network, tokenizer = parts(name)
    rounded, _ = parts(name)
    network.to(dtype).train(training)
    rounded.to(dtype).float()
    before = {key: value.clone() for key, value in network.state_dict().items()}
    model = wrap(network, tokenizer)
    assert set(refused(model)) == set(REFUSED.get(name, ()))
    explanations = explain(model, SINGLES[:3], METHODS)
    expected = explain(wrap(rounded, tokenizer), SINGLES[:3], METHODS)
    for one, other in zip(explanations, expected, strict=True):
        assert np.isfinite(one.scores).all()
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5, atol=1e-6)
    assert network.training == model.training == training
    after = network.state_dict()
    assert all(torch.equal(after[key], value) and after[key].dtype == dtype for key, value in before.items())
    assert all(p.grad is None and p.requires_grad and p.device.type == "cpu" for p in network.parameters())
    # What is explained is the network's own answer, up to its rounding.
    with torch.no_grad():
        own = network.eval()(**tokenizer(SINGLES[0].text, return_tensors="pt")).logits.float().softmax(-1)[0]
    np.testing.assert_allclose(explanations[0].probabilities, own.numpy(), atol=0.01)


def quantised(network: nn.Module, inplace: bool = False) -> Any:
    """By torch: linear layers compute with whole numbers, and round what comes in by the batch's extremes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, which would have another library do it
        return torch.ao.quantization.quantize_dynamic(network, {nn.Linear}, torch.qint8, inplace=inplace)


class WeightOnly(nn.Module):
    """A linear layer whose weights are kept in eight bits, a scale for each row, and used as numbers."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        scale = linear.weight.detach().abs().amax(1, keepdim=True) / 127
        whole = (linear.weight.detach() / scale).round().to(torch.int8)
        self.weight = nn.Parameter(whole, requires_grad=False)
        self.register_buffer("scale", scale)
        self.bias = linear.bias

    def forward(self, given: Tensor) -> Tensor:
        return nn.functional.linear(given, self.weight.to(given.dtype) * self.scale, self.bias)


def in_eight_bits(module: nn.Module, how: Any) -> None:
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear):
            setattr(module, name, how(child))
        else:
            in_eight_bits(child, how)


@pytest.mark.parametrize("name", ["bert", "qwen2", "bart"])
def test_what_does_not_differentiate_is_explained_without_gradients(name: str) -> None:
    network, tokenizer = parts(name)
    plain = wrap(network, tokenizer)
    with pytest.warns(Caution, match="with the texts that are read beside it"):
        model = wrap(quantised(network), tokenizer)
    reasons = refused(model)
    assert set(reasons) == NEED_GRADIENTS | (FOLLOWED if name == "bart" else set())
    assert {reasons[method] for method in NEED_GRADIENTS} == {"the model's output cannot be differentiated"}
    with pytest.raises(UserError, match="deeplift cannot explain this model: the model's output cannot be"):
        explain(model, SINGLES[:2], ["deeplift"])
    explanations = explain(model, SINGLES[:3], ["attention", "leave-one-out", "lime"])
    exact = explain(plain, SINGLES[:3], ["attention", "leave-one-out", "lime"])
    assert all(np.isfinite(item.scores).all() for item in explanations)
    # Attention is read where the prediction is made, as of the network before.
    assert model.traits.pooling == plain.traits.pooling
    for one, other in zip(explanations[:3], exact[:3], strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=0.05)
    assert plain.traits.company == 0
    assert check_model(model).caution == model.traits.company_words
    assert check_model(plain).caution == ""


@pytest.mark.parametrize("name", ["qwen2", "bart", "t5"])
def test_gradients_that_pass_beside_quantised_layers_are_refused(name: str) -> None:
    """With a head in numbers torch returns gradients: those of what goes around the quantised layers alone."""
    network, tokenizer = parts(name)
    body = next(
        child for child_name, child in network.named_children() if child_name in ("model", "transformer")
    )
    quantised(body, inplace=True)
    with pytest.warns(Caution):
        model = wrap(network, tokenizer)
    reasons = refused(model)
    assert set(reasons) == NEED_GRADIENTS | (FOLLOWED if name != "qwen2" else set())
    assert all("where padding changes" in reasons[method] for method in FOLLOWED & set(reasons))
    assert all("not the slopes of its output" in reasons[method] for method in NEED_GRADIENTS)


def test_the_weights_of_a_quantised_network_are_its_fingerprint() -> None:
    network, tokenizer = parts("bert")
    with pytest.warns(Caution):
        one, same = (wrap(quantised(network), tokenizer) for _ in range(2))
    with torch.no_grad():
        network.classifier.weight[0, 0] += 1
    with pytest.warns(Caution):
        other = wrap(quantised(network), tokenizer)
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()


@pytest.mark.parametrize("name", ["bert", "llama", "t5"])
def test_quantised_weights_that_differentiate_are_explained_by_all(name: str) -> None:
    network, tokenizer = parts(name)
    rounded, _ = parts(name)
    in_eight_bits(network, WeightOnly)

    def as_numbers(linear: nn.Linear) -> nn.Linear:
        kept = WeightOnly(linear)
        linear.weight.data = kept.weight.float() * kept.scale
        return linear

    in_eight_bits(rounded, as_numbers)
    model = wrap(network, tokenizer)
    assert set(refused(model)) == set(REFUSED.get(name, ()))
    explanations, expected = (explain(m, SINGLES[:3], METHODS) for m in (model, wrap(rounded, tokenizer)))
    for one, other in zip(explanations, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-4, atol=1e-6)


def test_a_quantised_network_is_audited(tmp_path: Path) -> None:
    network, tokenizer = parts("bert")
    with pytest.warns(Caution):
        model = wrap(quantised(network), tokenizer)
    report = ra.audit(model, SINGLES, methods=("attention", "lime", "deeplift"), store=tmp_path)
    audit = report.audit
    assert audit.explanations.methods == ("attention", "lime")
    assert any("deeplift" in warning and "cannot be differentiated" in warning for warning in audit.warnings)
    assert any("with the texts that are read beside it" in warning for warning in audit.warnings)
