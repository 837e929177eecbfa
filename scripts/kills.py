"""Does work that is killed end with the same numbers? SIGKILL at random moments, over and over, and compare.

    python scripts/kills.py --kills 200
    python scripts/kills.py --kills 5 --only train

Each command is first left in peace, then started in a fresh store and killed, with all its workers, after a random
share of the time that took; started again until it ends by itself, and then in another fresh store, until there
were enough kills. What the ended runs say must be what the undisturbed run said, and no stored run may be damaged.

A process is forked for every start, with torch and the package imported before: a kill then costs a second or two, and
hits work rather than imports. Only the workers of ``workers`` are started anew each time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd

SMALL = "--data {data} --model mlp --hidden 8 --embedding-dim 8"
OUT = "{out}"
COMMANDS = {  # {data} is a small file of texts, {out} a folder for a report
    "train": f"train {SMALL} --epochs 40 --seed 0 --seed 1 --workers 1",
    "workers": f"train {SMALL} --epochs 40 --seed 0 --seed 1 --workers 2",
    "attefa": f"study attefa {SMALL} --epochs 6 --seeds 2 --set training.epochs=4 --workers 1",
    "simulation": f"study simulation {SMALL} --epochs 6 --set split='train' --set sizes=[40] --set seeds=[0,1] "
    """--set weights=[1.0] --set instances=0 --set explanations=['none','random','attention'] """
    """--set students=['mlp(hidden=8,epochs=8)'] --set learning=['attention-regularisation'] --workers 1""",
    "audit": f"audit {SMALL} --epochs 6 --instances 8 --methods attention,leave-one-out,random --workers 1 --out {OUT}",
}
PLACES = ("runs", "report")  # differ from store to store
OPINIONS = (("awful", "dull", "bad"), ("great", "witty", "good"))
FILLERS = ("the", "film", "was", "a", "plot", "with", "people", "and", "movie", "one")


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
    load()
    different = 0
    for number, name in enumerate(names):
        share = options.kills // len(names) + (number < options.kills % len(names))
        different += try_command(name, share, moments)
    sys.exit(1 if different else 0)


def load() -> None:
    """What takes seconds to import, so that a process need not."""
    for module in ("rashomon.cli.main", "rashomon.papers", "rashomon.report"):
        import_module(module)
    import_module("rashomon.studies").studies.names()


def try_command(name: str, kills: int, moments: random.Random) -> int:
    """How many of the ended runs said something else than the undisturbed one."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_texts(place / "texts.csv")
        finish(name, place / "first", None)  # kernels are compiled here, and kept on disk
        started = time.monotonic()
        expected = finish(name, place / "calm", None)
        calm = time.monotonic() - started
        killed = ended = different = 0
        store = place / "0"
        while killed < kills or not ended or store.exists():
            patience = moments.uniform(0, calm) if killed < kills else None  # at last it may end
            said = finish(name, store, patience)
            if said is None:
                killed += 1
                continue
            ended += 1
            different += said != expected
            shutil.rmtree(store)
            store = place / str(ended)
        took = time.monotonic() - started
    told = f"{killed} kills, {ended} runs to the end, {different} with other numbers"
    print(f"{name}: {told} ({calm:.1f} s in peace, {took:.0f} s in all)", flush=True)
    return different


def write_texts(path: Path) -> None:
    rng = random.Random(0)
    rows = []
    for number in range(160):
        words = [*rng.choices(FILLERS, k=rng.randint(4, 9)), rng.choice(OPINIONS[number % 2])]
        rows.append({"text": " ".join([*words, f"n{number}"]), "label": ("bad", "good")[number % 2]})
    pd.DataFrame(rows).to_csv(path, index=False)


def finish(name: str, store: Path, patience: float | None) -> dict[str, Any] | None:
    """What a command says, or None where it was killed before."""
    out = store / "out"
    command = COMMANDS[name].format(data=store.parent / "texts.csv", out=out)
    code, said, errors = run([*command.split(), "--json", "--store", str(store)], store.parent, patience)
    if code is None:
        return None
    if code != 0 or "damaged" in errors:
        raise SystemExit(f"{name} ended with code {code}: {errors}")
    code, _, errors = run(["runs", "verify", "--quiet", "--store", str(store)], store.parent, None)
    if code != 0:
        raise SystemExit(f"{name} left damaged runs in {store}: {errors}")
    return numbers(json.loads(said), out)


def run(words: list[str], place: Path, patience: float | None) -> tuple[int | None, str, str]:
    """The exit code of a command (None: killed), what it said and what it complained of."""
    streams = [place / "said", place / "errors"]
    child = os.fork()
    if child == 0:
        _become(words, streams)
    until = time.monotonic() + (patience if patience is not None else 3600)
    while not (ended := os.waitpid(child, os.WNOHANG))[0]:
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)  # the workers too
            os.waitpid(child, 0)
            return None, "", ""
        time.sleep(0.005)
    said, errors = (path.read_text(encoding="utf-8") for path in streams)
    return os.waitstatus_to_exitcode(ended[1]), said, errors


def _become(words: list[str], streams: list[Path]) -> None:
    """The command in this process, a group of its own with its workers; never returns."""
    code = 1
    try:
        os.setsid()
        for number, path in zip((1, 2), streams, strict=True):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        from rashomon.cli.main import run as rashomon

        code = rashomon(words)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def numbers(document: dict[str, Any], out: Path) -> dict[str, Any]:
    """What must not change: no places, and of an audit no sentences that tell how long a method takes."""
    if "verdicts" in document:
        tables = {path.name: pd.read_parquet(path).to_csv() for path in sorted(out.glob("tables/*.parquet"))}
        return {"findings": document["findings"], "tables": tables}
    return {key: value for key, value in document.items() if key not in PLACES}


if __name__ == "__main__":
    main()
