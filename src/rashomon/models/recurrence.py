"""A bidirectional LSTM as it is explained on a processor: from what inputs add to its gates.

Explaining asks for the same few tokens in thousands of rows: on straight lines between a text and its reference, or
with some of them taken out. What an input adds to the gates is an affine map of that token alone, so it is computed
once for every distinct token (``entering``), lines stay straight under it, and a score, which is a gradient times a
difference, is the same on either side of it. torch's LSTM multiplies every row by the input weights again, which is
most of its work where embeddings are wide, and goes back to all weights.

Gates stand in the order i, f, g, o. The g of ``entering`` is doubled, because tanh(g) = 2 sigmoid(2g) - 1: one sigmoid
serves all four. The loops over steps are compiled (``recurrent_loops``).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]
from torch import Tensor, nn
from torch.autograd import Function
from torch.overrides import handle_torch_function, has_torch_function

from rashomon.models.recurrent_loops import run_ahead, run_back

MOST_SPARE = 2**27  # bytes that are kept for the next run
FEWEST_ROWS = 8  # that are worth a thread


@dataclass(frozen=True, slots=True)
class Lines:
    """Straight lines from references to inputs, in the space that ``entering`` leads to.

    Token t of row b stands at ``others + share (inputs - others)``. The gradient of an output with respect to ``share``
    is a score: that of the token times the difference of the line's ends.
    """

    table: Tensor  # [N, E]: the distinct tokens
    inputs: NDArray[Any]  # [B, T]: which of them stands at the input's end of a token's line
    others: NDArray[Any]  # [B, T]: and at the reference's
    share: Tensor  # [B, T]


@dataclass(frozen=True, slots=True)
class Tabled:
    """Tokens as rows of a table: what each distinct one adds to the gates."""

    table: Tensor  # [V, E]
    index: Tensor  # [B, T]


def entering(ahead: nn.LSTM, back: nn.LSTM, embeddings: Tensor) -> Tensor:
    """What embeddings ``[..., D]`` add to the gates of both directions, ``[..., 8H]``."""
    # to the gates from inputs and from outputs, and both biases
    ways = [rnn.all_weights[0] for rnn in (ahead, back)]
    weights = torch.cat([way[0] for way in ways])
    biases = torch.cat([way[2] + way[3] for way in ways])
    scale = _doubled(weights)
    return nn.functional.linear(embeddings, weights * scale[:, None], biases * scale)


def recurring(ahead: nn.LSTM, back: nn.LSTM) -> Tensor:
    """What the last output adds to the gates: ``[2, 4H, H]``."""
    weights = torch.stack([rnn.all_weights[0][1] for rnn in (ahead, back)])
    return weights * _doubled(weights.flatten(0, 1)).view(2, -1, 1)


def _doubled(weights: Tensor) -> Tensor:
    scale = weights.new_ones(2, 4, len(weights) // 8)
    scale[:, 2] = 2
    return scale.flatten()


def suits(rnn: nn.Module) -> bool:
    """Whether this is the way to run it: a plain LSTM on a processor, in single or double precision, not learning."""
    if not isinstance(rnn, nn.LSTM) or rnn.training:
        return False
    if not rnn.bias or rnn.num_layers > 1 or rnn.bidirectional or rnn.proj_size:
        return False
    weight = rnn.all_weights[0][1]
    known = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.float64)
    return known and not (torch.is_grad_enabled() and any(part.requires_grad for part in rnn.parameters()))


def along(share: Tensor, lines: Lines, weights: Tensor, lengths: Tensor) -> Tensor:
    """Hidden states ``[B, T, 2H]`` at points of lines; differentiable with respect to their shares."""
    if has_torch_function((share,)):  # difference rules put a rule of their own in its place
        return handle_torch_function(along, (share,), share, lines, weights, lengths)
    return cast(Tensor, _Along.apply(share, lines, weights, lengths))


def from_table(tokens: Tabled, weights: Tensor, lengths: Tensor) -> Tensor:
    """Hidden states ``[B, T, 2H]``, without a gradient."""
    index = tokens.index.contiguous().numpy()
    return run(ends_of(tokens.table, index, index), None, weights, lengths, kept=False)[0]


@dataclass(frozen=True, slots=True)
class Ends:
    """Between what each token of each row stands, as the compiled loops read it."""

    flat: NDArray[Any]  # [N, 2, 4H]: what distinct tokens add to the gates of both directions
    first: NDArray[Any]  # [B, T]: which of them is the token of the input
    second: NDArray[Any]  # [B, T]: and of the reference


def ends_of(table: Tensor, first: NDArray[Any], second: NDArray[Any]) -> Ends:
    """Of tokens ``[B, T]`` between two rows of a table ``[N, E]`` each."""
    whole = table.detach().contiguous().numpy()
    return Ends(whole.reshape(len(whole), 2, -1), *map(np.ascontiguousarray, (first, second)))


@dataclass(frozen=True, slots=True, weakref_slot=True)
class States:
    """What a run leaves behind: of every step what going back through it needs. (Never its outputs: they hold it.)"""

    before: NDArray[Any]  # [T, 2, B, 4H]: gates before their sigmoid; empty where nobody asks for differences
    gates: NDArray[Any]  # [T, 2, B, 4H]: after it; the third is (tanh + 1) / 2
    cells: NDArray[Any]  # [T + 1, 2, B, H]
    tanhs: NDArray[Any]  # [T, 2, B, H]: of the cells after each step


def run(
    ends: Ends,
    shares: NDArray[Any] | None,
    weights: Tensor,
    lengths: Tensor,
    *,
    kept: bool = True,
    before: bool = False,
) -> tuple[Tensor, States]:
    """Both directions of all rows at once: hidden states ``[B, T, 2H]``, and what going back needs.

    Each token stands between its two ends by its share; without shares, at the first.
    """
    (rows, length), size = ends.first.shape, weights.shape[-1]
    steps = length if kept else 1  # without going back, one step's buffers serve all
    sizes = [(steps if before else 0, 4), (steps, 4), (steps + 1, 1), (steps, 1)]
    whole = _borrowed(sum(times * wide for times, wide in sizes) * 2 * rows * size, weights.dtype)
    cuts = np.cumsum([times * wide * 2 * rows * size for times, wide in sizes])[:-1]
    parts = [
        part.reshape(-1, 2, rows, wide * size)
        for part, (_, wide) in zip(np.split(whole, cuts), sizes, strict=True)
    ]
    hidden = weights.new_empty(rows, length, 2 * size)
    where = np.ones((rows, length), dtype=whole.dtype) if shares is None else shares
    turned = weights.transpose(1, 2).contiguous().numpy()
    read = ends.flat, ends.first, ends.second, where, turned, lengths.numpy()
    _share_out(rows, run_ahead, *read, *parts, hidden.numpy())
    states = States(*parts)
    weakref.finalize(states, _given_back, whole)
    return hidden, states


class _Spare(threading.local):
    """One buffer that outlives its run: touching new memory for the first time costs more than the arithmetic."""

    buffer: NDArray[Any] | None = None


_SPARE = _Spare()


def _borrowed(count: int, dtype: torch.dtype) -> NDArray[Any]:
    # A second run before the first is gone back through gets its own.
    spare, _SPARE.buffer = _SPARE.buffer, None
    kind = np.dtype(str(dtype).removeprefix("torch."))
    if spare is None or spare.dtype != kind or len(spare) < count:
        spare = np.empty(count, dtype=kind)
    return spare[:count]


def _given_back(part: NDArray[Any]) -> None:
    whole, known = cast(NDArray[Any], part.base), _SPARE.buffer
    if whole.nbytes <= MOST_SPARE and (known is None or len(known) < len(whole)):
        _SPARE.buffer = whole


class _Along(Function):
    @staticmethod
    def forward(ctx: Any, share: Tensor, lines: Lines, weights: Tensor, lengths: Tensor) -> Tensor:
        ends, wanted = ends_of(lines.table, lines.inputs, lines.others), ctx.needs_input_grad[0]
        shares = np.ascontiguousarray(share.detach().numpy())
        hidden, states = run(ends, shares, weights, lengths, kept=wanted)
        ctx.states, ctx.ends, ctx.weights, ctx.lengths = (states if wanted else None), ends, weights, lengths
        return hidden

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        (to_hidden,) = gradients
        rows = np.arange(len(to_hidden))
        scores = scores_back(ctx.states, ctx.ends, ctx.weights, ctx.lengths, rows, rows, to_hidden)
        return scores, None, None, None


def scores_back(
    states: States,
    ends: Ends,
    weights: Tensor,
    lengths: Tensor,
    at: NDArray[Any],
    to: NDArray[Any],
    to_hidden: Tensor,
) -> Tensor:
    """Of each line, what comes back to its tokens times the difference of its ends: ``[B, T]``.

    ``at`` and ``to`` are the runs among the states between which a line's slopes are taken: one, or two by DeepLIFT.
    """
    scores = weights.new_zeros(to_hidden.shape[:2])
    kept = states.before, states.gates, states.cells, states.tanhs
    read = at, to, lengths.numpy(), weights.contiguous().numpy(), to_hidden.contiguous().numpy()
    _share_out(len(scores), run_back, ends.flat, ends.first, ends.second, *kept, *read, scores.numpy())
    return scores


def _share_out(rows: int, loop: Callable[..., None], *arrays: NDArray[Any]) -> None:
    """Rows have nothing to do with each other: as many threads as torch has take some of them each.

    The matrix products within have one thread: those of BLAS would wait for torch's, and torch's for them.
    """
    threads = max(1, min(torch.get_num_threads(), rows // FEWEST_ROWS))
    ends = np.linspace(0, rows, threads + 1).astype(np.int64)
    with _blas().limit(limits=1):
        if threads == 1:
            loop(*arrays, 0, rows)
        else:
            list(_threads(threads).map(lambda start, stop: loop(*arrays, start, stop), ends[:-1], ends[1:]))


@cache
def _blas() -> ThreadpoolController:
    return cast(ThreadpoolController, ThreadpoolController().select(user_api="blas"))


@cache
def _threads(count: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(count)
