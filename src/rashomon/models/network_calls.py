"""How is a network called so that words can be replaced by any embeddings, and nothing else changes?

Many networks look at the ids themselves: decoders find the end of a text by its padding, encoder-decoders by its end
mark, and decoders of the latter read the text once more, shifted. Given embeddings in the place of ids they pool
elsewhere or refuse. So ids are always given, and what the embedding tables return is replaced by hooks.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rashomon.data.batches import Batch

Arguments = tuple[Any, ...]
Options = dict[str, Any]
# How a look-up may relate to the ids of the texts.
_WAYS = ("same", "transposed", "shifted")


class NetworkCaller:
    """Calls one network. ``first_position`` and ``takes_types`` are filled in by who finds them out."""

    def __init__(self, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.network = network
        self.accepted = set(inspect.signature(network.forward).parameters)
        self.two_stacks = bool(getattr(network.config, "is_encoder_decoder", False))
        self.first_position: int | None = None
        self.takes_types = False
        self.finds_the_end_by_ids = self.two_stacks
        self.tables: dict[nn.Module, tuple[str, ...]] = {}  # with the ways in which they are asked
        self._pad = _first_of(network.config.pad_token_id, tokenizer.pad_token_id)
        self._end = _first_of(network.config.eos_token_id, tokenizer.eos_token_id)
        self._ordinary = _ordinary_id(tokenizer, {self._pad, self._end})

    def __call__(
        self,
        ids: Tensor,
        mask: Tensor,
        segments: Tensor | None = None,
        positions: Tensor | None = None,
        embeddings: Tensor | None = None,
        **options: Any,
    ) -> Any:
        fed = self._fed(ids, mask)
        if embeddings is None and fed is not ids:
            embeddings = self.embed(ids)
        inputs: dict[str, Any] = {"input_ids": fed, "attention_mask": mask.long()}
        if self.takes_types and segments is not None:
            inputs["token_type_ids"] = segments
        if self.first_position is not None and positions is not None:
            inputs["position_ids"] = positions
        if self.two_stacks and "decoder_attention_mask" in self.accepted:
            inputs["decoder_attention_mask"] = torch.cat(
                (torch.ones_like(mask[:, :1]), mask[:, :-1]), 1
            ).long()
        if "use_cache" in self.accepted:
            inputs["use_cache"] = False
        with self._replaced(fed, embeddings):
            return self.network(**inputs, output_hidden_states=True, return_dict=True, **options)

    def on(self, batch: Batch, embeddings: Tensor | None = None, **options: Any) -> Any:
        """The same for a batch."""
        return self(batch.ids, batch.mask, batch.segments, batch.positions, embeddings, **options)

    def embed(self, ids: Tensor) -> Tensor:
        """What the network looks up first, scaled as it scales it."""
        return cast(Tensor, next(iter(self.tables))(ids))

    def end_of(self, ids: Tensor, mask: Tensor) -> Tensor:
        """``[B, T]``, true where an encoder-decoder decides: at the last end mark of each text."""
        ends = (ids == self._end) & mask.bool()
        behind: Tensor = ends.flip(1).cumsum(1).flip(1)
        return ends & (behind == 1)

    def _fed(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Ids that only say where a text ends: what its words are is told by the embeddings."""
        if not (self.finds_the_end_by_ids and self.tables):
            return ids
        fed = torch.where(mask.bool(), self._ordinary, self._pad)
        return fed.masked_fill(self.end_of(ids, mask), self._end) if self.two_stacks else fed

    @contextmanager
    def _replaced(self, fed: Tensor, embeddings: Tensor | None) -> Iterator[None]:
        """Inside, the tables return ``embeddings`` where they are asked for the ids that were fed."""

        def replace(table: nn.Module, args: Arguments, options: Options, looked_up: Tensor) -> Tensor:
            assert embeddings is not None
            way = _way(_asked(args, options), fed, self.tables[table])
            return looked_up if way is None else _laid(way, looked_up, embeddings)

        with ExitStack() as stack:
            for table in self.tables if embeddings is not None else ():
                stack.enter_context(table.register_forward_hook(replace, with_kwargs=True))
            yield

    def find_tables(self, ids: Tensor) -> None:
        """The embedding tables that are asked for the ids of a text ``[T]``, in the order in which they are."""
        found: dict[nn.Module, list[str]] = {}
        several = ids.repeat(3, 1)  # rows that differ tell ways apart; marks at either end stay
        for row in (1, 2):
            several[row, 1:-1] = ids[1:-1].roll(row)

        def note(table: nn.Module, args: Arguments, options: Options, looked_up: Tensor) -> None:
            asked = _asked(args, options)
            way = _way(asked, several, _WAYS)
            if way is not None and _looks_up(cast(nn.Embedding, table), asked, looked_up):
                found.setdefault(table, []).append(way)

        with ExitStack() as stack:
            for module in self.network.modules():
                if isinstance(module, nn.Embedding):
                    stack.enter_context(module.register_forward_hook(note, with_kwargs=True))
            self(several, torch.ones_like(several))
        self.tables = {table: tuple(ways) for table, ways in found.items()}


def _asked(args: Arguments, options: Options) -> Any:
    return args[0] if args else next(iter(options.values()), None)


def _looks_up(table: nn.Embedding, asked: Tensor, looked_up: Tensor) -> bool:
    """Whether it returns the rows that it was asked for, perhaps scaled; tables of positions may be asked, too."""
    if int(asked.max()) >= table.num_embeddings:
        return False
    rows = nn.functional.embedding(asked, table.weight)
    scale = looked_up.norm() / rows.norm()
    return rows.shape == looked_up.shape and torch.allclose(rows * scale, looked_up, atol=1e-5)


def _way(asked: Any, ids: Tensor, known: tuple[str, ...]) -> str | None:
    """How a look-up relates to the ids of the texts: the first of the known ways that it could be."""
    if not isinstance(asked, Tensor) or asked.dim() != 2 or asked.is_floating_point():
        return None
    relations = {
        "same": (asked[:, : ids.shape[1]], ids),  # perhaps padded further
        "transposed": (asked.T, ids),
        "shifted": (asked[:, 1:], ids[:, :-1]),
    }
    return next((way for way in known if torch.equal(*relations[way])), None)


def _laid(way: str, looked_up: Tensor, embeddings: Tensor) -> Tensor:
    """The embeddings of the texts, laid as the look-up lays them; what is not of the texts stays."""
    if way == "transposed":
        return embeddings.transpose(0, 1)
    if way == "shifted":
        return torch.cat((looked_up[:, :1], embeddings[:, :-1]), 1)
    width = embeddings.shape[1]
    further = looked_up.shape[1] > width
    return torch.cat((embeddings, looked_up[:, width:]), 1) if further else embeddings


def _first_of(*values: Any) -> int:
    known = [value[0] if isinstance(value, list | tuple) else value for value in values if value is not None]
    return int(known[0]) if known else -1


def _ordinary_id(tokenizer: PreTrainedTokenizerBase, special: set[int]) -> int:
    special = special | set(tokenizer.all_special_ids)
    return next(number for number in range(len(special) + 1) if number not in special)
