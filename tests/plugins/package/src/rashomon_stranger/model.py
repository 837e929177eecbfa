"""The mean of word embeddings and a linear map: a model with a format of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from rashomon.data import Batch, Dataset, Encoding, Example, Vocabulary, words_of
from rashomon.data.vocabulary import PAD_ID, UNKNOWN_ID
from rashomon.models import Model, ModelSpec, Output, models


@models.register("bag-of-words")
class BagOfWords(Model):
    """Mean of word embeddings, and a linear map."""

    format = "stranger-bag-of-words"

    def __init__(self, vocabulary: Vocabulary, labels: Sequence[str], size: int) -> None:
        super().__init__()
        self.vocabulary, self.labels, self.size = vocabulary, tuple(labels), size
        self.max_length, self.pad_id, self.mask_id = 512, PAD_ID, UNKNOWN_ID
        self.capabilities = frozenset({"gradients", "removal", "token-level"})
        self.embedding = nn.Embedding(len(vocabulary), size, padding_idx=PAD_ID)
        self.layer = nn.Linear(size, size)
        self.decoder = nn.Linear(size, len(self.labels))

    @classmethod
    def build(cls, spec: ModelSpec, dataset: Dataset, seed: int) -> BagOfWords:
        words = ([word.form for word in words_of(example, 0)] for example in dataset["train"])
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return cls(
                Vocabulary.build(words, spec.vocabulary_size, spec.min_count), dataset.labels, spec.hidden
            )

    def encode(self, examples: Sequence[Example]) -> list[Encoding]:
        return [self._encode(example) for example in examples]

    def embed(self, batch: Batch) -> Tensor:
        return self.embedding(batch.ids)

    def forward(self, batch: Batch, embeddings: Tensor | None = None) -> Output:
        hidden = self.layer(self.embed(batch) if embeddings is None else embeddings).relu()
        hidden = hidden * batch.mask.unsqueeze(-1)
        pooled = hidden.sum(1) / batch.mask.sum(1, keepdim=True).clamp_min(1)
        return Output(logits=self.decoder(pooled), attention=None, hidden=hidden, pooled=pooled)

    def first_layer(self) -> nn.Module:
        return self.layer

    def attention_parameters(self) -> list[nn.Parameter]:
        return []

    def settings(self) -> dict[str, Any]:
        return {"size": self.size, "vocabulary": self.vocabulary.to_json(), "labels": list(self.labels)}

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        config = {"format": self.format, **self.settings()}
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        save_file(dict(self.state_dict()), folder / "weights.safetensors")

    @classmethod
    def load(cls, folder: Path) -> BagOfWords:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        model = cls(Vocabulary.from_json(config["vocabulary"]), config["labels"], config["size"])
        model.load_state_dict(load_file(folder / "weights.safetensors"))
        return model.eval()

    def _encode(self, example: Example) -> Encoding:
        words = words_of(example, 0)[: self.max_length]
        count = len(words)
        return Encoding(
            example_id=example.id,
            tokens=tuple(word.form for word in words),
            ids=self.vocabulary.ids(tuple(word.form for word in words)),
            segments=np.zeros(count, dtype=np.int64),
            special=np.zeros(count, dtype=np.bool_),
            word_ids=np.array([word.index for word in words], dtype=np.int64),
            offsets=np.array([(word.start, word.end) for word in words], dtype=np.int64),
            positions=np.arange(count),
        )
