"""What can this network do? Found out by a few small forward passes instead of a list of architectures."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rashomon.errors import UserError
from rashomon.models.subwords import segments_of
from rashomon.models.tasks import Task

_FIRST, _SECOND = "one two three four five six", "seven eight nine"
_TOLERANCE = 1e-4
# Attention over a window of neighbours: a token left out moves others into the window.
_WINDOWS = ("attention_window", "local_attention", "sliding_window", "block_size")
_UNBOUNDED = 10**6


@dataclass(frozen=True, slots=True)
class Traits:
    """``pooling`` says which top vectors the prediction reads: ``first``, ``last``, ``all``, ``each`` for itself."""

    capabilities: frozenset[str]
    takes_types: bool
    first_position: int | None  # the id of the first position; None where positions cannot be given
    places: int  # how many tokens fit
    pooling: str

    def readout(self, mask: Tensor) -> Tensor:
        """``[B, T]``: the weight of each top vector in the prediction."""
        weights = mask.to(torch.get_default_dtype())
        if self.pooling == "all":
            return weights / weights.sum(1, keepdim=True).clamp_min(1)
        order = weights.cumsum(1)
        chosen = order == (1 if self.pooling == "first" else order[:, -1:])
        return weights * chosen

    def read(self, per_token: Tensor, readout: Tensor) -> Tensor:
        """``[B, T, ...]`` to ``[B, ...]``: what the prediction reads of something each token has."""
        if self.pooling == "first":
            return per_token[:, 0]
        return torch.einsum("bt,bt...->b...", readout, per_token)


def probe(network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: Task) -> Traits:
    """Traits of a network for a task, in eval mode; the network is left as it was found."""
    training = network.training
    network.eval()
    try:
        return _Probe(network, tokenizer, task).traits()
    except (RuntimeError, TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise UserError(f"A {type(network).__name__} cannot be used here: {error}.") from error
    finally:
        network.train(training)


def first_layer_of(network: PreTrainedModel) -> nn.Module:
    """The first of the network's layers: of the list as long as the network is deep, else of any list."""
    lists = [
        module for module in network.base_model.modules() if isinstance(module, nn.ModuleList) and len(module)
    ]
    depth = getattr(network.config, "num_hidden_layers", None)
    fitting = [module for module in lists if len(module) == depth] or lists
    if not fitting:
        raise UserError(f"A {type(network).__name__} has no layers one could look into.")
    return fitting[0][0]


class _Probe:
    def __init__(self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: Task) -> None:
        self.network, self.tokenizer, self.task = network, tokenizer, task
        self.accepted = set(inspect.signature(network.forward).parameters)
        encoded = tokenizer(_FIRST, _SECOND, verbose=False)
        self.ids = torch.tensor([encoded["input_ids"]], device=network.device)
        self.types = encoded.get("token_type_ids")
        self.takes_types = self._takes_types(encoded)
        self.first_position: int | None = None

    def traits(self) -> Traits:
        self.first_position = self._find_first_position()
        self._require_token_vectors()
        pooling = self._pooling()
        attention = pooling is not None and self._tells_attention()
        found = {
            "gradients": self._embeddings_equal_ids(),
            "attention": attention,
            "layers": attention,
            "removal": self._removal_is_masking(),
        }
        capabilities = frozenset(name for name, has in found.items() if has)
        return Traits(capabilities, self.takes_types, self.first_position, self._places(), pooling or "first")

    def _run(
        self, ids: Tensor, mask: Tensor | None = None, positions: Tensor | None = None, **options: Any
    ) -> Any:
        mask = torch.ones_like(ids) if mask is None else mask
        inputs: dict[str, Tensor] = {"attention_mask": mask}
        if "inputs_embeds" in options:
            inputs["inputs_embeds"] = options.pop("inputs_embeds")
        else:
            inputs["input_ids"] = ids
        if positions is not None:
            inputs["position_ids"] = positions
        return self.network(**inputs, output_hidden_states=True, return_dict=True, **options)

    def _answer(self, encoded: Any) -> Tensor:
        """What the network says of the text: logits of classes, or of the places of its tokens."""
        if not self.task.per_token:
            return cast(Tensor, encoded.logits)
        return torch.stack((encoded.start_logits, encoded.end_logits), -1)[:, : self.ids.shape[1]]

    def _positions(self, ids: Tensor) -> Tensor | None:
        if self.first_position is None:
            return None
        return (torch.arange(ids.shape[1], device=ids.device) + self.first_position).expand_as(ids)

    def _takes_types(self, encoded: Any) -> bool:
        if self.types is None or not getattr(self.network.config, "type_vocab_size", 0) > 1:
            return False
        if segments_of(encoded.encodings[0].sequence_ids) != self.types:
            raise UserError(
                f"How a {type(self.network).__name__} marks the texts of a pair is not understood."
            )
        return "token_type_ids" in self.accepted

    @torch.no_grad()
    def _find_first_position(self) -> int | None:
        """Some count from 0, some from behind the padding's id: take what gives the network's own answer."""
        if "position_ids" not in self.accepted:
            return None
        own = self._run(self.ids).hidden_states[-1]
        distances = {}
        for first in (0, int(self.tokenizer.pad_token_id) + 1):
            places = torch.arange(self.ids.shape[1], device=self.ids.device) + first
            output = self._run(self.ids, positions=places.expand_as(self.ids)).hidden_states[-1]
            distances[first] = float((output - own).abs().max())
        best = min(distances, key=lambda first: distances[first])
        return best if distances[best] < _TOLERANCE else None

    def _places(self) -> int:
        limit = getattr(self.network.config, "max_position_embeddings", None) or 0
        return int(limit) - (self.first_position or 0) if limit > 0 else _UNBOUNDED

    @torch.no_grad()
    def _require_token_vectors(self) -> None:
        """One top vector a token, and an answer that padding cannot change: nothing here holds without."""
        name = type(self.network).__name__
        ids, mask = self._padded()
        padded, plain = self._run(ids, mask, self._positions(ids)), self._run(self.ids)
        if plain.get("hidden_states") is None or plain.hidden_states[-1].shape[:2] != self.ids.shape:
            raise UserError(f"A {name} cannot be used here: it does not give one vector for each token.")
        if not _equal(self._answer(padded), self._answer(plain)):
            raise UserError(
                f"A {name} cannot be used here: its answer changes with the padding beside a text."
            )

    @torch.no_grad()
    def _embeddings_equal_ids(self) -> bool:
        """Whether embeddings can stand in for ids, also beside padding."""
        if "inputs_embeds" not in self.accepted:
            return False
        ids, mask = self._padded()
        positions = self._positions(ids)
        embedded = self.network.get_input_embeddings()(ids)
        try:
            given = self._answer(self._run(ids, mask, positions, inputs_embeds=embedded))
        except (RuntimeError, TypeError, ValueError, NotImplementedError):
            return False  # some announce the argument and then refuse it
        return _equal(given, self._answer(self._run(ids, mask, positions)))

    @torch.no_grad()
    def _tells_attention(self) -> bool:
        """Maps for every layer, as wide as the text, rows that sum to one, nothing on padding."""
        ids, mask = self._padded()
        maps = self._run(ids, mask, self._positions(ids), output_attentions=True).get("attentions")
        if not maps or any(one is None for one in maps):
            return False
        square = (ids.shape[1], ids.shape[1])
        if any(one.dim() != 4 or one.shape[-2:] != square for one in maps):
            return False
        rows = torch.stack([one[0, :, mask[0].bool()] for one in maps])  # what real tokens look at
        on_padding = rows[..., ~mask[0].bool()]
        return _equal(rows.sum(-1), torch.ones(())) and bool((on_padding == 0).all())

    @torch.no_grad()
    def _removal_is_masking(self) -> bool:
        """Whether a token that is left out, the others keeping their positions, equals one that is masked."""
        if (
            self.task.keeps_positions
            or self.first_position is None
            or any(getattr(self.network.config, name, None) for name in _WINDOWS)
        ):
            return False
        mask = torch.ones_like(self.ids)
        mask[0, 2:4] = 0
        kept = mask[0].bool()
        positions = cast(Tensor, self._positions(self.ids))
        masked = self._run(self.ids, mask, positions)
        left = self._run(self.ids[:, kept], None, positions[:, kept])
        return _equal(masked.logits, left.logits) and _equal(
            masked.hidden_states[-1][:, kept], left.hidden_states[-1]
        )

    def _pooling(self) -> str | None:
        """Where the logits' gradient meets the top vectors; None where it does not pass through them."""
        if self.task.per_token:
            return "each"
        with torch.enable_grad(), _differentiable(self.network.get_input_embeddings()):
            output = self._run(self.ids, positions=self._positions(self.ids))
            (gradient,) = torch.autograd.grad(
                output.logits.sum(), output.hidden_states[-1], allow_unused=True
            )
        if gradient is None:
            return None
        read = (gradient[0].abs().sum(-1) > 0).nonzero().flatten().tolist()
        if read == [self.ids.shape[1] - 1]:
            return "last"
        return "all" if len(read) > 1 else "first"

    def _padded(self) -> tuple[Tensor, Tensor]:
        pad = torch.full((1, 3), int(self.tokenizer.pad_token_id), device=self.ids.device)
        ids = torch.cat((self.ids, pad), 1)
        mask = torch.ones_like(ids)
        mask[:, self.ids.shape[1] :] = 0
        return ids, mask


@contextmanager
def _differentiable(embeddings: nn.Module) -> Iterator[None]:
    """Frozen word embeddings let gradients pass inside: a network none of whose weights learn has none else."""
    frozen = [parameter for parameter in embeddings.parameters() if not parameter.requires_grad]
    try:
        for parameter in frozen:
            parameter.requires_grad_(True)
        yield
    finally:
        for parameter in frozen:
            parameter.requires_grad_(False)


def _equal(one: Tensor, other: Tensor) -> bool:
    return bool((one - other).abs().max() < _TOLERANCE)
