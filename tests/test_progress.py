"""One bar for the whole, which the parts move."""

from __future__ import annotations

import pytest

from rashomon.progress import _State, part_of, progress


class Bar:
    """Stands for the bar of the whole."""

    def __init__(self) -> None:
        self.at, self.notes = 0.0, [""]

    def __call__(self, steps: float = 1, note: str = "") -> None:
        self.at += steps
        self.notes.append(note)


@pytest.fixture
def bar(monkeypatch: pytest.MonkeyPatch) -> Bar:
    monkeypatch.setattr(_State, "shown", True)
    return Bar()


def test_parts_move_the_whole_in_proportion(bar: Bar) -> None:
    with part_of(bar, 40):
        with progress("training", 4) as advance:
            advance(1, "seed 0")
            assert (bar.at, bar.notes[-1]) == (10.0, "seed 0")
            with progress("epochs", 2) as inner:  # part of a part
                inner()
            assert bar.at == 10.0
        assert bar.at == 10.0
    assert bar.at == 40.0, "what is done is done, however it was counted"


def test_two_things_in_one_part_do_not_move_it_too_far(bar: Bar) -> None:
    with part_of(bar, 30):
        for _ in range(2):
            with progress("explaining", 1) as advance:
                advance()
    assert bar.at == 30.0


def test_after_an_error_bars_are_bars_again(bar: Bar) -> None:
    with pytest.raises(RuntimeError), part_of(bar, 10):
        raise RuntimeError
    assert _State.whole is None
    assert bar.at == 0.0
