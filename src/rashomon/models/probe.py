"""What can this network do? Found out by a few small forward passes instead of a list of architectures."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rashomon.errors import UserError
from rashomon.models.network_calls import NetworkCaller
from rashomon.models.subwords import segments_of
from rashomon.models.tasks import Task

_FIRST, _SECOND = "one two three four five six", "seven eight nine"
_TOLERANCE = 1e-4
# Attention over a window of neighbours: a token left out moves others into the window.
_WINDOWS = ("attention_window", "local_attention", "sliding_window", "block_size")
_UNBOUNDED = 10**6
_STEPS = (1e-3, 1e-2, 0.1)  # relative to the embeddings: small for kinks, large for flat and rounded answers
_NEAR = 0.5  # true gradients miss by a tenth at most, those that pass beside quantised layers by tens
_CLEARLY = 0.1  # of the largest change; what is below is the rounding of quantised weights
_FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError, IndexError, KeyError)


@dataclass(frozen=True, slots=True)
class Traits:
    """``pooling``: the top vectors that the prediction reads, ``first``, ``last``, ``all``, ``each`` for itself,
    or those of a ``decoder``."""

    capabilities: frozenset[str]
    lacks: Mapping[str, str]  # why it has not a capability
    places: int  # how many tokens fit
    pooling: str
    equal_lengths: bool  # whether padding changes the answer
    company: float  # by how much other texts in the batch change the answer

    @property
    def company_words(self) -> str:
        """That as a sentence; empty where they do not."""
        if not self.company:
            return ""
        return (
            f"What this network says of a text changes by {self.company:.2g} or so with the texts that are read "
            "beside it, as quantised networks do; scores are not finer than that."
        )

    def readout(self, mask: Tensor) -> Tensor:
        """``[B, T]``: the weight of each top vector in the prediction."""
        weights = mask.to(torch.get_default_dtype())
        if self.pooling == "all":
            return weights / weights.sum(1, keepdim=True).clamp_min(1)
        order = weights.cumsum(1)
        chosen = order == (order[:, -1:] if self.pooling == "last" else 1)
        return weights * chosen

    def read(self, per_token: Tensor, readout: Tensor) -> Tensor:
        """``[B, T, ...]`` to ``[B, ...]``: what the prediction reads of something each token has."""
        if self.pooling == "first":
            return per_token[:, 0]
        return torch.einsum("bt,bt...->b...", readout, per_token)


def probe(call: NetworkCaller, tokenizer: PreTrainedTokenizerBase, task: Task) -> Traits:
    """Traits of a network for a task, in eval mode; it is left as it was found, and the caller given what it takes."""
    network = call.network
    training = network.training
    network.eval()
    try:
        with warnings.catch_warnings():  # what torch warns of is looked into here
            warnings.filterwarnings("ignore", "(?s).*an autograd kernel was not registered")
            return _Probe(call, tokenizer, task).traits()
    except _FAILURES as error:
        raise UserError(f"A {type(network).__name__} cannot be used here: {error}.") from error
    finally:
        network.train(training)


def first_layer_of(network: PreTrainedModel) -> nn.Module:
    """The first of the network's layers."""
    return layers_of(network)[0]


def layers_of(network: PreTrainedModel) -> nn.ModuleList:
    """The list of layers that is as long as the network is deep, else any list."""
    lists = [
        module for module in network.base_model.modules() if isinstance(module, nn.ModuleList) and len(module)
    ]
    depth = getattr(network.config, "num_hidden_layers", None)
    fitting = [module for module in lists if len(module) == depth] or lists
    if not fitting:
        raise UserError(f"A {type(network).__name__} has no layers one could look into.")
    return fitting[0]


def top_hidden(given: Any, width: int) -> Tensor:
    """The highest states with a vector for each token: of the encoder, where there are two stacks."""
    states = given.get("encoder_hidden_states") or given.get("hidden_states") or ()
    for state in reversed(states):
        if state.shape[1] == width:
            return cast(Tensor, state)
    raise UserError("A network that gives no vector for each token cannot be used here.")


class _Probe:
    def __init__(self, call: NetworkCaller, tokenizer: PreTrainedTokenizerBase, task: Task) -> None:
        self.call, self.network, self.tokenizer, self.task = call, call.network, tokenizer, task
        self.name = type(self.network).__name__
        given = tokenizer(_FIRST, _SECOND, verbose=False)
        self.ids = torch.tensor([given["input_ids"]], device=self.network.device)
        self.special = torch.tensor(given.encodings[0].special_tokens_mask, dtype=torch.bool)
        self.equal_lengths = False
        call.takes_types = self._takes_types(given)

    @torch.no_grad()
    def traits(self) -> Traits:
        call = self.call
        call.first_position = self._find_first_position()
        self._check_steady()
        call.find_tables(self.ids[0])
        pooling = self._pooling()
        call.finds_the_end_by_ids = call.two_stacks or pooling == "last"
        self.equal_lengths = not all(self._padding_is_harmless(more) for more in (1, 4))
        if self.equal_lengths and not call.two_stacks:
            call.finds_the_end_by_ids = False  # there is no padding to tell it from
        lacks = {
            "gradients": self._why_no_gradients(),
            "attention": None if pooling is not None and self._tells_attention() else _NO_ATTENTION,
            "removal": None if self.equal_lengths or self._removal_is_masking() else "",
        }
        lacks["layers"] = _TWO_STACKS if call.two_stacks else lacks["attention"]
        lacks["both-stacks"] = ""
        if call.two_stacks and self.equal_lengths:
            lacks["layers"] = _TWO_STACKS_APART
        elif call.two_stacks and not lacks["attention"] and self._tells_both_stacks():
            lacks["both-stacks"] = None
        lacks["first-layer"] = None if lacks["gradients"] else self._why_no_first_layer()
        return Traits(
            frozenset(name for name, why in lacks.items() if why is None and name != "first-layer"),
            {name: why for name, why in lacks.items() if why},
            self._places(),
            pooling or "first",
            self.equal_lengths,
            self._company(),
        )

    def _company(self) -> float:
        """By how much the answer differs in a batch with others; they share the rounding of quantised activations."""
        content = (~self.special).nonzero().flatten()
        several = self.ids.repeat(4, 1)
        for row in range(1, len(several)):
            several[row, content] = self.ids[0, content].roll(row)
        apart = (self._answer(self._run(several))[:1] - self._answer(self._run(self.ids))).abs().max()
        return float(apart) if apart > _TOLERANCE else 0.0

    def _run(self, ids: Tensor, mask: Tensor | None = None, **options: Any) -> Any:
        mask = torch.ones_like(ids) if mask is None else mask
        positions = options.pop("positions", None)
        return self.call(ids, mask, None, self._positions(ids) if positions is None else positions, **options)

    def _answer(self, given: Any) -> Tensor:
        """What the network says of the text: logits of classes, or of the places of its tokens."""
        if not self.task.per_token:
            return cast(Tensor, given.logits)
        return torch.stack((given.start_logits, given.end_logits), -1)[:, : self.ids.shape[1]]

    def _positions(self, ids: Tensor) -> Tensor | None:
        if self.call.first_position is None:
            return None
        return (torch.arange(ids.shape[1], device=ids.device) + self.call.first_position).expand_as(ids)

    def _takes_types(self, given: Any) -> bool:
        types = given.get("token_type_ids")
        if types is None or not getattr(self.network.config, "type_vocab_size", 0) > 1:
            return False
        if segments_of(given.encodings[0].sequence_ids) != types:
            raise UserError(f"How a {self.name} marks the texts of a pair is not understood.")
        return "token_type_ids" in self.call.accepted

    def _find_first_position(self) -> int | None:
        """Some count from 0, some from behind the padding's id: take what gives the network's own answer."""
        if "position_ids" not in self.call.accepted:
            return None
        own = self._run(self.ids).hidden_states[-1]
        distances = {}
        for first in (0, int(self.tokenizer.pad_token_id) + 1):
            self.call.first_position = first
            distances[first] = float((self._run(self.ids).hidden_states[-1] - own).abs().max())
        self.call.first_position = None
        best = min(distances, key=lambda first: distances[first])
        return best if distances[best] < _TOLERANCE else None

    def _places(self) -> int:
        limit = getattr(self.network.config, "max_position_embeddings", None) or 0
        return int(limit) - (self.call.first_position or 0) if limit > 0 else _UNBOUNDED

    def _check_steady(self) -> None:
        """One vector a token somewhere, and the same answer when asked again: nothing here holds without."""
        one, other = self._run(self.ids), self._run(self.ids)
        top_hidden(one, self.ids.shape[1])
        if not _equal(self._answer(one), self._answer(other)):
            raise UserError(f"A {self.name} cannot be used here: asked twice, it gives two answers.")

    def _padding_is_harmless(self, more: int) -> bool:
        ids, mask = self._padded(more)
        try:
            return _equal(self._answer(self._run(ids, mask)), self._answer(self._run(self.ids)))
        except _FAILURES:
            return False

    def _why_no_gradients(self) -> str | None:
        """Whether the words can be given by embeddings alone: those of another text, under the ids of this one."""
        if not self.call.tables:
            return "its words cannot be replaced by embeddings"
        ids, mask = self._padded()
        other = ids.clone()
        content = (~self.special).nonzero().flatten()
        other[0, content] = ids[0, content.flip(0)]
        expected = self._answer(self._run(other, mask))
        embedded = self.call.embed(other).requires_grad_()
        with torch.enable_grad():
            given = self._answer(self._run(ids, mask, embeddings=embedded))
            if not _equal(given, expected):
                return "its answer depends on more than the embeddings of the words"
            (gradient,) = torch.autograd.grad(given.sum(), embedded, allow_unused=True)
        if gradient is None or not bool(gradient.any()):
            return _NOT_DIFFERENTIABLE
        return None if self._is_slope(gradient, ids, mask, embedded.detach()) else _NOT_THE_SLOPE

    def _is_slope(self, gradient: Tensor, ids: Tensor, mask: Tensor, at: Tensor) -> bool:
        """Whether the answer moves as the gradient says, in some directions: it may have passed beside layers."""
        generator = torch.Generator().manual_seed(0)
        ways = torch.randn(4, *at.shape[1:], generator=generator).to(at)
        said = (gradient * ways).sum((1, 2))
        rows = 2 * len(ways)
        for step in _STEPS:
            size = step * at.square().mean().sqrt()
            points = torch.cat((at + size * ways, at - size * ways))
            given = self._answer(self._run(ids.repeat(rows, 1), mask.repeat(rows, 1), embeddings=points))
            totals = given.flatten(1).sum(1)
            seen = (totals[: len(ways)] - totals[len(ways) :]) / (2 * size)
            if (seen - said).norm() < _NEAR * said.norm():
                return True
        return False

    def _tells_attention(self) -> bool:
        """Maps for every layer, as wide as the text, rows that sum to one, nothing on padding."""
        ids, mask = self._padded()
        given = self._run(ids, mask, output_attentions=True)
        maps = given.get("cross_attentions") if self.call.two_stacks else given.get("attentions")
        return _are_maps(maps, mask[0].bool())

    def _tells_both_stacks(self) -> bool:
        """The same of an encoder and of its decoder, as many of the latter as look across."""
        ids, mask = self._padded()
        given = self._run(ids, mask, output_attentions=True)
        below, above = given.get("encoder_attentions"), given.get("decoder_attentions")
        real = mask[0].bool()
        return _are_maps(below, real) and _are_maps(above, real) and len(above) == len(given.cross_attentions)

    def _removal_is_masking(self) -> bool:
        """Whether a token that is left out, the others keeping their positions, equals one that is masked."""
        windows = any(getattr(self.network.config, name, None) for name in _WINDOWS)
        if self.task.keeps_positions or self.call.first_position is None or windows or self.call.two_stacks:
            return False
        mask = torch.ones_like(self.ids)
        mask[0, 2:4] = 0
        kept = mask[0].bool()
        positions = cast(Tensor, self._positions(self.ids))
        masked = self._run(self.ids, mask)
        left = self._run(self.ids[:, kept], positions=positions[:, kept])
        return _equal(masked.logits, left.logits) and _equal(
            masked.hidden_states[-1][:, kept], left.hidden_states[-1]
        )

    def _pooling(self) -> str | None:
        """Where the logits' gradient meets the top vectors; None where it does not pass through them."""
        if self.task.per_token:
            return "each"
        if self.call.two_stacks:
            return "decoder"
        tops: list[Tensor] = []

        def catch(module: object, args: object, out: Any) -> None:
            tops.append(out if isinstance(out, Tensor) else out[0])

        embedded = self.call.embed(self.ids).detach().requires_grad_() if self.call.tables else None
        with torch.enable_grad(), self.network.base_model.register_forward_hook(catch):
            given = self._run(self.ids, embeddings=embedded)
            tops += [given.hidden_states[-1]]
            total = given.logits.sum()
            gradients = torch.autograd.grad(total, tops, allow_unused=True) if total.requires_grad else ()
        gradient = next((g for g in gradients if g is not None), None)
        if gradient is None:
            return self._pooling_without_gradients()
        if gradient.shape[:2] != self.ids.shape:
            return None
        return _named(gradient[0].abs().sum(-1) > 0)

    def _pooling_without_gradients(self) -> str | None:
        """Which top vectors move the logits when they are turned round, one in each row of a batch."""
        width = self.ids.shape[1]
        turned = torch.arange(width, device=self.ids.device)

        def turn(module: object, args: object, out: Any) -> None:
            top = out if isinstance(out, Tensor) else out[0]
            if top.shape[:2] == (width + 1, width):
                top[turned, turned] *= -1

        with layers_of(self.network)[-1].register_forward_hook(turn):
            logits = self._run(self.ids.repeat(width + 1, 1)).logits
        moved = (logits[:-1] - logits[-1]).abs().amax(-1)
        return _named(moved > _CLEARLY * moved.max()) if bool(moved.any()) else None

    def _why_no_first_layer(self) -> str | None:
        """Whether all that the words say passes through the first layer's output, seen as [batch, tokens, ...]."""
        caught: list[Tensor] = []

        def cut(module: object, args: object, out: Any) -> Any:
            if caught:  # a layer that stands for all of them
                return out
            caught.append(out if isinstance(out, Tensor) else out[0])
            loose = caught[-1].detach().requires_grad_()
            return loose if isinstance(out, Tensor) else (loose, *out[1:])

        ids = self.ids.repeat(3, 1)
        embedded = self.call.embed(ids).detach().requires_grad_()
        with torch.enable_grad(), first_layer_of(self.network).register_forward_hook(cut):
            total = self._answer(self._run(ids, embeddings=embedded)).sum()
        if not caught or caught[0].shape[:2] != ids.shape:
            return "what its first layer says cannot be given apart by tokens"
        (around,) = torch.autograd.grad(total, embedded, allow_unused=True)
        if around is not None and bool(around.any()):
            return "words also pass beside its first layer"
        return None

    def _padded(self, more: int = 3) -> tuple[Tensor, Tensor]:
        if self.equal_lengths:
            return self.ids, torch.ones_like(self.ids)
        pad = torch.full((1, more), int(self.tokenizer.pad_token_id), device=self.ids.device)
        ids = torch.cat((self.ids, pad), 1)
        mask = torch.ones_like(ids)
        mask[:, self.ids.shape[1] :] = 0
        return ids, mask


_NO_ATTENTION = "the model does not say what it attends to"
_TWO_STACKS = (
    "its layers are those of an encoder and a decoder, and no single one is what the prediction reads"
)
_TWO_STACKS_APART = (
    "attention is not followed through an encoder and a decoder where padding changes the answer"
)
_NOT_DIFFERENTIABLE = "the model's output cannot be differentiated"
_NOT_THE_SLOPE = (
    "the model's gradients are not the slopes of its output, as where some of its layers are quantised"
)


def _are_maps(maps: Any, real: Tensor) -> bool:
    """Whether these are attentions of the text ``[1, heads, T, T]`` with ``real [T]`` tokens, the rest padding."""
    if not maps or any(one is None for one in maps):
        return False
    square = (len(real), len(real))
    if any(one.dim() != 4 or one.shape[-2:] != square for one in maps):
        return False
    rows = torch.stack([one[0, :, real] for one in maps])  # what real tokens look at
    return _equal(rows.sum(-1), torch.ones(())) and bool((rows[..., ~real] == 0).all())


def _named(read: Tensor) -> str:
    """Of the tokens ``[T]`` whose vectors are read: how one calls that."""
    if bool(read.sum() > 1):
        return "all"
    return "last" if bool(read[-1]) else "first"


def _equal(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() < _TOLERANCE)
