"""``rashomon runs``: what is in the store."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from rashomon.cli.groups import takes
from rashomon.cli.options import OutputOptions, StoreOptions
from rashomon.cli.output import Printer
from rashomon.wording import size

app = typer.Typer(help="List, show, verify and remove finished work.", no_args_is_help=True)
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
                size(info.bytes),
                "damaged" if info.damage else "finished" if info.finished else "unfinished",
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
    printer.plain(f"removed {info.kind} {info.key} ({size(info.bytes)})")
    printer.document({"removed": info.key})


@app.command("verify")
@takes
def verify_runs(store: StoreOptions, output: OutputOptions) -> None:
    """Compare every finished run with its checksums; exit code 1 if any is damaged.

    Nothing is changed: a damaged run is made again when it is next asked for.
    """
    printer = Printer(output)
    kept = store.runs()
    infos = list(kept.verify())
    spoilt = [info for info in infos if info.damage]
    if spoilt:
        rows = [(info.key, info.kind, wrong) for info in spoilt for wrong in info.damage]
        printer.table(f"Damaged runs in {kept.root}", ["key", "kind", "what is wrong"], rows)
    whole = size(sum(info.bytes for info in infos))
    printer.plain(f"{len(infos)} finished runs ({whole}) verified, {len(spoilt)} damaged.")
    damaged = [{"kind": i.kind, "key": i.key, "path": str(i.path), "damage": i.damage} for i in spoilt]
    printer.document({"verified": len(infos), "damaged": damaged})
    if spoilt:
        raise typer.Exit(1)


@app.command("clean")
@takes
def clean_runs(
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Delete them; without it they are listed.")
    ] = False,
    *,
    store: StoreOptions,
    output: OutputOptions,
) -> None:
    """Delete unfinished runs that nobody works on, and damaged ones. Finished runs stay.

    An unfinished run would be gone on with by the command that began it, so nothing is deleted without --yes.
    """
    printer = Printer(output)
    kept = store.runs()
    found = kept.leftovers()
    printer.table(
        f"Leftovers in {kept.root}",
        ["run", "what", "size"],
        [(leftover.name, leftover.what, size(leftover.bytes)) for leftover in found],
    )
    total = sum(leftover.bytes for leftover in found)
    if yes:
        kept.delete(found)
    done = "deleted." if yes else "could be deleted: run it again with --yes." if found else "to delete."
    printer.plain(f"{len(found)} leftovers, {size(total)}, {done}")
    leftovers = [{"name": entry.name, "what": entry.what, "bytes": entry.bytes} for entry in found]
    printer.document({"leftovers": leftovers, "bytes": total, "deleted": yes})


def _plain(info: Any) -> dict[str, Any]:
    return {name: str(v) if name in ("path", "created") else v for name, v in asdict(info).items()}
