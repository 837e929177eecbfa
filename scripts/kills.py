"""Does work that is killed end with the same numbers? SIGKILL at random moments, over and over, and compare.

    python scripts/kills.py --kills 200
    python scripts/kills.py --kills 5 --only train

Each command is first left in peace, then started in a fresh store and killed, with all its workers, after a random
share of the time that took; started again until it ends by itself, and then in another fresh store, until there
were enough kills. What the ended runs say must be what the undisturbed run said, and no stored run may be damaged.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd

SMALL = "--model mlp --hidden 8 --embedding-dim 8 --vocabulary-size 500"
COMMANDS = {
    "train": f"train {SMALL} --epochs 6 --seed 0 --seed 1",
    "attefa": f"study attefa {SMALL} --epochs 3 --seeds 2 --set training.epochs=2",
    "audit": f"audit {SMALL} --epochs 3 --instances 8 --methods attention,leave-one-out,random",
}
PLACES = ("runs", "report")  # differ from store to store


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200, help="in all, over the commands")
    parser.add_argument("--only", choices=COMMANDS, action="append")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    names = options.only or list(COMMANDS)
    moments = random.Random(options.seed)
    different = 0
    for number, name in enumerate(names):
        share = options.kills // len(names) + (number < options.kills % len(names))
        different += try_command(name, share, moments)
    sys.exit(1 if different else 0)


def try_command(name: str, kills: int, moments: random.Random) -> int:
    """How many of the ended runs said something else than the undisturbed one."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        started = time.monotonic()
        expected = finish(name, place / "calm", None)
        calm = time.monotonic() - started
        killed = ended = different = 0
        store = place / "0"
        while killed < kills or store.exists():
            patience = moments.uniform(0, calm) if killed < kills else None  # at last it may end
            said = finish(name, store, patience)
            if said is None:
                killed += 1
                continue
            ended += 1
            different += said != expected
            shutil.rmtree(store)
            store = place / str(ended)
    print(
        f"{name}: {killed} kills, {ended} runs to the end, {different} with other numbers ({calm:.0f} s in peace)"
    )
    return different


def finish(name: str, store: Path, patience: float | None) -> dict[str, Any] | None:
    """What a command says, or None where it was killed before."""
    words = [sys.executable, "-m", "rashomon", *COMMANDS[name].split(), "--json", "--store", str(store)]
    out = store / "out"
    if name == "audit":
        words += ["--out", str(out)]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        said, errors = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the workers too
        process.communicate()
        return None
    if process.returncode != 0 or "damaged" in errors:
        raise SystemExit(f"{name} ended with code {process.returncode}: {errors}")
    verify = subprocess.run(
        [sys.executable, "-m", "rashomon", "runs", "verify", "--quiet", "--store", str(store)]
    )
    if verify.returncode != 0:
        raise SystemExit(f"{name} left damaged runs in {store}.")
    return numbers(json.loads(said), out)


def numbers(document: dict[str, Any], out: Path) -> dict[str, Any]:
    """What must not change: no places, and of an audit no sentences that tell how long a method takes."""
    if "verdicts" in document:
        tables = {path.name: pd.read_parquet(path).to_csv() for path in sorted(out.glob("tables/*.parquet"))}
        return {"findings": document["findings"], "tables": tables}
    return {key: value for key, value in document.items() if key not in PLACES}


if __name__ == "__main__":
    main()
