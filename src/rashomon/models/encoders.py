"""From word embeddings to token vectors: recurrent, convolutional, token-wise and self-attending encoders.

Every encoder maps ``[B, T, D]`` to ``[B, T, size]`` and is exact: a text's vectors are the same alone, in any
batch, beside any padding, and as one side of a pair. What stands at padding is left open; it has no weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn

from rashomon.models.attention import softmax
from rashomon.models.recurrence import Lines, Tabled, along, entering, from_table, recurring, suits
from rashomon.models.sequences import Layout
from rashomon.registry import Registry

if TYPE_CHECKING:
    from rashomon.models.model_spec import ModelSpec

Maps = tuple[Tensor, ...]


class Encoder(nn.Module):
    """Layers one after the other; each takes ``(x, layout)`` and returns ``[B, T, H]``."""

    self_attends = False  # whether ``forward`` also tells maps of self-attention

    def __init__(self, layers: list[nn.Module], size: int, token_level: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.size = size
        self.token_level = token_level  # equal tokens get equal vectors

    def forward(self, x: Tensor | Lines | Tabled, layout: Layout) -> tuple[Tensor, Maps | None]:
        for layer in self.layers:
            x = layer(x, layout)
        return cast(Tensor, x), None

    @property
    def enters(self) -> bool:
        """Whether it begins with an affine map of each token alone, which ``entered`` tells, and goes on from there."""
        if type(self).forward is not Encoder.forward or not len(self.layers):
            return False  # somebody else's way through the layers
        first = self.layers[0]
        return isinstance(first, RecurrentLayer) and suits(first.ahead)

    def entered(self, embeddings: Tensor) -> Tensor:
        first = cast(RecurrentLayer, self.layers[0])
        return entering(cast(nn.LSTM, first.ahead), cast(nn.LSTM, first.back), embeddings)

    def first_layer(self) -> nn.Module:
        return self.layers[0]


class RecurrentLayer(nn.Module):
    """An LSTM or GRU in each direction, without packing, which on CPU costs up to twice the time.

    Right padding cannot reach what stands before it. So the backward direction reads each text turned around
    within its own length, and its output is turned back.
    """

    def __init__(self, cell: Callable[..., nn.RNNBase], size: int, hidden: int) -> None:
        super().__init__()
        self.ahead = cell(size, hidden, batch_first=True)
        self.back = cell(size, hidden, batch_first=True)

    def forward(self, x: Tensor | Lines | Tabled, layout: Layout) -> Tensor:
        texts = layout.sequences
        if isinstance(x, Lines):
            return along(x.share, x, self._recurring(), texts.lengths)
        if isinstance(x, Tabled):
            index = texts.extract(x.index.unsqueeze(-1)).squeeze(-1)
            return texts.restore(from_table(Tabled(x.table, index), self._recurring(), texts.lengths))
        x = texts.extract(x)
        if texts.equal:
            turned = self._run(self.back, x.flip(1)).flip(1)
        else:
            turned = _take(self._run(self.back, _take(x, texts.reversal)), texts.reversal)
        return texts.restore(torch.cat((self._run(self.ahead, x), turned), -1))

    def _recurring(self) -> Tensor:
        return recurring(cast(nn.LSTM, self.ahead), cast(nn.LSTM, self.back))

    def _run(self, rnn: nn.RNNBase, x: Tensor) -> Tensor:
        # cuDNN cannot differentiate a recurrent net in eval mode, where explanations are made.
        explaining = x.is_cuda and not self.training and torch.is_grad_enabled()
        with torch.backends.cudnn.flags(enabled=False) if explaining else nullcontext():
            return cast(Tensor, rnn(x)[0])


class ConvolutionLayer(nn.Module):
    """Convolutions of several widths side by side, each text padded with zeros to keep its length."""

    def __init__(self, size: int, hidden: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        share, rest = divmod(hidden, len(widths))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(size, share + (number < rest), width, padding=width // 2)
            for number, width in enumerate(widths)
        )

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        texts = layout.sequences
        x = texts.extract(x)
        if not texts.equal:
            x = x * texts.mask.unsqueeze(-1)
        x = x.transpose(1, 2)
        channels = torch.cat([convolution(x) for convolution in self.convolutions], 1)
        return texts.restore(channels.relu().transpose(1, 2))


class TokenLayer(nn.Module):
    """Affine map and tanh of each token alone (the papers' MLP)."""

    def __init__(self, size: int, hidden: int) -> None:
        super().__init__()
        self.affine = nn.Linear(size, hidden)

    def forward(self, x: Tensor, layout: Layout | None = None) -> Tensor:
        return cast(Tensor, self.affine(x).tanh())


class TransformerLayer(nn.Module):
    """Pre-norm self-attention and feed-forward block; returns its output and its attention map."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(hidden)
        self.projection = nn.Linear(hidden, 3 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self.forward_norm = nn.LayerNorm(hidden)
        self.widen = nn.Linear(hidden, 4 * hidden)
        self.narrow = nn.Linear(4 * hidden, hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, layout: Layout) -> tuple[Tensor, Tensor]:
        batch, tokens, hidden = x.shape
        projected = self.projection(self.attention_norm(x))
        query, key, value = projected.view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        logits = query @ key.transpose(-1, -2) / math.sqrt(hidden // self.heads)
        weights = softmax(logits, layout.visible)
        mixed = (weights @ value).transpose(1, 2).reshape(batch, tokens, hidden)
        x = x + self.dropout(self.output(mixed))
        widened = nn.functional.gelu(self.widen(self.forward_norm(x)))
        return x + self.dropout(self.narrow(widened)), weights


class TransformerEncoder(Encoder):
    """Learned positions (the batch's own, so that taking a token out leaves the others where they were)."""

    self_attends = True

    def __init__(self, spec: ModelSpec) -> None:
        layers: list[nn.Module] = [
            TransformerLayer(spec.hidden, spec.self_heads, spec.dropout) for _ in range(spec.layers)
        ]
        super().__init__(layers, spec.hidden)
        self.enter = nn.Linear(spec.embedding_dim, spec.hidden)
        self.places = nn.Embedding(spec.max_length, spec.hidden)
        nn.init.normal_(self.places.weight, std=0.02)
        self.norm = nn.LayerNorm(spec.hidden)

    def forward(self, x: Tensor | Lines | Tabled, layout: Layout) -> tuple[Tensor, Maps]:
        x = self.enter(x) + self.places(layout.positions)
        maps = []
        for layer in self.layers:
            x, weights = layer(x, layout)
            maps.append(weights)
        return self.norm(x), tuple(maps)


@dataclass(frozen=True, slots=True)
class EncoderKind:
    """How an encoder is made, and what a specification must know of it before that."""

    build: Callable[[ModelSpec], Encoder]
    layers: int  # when the specification leaves them open
    refusal: Callable[[ModelSpec], str | None]  # why sizes do not go together, if they do not


encoders: Registry[EncoderKind] = Registry("encoder", "encoders")
"""Token encoders of the built-in attention classifier, which ``ModelSpec.name`` chooses from."""

Builder = Callable[["ModelSpec"], Encoder]


def encoder(
    name: str,
    summary: str,
    *,
    layers: int = 1,
    refusal: Callable[[ModelSpec], str | None] = lambda spec: None,
) -> Callable[[Builder], Builder]:
    """Decorator: a function from a specification to an ``Encoder`` becomes a choice of ``--encoder``."""

    def decorate(build: Builder) -> Builder:
        encoders.register(name, summary)(EncoderKind(build, layers, refusal))
        return build

    return decorate


def build_encoder(spec: ModelSpec) -> Encoder:
    """The encoder a specification names."""
    return encoders.get(spec.name).build(spec)


def stacked(
    spec: ModelSpec, make: Callable[[int], nn.Module], size: int, token_level: bool = False
) -> Encoder:
    """Layers one on the other; ``make`` is told the size of what enters, and each gives vectors of ``size``."""
    entering = [spec.embedding_dim] + [size] * (spec.layers - 1)
    return Encoder([make(width) for width in entering], size, token_level)


@encoder("bilstm", "bidirectional LSTM")
def _bilstm(spec: ModelSpec) -> Encoder:
    return stacked(spec, partial(RecurrentLayer, nn.LSTM, hidden=spec.hidden), 2 * spec.hidden)


@encoder("gru", "bidirectional GRU")
def _gru(spec: ModelSpec) -> Encoder:
    return stacked(spec, partial(RecurrentLayer, nn.GRU, hidden=spec.hidden), 2 * spec.hidden)


def _too_few_channels(spec: ModelSpec) -> str | None:
    short = spec.hidden < len(spec.widths)
    return f"A hidden size of {spec.hidden} is too small for {len(spec.widths)} widths." if short else None


@encoder("cnn", "convolutions of several widths", refusal=_too_few_channels)
def _cnn(spec: ModelSpec) -> Encoder:
    return stacked(spec, partial(ConvolutionLayer, hidden=spec.hidden, widths=spec.widths), spec.hidden)


@encoder("mlp", "affine map and tanh of each token alone, without context")
def _mlp(spec: ModelSpec) -> Encoder:
    return stacked(spec, partial(TokenLayer, hidden=spec.hidden), spec.hidden, token_level=True)


def _uneven_heads(spec: ModelSpec) -> str | None:
    uneven = spec.hidden % spec.self_heads
    return f"A hidden size of {spec.hidden} cannot be split into {spec.self_heads} heads." if uneven else None


@encoder("transformer", "small pre-norm transformer, trained from scratch", layers=2, refusal=_uneven_heads)
def _transformer(spec: ModelSpec) -> Encoder:
    return TransformerEncoder(spec)


def _take(x: Tensor, index: Tensor) -> Tensor:
    """Reorder the tokens of each row by ``[R, W, 1]``."""
    return x.gather(1, index.expand(-1, -1, x.shape[-1]))
