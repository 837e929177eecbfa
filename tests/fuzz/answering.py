"""What every fuzzer here asks for: an answer, or a refusal in a sentence; nothing else thrown, no hang, nothing left.

In the suite every fuzzer draws the same few inputs each time. ``make fuzz`` (``$RASHOMON_FUZZ=long``) draws others
every time, a hundred times as many; what it finds comes with the line that repeats it.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import TypeVar

from hypothesis import HealthCheck, Phase, settings

from rashomon.errors import UserError

T = TypeVar("T")
LONG = os.environ.get("RASHOMON_FUZZ") == "long"
TIMES = int(os.environ.get("RASHOMON_FUZZ_TIMES", "100"))  # how many more inputs a long run draws
HANGS = 60  # seconds; nothing that is drawn here is large
SENTENCE = 5000  # characters; a refusal may repeat what was typed, and no whole document


def fuzz(examples: int) -> settings:
    """So many inputs in the suite, always the same; in a long run many more, and always others."""
    usual = [Phase.explicit, Phase.generate, Phase.shrink]
    return settings(
        max_examples=examples * (TIMES if LONG else 1),
        derandomize=not LONG,
        database=None,
        deadline=None,
        print_blob=True,
        phases=usual,
        suppress_health_check=list(HealthCheck),
    )


def answered(call: Callable[[], T]) -> T | None:
    """What a call answers, None where it refuses; whatever else it throws is a find."""
    with in_time(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except UserError as refusal:
            check_sentence(str(refusal))
            return None


def check_sentence(said: str) -> None:
    assert said.strip(), "a refusal says why"
    assert len(said) < SENTENCE, f"{len(said)} characters are no sentence: {said[:200]}"
    assert "Traceback" not in said
    said.encode()  # a terminal has to be able to print it


@contextmanager
def in_time() -> Iterator[None]:
    def give_up(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"no answer after {HANGS} seconds")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(HANGS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def empty_folder() -> Iterator[Path]:
    """Another for every input, which a fixture would not give; nothing may be half-written when it goes."""
    with TemporaryDirectory() as folder:
        yield Path(folder)
        strays = [path.name for path in Path(folder).rglob("*") if path.name.endswith((".tmp", ".partial"))]
        assert not strays, f"half-written: {strays}"
