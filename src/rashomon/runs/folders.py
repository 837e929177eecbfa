"""May this folder be written, and how is it never half-written? For what is handed to the user: reports, models.

All of it is written aside, inside the folder, and moved into place when it is complete; what an earlier call wrote
there is replaced whole. A list of what was written stays in the folder, so that files of anybody else are known
and never overwritten. The folder itself is not renamed: it may be a mounted volume, or the one a shell is in.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from rashomon.errors import UserError
from rashomon.runs.files import (
    TEMPORARY,
    aside_of,
    files_of,
    flushed_later,
    read_json,
    sync,
    sync_tree,
    write_json,
    written_or_told,
)

WRITTEN = ".rashomon.json"  # what the folder is, and the files in it that are ours


def write_folder(folder: Path, what: str, write: Callable[[Path], None]) -> None:
    """``write`` a ``what`` ("report", "model") into an empty folder; it then stands in ``folder``, whole."""
    folder = Path(folder)
    check_folder(folder, what)
    made = _first_missing(folder)
    try:
        with written_or_told(f"The {what} cannot be written to {folder}"):
            _write_and_exchange(folder, what, write)
    except BaseException:
        if made is not None and not any(path.is_file() for path in made.rglob("*")):
            shutil.rmtree(made, ignore_errors=True)
        raise


def _write_and_exchange(folder: Path, what: str, write: Callable[[Path], None]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stray in folder.glob(f".*{TEMPORARY}"):  # of a process that was killed
        shutil.rmtree(stray, ignore_errors=True)
    aside = aside_of(folder / what)
    aside.mkdir()
    try:
        with flushed_later():
            write(aside)
        sync_tree(aside)
        _exchange(folder, what, aside)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def check_folder(folder: Path, what: str) -> None:
    """Refuse a place where a ``what`` cannot be written: before hours of work rather than after them."""
    check_writable(folder)
    try:
        foreign = sorted(_foreign(folder, what)) if folder.is_dir() else []
    except OSError as error:
        raise UserError(f"Cannot read {folder}: {error.strerror or error}.") from None
    if foreign:
        more = f" and {len(foreign) - 3} more" if len(foreign) > 3 else ""
        raise UserError(
            f"{folder} holds files that are not of an earlier {what} ({', '.join(foreign[:3])}{more}); "
            "choose another folder."
        )


def check_writable(folder: Path) -> None:
    """Before hours of training rather than after. Nothing is made yet, in case the work fails."""
    try:
        there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror}.") from None


def _exchange(folder: Path, what: str, aside: Path) -> None:
    """The old files out, then the new ones in; whenever this is cut short, all that is there is known as ours."""
    there, new = set(_names(folder)), _names(aside)
    old = [name for name in _ours(folder, what) if name in there]
    write_json(folder / WRITTEN, {"what": what, "files": sorted({*old, *new})})
    gone = aside_of(folder / what)
    gone.mkdir()
    try:
        for name in _tops(old):
            os.rename(folder / name, gone / name)
        for name in sorted(_tops(new), key=lambda top: (aside / top).is_file()):  # a page after its tables
            os.rename(aside / name, folder / name)
    finally:
        shutil.rmtree(gone, ignore_errors=True)
    write_json(folder / WRITTEN, {"what": what, "files": new})
    sync(folder)


def _foreign(folder: Path, what: str) -> Iterable[str]:
    ours = set(_ours(folder, what))
    for name in _names(folder):
        top = name.split("/")[0]
        if name not in ours and name != WRITTEN and not (top.startswith(".") and top.endswith(TEMPORARY)):
            yield name


def _ours(folder: Path, what: str) -> list[str]:
    """What an earlier call wrote here, by its own account."""
    try:
        written = read_json(folder / WRITTEN)
        return [str(name) for name in written["files"]] if written["what"] == what else []
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _names(folder: Path) -> list[str]:
    return sorted(name for name, _ in files_of(folder))


def _tops(names: Iterable[str]) -> list[str]:
    return sorted({name.split("/")[0] for name in names})


def _first_missing(folder: Path) -> Path | None:
    """The uppermost folder that has to be made."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    return missing[-1] if missing else None
