"""From word embeddings to token vectors: recurrent, convolutional, token-wise and self-attending encoders.

Every encoder maps ``[B, T, D]`` to ``[B, T, size]`` and is exact: a text's vectors are the same alone, in any
batch, beside any padding, and as one side of a pair. What stands at padding is left open; it has no weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import cast

import torch
from torch import Tensor, nn

from rashomon.errors import unknown_name
from rashomon.models.attention import softmax
from rashomon.models.model_spec import ModelSpec
from rashomon.models.sequences import Layout

Maps = tuple[Tensor, ...]


class Encoder(nn.Module):
    """Layers one after the other; each takes ``(x, layout)`` and returns ``[B, T, H]``."""

    def __init__(self, layers: list[nn.Module], size: int, token_level: bool = False) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.size = size
        self.token_level = token_level  # equal tokens get equal vectors

    def forward(self, x: Tensor, layout: Layout) -> tuple[Tensor, Maps | None]:
        for layer in self.layers:
            x = layer(x, layout)
        return x, None

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

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        texts = layout.sequences
        x = texts.extract(x)
        if texts.equal:
            turned = self._run(self.back, x.flip(1)).flip(1)
        else:
            turned = _take(self._run(self.back, _take(x, texts.reversal)), texts.reversal)
        return texts.restore(torch.cat((self._run(self.ahead, x), turned), -1))

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

    def __init__(self, spec: ModelSpec) -> None:
        layers: list[nn.Module] = [
            TransformerLayer(spec.hidden, spec.self_heads, spec.dropout) for _ in range(spec.layers)
        ]
        super().__init__(layers, spec.hidden)
        self.enter = nn.Linear(spec.embedding_dim, spec.hidden)
        self.places = nn.Embedding(spec.max_length, spec.hidden)
        nn.init.normal_(self.places.weight, std=0.02)
        self.norm = nn.LayerNorm(spec.hidden)

    def forward(self, x: Tensor, layout: Layout) -> tuple[Tensor, Maps]:
        x = self.enter(x) + self.places(layout.positions)
        maps = []
        for layer in self.layers:
            x, weights = layer(x, layout)
            maps.append(weights)
        return self.norm(x), tuple(maps)


def build_encoder(spec: ModelSpec) -> Encoder:
    """The encoder a specification names."""
    if spec.name == "transformer":
        return TransformerEncoder(spec)
    size = 2 * spec.hidden if spec.name in ("bilstm", "gru") else spec.hidden
    layers: list[nn.Module] = []
    for number in range(spec.layers):
        entering = spec.embedding_dim if number == 0 else size
        if spec.name == "bilstm":
            layers.append(RecurrentLayer(nn.LSTM, entering, spec.hidden))
        elif spec.name == "gru":
            layers.append(RecurrentLayer(nn.GRU, entering, spec.hidden))
        elif spec.name == "cnn":
            layers.append(ConvolutionLayer(entering, spec.hidden, spec.widths))
        elif spec.name == "mlp":
            layers.append(TokenLayer(entering, spec.hidden))
        else:
            raise unknown_name("encoder", spec.name, ("bilstm", "gru", "cnn", "mlp", "transformer"))
    return Encoder(layers, size, token_level=spec.name == "mlp")


def _take(x: Tensor, index: Tensor) -> Tensor:
    """Reorder the tokens of each row by ``[R, W, 1]``."""
    return x.gather(1, index.expand(-1, -1, x.shape[-1]))
