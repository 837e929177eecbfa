"""``python -m rashomon`` is the ``rashomon`` command, and this is what the command starts with."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from rashomon.lazy import load_quickly

INTERRUPTED = 130


def main() -> None:
    """Import the command line and run it; Ctrl-C while it is still being imported ends without a traceback."""
    signal.signal(signal.SIGINT, _stop)
    load_quickly()
    from rashomon.cli.main import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _stop(number: int, frame: FrameType | None) -> None:
    """Nothing was begun, so there is nothing to put away; an exception might be caught half-way through an import."""
    sys.stderr.write("rashomon: Interrupted.\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
