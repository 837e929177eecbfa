"""Encoders against packed sequences, and against themselves beside padding, gaps and other texts."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rashomon.data.batches import Batch
from rashomon.models.encoders import RecurrentLayer, build_encoder, encoders
from rashomon.models.model_spec import ModelSpec
from rashomon.models.sequences import Layout


def _batch(mask: Tensor, segments: Tensor | None = None) -> Batch:
    ids = torch.zeros(mask.shape, dtype=torch.long)
    positions = torch.arange(mask.shape[1]).expand_as(ids)
    return Batch(ids, mask, ids if segments is None else segments, positions, mask)


def _lengths(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


@pytest.mark.parametrize("cell", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("lengths", [(5, 1, 3, 4), (4, 4, 4)], ids=["ragged", "equal"])
def test_recurrent_layer_equals_packed_sequences(cell: type[nn.RNNBase], lengths: tuple[int, ...]) -> None:
    layer = RecurrentLayer(cell, 6, 7)
    packed = cell(6, 7, batch_first=True, bidirectional=True)
    ahead = layer.ahead.state_dict()
    back = {f"{name}_reverse": weight for name, weight in layer.back.state_dict().items()}
    packed.load_state_dict({**ahead, **back})
    mask = _lengths(*lengths)
    ours = torch.randn(*mask.shape, 6, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    got = layer(ours, Layout(_batch(mask), pair=False)) * mask.unsqueeze(-1)
    rows = nn.utils.rnn.pack_padded_sequence(theirs, mask.sum(1), batch_first=True, enforce_sorted=False)
    expected, _ = nn.utils.rnn.pad_packed_sequence(packed(rows)[0], batch_first=True)
    torch.testing.assert_close(got, expected, atol=1e-6, rtol=0)
    direction = torch.randn_like(got)
    (got * direction).sum().backward()
    (expected * direction).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=0)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", encoders.names())
def test_gaps_and_the_other_side_cannot_be_seen(name: str, layers: int) -> None:
    """Interleaved sides with gaps: each side's vectors are those of its tokens alone."""
    spec = ModelSpec(name=name, embedding_dim=5, hidden=8, self_heads=2, layers=layers)
    encoder = build_encoder(spec).eval()
    mask = torch.tensor([[1, 1, 0, 1, 1, 1, 0], [1, 0, 0, 1, 0, 0, 0]]).bool()
    segments = torch.tensor([[1, 0, 0, 0, 1, 0, 1], [0, 0, 0, 1, 0, 0, 0]])
    x = torch.randn(2, 7, 5)
    whole = _batch(mask, segments)
    hidden, _ = encoder(x, Layout(whole, pair=True))
    for row in range(2):
        for side in (0, 1):
            here = (mask[row] & (segments[row] == side)).nonzero().flatten()
            alone = _batch(torch.ones(1, len(here), dtype=torch.bool))
            alone.positions = whole.positions[row, here].unsqueeze(0)
            expected, _ = encoder(x[row, here].unsqueeze(0), Layout(alone, pair=False))
            torch.testing.assert_close(hidden[row, here], expected[0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("name", [name for name in encoders.names() if name != "mlp"])
def test_context_is_read_within_a_text(name: str) -> None:
    """The counterpart: a change of one token does reach its neighbours."""
    encoder = build_encoder(ModelSpec(name=name, embedding_dim=5, hidden=8, self_heads=2)).eval()
    x = torch.randn(1, 4, 5)
    changed = x.clone()
    changed[0, 1] += 1
    layout = Layout(_batch(_lengths(4)), pair=False)
    difference = (encoder(x, layout)[0] - encoder(changed, layout)[0]).abs().sum(-1)[0]
    assert (difference[[0, 2]] > 1e-4).all()


def test_an_empty_side_stays_finite() -> None:
    mask = torch.tensor([[1, 1, 0], [0, 0, 0]]).bool()
    for name in encoders.names():
        encoder = build_encoder(ModelSpec(name=name, embedding_dim=5, hidden=8, self_heads=2))
        for pair in (False, True):
            x = torch.randn(2, 3, 5, requires_grad=True)
            hidden, _ = encoder(x, Layout(_batch(mask), pair))
            (hidden * mask.unsqueeze(-1)).sum().backward()
            assert hidden.isfinite().all()
            assert x.grad is not None
            assert x.grad.isfinite().all()


def test_cnn_widths_share_the_hidden_size() -> None:
    encoder = build_encoder(ModelSpec(name="cnn", embedding_dim=5, hidden=8, widths=(1, 3, 5)))
    hidden, _ = encoder(torch.randn(1, 4, 5), Layout(_batch(_lengths(4)), pair=False))
    assert hidden.shape == (1, 4, 8)
    assert [convolution.out_channels for convolution in encoder.layers[0].convolutions] == [3, 3, 2]
