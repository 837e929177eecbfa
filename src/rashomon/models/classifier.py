"""The papers' classifier: embed, encode, attend, decode - for single texts and for pairs.

Pairs (paper *disagreement*): both sides through the same encoder and attention, each on its own; the decoder
reads ``[c1; c2; |c1-c2|; c1*c2]``. Several heads each pool the whole token vectors and stand side by side.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn

from rashomon.data.batches import Batch, Encoding
from rashomon.data.example import Example
from rashomon.data.preprocess import apply_token_steps
from rashomon.data.tokens import Word, words_of
from rashomon.data.vectors import load_vectors
from rashomon.data.vocabulary import PAD_ID, UNKNOWN_ID, Vocabulary
from rashomon.errors import UserError
from rashomon.models.attention import Attention
from rashomon.models.base import Model, Output
from rashomon.models.encoders import Maps, build_encoder
from rashomon.models.model_spec import ModelSpec
from rashomon.models.recurrence import Lines, Tabled
from rashomon.models.seeding import seeded
from rashomon.models.sequences import Layout
from rashomon.runs.files import write_json, write_tensors
from rashomon.runs.folders import write_folder

FORMAT = "rashomon-attention-classifier"
CONFIG, WEIGHTS = "config.json", "model.safetensors"

# Measured on CPU: encoding distinct tokens once pays off when at most this share of a batch is distinct,
DISTINCT_SHARE = 0.7
# and pooling over them instead of over places when there are at most this many for each place of a text.
TABLE_FACTOR = 60


class AttentionClassifier(Model):
    """A built-in model; ``vectors`` start its embeddings (one row for each word of the vocabulary)."""

    def __init__(
        self,
        spec: ModelSpec,
        vocabulary: Vocabulary,
        labels: Sequence[str],
        pair: bool,
        seed: int,
        vectors: NDArray[np.float32] | None = None,
    ) -> None:
        super().__init__()
        self.spec, self.vocabulary, self.labels, self.pair = spec, vocabulary, tuple(labels), pair
        self.max_length, self.pad_id, self.mask_id = spec.max_length, PAD_ID, UNKNOWN_ID
        if pair and self.max_length < 2:
            raise UserError("A model for pairs needs a max_length of at least 2.")
        with seeded(seed):
            # The attention comes last: models that differ only in it start from the same weights elsewhere.
            self.embedding = nn.Embedding(len(vocabulary), spec.embedding_dim, padding_idx=PAD_ID)
            self.encoder = build_encoder(spec)
            pooled = spec.heads * self.encoder.size
            self.decoder = nn.Linear(4 * pooled if pair else pooled, len(self.labels))
            self.attention = Attention(
                spec.attention, self.encoder.size, spec.heads, spec.weights, spec.temperature
            )
        self.dropout = nn.Dropout(spec.dropout)
        if vectors is not None:
            with torch.no_grad():
                self.embedding.weight.copy_(torch.from_numpy(vectors))
        self.embedding.weight.requires_grad_(not spec.freeze_embeddings)
        # A masked token is not there for any of the encoders, and positions are kept: removal is masking.
        extra = {"token-level": self.encoder.token_level, "layers": self.encoder.self_attends}
        self.capabilities = frozenset(
            [
                "attention",
                "classes",
                "fresh",
                "gradients",
                "removal",
                "reweighting",
                *(name for name, has in extra.items() if has),
            ]
        )

    def encode(self, examples: Sequence[Example]) -> list[Encoding]:
        for example in examples:
            self.task.check_example(example)
        return [self._encode(example) for example in examples]

    def embed(self, batch: Batch) -> Tensor:
        return cast(Tensor, self.embedding(batch.ids))

    def forward(self, batch: Batch, embeddings: Tensor | Lines | None = None) -> Output:
        layout = Layout(batch, self.pair)
        if embeddings is None and self._reads_tables():
            distinct, inverse = torch.unique(batch.ids, return_inverse=True)
            if len(distinct) <= DISTINCT_SHARE * batch.ids.numel():
                return self._forward_distinct(batch, layout, distinct, inverse)
        embedded = self.embed(batch) if embeddings is None else embeddings
        return self._forward(
            batch, layout, self.dropout(embedded) if isinstance(embedded, Tensor) else embedded
        )

    def _reads_tables(self) -> bool:
        """Whether a token says the same to the encoder wherever it stands, so that each distinct one is read once."""
        if self.encoder.token_level:
            return not (self.training and self.spec.dropout)
        return not torch.is_grad_enabled() and self.encoder.enters

    def _forward(self, batch: Batch, layout: Layout, embedded: Tensor | Lines | Tabled) -> Output:
        hidden, maps = self.encoder(embedded, layout)
        weights = self._weights(self.attention.logits(hidden), batch, layout)
        contexts = weights @ hidden  # [S, B, heads, H]
        return self._decode(contexts, weights, hidden, batch, maps)

    @property
    def enters(self) -> bool:
        return not self.pair and self.encoder.enters

    def enter(self, embeddings: Tensor) -> Tensor:
        return self.encoder.entered(embeddings)

    def sides(self, batch: Batch) -> Tensor:
        return Layout(batch, self.pair).sides

    def decode_with(self, hidden: Tensor, weights: Tensor, batch: Batch) -> Tensor:
        many = weights.flatten(1, 2)
        contexts = torch.stack(
            [(many * side.unsqueeze(1)) @ hidden for side in self.sides(batch)]
        )  # [S, B, K * heads, H]
        pooled = self._joined(contexts.unflatten(2, weights.shape[1:3]).flatten(3))
        return cast(Tensor, self.decoder(pooled))

    def first_layer(self) -> nn.Module:
        return self.encoder.first_layer()

    def attention_parameters(self) -> list[nn.Parameter]:
        return list(self.attention.parameters())

    def fresh(self, seed: int) -> AttentionClassifier:
        vectors = None
        if self.spec.embeddings is not None:
            generator = np.random.default_rng(seed)
            path, scale = Path(self.spec.embeddings), self.spec.embedding_scale
            vectors, _ = load_vectors(path, self.vocabulary, generator, scale)
        return AttentionClassifier(self.spec, self.vocabulary, self.labels, self.pair, seed, vectors)

    def word_vectors(self) -> Tensor:
        return self.embedding.weight.detach()[PAD_ID + 1 :]

    def free_of_decay(self) -> list[nn.Parameter]:
        """The attention, and ready-made word vectors unless it is said otherwise.

        Between two readings of a rare word weight decay is all that Adam hears of it, and Adam makes steps of full
        length even of that. What the vector knew would be gone in a few epochs, before the model has learned to use it.
        """
        spared = self.spec.embeddings is not None and not self.spec.decay_embeddings
        return [*self.attention_parameters(), *(self.embedding.parameters() if spared else ())]

    def save(self, folder: Path) -> None:
        write_folder(Path(folder), "model", self._write)

    def _write(self, folder: Path) -> None:
        config = {
            "format": FORMAT,
            "spec": self.spec.to_json(),
            "labels": list(self.labels),
            "pair": self.pair,
            "vocabulary": self.vocabulary.to_json(),
        }
        write_json(folder / CONFIG, config)
        write_tensors(folder / WEIGHTS, self.state_dict())

    def settings(self) -> dict[str, Any]:
        settings = self.spec.to_json()
        for name in ("embeddings", "embedding_scale", "decay_embeddings"):
            del settings[name]  # where the vectors came from; what they were is in the weights
        return {**settings, "pair": self.pair}

    @classmethod
    def load(cls, folder: Path) -> AttentionClassifier:
        """A model from its folder. Folders of other makers are the business of ``load_model``."""
        try:
            config: dict[str, Any] = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
            spec = ModelSpec.from_json(config["spec"])
            vocabulary = Vocabulary.from_json(config["vocabulary"])
            model = cls(spec, vocabulary, config["labels"], config["pair"], seed=0)
            model.load_state_dict(load_file(folder / WEIGHTS))
        except UserError as error:
            raise UserError(f"The model in {folder} cannot be read: {error}") from error
        except Exception as error:  # whatever is made of damaged files
            raise UserError(f"The model in {folder} cannot be read: {error}.") from error
        return model.eval()

    def _forward_distinct(self, batch: Batch, layout: Layout, distinct: Tensor, inverse: Tensor) -> Output:
        """The same with each distinct token of the batch read once."""
        if not self.encoder.token_level:
            return self._forward(batch, layout, Tabled(self.enter(self.embedding(distinct)), inverse))
        table, _ = self.encoder(self.embedding(distinct), layout)  # [U, H]
        logits = self.attention.logits(table)
        placed = None if logits is None else nn.functional.embedding(inverse, logits)
        weights = self._weights(placed, batch, layout)
        hidden = nn.functional.embedding(inverse, table)
        if not torch.is_grad_enabled() or len(distinct) > TABLE_FACTOR * batch.ids.shape[1]:
            return self._decode(weights @ hidden, weights, hidden, batch, None)
        # A token's weights add up over its places, so pooling and its gradient need only the table.
        per_token = weights.new_zeros(*weights.shape[:-1], len(distinct))
        per_token = per_token.scatter_add(-1, inverse[None, :, None, :].expand(weights.shape), weights)
        return self._decode(per_token @ table, weights, hidden, batch, None)

    def _weights(self, logits: Tensor | None, batch: Batch, layout: Layout) -> Tensor:
        """``[S, B, heads, T]``: a distribution over the tokens of each side."""
        given = batch.extras.get("preset")
        return torch.stack([self.attention(logits, side, given) for side in layout.sides])

    def _decode(
        self, contexts: Tensor, weights: Tensor, hidden: Tensor, batch: Batch, maps: Maps | None
    ) -> Output:
        pooled = self._joined(contexts.flatten(2))
        attention = weights.sum(0)
        return Output(
            logits=self.decoder(self.dropout(pooled)),
            attention=attention,
            hidden=hidden * batch.mask.unsqueeze(-1),
            pooled=pooled,
            layers=maps,
            readout=None if maps is None else attention.mean(1) / len(weights),
        )

    def _joined(self, sides: Tensor) -> Tensor:
        """``[S, ..., P]`` to what the decoder reads."""
        if not self.pair:
            return sides[0]
        first, second = sides
        return torch.cat((first, second, (first - second).abs(), first * second), -1)

    def _encode(self, example: Example) -> Encoding:
        if example.is_pair != self.pair:
            wants, got = ("pairs", "a single text") if self.pair else ("single texts", "a pair")
            raise UserError(f"This model reads {wants}, and example {example.id!r} is {got}.")
        sides = [
            apply_token_steps(words_of(example, side), self.spec.steps)
            for side in ((0, 1) if self.pair else (0,))
        ]
        for number, words in enumerate(sides):
            if not words:
                where = ("first text", "second text")[number] if self.pair else "text"
                raise UserError(f"The {where} of example {example.id!r} has no words; leave the example out.")
        kept = _fit(sides, self.max_length)
        words = [word for side in kept for word in side]
        forms = tuple(word.form for word in words)
        return Encoding(
            example_id=example.id,
            tokens=forms,
            ids=self.vocabulary.ids(forms),
            segments=np.repeat(np.arange(len(kept)), [len(side) for side in kept]),
            special=np.zeros(len(words), dtype=np.bool_),
            word_ids=np.array([word.index for word in words], dtype=np.int64),
            offsets=np.array([(word.start, word.end) for word in words], dtype=np.int64),
            positions=np.concatenate([np.arange(len(side)) for side in kept]),
            cut=sum(map(len, sides)) - len(words),
        )


def _fit(sides: Sequence[list[Word]], budget: int) -> list[list[Word]]:
    """Cut to ``budget`` words together, from the longer side first, at the end."""
    if len(sides) == 1:
        return [sides[0][:budget]]
    first, second = map(len, sides)
    half = budget // 2
    if first + second > budget:
        keep_second = min(second, max(half, budget - first))
        first, second = budget - keep_second, keep_second
    return [sides[0][:first], sides[1][:second]]
