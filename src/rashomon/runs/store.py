"""Was this work done before? A directory of finished runs, each under the key of its specification.

``store.run`` returns the folder of a finished run, and makes it first if it is not there. Work happens in
``<kind>/<key>.partial``, which outlives a killed process so that the maker can go on from its checkpoints;
only whole runs are renamed to ``<kind>/<key>``. Files are JSON, Parquet and safetensors, never pickle, and
each is written aside and renamed, so that whatever is there is complete.
"""

from __future__ import annotations

import errno
import json
import logging
import math
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import platformdirs
from filelock import FileLock, Timeout

from rashomon.errors import UserError
from rashomon.runs.specifications import key as key_of
from rashomon.runs.specifications import to_plain

if TYPE_CHECKING:  # these take seconds to import, and listing runs does not need them
    import pandas as pd
    from torch import Tensor

log = logging.getLogger(__name__)

SPEC, META = "spec.json", "meta.json"  # written by the store; a maker leaves these two names alone
_PARTIAL, _TEMPORARY = ".partial", ".tmp"
_FULL = {errno.ENOSPC, errno.EDQUOT}
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
        with _disk_errors(self.root):
            if final.is_dir():
                return final
            with self._locked(kind, final.name):
                if not final.is_dir():
                    self._make(specification, final, make)
        return final

    def path(self, specification: object, kind: str) -> Path:
        """Where the run is, or will be, once it is finished."""
        return self.root / kind / key_of(specification)

    def list(self) -> Runs:
        """All runs, the newest first, unfinished ones included."""
        infos = [_info(folder) for folder in self.root.glob("[!.]*/[!.]*") if folder.is_dir()]
        return sorted((info for info in infos if info), key=lambda info: info.created, reverse=True)

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
        trash = self.root / ".trash"
        with _disk_errors(self.root):
            try:
                with self._locked(info.kind, info.key, wait=False):
                    trash.mkdir(exist_ok=True)
                    info.path.rename(trash / uuid.uuid4().hex)
            except Timeout:
                raise UserError(f"Run {info.key} is being made by another process right now.") from None
            except FileNotFoundError:
                raise UserError(f"Run {info.key} was just finished or removed by another process.") from None
        shutil.rmtree(trash, ignore_errors=True)
        return info

    def _make(self, specification: object, final: Path, make: Callable[[Path], None]) -> None:
        partial = final.with_name(final.name + _PARTIAL)
        resumed = partial.is_dir()
        partial.mkdir(exist_ok=True)
        # a record in the folder means that the last attempt died between the end of its work and the rename
        if not (partial / META).is_file():
            for stray in partial.rglob(f".*{_TEMPORARY}"):  # what was being written when a process died
                stray.unlink()
            write_json(partial / SPEC, to_plain(specification))  # first: an unfinished run tells what it is
            start = time.perf_counter()
            make(partial)
            seconds = time.perf_counter() - start
            _sync_tree(partial)
            write_json(partial / META, _meta(final, seconds, resumed))
        partial.rename(final)
        _sync(final.parent)

    @contextmanager
    def _locked(self, kind: str, key: str, wait: bool = True) -> Iterator[None]:
        """Lock files stay: deleting one while another process waits for it would let two in."""
        folder = self.root / ".locks"
        folder.mkdir(parents=True, exist_ok=True)
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
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for name in ("rashomon", "torch", "transformers", "numpy", "scipy", "scikit-learn"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


# ---- files that are there in full or not at all


def write_bytes(path: Path, data: bytes) -> None:
    """Write aside, flush to disk, rename."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_TEMPORARY}")
    try:
        with aside.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def write_json(path: Path, data: Any) -> None:
    """JSON for programs and people; numbers that JSON does not have (NaN, infinity) become null."""
    text = json.dumps(_finite(data), indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, text.encode() + b"\n")


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_parquet(path: Path, frame: pd.DataFrame) -> None:
    buffer = BytesIO()
    frame.to_parquet(buffer)
    write_bytes(path, buffer.getvalue())


def read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    return pd.read_parquet(path)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Named tensors as safetensors; tied weights are written once for each of their names."""
    from safetensors.torch import save

    seen: set[int] = set()
    apart: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        plain = tensor.detach().cpu().contiguous()
        storage = plain.untyped_storage().data_ptr()
        apart[name] = plain.clone() if storage in seen else plain  # safetensors refuses shared memory
        seen.add(storage)
    write_bytes(path, save(apart))


def read_tensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = load_file(path)
    return tensors


def _finite(data: Any) -> Any:
    if isinstance(data, np.generic):
        data = data.item()
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {name: _finite(item) for name, item in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(item) for item in data]
    return data


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_tree(folder: Path) -> None:
    """Makers may write files by other means; all of it must be on disk before the run counts as finished."""
    for path in folder.rglob("*"):
        _sync(path)
    _sync(folder)


# ---- reading the directory


def _info(folder: Path) -> RunInfo | None:
    """``None`` for a folder that is not a run, or that was renamed or removed while it was looked at."""
    finished = not folder.name.endswith(_PARTIAL)
    try:
        meta = read_json(folder / META) if finished else {}
        specification = read_json(folder / SPEC)
        changed = datetime.fromtimestamp(folder.stat().st_mtime, UTC)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"The run in {folder} is damaged; delete the folder.") from error
    return RunInfo(
        kind=folder.parent.name,
        key=folder.name.removesuffix(_PARTIAL),
        path=folder,
        finished=finished,
        created=datetime.fromisoformat(meta["created"]) if finished else changed,
        seconds=meta.get("seconds"),
        bytes=_size(folder),
        specification=specification,
        versions=meta.get("versions", {}),
    )


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a run at work replaces its files
            total += path.stat().st_size if path.is_file() else 0
    return total


def _matches(info: RunInfo, prefix: str) -> bool:
    return bool(prefix) and (info.key.startswith(prefix) or f"{info.kind}/{info.key}".startswith(prefix))


@contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    """A full disk or a store that may not be written is for the user to mend; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise UserError(
                f"The disk of the run store {root} is full; make room or choose another."
            ) from error
        if error.errno in _REFUSED and error.filename is not None:
            path = Path(os.fsdecode(error.filename))
            if path.is_relative_to(root) or root.is_relative_to(path):  # not a file of the maker's own
                sentence = (
                    f"Cannot write to the run store {root} ({os.strerror(error.errno)}); choose another."
                )
                raise UserError(sentence) from error
        raise
