"""What is found out about architectures that count, pool and attend in other ways."""

from __future__ import annotations

import pytest
import torch
import transformers
from transformers import AutoModelForSequenceClassification

from rashomon.models.huggingface import HuggingFaceClassifier

from .tiny import PAIRS, SINGLES, wordpiece_tokenizer

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 2, "eos_token_id": 3}
MODERN = {"cls_token_id": 2, "sep_token_id": 3, "bos_token_id": 2, "eos_token_id": 3}
DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0}


def _model(config: str, settings: dict[str, object]) -> HuggingFaceClassifier:
    tokenizer = wordpiece_tokenizer("bert" if config == "AlbertConfig" else "plain")
    made = getattr(transformers, config)(vocab_size=len(tokenizer), pad_token_id=0, **settings)
    network = AutoModelForSequenceClassification.from_config(made, attn_implementation="eager")
    generator = torch.Generator().manual_seed(0)
    for weight in network.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.2, generator=generator)
    return HuggingFaceClassifier(network, tokenizer).eval()


@pytest.mark.parametrize(
    ("config", "settings", "capabilities", "pooling"),
    [
        (
            "AlbertConfig",
            SMALL | {"embedding_size": 16},
            {"attention", "layers", "gradients", "removal"},
            "first",
        ),
        # relative positions: a token left out brings its neighbours together
        ("DebertaV2Config", SMALL | DEBERTA, {"attention", "layers", "gradients"}, "first"),
        # local attention
        ("ModernBertConfig", SMALL | MODERN, {"attention", "layers", "gradients"}, "first"),
        (
            "ModernBertConfig",
            SMALL | MODERN | {"classifier_pooling": "mean"},
            {"attention", "layers", "gradients"},
            "all",
        ),
        # finds the end of a text by its ids
        ("GPT2Config", GPT2, {"attention", "layers", "gradients", "removal"}, "last"),
    ],
)
def test_traits(config: str, settings: dict[str, object], capabilities: set[str], pooling: str) -> None:
    model = _model(config, settings)
    assert model.capabilities == capabilities | {"classes"}
    assert model.traits.pooling == pooling
    encodings = model.encode([*SINGLES, *PAIRS])
    batch = model.collate(encodings)
    with torch.no_grad():
        output = model(batch)
        assert output.attention is not None
        assert output.readout is not None
        torch.testing.assert_close(output.attention.sum(-1), torch.ones(output.attention.shape[:2]))
        torch.testing.assert_close(output.readout.sum(-1), torch.ones(len(encodings)))
        assert (output.readout[~batch.mask] == 0).all()
        for number, encoding in enumerate(encodings):
            alone = model(model.collate([encoding])).logits[0]
            torch.testing.assert_close(alone, output.logits[number], atol=1e-5, rtol=0)
