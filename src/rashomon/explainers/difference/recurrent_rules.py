"""How does a change travel back through an LSTM or a GRU? The cells unrolled, the difference rules inside.

A cell is made of sigmoids and tanhs, which pass back their slopes between input and reference, and of
products, which pass back averages (see ``secants``). Slopes and averages do not depend on what comes back, so
they are computed for all steps at once; the loop over time only multiplies and adds, on the inputs' half of
the batch.
One autograd node serves a whole direction of a layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from rashomon.explainers.difference.secants import (
    Axis,
    Linear,
    halves,
    inputs_only,
    middle,
    sigmoid_slope,
    tanh_slope,
)
from rashomon.explainers.difference.tracking import NoRuleError, Place, Tracker, original_rows
from rashomon.models.recurrence import Lines, ends_of, run, scores_back


def _steps(length: int, reverse: bool) -> range:
    return range(length - 1, -1, -1) if reverse else range(length)


def _hold(keep: Tensor | None, t: int, new: Tensor, old: Tensor) -> Tensor:
    """A finished sequence keeps its state."""
    return new if keep is None else torch.where(keep[t], new, old)


BATCH = Axis(-2)  # in [T, 2B, H] and in [2B, H]


class LSTMLayer(Function):
    """One direction of an LSTM, time first: ``x`` [T, 2B, 4H] is what the inputs add to the gates i, f, g, o.

    ``keep`` [T, 2B, 1] is false where a sequence has ended (None: nowhere).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h: Tensor, c: Tensor, weight: Tensor, keep: Tensor | None, reverse: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        size = h.shape[-1]
        before, after = torch.empty_like(x), torch.empty_like(x)
        outputs, cells, memories = (x.new_empty(*x.shape[:2], size) for _ in range(3))
        for t in _steps(len(x), reverse):
            torch.addmm(x[t], h, weight.T, out=before[t])
            torch.sigmoid(before[t], out=after[t])
            torch.tanh(before[t, :, 2 * size : 3 * size], out=after[t, :, 2 * size : 3 * size])
            i, f, g, o = after[t].chunk(4, 1)
            memories[t] = c
            new = torch.addcmul(f * c, i, g)
            torch.tanh(new, out=cells[t])
            h, c = _hold(keep, t, o * cells[t], h), _hold(keep, t, new, c)
            outputs[t] = h
        half = x.shape[1] // 2
        ctx.save_for_backward(
            before, after, cells, memories, weight, None if keep is None else keep[:, :half]
        )
        ctx.reverse = reverse
        return outputs, h.clone(), c.clone()

    @staticmethod
    def backward(
        ctx: Any, to_outputs: Tensor, to_h: Tensor, to_c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, None, None]:
        before, after, cells, memories, weight, keep = ctx.saved_tensors
        to_outputs, dh, dc = halves(to_outputs, BATCH)[0], halves(to_h, BATCH)[0], halves(to_c, BATCH)[0]
        gates = after.chunk(4, 2)
        i, f, g, o = (middle(gate, BATCH) for gate in gates)
        slope_i, slope_f, slope_g, slope_o = _gate_slopes(before, after, "ssts")
        memory = torch.addcmul(gates[1] * memories, gates[0], gates[2])
        h_to_c = o * tanh_slope(*halves(memory, BATCH), *halves(cells, BATCH))
        c_to_gates = torch.stack([g * slope_i, middle(memories, BATCH) * slope_f, i * slope_g], 2)
        h_to_o = middle(cells, BATCH) * slope_o
        if keep is not None:  # where a sequence has ended, the state passes through unchanged
            f = torch.where(keep, f, 1.0)
            h_to_c, h_to_o, c_to_gates = h_to_c * keep, h_to_o * keep, c_to_gates * keep.unsqueeze(2)
        to_x = torch.empty_like(halves(before, BATCH)[0])
        for t in reversed(_steps(len(before), ctx.reverse)):
            dh = dh + to_outputs[t]
            dc = torch.addcmul(dc, dh, h_to_c[t])
            size = dh.shape[1]
            torch.mul(dc.unsqueeze(1), c_to_gates[t], out=to_x[t, :, : 3 * size].view(-1, 3, size))
            torch.mul(dh, h_to_o[t], out=to_x[t, :, 3 * size :])
            passed = to_x[t] @ weight
            dh, dc = passed if keep is None else torch.where(keep[t], passed, dh), dc * f[t]
        return inputs_only(to_x, BATCH), inputs_only(dh, BATCH), inputs_only(dc, BATCH), None, None, None


class GRULayer(Function):
    """One direction of a GRU, time first: ``x`` [T, 2B, 3H] is what the inputs add to r, z and n."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, h: Tensor, weight: Tensor, bias: Tensor, keep: Tensor | None, reverse: bool
    ) -> tuple[Tensor, Tensor]:
        size = h.shape[-1]
        before, after = torch.empty_like(x), torch.empty_like(x)
        outputs, news, gaps = (x.new_empty(*x.shape[:2], size) for _ in range(3))
        for t in _steps(len(x), reverse):
            recurrent = torch.addmm(bias, h, weight.T)
            torch.add(x[t, :, : 2 * size], recurrent[:, : 2 * size], out=before[t, :, : 2 * size])
            torch.sigmoid(before[t, :, : 2 * size], out=after[t, :, : 2 * size])
            r, z, n = after[t].chunk(3, 1)
            news[t] = recurrent[:, 2 * size :]
            torch.addcmul(x[t, :, 2 * size :], r, news[t], out=before[t, :, 2 * size :])
            torch.tanh(before[t, :, 2 * size :], out=n)
            torch.sub(h, n, out=gaps[t])
            h = _hold(keep, t, torch.addcmul(n, z, gaps[t]), h)
            outputs[t] = h
        half = x.shape[1] // 2
        ctx.save_for_backward(before, after, news, gaps, weight, None if keep is None else keep[:, :half])
        ctx.reverse = reverse
        return outputs, h.clone()

    @staticmethod
    def backward(ctx: Any, to_outputs: Tensor, to_h: Tensor) -> tuple[Tensor, Tensor, None, None, None, None]:
        before, after, news, gaps, weight, keep = ctx.saved_tensors
        to_outputs, dh = halves(to_outputs, BATCH)[0], halves(to_h, BATCH)[0]
        r, z = (middle(part, BATCH) for part in after.chunk(3, 2)[:2])
        slope_r, slope_z, slope_n = _gate_slopes(before, after, "sst")
        h_to_n = (1 - z) * slope_n
        # to the recurrent side of r, z and n, then to the input side of n
        factors = torch.stack(
            [h_to_n * middle(news, BATCH) * slope_r, middle(gaps, BATCH) * slope_z, h_to_n * r, h_to_n], 2
        )
        if keep is not None:
            z, factors = torch.where(keep, z, 1.0), factors * keep.unsqueeze(2)
        parts = torch.empty_like(factors)
        size = dh.shape[1]
        for t in reversed(_steps(len(before), ctx.reverse)):
            dh = dh + to_outputs[t]
            torch.mul(dh.unsqueeze(1), factors[t], out=parts[t])
            dh = torch.addmm(dh * z[t], parts[t].flatten(1)[:, : 3 * size], weight)
        to_x = parts[:, :, [0, 1, 3]].flatten(2)
        return inputs_only(to_x, BATCH), inputs_only(dh, BATCH), None, None, None, None


class LiftedAlong(Function):
    """Both directions of an LSTM at both ends of lines (``recurrence.along``): all inputs, then all references.

    Texts and references come in many pairs, and each is read once: the states of either are looked up on the way back.
    """

    @staticmethod
    def forward(ctx: Any, share: Tensor, lines: Lines, weights: Tensor, lengths: Tensor) -> Tensor:
        count = len(lines.inputs) // 2
        inputs, others = lines.inputs[:count], lines.others[:count]
        # A reference as long as its text reads otherwise backwards than a longer one.
        met = np.column_stack([np.concatenate([inputs, others]), lengths.numpy()])
        distinct, where = np.unique(met, axis=0, return_inverse=True)
        tokens, long = distinct[:, :-1], torch.from_numpy(distinct[:, -1].copy())
        hidden, ctx.states = run(ends_of(lines.table, tokens, tokens), None, weights, long, before=True)
        ctx.ends, ctx.weights = ends_of(lines.table, inputs, others), weights
        ctx.lengths, ctx.where = lengths[:count], where.reshape(-1)
        return hidden[torch.from_numpy(ctx.where)]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        count = len(ctx.lengths)
        to_hidden, at, to = gradients[0][:count], ctx.where[:count], ctx.where[count:]
        scores = scores_back(ctx.states, ctx.ends, ctx.weights, ctx.lengths, at, to, to_hidden)
        return torch.cat([scores, torch.zeros_like(scores)]), None, None, None


def along_rule(seen: Tracker, plain: object, share: Tensor, *args: Any) -> Tensor:
    """``recurrence.along`` between both ends of its lines."""
    if seen.axis(share) != Axis(-2):
        raise NoRuleError
    hidden: Tensor = LiftedAlong.apply(share, *args)
    seen.note(hidden, Place(0))
    return hidden


def _gate_slopes(before: Tensor, after: Tensor, kinds: str) -> list[Tensor]:
    """The slope of every gate between input and reference: s for a sigmoid, t for a tanh."""
    blocks = zip(kinds, before.chunk(len(kinds), 2), after.chunk(len(kinds), 2), strict=True)
    return [
        (sigmoid_slope if kind == "s" else tanh_slope)(*halves(x, BATCH), *halves(y, BATCH))
        for kind, x, y in blocks
    ]


State = tuple[Tensor, ...]  # (h, c) of an LSTM, (h,) of a GRU
Direction = Callable[[Tensor, State, Sequence[Tensor], Tensor | None, bool], tuple[Tensor, State]]


def lstm_direction(
    x: Tensor, state: State, weights: Sequence[Tensor], keep: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    """``x`` [T, 2B, D] through one direction of one layer."""
    bias = weights[2] + weights[3] if len(weights) == 4 else None
    gates = Linear.apply(x, weights[0], bias, BATCH)
    outputs, h, c = LSTMLayer.apply(gates, *state, weights[1], keep, reverse)
    return outputs, (h, c)


def gru_direction(
    x: Tensor, state: State, weights: Sequence[Tensor], keep: Tensor | None, reverse: bool
) -> tuple[Tensor, State]:
    bias, recurrent = weights[2:] if len(weights) == 4 else (None, x.new_zeros(len(weights[1])))
    gates = Linear.apply(x, weights[0], bias, BATCH)
    outputs, h = GRULayer.apply(gates, *state, weights[1], recurrent, keep, reverse)
    return outputs, (h,)


def run_layers(
    direction: Direction,
    x: Tensor,
    state: State,
    weights: Sequence[Tensor],
    per_direction: int,
    both_ways: bool,
    keep: Tensor | None,
) -> tuple[Tensor, State]:
    """All layers and directions; ``x`` [T, 2B, D], states [layers * directions, 2B, H]."""
    ways = 2 if both_ways else 1
    ends: list[State] = []
    for layer in range(len(weights) // (per_direction * ways)):
        outputs = []
        for way in range(ways):
            at = layer * ways + way
            own = weights[at * per_direction : (at + 1) * per_direction]
            out, end = direction(x, tuple(part[at] for part in state), own, keep, way == 1)
            outputs.append(out)
            ends.append(end)
        x = torch.cat(outputs, -1) if both_ways else outputs[0]
    return x, tuple(torch.stack(parts) for parts in zip(*ends, strict=True))


def sequence_rule(direction: Direction, seen: Tracker, *args: Any) -> tuple[Tensor, ...]:
    """torch.lstm and torch.gru, on padded and on packed sequences."""
    if not isinstance(args[3], bool):
        return _packed(direction, seen, *args)
    x, hidden, weights, bias, layers, dropout, training, both_ways, batch_first = args
    per_direction = _weights_per_direction(weights, bias, layers, dropout, training, both_ways)
    if x.ndim != 3:
        raise NoRuleError
    state = tuple(hidden) if isinstance(hidden, (tuple, list)) else (hidden,)
    outer = {seen.axis(part).outer for part in (x, *state) if seen.active(part)}
    place = Place(1, outer=outer.pop())
    time_first = x.transpose(0, 1) if batch_first else x
    dim = -3 if batch_first else -2
    if outer or (seen.active(x) and seen.axis(x).dim != dim) or not _alike(seen, state, place):
        raise NoRuleError
    out, ends = _regularly(direction, time_first, state, weights, per_direction, both_ways, None, place)
    out = out.transpose(0, 1) if batch_first else out
    seen.note(out, replace(place, dim=0 if batch_first else 1))
    for end in ends:
        seen.note(end, place)
    return out, *ends


def _packed(
    direction: Direction,
    seen: Tracker,
    data: Tensor,
    sizes: Tensor,
    hidden: Any,
    weights: Sequence[Tensor],
    bias: bool,
    layers: int,
    dropout: float,
    training: bool,
    both_ways: bool,
) -> tuple[Tensor, ...]:
    per_direction = _weights_per_direction(weights, bias, layers, dropout, training, both_ways)
    packed = seen.place_of(data)
    if packed is None or packed.packed is None:
        raise NoRuleError
    place = replace(packed, dim=1, packed=None)
    state = tuple(hidden) if isinstance(hidden, (tuple, list)) else (hidden,)
    x, lengths = torch._VF._pad_packed_sequence(data, sizes, False, 0.0, -1)
    in_order = lengths[original_rows(place, x.shape[1]).argsort().cpu()]
    if not torch.equal(*in_order.chunk(2)) or not _alike(seen, state, place):
        raise NoRuleError
    keep = (torch.arange(len(x)).unsqueeze(1) < in_order).unsqueeze(2).to(x.device)
    out, ends = _regularly(direction, x, state, weights, per_direction, both_ways, keep, place)
    result, _ = torch._VF._pack_padded_sequence(out, lengths, False)
    seen.note(result, packed)
    for end in ends:
        seen.note(end, place)
    return result, *ends


def _alike(seen: Tracker, state: State, place: Place) -> bool:
    """Do the initial states [layers * directions, 2B, H] have their rows in the order of the sequence?"""
    for part in state:
        own = seen.place_of(part) if seen.active(part) else None
        size = part.shape[1]
        if own and (own.dim != 1 or not torch.equal(original_rows(own, size), original_rows(place, size))):
            return False
    return True


def _regularly(
    direction: Direction,
    x: Tensor,
    state: State,
    weights: Sequence[Tensor],
    per_direction: int,
    both_ways: bool,
    keep: Tensor | None,
    place: Place,
) -> tuple[Tensor, State]:
    """Run the layers with all inputs in front of all references, whatever the order of rows outside."""
    if place.order is None and place.outer == 1:
        return run_layers(direction, x, state, weights, per_direction, both_ways, keep)
    rows = original_rows(place, x.shape[1]).to(x.device)
    regular = rows.argsort()
    state = tuple(part.index_select(1, regular) for part in state)
    x = x.index_select(1, regular)
    out, ends = run_layers(direction, x, state, weights, per_direction, both_ways, keep)
    return out.index_select(1, rows), tuple(end.index_select(1, rows) for end in ends)


def _weights_per_direction(
    weights: Sequence[Tensor], bias: bool, layers: int, dropout: float, training: bool, both_ways: bool
) -> int:
    per_direction = 4 if bias else 2
    projected = len(weights) != layers * (2 if both_ways else 1) * per_direction
    if projected or (training and dropout > 0 and layers > 1):
        raise NoRuleError
    return per_direction


def cell_rule(direction: Direction, seen: Tracker, x: Tensor, hidden: Any, *weights: Any) -> Any:
    """nn.LSTMCell and nn.GRUCell: one step."""
    state = tuple(hidden) if isinstance(hidden, (tuple, list)) else (hidden,)
    if any(seen.active(part) and seen.axis(part) != BATCH for part in (x, *state)):
        raise NoRuleError
    _, ends = direction(x.unsqueeze(0), state, [w for w in weights if w is not None], None, False)
    for end in ends:
        seen.note(end, Place(0))
    return ends if len(ends) == 2 else ends[0]
