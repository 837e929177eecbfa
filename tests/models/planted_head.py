"""A transformer whose reasons are known: one head reads the opinion words, and nothing else reaches the prediction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

from rashomon.models.checkpoints import quiet
from tests.models.tiny import wordpiece_tokenizer

EVIDENCE, POLARITY, VERDICT = 0, 1, 2  # dimensions of the hidden states
HEADS, SIZE = 4, 8  # so many heads of so many dimensions


def planted_head_checkpoint(
    folder: Path, opinions: Sequence[Sequence[str]], layer: int, head: int, layers: int = 2
) -> Path:
    """Class 1 where the words of ``opinions[1]`` outweigh those of ``opinions[0]``, as one head of one layer sees it.

    The other heads attend at random to all words alike, and what they bring back is dropped.
    """
    tokenizer = wordpiece_tokenizer("bert")
    config = BertConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        hidden_size=HEADS * SIZE,
        num_hidden_layers=layers,
        num_attention_heads=HEADS,
        intermediate_size=8,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        network = AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():
        _write(network, [tokenizer.convert_tokens_to_ids(list(words)) for words in opinions], layer, head)
    with quiet():
        network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _write(network: BertForSequenceClassification, opinions: list[list[int]], layer: int, head: int) -> None:
    embeddings = network.bert.embeddings
    embeddings.position_embeddings.weight.zero_()
    embeddings.token_type_embeddings.weight.zero_()
    words = embeddings.word_embeddings.weight
    words[:, : VERDICT + 1] = 0.0
    for sign, ids in zip((-1.0, 1.0), opinions, strict=True):
        words[ids, EVIDENCE], words[ids, POLARITY] = 2.0, 2.0 * sign
    for (
        block
    ) in network.bert.encoder.layer:  # no head sees opinions, and what a layer adds to its input is nothing
        block.attention.self.key.weight[:, : VERDICT + 1] = 0.0
        for dense in (block.attention.output.dense, block.output.dense):
            dense.weight.zero_()
            dense.bias.zero_()
    chosen, first = network.bert.encoder.layer[layer].attention, head * SIZE
    query, key, value = chosen.self.query, chosen.self.key, chosen.self.value
    for part in (query, key, value):
        part.weight[first : first + SIZE] = 0.0
        part.bias[first : first + SIZE] = 0.0
    query.bias[first], key.weight[first, EVIDENCE], value.weight[first, POLARITY] = 4.0, 2.0, 1.0
    chosen.output.dense.weight[VERDICT, first] = 4.0
    network.bert.pooler.dense.weight.copy_(torch.eye(HEADS * SIZE))
    network.classifier.weight.zero_()
    network.classifier.weight[:, VERDICT] = torch.tensor([-4.0, 4.0])
    network.classifier.bias.zero_()
