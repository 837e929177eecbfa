"""Any Hugging Face classifier or extractive question answerer, seen through the contract of ``Model``.

Nothing is taken on trust: when a network is wrapped, ``probe`` finds out from a few forward passes whether it
tells its attention, how it counts positions, which token vectors its prediction reads, and whether leaving a
token out equals masking it. What does not hold is left out of ``capabilities``.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rashomon.data.batches import Batch, Encoding
from rashomon.data.example import Example
from rashomon.errors import Caution, UserError
from rashomon.models.base import Model, Output
from rashomon.models.checkpoints import load_checkpoint, quiet
from rashomon.models.network_calls import NetworkCaller
from rashomon.models.padding import set_padding
from rashomon.models.probe import first_layer_of, probe, top_hidden
from rashomon.models.row_groups import by_length, is_whole
from rashomon.models.subwords import SubwordReader
from rashomon.models.tasks import CLASSIFICATION, OUTSIDE, SPAN, passage_of
from rashomon.models.two_stacks import joined_maps
from rashomon.models.uniform_attention import UNIFORM
from rashomon.runs.files import read_json, write_json
from rashomon.runs.folders import write_folder
from rashomon.runs.specifications import from_plain

SETTINGS = "rashomon.json"  # beside the checkpoint's own files


class HuggingFaceModel(Model):
    """A network with its tokeniser. ``uniform`` freezes its self-attention to uniform weights."""

    cut: ClassVar[str] = "longest_first"  # which text of a pair gives way where both do not fit

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int = 512,
        uniform: bool = False,
    ) -> None:
        super().__init__()
        self.uniform = uniform
        self.network, self.tokenizer = network, tokenizer
        set_padding(network, tokenizer)
        self.call = NetworkCaller(network, tokenizer)
        self.traits = probe(self.call, tokenizer, self.task)
        self.equal_lengths, self.lacks = self.traits.equal_lengths, self.traits.lacks
        if self.traits.company:
            warnings.warn(self.traits.company_words, Caution, stacklevel=3)
        self.pad_id = int(tokenizer.pad_token_id)
        masks = (tokenizer.mask_token_id, tokenizer.unk_token_id, tokenizer.pad_token_id)
        self.mask_id = next(int(token) for token in masks if token is not None)
        self.max_length = min(max_length, tokenizer.model_max_length, self.traits.places)
        marks = tokenizer.num_special_tokens_to_add(pair=False)
        if self.max_length <= marks:
            raise UserError(
                f"A max_length of {self.max_length} leaves no room for words beside {marks} special tokens."
            )
        self._fused = bool(getattr(network, "_supports_sdpa", False))

    @abstractmethod
    def read_logits(self, given: Any, batch: Batch) -> Tensor:
        """The task's logits from what the network returned."""

    @abstractmethod
    def read_out(self, logits: Tensor, batch: Batch) -> Tensor:
        """``[B, T]``: the weight with which each top vector enters the prediction; rows sum to one."""

    def encode(self, examples: Sequence[Example]) -> list[Encoding]:
        for example in examples:
            self.task.check_example(example)
        first = self.call.first_position or 0
        return SubwordReader(self.tokenizer, self.max_length, first, self.cut).read(examples)

    def embed(self, batch: Batch) -> Tensor:
        return self.call.embed(batch.ids)

    def forward(self, batch: Batch, embeddings: Tensor | None = None) -> Output:
        if self.equal_lengths and not is_whole(batch):
            return by_length(self._run, batch, embeddings, OUTSIDE if self.task.per_token else 0.0)
        return self._run(batch, embeddings)

    def _run(self, batch: Batch, embeddings: Tensor | None) -> Output:
        with_attention = self.wants_attention and "attention" in self.capabilities
        self._choose_kernel(with_attention or not self._fused)
        given = self.call.on(batch, embeddings, output_attentions=with_attention)
        logits = self.read_logits(given, batch)
        hidden = top_hidden(given, batch.ids.shape[1]) * batch.mask.unsqueeze(-1)
        if self.call.two_stacks:
            return self._of_two_stacks(given, batch, logits, hidden, with_attention)
        readout = self.read_out(logits, batch)
        layers = tuple(given.attentions) if with_attention else None
        return Output(
            logits=logits,
            attention=None if layers is None else self.traits.read(layers[-1].transpose(1, 2), readout),
            hidden=hidden,
            pooled=self.traits.read(hidden, readout),
            layers=layers,
            readout=readout,
        )

    def _of_two_stacks(
        self, given: Any, batch: Batch, logits: Tensor, hidden: Tensor, with_attention: bool
    ) -> Output:
        """Tokens are the encoder's; what decides is the decoder's state at the end mark, and what it attends to."""
        deciding = self.call.end_of(batch.ids, batch.mask).to(hidden.dtype)
        output = Output(
            logits=logits,
            attention=None,
            hidden=hidden,
            pooled=torch.einsum("bt,bth->bh", deciding, given.decoder_hidden_states[-1]),
        )
        if with_attention:
            output.attention = torch.einsum("bt,bht...->bh...", deciding, given.cross_attentions[-1])
        if with_attention and "both-stacks" in self.capabilities:
            output.stacks = joined_maps(
                given.encoder_attentions, given.decoder_attentions, given.cross_attentions
            )
            output.readout = torch.cat((torch.zeros_like(deciding), deciding), 1)
        return output

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
        write_json(folder / SETTINGS, {**self._kept(), **self.settings()})

    def settings(self) -> dict[str, Any]:
        return {"max_length": self.max_length, "uniform": self.uniform}

    def _kept(self) -> dict[str, Any]:
        """What is saved besides the settings, as arguments of the constructor."""
        return {}

    def _choose_kernel(self, eager: bool) -> None:
        """Fused attention is faster on long texts but keeps its weights to itself."""
        wanted = UNIFORM if self.uniform else "eager" if eager else "sdpa"
        if self.network.config._attn_implementation != wanted:
            self.network.set_attn_implementation(wanted)


class HuggingFaceClassifier(HuggingFaceModel):
    """A sequence classifier. Single logits ``z`` are seen as two classes with logits ``[-z/2, z/2]``.

    A head whose configuration says "regression" gives a number instead: it is explained as it is, as the one output.
    """

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        labels: Sequence[str] | None = None,
        max_length: int = 512,
        uniform: bool = False,
    ) -> None:
        super().__init__(network, tokenizer, max_length, uniform)
        self.regression = network.config.problem_type == "regression"
        self.labels = tuple(labels) if labels else _labels(network, self.regression)
        self.capabilities = self.traits.capabilities | ({"classes"} if not self.regression else set())

    @classmethod
    def load(cls, source: str | Path) -> HuggingFaceClassifier:
        """A trained classifier: a folder written by ``save``, any checkpoint folder, or a hub id."""
        checkpoint = load_checkpoint(source, CLASSIFICATION)
        return cls(checkpoint.network, checkpoint.tokenizer, **_stored(source)).eval()

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
        checkpoint = load_checkpoint(source, CLASSIFICATION, seed, tuple(labels))
        return cls(checkpoint.network, checkpoint.tokenizer, labels, max_length, uniform)

    def read_logits(self, given: Any, batch: Batch) -> Tensor:
        logits = cast(Tensor, given.logits)
        if self.regression:
            return logits
        # Of one logit both classes get half, so that explaining the negative one is not explaining a constant.
        return torch.cat((-logits / 2, logits / 2), -1) if logits.shape[-1] == 1 else logits

    def read_out(self, logits: Tensor, batch: Batch) -> Tensor:
        return self.traits.readout(batch.mask)

    def _kept(self) -> dict[str, Any]:
        return {"labels": list(self.labels)}


class HuggingFaceSpanModel(HuggingFaceModel):
    """An extractive question answerer: a linear head gives every token of the passage a start and an end logit.

    The question is the first text, the passage the second; a passage that is too long is cut, a question never.
    Attention is that of the predicted answer: the mean of what its first and its last token attend to, which is also
    where rollout and flow begin. The answer's places must stay, so that tokens are masked and never taken out.
    """

    task = SPAN
    cut: ClassVar[str] = "only_second"

    def __init__(
        self,
        network: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int = 512,
        uniform: bool = False,
    ) -> None:
        super().__init__(network, tokenizer, max_length, uniform)
        self.labels = ()
        self.capabilities = self.traits.capabilities - {"removal"}

    @classmethod
    def load(cls, source: str | Path) -> HuggingFaceSpanModel:
        """A trained question answerer: a folder written by ``save``, any checkpoint folder, or a hub id."""
        checkpoint = load_checkpoint(source, SPAN)
        return cls(checkpoint.network, checkpoint.tokenizer, **_stored(source)).eval()

    @classmethod
    def pretrained(
        cls, source: str | Path, seed: int, max_length: int = 512, uniform: bool = False
    ) -> HuggingFaceSpanModel:
        """A question answerer to be fine-tuned; its head is fresh, from the seed, unless the checkpoint has one."""
        checkpoint = load_checkpoint(source, SPAN, seed)
        return cls(checkpoint.network, checkpoint.tokenizer, max_length, uniform)

    def read_logits(self, given: Any, batch: Batch) -> Tensor:
        logits = torch.stack((given.start_logits, given.end_logits), -1)
        return logits.masked_fill(~passage_of(batch).unsqueeze(-1), OUTSIDE)

    def read_out(self, logits: Tensor, batch: Batch) -> Tensor:
        weights = torch.zeros(logits.shape[:2], dtype=logits.dtype, device=logits.device)
        span = self.task.answers(logits.detach())
        return weights.scatter_add_(1, span, torch.full_like(span, 0.5, dtype=logits.dtype))


def load_huggingface(source: str | Path) -> HuggingFaceModel:
    """A trained model, of the kind that its checkpoint says it is."""
    checkpoint = load_checkpoint(source)
    kind = HuggingFaceSpanModel if checkpoint.task is SPAN else HuggingFaceClassifier
    return kind(checkpoint.network, checkpoint.tokenizer, **_stored(source)).eval()


@dataclass(frozen=True, slots=True)
class _Settings:
    """What is kept beside a checkpoint: arguments of the constructor."""

    max_length: int | None = None
    uniform: bool | None = None
    labels: tuple[str, ...] | None = None


def _stored(source: str | Path) -> dict[str, Any]:
    path = Path(source) / SETTINGS
    if not path.is_file():
        return {}
    try:
        kept = from_plain(_Settings, read_json(path))
    except (OSError, ValueError, RecursionError, UserError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    return {name: value for name, value in asdict(kept).items() if value is not None}


def _labels(network: PreTrainedModel, regression: bool) -> tuple[str, ...]:
    names = [str(name) for _, name in sorted((network.config.id2label or {}).items())]
    if regression and len(names) == 1:
        return ("value",) if names == ["LABEL_0"] else (names[0],)
    if len(names) > 1:
        return tuple(names)
    return ("0", "1") if names == ["LABEL_0"] else (f"not {names[0]}", names[0])
