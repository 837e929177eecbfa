"""Classifiers of many architectures, each as small as its configuration allows, with random weights.

``FAMILIES`` is the table: the model type as transformers calls it, what its configuration needs besides the usual
sizes, and how its tokeniser reads: ``cls`` puts [CLS] and [SEP] around a text, ``end`` puts a mark behind it, ``bare``
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from tests.models.tiny import LETTERS, PIECES, WORDS

SIZE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8}
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
BOTH_STACKS = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "max_position_embeddings": 64,
}
T5 = {
    "decoder_start_token_id": 0,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 48,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
}
BLOCKS = {"attention_type": "original_full", "block_size": 4, "num_random_blocks": 1}


@dataclass(frozen=True)
class Family:
    name: str
    reads: str  # cls, end or bare
    settings: dict[str, Any] = field(default_factory=dict)
    usual: bool = True  # whether the configuration knows the usual sizes

    def config(self, words: int, labels: int = 2) -> Any:
        marks = {
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "cls_token_id": 2,
            "sep_token_id": 3,
        }
        sizes = {**SIZE, **self.settings} if self.usual else self.settings
        return AutoConfig.for_model(self.name, vocab_size=words, num_labels=labels, **(marks | sizes))


ENCODERS = (
    Family("bert", "cls"),
    Family("roberta", "cls", {"max_position_embeddings": 70}),
    Family("distilbert", "cls", {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}, usual=False),
    Family("albert", "cls", {"embedding_size": 16}),
    Family("electra", "cls", {"embedding_size": 16}),
    Family("mpnet", "cls"),
    Family("ernie", "cls"),
    Family("rembert", "cls", {"input_embedding_size": 16}),
    Family("roformer", "cls", {"embedding_size": 32}),
    Family("ibert", "cls", {"max_position_embeddings": 70}),
    Family("megatron-bert", "cls"),
    Family("roberta-prelayernorm", "cls", {"max_position_embeddings": 70}),
    Family(
        "deberta", "cls", {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0}
    ),
    Family(
        "deberta-v2",
        "cls",
        {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0},
    ),
    Family("modernbert", "cls", {"local_attention": 8, "global_attn_every_n_layers": 2}),
    Family("eurobert", "cls", GROUPED),
    Family("nomic_bert", "cls"),
    Family("convbert", "cls", {"embedding_size": 32, "conv_kernel_size": 3, "head_ratio": 2}),
    Family(
        "mobilebert",
        "cls",
        {
            "embedding_size": 16,
            "intra_bottleneck_size": 16,
            "num_feedforward_networks": 1,
            "true_hidden_size": 16,
        },
    ),
    Family(
        "squeezebert",
        "cls",
        {
            "embedding_size": 32,
            **{f"{part}_groups": 1 for part in ("q", "k", "v", "post_attention", "intermediate", "output")},
        },
    ),
    Family("longformer", "cls", {"attention_window": [4, 4], "max_position_embeddings": 70}),
    Family("big_bird", "cls", BLOCKS),
    Family("nystromformer", "cls", {"num_landmarks": 8, "segment_means_seq_len": 8, "conv_kernel_size": 3}),
    Family("fnet", "cls"),
    Family(
        "funnel",
        "cls",
        {
            "d_model": 32,
            "d_head": 8,
            "n_head": 4,
            "d_inner": 48,
            "block_sizes": [1, 1],
            "num_decoder_layers": 1,
        },
        usual=False,
    ),
    Family("xlnet", "end", {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}, usual=False),
    Family(
        "xlm", "cls", {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64}, usual=False
    ),
    Family(
        "flaubert",
        "cls",
        {"emb_dim": 32, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64},
        usual=False,
    ),
)
DECODERS = (
    Family("gpt2", "bare", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}, usual=False),
    Family("openai-gpt", "bare", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}, usual=False),
    Family(
        "gpt_neo",
        "bare",
        {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 8},
    ),
    Family("gpt_neox", "bare", {"rotary_pct": 0.5}),
    Family(
        "gptj",
        "bare",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4},
        usual=False,
    ),
    Family("gpt_bigcode", "bare", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}, usual=False),
    Family("opt", "end", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
    Family("bloom", "bare", {"n_layer": 2, "n_head": 4}),
    Family("falcon", "bare", {"alibi": False, "new_decoder_architecture": False}),
    Family("mpt", "bare", {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}, usual=False),
    Family("llama", "bare", GROUPED),
    Family("mistral", "bare", GROUPED | {"sliding_window": 8}),
    Family("mixtral", "bare", GROUPED | {"num_local_experts": 2, "num_experts_per_tok": 1}),
    Family("qwen2", "bare", GROUPED),
    Family("qwen3", "bare", GROUPED),
    Family("gemma", "bare", GROUPED),
    Family("gemma2", "bare", GROUPED | {"sliding_window": 8, "query_pre_attn_scalar": 8}),
    Family("gemma3_text", "bare", GROUPED | {"sliding_window": 8, "query_pre_attn_scalar": 8}),
    Family("phi", "bare", {"partial_rotary_factor": 0.5}),
    Family("phi3", "bare", GROUPED),
    Family("stablelm", "bare", {"num_key_value_heads": 2}),
    Family("olmo2", "bare", GROUPED),
    Family("smollm3", "bare", GROUPED),
    Family("persimmon", "bare", {"partial_rotary_factor": 0.5}),
    Family("glm", "bare", GROUPED | {"partial_rotary_factor": 0.5}),
    Family("starcoder2", "bare", GROUPED),
    Family("biogpt", "bare"),
)
ENCODER_DECODERS = (
    Family("bart", "end", BOTH_STACKS, usual=False),
    Family("mbart", "end", BOTH_STACKS, usual=False),
    Family("plbart", "end", BOTH_STACKS, usual=False),
    Family("mvp", "end", BOTH_STACKS, usual=False),
    Family("t5", "end", T5, usual=False),
    Family("mt5", "end", T5 | {"feed_forward_proj": "gated-gelu"}, usual=False),
    Family("umt5", "end", T5, usual=False),
)
FAMILIES = (*ENCODERS, *DECODERS, *ENCODER_DECODERS)
BY_NAME = {family.name: family for family in FAMILIES}


def small_network(family: Family, words: int, labels: int = 2) -> PreTrainedModel:
    """Weights drawn wide, so that masks and positions make a difference that tests can see."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        config = family.config(words, labels)
        network = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")
        generator = torch.Generator().manual_seed(0)
        for weight in network.parameters():
            if weight.dim() > 1:
                torch.nn.init.normal_(weight, std=0.2, generator=generator)
    return network.eval()  # type: ignore[no-any-return]


def small_tokenizer(
    family: Family, pad: str | None = "[PAD]", side: str = "right"
) -> PreTrainedTokenizerFast:
    """``pad`` is the padding token's name: "[SEP]" is the one that ends texts; None where there is none."""
    pieces = (*SPECIAL, *WORDS, *PIECES, *LETTERS, *(f"##{t}" for t in LETTERS))
    tokens = list(dict.fromkeys(pieces))  # each once, so that ids have no gaps
    tokenizer = Tokenizer(models.WordPiece({t: n for n, t in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = {"cls": ("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"), "end": ("$A [SEP]", "$A $B:1 [SEP]:1")}
    if family.reads in marks:
        single, pair = marks[family.reads]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=single, pair=pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
    mask = (
        {"mask_token": "[MASK]", "cls_token": "[CLS]", "sep_token": "[SEP]"} if family.reads == "cls" else {}
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        unk_token="[UNK]",
        eos_token="[SEP]",
        model_max_length=64,
        padding_side=side,
        model_input_names=["input_ids", "attention_mask"],
        **mask,
    )
