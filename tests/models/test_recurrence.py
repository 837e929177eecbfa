"""The LSTM as it is explained says what torch's says, and its scores are torch's gradients times differences."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rashomon.models import recurrence, recurrent_loops
from rashomon.models.encoders import Encoder, RecurrentLayer
from rashomon.models.recurrence import Lines, Tabled, along, entering, from_table, recurring, suits
from rashomon.models.sequences import Layout

ROWS, TOKENS, WIDE, SIZE = 5, 7, 6, 4
LENGTHS = torch.tensor([7, 3, 1, 5, 7])


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def both_ways(request: pytest.FixtureRequest) -> tuple[nn.LSTM, nn.LSTM]:
    torch.manual_seed(0)
    made = [nn.LSTM(WIDE, SIZE, batch_first=True).to(request.param).eval() for _ in range(2)]
    for rnn in made:
        rnn.requires_grad_(False)
        for weight in rnn.parameters():
            weight.mul_(3)  # so that gates leave the straight part of their sigmoids
    return made[0], made[1]


def by_torch(ahead: nn.LSTM, back: nn.LSTM, x: Tensor) -> list[Tensor]:
    """Each text alone, without padding."""
    return [
        torch.cat([ahead(row[None, :n])[0], back(row[None, :n].flip(1))[0].flip(1)], -1)[0]
        for row, n in zip(x, LENGTHS.tolist(), strict=True)
    ]


def drawn(rnn: nn.LSTM, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=rnn.weight_hh_l0.dtype, generator=torch.Generator().manual_seed(1))


def lines_between(texts: Tensor, inputs: Tensor, others: Tensor, share: Tensor) -> Lines:
    """Lines between some of the texts ``[U, T, E]``."""
    rows = torch.arange(texts.shape[0] * texts.shape[1]).view(texts.shape[:2])
    return Lines(texts.flatten(0, 1), rows[inputs].numpy(), rows[others].numpy(), share)


def tolerance(rnn: nn.LSTM) -> float:
    return 2e-5 if rnn.weight_hh_l0.dtype == torch.float32 else 1e-12


def test_lines_say_what_torch_says_and_score_its_gradients(both_ways: tuple[nn.LSTM, nn.LSTM]) -> None:
    ahead, back = both_ways
    ends = drawn(ahead, ROWS + 2, TOKENS, WIDE)
    inputs, others = torch.arange(ROWS), torch.tensor([5, 6, 5, 6, 6])
    alpha = torch.tensor([0.0, 0.3, 1.0, 0.7, 0.5], dtype=ends.dtype)
    share = alpha[:, None].repeat(1, TOKENS).requires_grad_(True)
    hidden = along(
        share,
        lines_between(entering(ahead, back, ends), inputs, others, share),
        recurring(ahead, back),
        LENGTHS,
    )

    difference = ends[inputs] - ends[others]
    at = (ends[others] + alpha[:, None, None] * difference).requires_grad_(True)
    expected = by_torch(ahead, back, at)
    pull = drawn(ahead, ROWS, TOKENS, 2 * SIZE)
    ours, theirs = [], []
    for row, n in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(hidden[row, :n], expected[row], atol=tolerance(ahead), rtol=0)
        ours.append((hidden[row, :n].square() * pull[row, :n]).sum())
        theirs.append((expected[row].square() * pull[row, :n]).sum())
    (scores,) = torch.autograd.grad(sum(ours, torch.zeros(())), share)
    (gradient,) = torch.autograd.grad(sum(theirs, torch.zeros(())), at)
    wanted = (gradient * difference).sum(-1)
    for row, n in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(scores[row, :n], wanted[row, :n], atol=20 * tolerance(ahead), rtol=0)


def test_shares_by_finite_differences() -> None:
    torch.manual_seed(2)
    ahead, back = (nn.LSTM(3, 2, batch_first=True).double().eval().requires_grad_(False) for _ in range(2))
    values = entering(ahead, back, torch.randn(4, 5, 3, dtype=torch.float64))
    numbers, weights = torch.tensor([0, 1]), recurring(ahead, back)
    share = torch.rand(2, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda s: along(s, lines_between(values, numbers, numbers + 2, s), weights, torch.tensor([5, 5])),
        (share,),
    )


def test_a_table_says_what_torch_says(both_ways: tuple[nn.LSTM, nn.LSTM]) -> None:
    ahead, back = both_ways
    words = drawn(ahead, 9, WIDE)
    index = torch.from_numpy(np.random.default_rng(0).integers(0, 9, (ROWS, TOKENS)))
    with torch.inference_mode():
        hidden = from_table(Tabled(entering(ahead, back, words), index), recurring(ahead, back), LENGTHS)
    for row, expected in enumerate(by_torch(ahead, back, words[index])):
        torch.testing.assert_close(hidden[row, : len(expected)], expected, atol=tolerance(ahead), rtol=0)


def test_runs_that_are_not_gone_back_through_keep_their_states(both_ways: tuple[nn.LSTM, nn.LSTM]) -> None:
    """Two forward passes before either backward pass: the buffer that is lent again must not be the same."""
    ahead, back = both_ways
    values, weights = entering(ahead, back, drawn(ahead, 4, TOKENS, WIDE)), recurring(ahead, back)
    whole = torch.tensor([TOKENS])

    def scores(numbers: tuple[int, int]) -> tuple[Tensor, Tensor]:
        share = torch.ones(1, TOKENS, dtype=values.dtype, requires_grad=True)
        lines = lines_between(values, torch.tensor(numbers[:1]), torch.tensor(numbers[1:]), share)
        return along(share, lines, weights, whole).sum(), share

    alone = [torch.autograd.grad(*scores(numbers))[0] for numbers in ((0, 1), (2, 3))]
    first, second = scores((0, 1)), scores((2, 3))
    torch.testing.assert_close(torch.autograd.grad(*first)[0], alone[0], atol=0, rtol=0)
    torch.testing.assert_close(torch.autograd.grad(*second)[0], alone[1], atol=0, rtol=0)


def test_states_are_given_back_when_their_outputs_are_gone(both_ways: tuple[nn.LSTM, nn.LSTM]) -> None:
    """Without waiting for the collector of cycles, or every pass would touch new memory."""
    ahead, back = both_ways
    values, numbers = entering(ahead, back, drawn(ahead, 2, TOKENS, WIDE)), torch.zeros(1, dtype=torch.int64)
    share = torch.ones(1, TOKENS, dtype=values.dtype, requires_grad=True)
    gc.disable()
    try:
        recurrence._SPARE.buffer = None
        hidden = along(
            share, lines_between(values, numbers, numbers + 1, share), recurring(ahead, back), LENGTHS[:1]
        )
        assert recurrence._SPARE.buffer is None
        del hidden
        assert recurrence._SPARE.buffer is not None
    finally:
        gc.enable()


@pytest.mark.parametrize("apart", [0.0, 1e-4, 0.1, 0.2499, 0.2501, 1.0, 9.0])
@pytest.mark.parametrize("at", [-3.0, 0.0, 0.8])
def test_slopes_between_two_points(at: float, apart: float) -> None:
    one, other = np.tanh(at + apart), np.tanh(at)
    expected = (one - other) / apart if apart else 1 - other**2
    slope = recurrent_loops._slopes(np.float64(apart), one, other, np.float64(recurrent_loops.NEAR))
    assert slope == pytest.approx(expected, rel=1e-6 if 0 < apart < 1e-3 else 2e-8)


def test_only_what_is_explained_on_a_processor_suits() -> None:
    rnn = nn.LSTM(2, 2, batch_first=True).eval()
    assert not suits(rnn)  # its weights could be asked for gradients
    with torch.no_grad():
        assert suits(rnn)
    rnn.requires_grad_(False)
    assert suits(rnn)
    assert not suits(rnn.train())
    assert not suits(nn.LSTM(2, 2).eval().half())
    assert not suits(nn.GRU(2, 2).eval())
    for other in ({"bias": False}, {"num_layers": 2}, {"bidirectional": True}, {"proj_size": 1}):
        assert not suits(nn.LSTM(2, 2, batch_first=True, **other).eval().requires_grad_(False))


def test_an_encoder_with_a_way_of_its_own_is_not_led_around_it() -> None:
    class Louder(Encoder):
        def forward(self, x: Tensor | Lines | Tabled, layout: Layout) -> tuple[Tensor, None]:
            assert isinstance(x, Tensor)
            return 2 * self.layers[0](x, layout), None

    layers: list[nn.Module] = [RecurrentLayer(nn.LSTM, WIDE, SIZE)]
    with torch.no_grad():
        assert Encoder(layers, 2 * SIZE).eval().enters
        assert not Louder(layers, 2 * SIZE).eval().enters
        assert not Encoder([], WIDE).eval().enters


@pytest.mark.parametrize(("kind", "error"), [(np.float32, 5e-7), (np.float64, 1e-15)])
def test_a_sigmoid_and_a_tanh_are_what_numpy_says(kind: type, error: float) -> None:
    x = np.concatenate([np.linspace(-30, 30, 100_001), np.linspace(-0.01, 0.01, 1001)]).astype(kind)
    exact, squashed = np.tanh(x.astype(np.float64)), np.empty_like(x)
    half, one, none = kind(0.5), kind(1), kind(0)
    recurrent_loops._squash(x, one, squashed, one, none)
    assert np.abs(squashed - exact).max() < error
    recurrent_loops._squash(x, one, squashed, half, half)
    assert np.abs(squashed - (1 + exact) / 2).max() < error


def test_what_is_undefined_stays_undefined() -> None:
    """A model whose weights have gone to infinity must not get scores that look like any other's."""
    torch.manual_seed(0)
    ahead, back = (nn.LSTM(3, 2, batch_first=True).eval().requires_grad_(False) for _ in range(2))
    words = torch.randn(4, 3)
    words[1] = torch.nan
    table = Tabled(entering(ahead, back, words), torch.tensor([[0, 1, 2]]))
    hidden = from_table(table, recurring(ahead, back), torch.tensor([3]))
    undefined = hidden[0].isnan()
    assert undefined[1:, :2].all()  # forwards from the second word on
    assert undefined[:2, 2:].all()  # backwards up to it
    assert not undefined[0, :2].any()
    assert not undefined[2, 2:].any()


def test_threads_share_rows_out_without_changing_them() -> None:
    torch.manual_seed(0)
    ahead, back = (nn.LSTM(3, 4, batch_first=True).eval().requires_grad_(False) for _ in range(2))
    rows = 3 * recurrence.FEWEST_ROWS + 1
    values, weights = entering(ahead, back, torch.randn(rows + 1, 6, 3)), recurring(ahead, back)
    numbers, lengths = torch.arange(rows), torch.randint(1, 7, (rows,))

    def hidden_and_gradient(threads: int) -> tuple[Tensor, Tensor]:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            share = torch.full((rows, 6), 0.5, requires_grad=True)
            hidden = along(share, lines_between(values, numbers, numbers + 1, share), weights, lengths)
            return hidden, torch.autograd.grad(hidden.square().sum(), share)[0]
        finally:
            torch.set_num_threads(before)

    for one, other in zip(hidden_and_gradient(1), hidden_and_gradient(3), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
