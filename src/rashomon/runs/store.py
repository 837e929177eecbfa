"""Was this work done before? A directory of finished runs, each under the key of its specification.

``store.run`` returns the folder of a finished run, and makes it first if it is not there. Work happens in
``<kind>/<key>.partial``, which outlives a killed process so that the maker can go on from its checkpoints;
only whole runs are renamed to ``<kind>/<key>``. A finished run is compared with its checksums when a process
first looks at it; one that was damaged is moved to ``.damaged``, and made again.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import platformdirs
from filelock import FileLock, Timeout

from rashomon.errors import Caution, UserError
from rashomon.runs.files import (
    disk_is_full,
    flushed_later,
    intact_tensors,
    read_json,
    remove_strays,
    size_of,
    sync,
    sync_tree,
    write_json,
)
from rashomon.runs.found import note_found
from rashomon.runs.integrity import META, damage, sealed
from rashomon.runs.specifications import key as key_of
from rashomon.runs.specifications import to_plain

log = logging.getLogger(__name__)

SPEC = "spec.json"  # written by the store, like the record; a maker leaves these two names alone
_PARTIAL = ".partial"
_DAMAGED, _TRASH = ".damaged", ".trash"
_KEY = re.compile(r"[0-9a-f]{20}")
_REFUSED = {
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENAMETOOLONG,
}


def default_root() -> Path:
    """``$RASHOMON_STORE``, else the user's cache directory."""
    chosen = os.environ.get("RASHOMON_STORE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("rashomon") / "runs"


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run as it lies on disk. ``created`` is when it was finished, or last worked on."""

    kind: str
    key: str
    path: Path
    finished: bool
    created: datetime
    seconds: float | None  # of the attempt that finished it
    bytes: int
    specification: Any
    versions: Mapping[str, str]
    damage: tuple[str, ...] = ()  # what is wrong with its files, as far as was looked


@dataclass(frozen=True, slots=True)
class Leftover:
    """What can be deleted without losing a finished run."""

    what: str  # "unfinished", "damaged" or "removed"
    name: str
    path: Path
    bytes: int


Runs = list[RunInfo]  # inside the class, ``list`` is a method


@dataclass(frozen=True)
class Store:
    """Finished and unfinished runs below ``root``, which is made when first written to."""

    root: Path = field(default_factory=default_root)

    def run(self, specification: object, kind: str, make: Callable[[Path], None]) -> Path:
        """The folder of the finished run; ``make(folder)`` fills it if this was not done before.

        The folder given to ``make`` holds what an interrupted attempt left there. However many processes ask,
        one at a time makes, and the others wait and find it done.
        """
        final = self.path(specification, kind)
        if self._finished(final):
            return final
        with disk_errors(self.root), self._locked(kind, final.name):
            if not self._is_sound(final):  # another process may have made it in the meantime
                self._make(specification, final, make)
        return final

    def finished(self, specification: object, kind: str) -> bool:
        """Whether the run is there, whole. A damaged one is told and moved away, so that it is made again."""
        return self._finished(self.path(specification, kind))

    def path(self, specification: object, kind: str) -> Path:
        """Where the run is, or will be, once it is finished."""
        return self.root / kind / key_of(specification)

    def list(self, kind: str = "[!.]*") -> Runs:
        """All runs or those of a kind, the newest first, unfinished ones too. Of damage, that of records is seen."""
        infos = [_info(folder) for folder in self.root.glob(f"{kind}/[!.]*") if folder.is_dir()]
        return sorted((info for info in infos if info), key=lambda info: info.created, reverse=True)

    def verify(self) -> Iterator[RunInfo]:
        """Every finished run, compared with its checksums; nothing is moved."""
        for info in self.list():
            if info.finished:
                yield replace(info, damage=tuple(damage(info.path, info.kind, info.key)))

    def leftovers(self) -> Sequence[Leftover]:
        """Unfinished runs nobody works on, damaged ones, and what was removed but not deleted to the end."""
        unfinished = [i for i in self.list() if not i.finished and not self._at_work(i.kind, i.key)]
        found = [Leftover("unfinished", f"{i.kind}/{i.key}", i.path, i.bytes) for i in unfinished]
        spoilt = [info for info in self.verify() if info.damage]
        found += [Leftover("damaged", f"{i.kind}/{i.key}", i.path, i.bytes) for i in spoilt]
        for folder, what in ((_DAMAGED, "damaged"), (_TRASH, "removed")):
            inside = sorted((self.root / folder).glob("*"))
            found += [Leftover(what, path.name, path, size_of(path)) for path in inside]
        return found

    def delete(self, leftovers: Sequence[Leftover]) -> None:
        """Delete what ``leftovers`` found. What another process has begun to work on since then stays."""
        for leftover in leftovers:
            if leftover.path.parent.name in (_DAMAGED, _TRASH):
                shutil.rmtree(leftover.path, ignore_errors=True)
                continue
            with disk_errors(self.root):
                kind, key = leftover.path.parent.name, leftover.path.name.removesuffix(_PARTIAL)
                try:
                    with self._locked(kind, key, wait=False):
                        self._move(leftover.path, _TRASH)
                except (Timeout, FileNotFoundError):
                    continue
        shutil.rmtree(self.root / _TRASH, ignore_errors=True)

    def show(self, prefix: str) -> RunInfo:
        """The run whose key begins so; ``kind/key`` tells apart two kinds with one key."""
        found = [info for info in self.list() if _matches(info, prefix)]
        if not found:
            raise UserError(f"No run in {self.root} has a key that begins with {prefix!r}.")
        if len(found) > 1:
            names = ", ".join(f"{info.kind}/{info.key}" for info in found[:5])
            raise UserError(f"{prefix!r} fits {len(found)} runs ({names}); give more of the key.")
        return found[0]

    def remove(self, prefix: str) -> RunInfo:
        """Delete one run. It is first moved out of sight, so that no half of it is ever found."""
        info = self.show(prefix)
        with disk_errors(self.root):
            try:
                with self._locked(info.kind, info.key, wait=False):
                    self._move(info.path, _TRASH)
            except Timeout:
                raise UserError(f"Run {info.key} is being made by another process right now.") from None
            except FileNotFoundError:
                raise UserError(f"Run {info.key} was just finished or removed by another process.") from None
        shutil.rmtree(self.root / _TRASH, ignore_errors=True)
        return info

    def _make(self, specification: object, final: Path, make: Callable[[Path], None]) -> None:
        partial = final.with_name(final.name + _PARTIAL)
        if partial.is_dir():
            self._look_through(partial)
        resumed = partial.is_dir()
        partial.mkdir(exist_ok=True)
        # a record in the folder means that the last attempt died between the end of its work and the rename
        if not (partial / META).is_file():
            with flushed_later():  # a machine that loses power loses the attempt, not what is finished
                write_json(partial / SPEC, to_plain(specification))  # first: it tells what is unfinished
                start = time.perf_counter()
                make(partial)
                seconds = time.perf_counter() - start
                write_json(partial / META, sealed(_meta(final, seconds, resumed), partial))
        sync_tree(partial)  # also of an attempt that died before it came to this
        partial.rename(final)
        sync(final.parent)

    def _look_through(self, partial: Path) -> None:
        """What an interrupted attempt left is used only if it is sound: whole records, whole checkpoints."""
        kind, key = partial.parent.name, partial.name.removesuffix(_PARTIAL)
        remove_strays(partial)
        if (partial / META).is_file():
            wrong = damage(partial, kind, key)
        else:
            tensors = sorted(partial.rglob("*.safetensors"))
            wrong = [f"{path.name} is damaged" for path in tensors if not intact_tensors(path)]
        if wrong:
            self._set_aside(partial, wrong)

    def _finished(self, final: Path) -> bool:
        if not final.is_dir():
            return False
        kind, key = final.parent.name, final.name
        if not damage(final, kind, key):
            note_found(final)
            return True
        with disk_errors(self.root), self._locked(kind, key):
            return self._is_sound(final)

    def _is_sound(self, final: Path) -> bool:
        """Called under the run's lock. What is damaged is not there afterwards."""
        if not final.is_dir():
            return False
        wrong = damage(final, final.parent.name, final.name)
        if wrong:
            self._set_aside(final, wrong)
        return not wrong

    def _set_aside(self, folder: Path, wrong: Sequence[str]) -> None:
        moved = self._move(folder, _DAMAGED)
        warnings.warn(
            f"The stored run {folder.parent.name}/{folder.name} was damaged ({_listed(wrong)}) and is made again; "
            f"what was there is in {moved} until `rashomon runs clean`.",
            Caution,
            stacklevel=2,
        )

    def _move(self, folder: Path, hidden: str) -> Path:
        """Out of sight in one step, so that no half of a run is ever found."""
        target = self.root / hidden / f"{folder.parent.name}-{folder.name}-{uuid.uuid4().hex[:8]}"
        target.parent.mkdir(exist_ok=True)
        return folder.rename(target)

    def _at_work(self, kind: str, key: str) -> bool:
        try:
            with self._locked(kind, key, wait=False):
                return False
        except Timeout:
            return True

    @contextmanager
    def _locked(self, kind: str, key: str, wait: bool = True) -> Iterator[None]:
        """Lock files stay: deleting one while another process waits for it would let two in."""
        folder = self.root / ".locks"
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError as error:  # in /proc and the like nothing can be made
            sentence = f"Cannot write to the run store {self.root} ({error.strerror}); choose another."
            raise UserError(sentence) from error
        (self.root / kind).mkdir(exist_ok=True)
        lock = FileLock(folder / f"{kind}-{key}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if not wait:
                raise
            log.info("waiting for another process that is making %s/%s", kind, key)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


def _meta(final: Path, seconds: float, resumed: bool) -> dict[str, Any]:
    return {
        "kind": final.parent.name,
        "key": final.name,
        "created": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "seconds": round(seconds, 3),
        "resumed": resumed,
        "versions": library_versions(),
    }


def library_versions() -> dict[str, str]:
    """What made this: the versions on which numbers may depend."""
    return dict(_installed())


@cache
def _installed() -> Mapping[str, str]:
    """Looked for once: it takes as long as a small run."""
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("rashomon", "torch", "transformers", "numpy", "scipy", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


# ---- reading the directory


def _info(folder: Path) -> RunInfo | None:
    """``None`` for a folder that is not a run, or that was renamed or removed while it was looked at."""
    finished = not folder.name.endswith(_PARTIAL)
    key = folder.name.removesuffix(_PARTIAL)
    if not _KEY.fullmatch(key):
        return None
    wrong: list[str] = []
    specification = _record(folder / SPEC, wrong)
    meta = _record(folder / META, wrong) if finished else {}
    try:
        created = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
    except FileNotFoundError:
        return None
    meta = meta if isinstance(meta, dict) else {}
    with suppress(KeyError, ValueError, TypeError):  # unfinished, or damaged
        created = datetime.fromisoformat(meta["created"])
    return RunInfo(
        kind=folder.parent.name,
        key=key,
        path=folder,
        finished=finished,
        created=created,
        seconds=meta.get("seconds"),
        bytes=size_of(folder),
        specification=specification,
        versions=meta.get("versions", {}),
        damage=tuple(wrong) if finished else (),
    )


def _record(path: Path, wrong: list[str]) -> Any:
    try:
        return read_json(path)
    except (OSError, ValueError) as error:
        wrong.append(f"{path.name} {'is missing' if isinstance(error, OSError) else 'is not JSON'}")
        return None


def _listed(wrong: Sequence[str]) -> str:
    return ", ".join(wrong[:3]) + (f" and {len(wrong) - 3} more" if len(wrong) > 3 else "")


def _matches(info: RunInfo, prefix: str) -> bool:
    return bool(prefix) and (info.key.startswith(prefix) or f"{info.kind}/{info.key}".startswith(prefix))


@contextmanager
def disk_errors(root: Path) -> Iterator[None]:
    """A full disk or a store that may not be written is for the user to mend; other errors pass."""
    try:
        yield
    except Exception as error:
        if disk_is_full(error):
            raise UserError(
                f"The disk of the run store {root} is full; make room or choose another."
            ) from error
        if isinstance(error, OSError) and error.errno in _REFUSED and error.filename is not None:
            path = Path(os.fsdecode(error.filename))
            if path.is_relative_to(root) or root.is_relative_to(path):  # not a file of the maker's own
                sentence = (
                    f"Cannot write to the run store {root} ({os.strerror(error.errno)}); choose another."
                )
                raise UserError(sentence) from error
        raise
