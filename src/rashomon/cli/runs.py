"""``rashomon runs``: what is in the store."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import OutputOptions, StoreOptions
from rashomon.cli.output import Printer

app = typer.Typer(help="List, show and remove finished work.", no_args_is_help=True)
Key = Annotated[str, typer.Argument(help="The run's key, or as much of it as is unambiguous.")]


@app.command("list")
@takes
def list_runs(store: StoreOptions, output: OutputOptions) -> None:
    """List every run, the newest first, unfinished ones included."""
    printer = Printer(output)
    kept = store.runs()
    infos = kept.list()
    printer.table(
        f"{len(infos)} runs in {kept.root}",
        ["key", "kind", "made", "size", "state"],
        [
            (
                info.key,
                info.kind,
                info.created,
                _size(info.bytes),
                "finished" if info.finished else "unfinished",
            )
            for info in infos
        ],
    )
    printer.document([_plain(info) for info in infos])


@app.command("show")
@takes
def show_run(key: Key, store: StoreOptions, output: OutputOptions) -> None:
    """Show what a run was made from and what it holds."""
    printer = Printer(output)
    info = store.runs().show(key)
    document = _plain(info) | {"files": sorted(str(f.relative_to(info.path)) for f in info.path.rglob("*"))}
    if printer.for_people:
        import json

        printer.plain(json.dumps(document, indent=2, ensure_ascii=False))
    printer.document(document)


@app.command("remove")
@takes
def remove_run(key: Key, store: StoreOptions, output: OutputOptions) -> None:
    """Remove a run from the store."""
    printer = Printer(output)
    info = store.runs().remove(key)
    printer.plain(f"removed {info.kind} {info.key} ({_size(info.bytes)})")
    printer.document({"removed": info.key})


def _plain(info: Any) -> dict[str, Any]:
    return {name: str(v) if name in ("path", "created") else v for name, v in asdict(info).items()}


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
