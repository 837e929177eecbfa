"""Any Hugging Face sequence classifier, seen through the contract of ``Model``.

Nothing is taken on trust: when a network is wrapped, ``probe`` finds out from a few forward passes whether it
tells its attention, how it counts positions, which token vectors its prediction reads, and whether leaving a
token out equals masking it. What does not hold is left out of ``capabilities``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rashomon.data.batches import Batch, Encoding
from rashomon.data.example import Example
from rashomon.data.tokens import words_of
from rashomon.errors import UserError
from rashomon.models.base import Model, Output
from rashomon.models.checkpoints import load_checkpoint, quiet
from rashomon.models.probe import first_layer_of, probe, segments_of
from rashomon.models.uniform_attention import UNIFORM
from rashomon.runs.files import write_json
from rashomon.runs.folders import write_folder

SETTINGS = "rashomon.json"  # beside the checkpoint's own files


class HuggingFaceClassifier(Model):
    """A network with its tokeniser. Single logits ``z`` are seen as two classes with logits ``[-z/2, z/2]``.

    ``uniform`` freezes its self-attention to uniform weights.
    """

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        labels: Sequence[str] | None = None,
        max_length: int = 512,
        uniform: bool = False,
    ) -> None:
        super().__init__()
        self.uniform = uniform
        self.network, self.tokenizer = network, tokenizer
        self.labels = tuple(labels) if labels else _labels(network)
        self.traits = probe(network, tokenizer)
        self.capabilities = self.traits.capabilities | {"classes"}
        self.pad_id = int(tokenizer.pad_token_id)
        masks = (tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id)
        self.mask_id = next(int(token) for token in masks if token is not None)
        self.max_length = min(max_length, tokenizer.model_max_length, self.traits.places)
        self._fused = bool(getattr(network, "_supports_sdpa", False))

    @classmethod
    def load(cls, source: str | Path) -> HuggingFaceClassifier:
        """A trained classifier: a folder written by ``save``, any checkpoint folder, or a hub id."""
        checkpoint = load_checkpoint(source)
        settings = Path(source) / SETTINGS
        kept = json.loads(settings.read_text(encoding="utf-8")) if settings.is_file() else {}
        return cls(checkpoint.network, checkpoint.tokenizer, **kept).eval()

    @classmethod
    def pretrained(
        cls,
        source: str | Path,
        labels: Sequence[str],
        seed: int,
        max_length: int = 512,
        uniform: bool = False,
    ) -> HuggingFaceClassifier:
        """A classifier to be fine-tuned; its head is fresh, from the seed, unless the checkpoint's fits."""
        checkpoint = load_checkpoint(source, seed, tuple(labels))
        return cls(checkpoint.network, checkpoint.tokenizer, labels, max_length, uniform)

    def encode(self, examples: Sequence[Example]) -> list[Encoding]:
        for example in examples:
            _require_text(example)
        encodings: list[Encoding | None] = [None] * len(examples)
        for pair in (False, True):
            numbers = [number for number, example in enumerate(examples) if example.is_pair == pair]
            for number, encoding in zip(numbers, self._encode([examples[n] for n in numbers]), strict=True):
                encodings[number] = encoding
        return cast(list[Encoding], encodings)

    def embed(self, batch: Batch) -> Tensor:
        return cast(Tensor, self.network.get_input_embeddings()(batch.ids))

    def forward(self, batch: Batch, embeddings: Tensor | None = None) -> Output:
        with_attention = self.wants_attention and "attention" in self.capabilities
        self._choose_kernel(with_attention or not self._fused)
        told = self.network(
            **self._inputs(batch, embeddings),
            output_attentions=with_attention,
            output_hidden_states=True,
            return_dict=True,
        )
        readout = self.traits.readout(batch.mask)
        hidden = told.hidden_states[-1] * batch.mask.unsqueeze(-1)
        logits = told.logits
        if logits.shape[-1] == 1:
            # Both classes get half, so that explaining the negative one is not explaining a constant.
            logits = torch.cat((-logits / 2, logits / 2), -1)
        layers = tuple(told.attentions) if with_attention else None
        return Output(
            logits=logits,
            attention=None if layers is None else self.traits.read(layers[-1].transpose(1, 2), readout),
            hidden=hidden,
            pooled=self.traits.read(hidden, readout),
            layers=layers,
            readout=readout,
        )

    def first_layer(self) -> nn.Module:
        return first_layer_of(self.network)

    def attention_parameters(self) -> list[nn.Parameter]:
        return []  # fine-tuning decays the projections of self-attention like any other weight

    def save(self, folder: Path) -> None:
        write_folder(Path(folder), "model", self._write)

    def _write(self, folder: Path) -> None:
        with quiet():
            self.network.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        write_json(folder / SETTINGS, {"labels": list(self.labels), **self.settings()})

    def settings(self) -> dict[str, Any]:
        return {"max_length": self.max_length, "uniform": self.uniform}

    def _inputs(self, batch: Batch, embeddings: Tensor | None) -> dict[str, Tensor]:
        inputs = {"attention_mask": batch.mask.long()}
        inputs |= {"input_ids": batch.ids} if embeddings is None else {"inputs_embeds": embeddings}
        if self.traits.takes_types:
            inputs["token_type_ids"] = batch.segments
        if self.traits.first_position is not None:
            inputs["position_ids"] = batch.positions
        return inputs

    def _choose_kernel(self, eager: bool) -> None:
        """Fused attention is faster on long texts but keeps its weights to itself."""
        wanted = UNIFORM if self.uniform else "eager" if eager else "sdpa"
        if self.network.config._attn_implementation != wanted:
            self.network.set_attn_implementation(wanted)

    def _encode(self, examples: Sequence[Example]) -> list[Encoding]:
        whole = self._tokenise(examples)
        long = [number for number, told in enumerate(whole) if len(told.ids) > self.max_length]
        kept = list(whole)
        again = self._tokenise(
            [examples[number] for number in long], truncation="longest_first", max_length=self.max_length
        )
        for number, told in zip(long, again, strict=True):
            kept[number] = told
        return [
            self._encoding(example, told, cut=len(full.ids) - len(told.ids))
            for example, told, full in zip(examples, kept, whole, strict=True)
        ]

    def _tokenise(self, examples: Sequence[Example], **options: Any) -> list[Any]:
        if not examples:
            return []
        texts = [example.text for example in examples]
        pairs = [example.text_pair for example in examples] if examples[0].is_pair else None
        return cast(list[Any], self.tokenizer(texts, pairs, verbose=False, **options).encodings)

    def _encoding(self, example: Example, told: Any, cut: int) -> Encoding:
        special = np.array(told.special_tokens_mask, dtype=np.bool_)
        offsets = np.array(told.offsets, dtype=np.int64).reshape(-1, 2)
        segments = np.array(segments_of(told.sequence_ids), dtype=np.int64)
        word_ids = np.full(len(special), -1, dtype=np.int64)
        for side in (0, 1) if example.is_pair else (0,):
            here = ~special & (segments == side)
            if not here.any():
                raise UserError(f"No token of example {example.id!r} is left in its {_SIDES[side]} text.")
            words = words_of(example, side)
            # The word that a token begins in: the first one that ends after the token's first character.
            number = np.searchsorted([word.end for word in words], offsets[here, 0], side="right")
            indices = np.array([word.index for word in words], dtype=np.int64)
            word_ids[here] = indices[number.clip(max=len(words) - 1)]
        return Encoding(
            example_id=example.id,
            tokens=tuple(told.tokens),
            ids=np.array(told.ids, dtype=np.int64),
            segments=segments,
            special=special,
            word_ids=word_ids,
            offsets=offsets,
            positions=np.arange(len(special)) + (self.traits.first_position or 0),
            cut=cut,
        )


_SIDES = ("first", "second")


def _labels(network: PreTrainedModel) -> tuple[str, ...]:
    names = [str(name) for _, name in sorted((network.config.id2label or {}).items())]
    if len(names) > 1:
        return tuple(names)
    return ("0", "1") if names == ["LABEL_0"] else (f"not {names[0]}", names[0])


def _require_text(example: Example) -> None:
    for side, text in enumerate((example.text, example.text_pair)):
        if text is not None and not text.strip():
            where = f"{_SIDES[side]} text" if example.is_pair else "text"
            raise UserError(f"The {where} of example {example.id!r} has no words; leave the example out.")
