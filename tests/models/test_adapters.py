"""Adapters as PEFT puts them on a network: explained with it where they sit inside of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from rashomon.errors import UserError
from rashomon.explainers import explain
from rashomon.models.wrapping import wrap
from tests.models.test_architectures import REFUSED
from tests.models.test_precision import METHODS, parts, refused
from tests.models.tiny import SINGLES

TARGETS = {"bert": ("query", "value"), "qwen2": ("q_proj", "v_proj", "down_proj"), "t5": ("q", "v")}


class LowRank(nn.Module):
    """A linear layer with a learned difference of low rank beside it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer, self.scaling = base, 2.0
        self.lora_dropout = nn.Dropout(0.5)
        self.lora_A = nn.Linear(base.in_features, 3, bias=False)
        self.lora_B = nn.Linear(3, base.out_features, bias=False)

    def forward(self, given: Tensor, *args: Any, **options: Any) -> Tensor:
        beside = self.lora_B(self.lora_A(self.lora_dropout(given)))
        return self.base_layer(given, *args, **options) + beside * self.scaling

    def merged(self) -> nn.Linear:
        self.base_layer.weight.data += self.scaling * self.lora_B.weight.data @ self.lora_A.weight.data
        return self.base_layer


class Tuner(nn.Module):
    def __init__(self, network: PreTrainedModel) -> None:
        super().__init__()
        self.model = network

    def forward(self, *args: Any, **options: Any) -> Any:
        return self.model(*args, **options)


class Adapted(nn.Module):
    """Holds a network as PEFT does: two levels down, and with its attributes passed through."""

    def __init__(self, network: PreTrainedModel) -> None:
        super().__init__()
        self.base_model = Tuner(network)
        self.peft_config = {"default": SimpleNamespace(is_prompt_learning=False)}

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.base_model.model, name)

    def get_base_model(self) -> PreTrainedModel:
        return self.base_model.model

    def forward(self, *args: Any, **options: Any) -> Any:
        return self.base_model(*args, **options)


class Prompted(Adapted):
    """Vectors before the words, of which the network inside knows nothing."""

    def forward(self, input_ids: Tensor, attention_mask: Tensor, **options: Any) -> Any:
        network = self.get_base_model()
        words = network.get_input_embeddings()(input_ids)
        before = torch.ones(len(words), 2, words.shape[2])
        mask = torch.cat((torch.ones(len(words), 2), attention_mask), 1)
        return network(inputs_embeds=torch.cat((before, words), 1), attention_mask=mask, **options)


def replaced(module: nn.Module, names: tuple[str, ...], kind: type[nn.Module], how: Any) -> None:
    for name, child in list(module.named_children()):
        if name in names and isinstance(child, kind):
            setattr(module, name, how(child))
        else:
            replaced(child, names, kind, how)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", TARGETS)
def test_adapters_are_explained_as_if_they_were_merged(name: str, dtype: torch.dtype) -> None:
    network, tokenizer = parts(name)
    torch.manual_seed(3)
    replaced(network, TARGETS[name], nn.Linear, LowRank)
    adapted = Adapted(network).to(dtype).train()
    before = {key: value.clone() for key, value in adapted.state_dict().items()}
    model = wrap(adapted, tokenizer)  # type: ignore[arg-type]
    assert set(refused(model)) == set(REFUSED.get(name, ()))
    explanations = explain(model, SINGLES[:3], METHODS)
    assert adapted.training
    assert network.training
    assert all(torch.equal(value, before[key]) for key, value in adapted.state_dict().items())
    assert all(p.grad is None and p.requires_grad and p.dtype == dtype for p in adapted.parameters())
    adapted.float()
    replaced(network, TARGETS[name], LowRank, LowRank.merged)
    plain, _ = parts(name)
    expected = explain(wrap(network, tokenizer), SINGLES[:3], METHODS)
    without = explain(wrap(plain, tokenizer), SINGLES[:3], METHODS)
    for one, other in zip(explanations, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-3, atol=1e-5)
    assert (
        max(np.abs(one.scores - other.scores).max() for one, other in zip(explanations, without, strict=True))
        > 0.01
    )


def test_vectors_that_no_word_stands_for_are_refused() -> None:
    network, tokenizer = parts("qwen2")
    with pytest.raises(UserError, match="act outside of it, on vectors that no word stands for"):
        wrap(Prompted(network), tokenizer)  # type: ignore[arg-type]


def test_what_is_inside_must_be_a_network() -> None:
    network, tokenizer = parts("bert")
    adapted = Adapted(network)
    adapted.base_model.model = nn.Linear(2, 2)  # type: ignore[assignment]
    with pytest.raises(UserError, match="no Hugging Face network"):
        wrap(adapted, tokenizer)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no Hugging Face tokenizer"):
        wrap(Adapted(network), "bert")  # type: ignore[arg-type]
