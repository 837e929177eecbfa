"""Is a finished run what its maker left? Every file has its checksum in the record, and the record has one too.

Looking costs the time of reading the files once. A process remembers what it has looked at, and looks again only
where size, time or inode of a file have changed since.
"""

from __future__ import annotations

import errno
import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rashomon.errors import UserError
from rashomon.runs.files import files_of, read_json

META = "meta.json"  # the record of a finished run, written last
_OWN = "sha256"  # the record's checksum of itself
_SETTLED = 0.1  # seconds; a file's time has steps, and a change within one cannot be told by it

_Seen = tuple[tuple[str, int, int, int, int], ...]
_sound: dict[Path, _Seen] = {}  # folders found sound by this process, and how their files looked then


def sealed(meta: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The record of ``folder`` with the checksums of its files and of itself."""
    files = {name: _measure(path) for name, path in files_of(folder) if name != META}
    record = {**meta, "files": files}
    return {**record, _OWN: _checksum(record)}


def damage(folder: Path, kind: str, key: str) -> list[str]:
    """What is wrong with the run in ``folder``, file by file; nothing when it is what its maker left."""
    try:
        looks = _looks(folder)
        if looks and _sound.get(folder) == looks:
            return []
        found = list(_compare(folder, kind, key))
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EIO):  # forbidden is not damaged
            raise UserError(f"Cannot read the run in {folder}: {error.strerror or error}.") from error
        return [f"{Path(error.filename or folder).name} cannot be read ({error.strerror})"]
    newest = max((max(changed, noted) for _, _, _, changed, noted in looks), default=0)
    if not found and time.time_ns() - newest > _SETTLED * 1e9:
        _sound[folder] = looks
    return found


def _compare(folder: Path, kind: str, key: str) -> Iterator[str]:
    there = dict(files_of(folder))
    if META not in there:
        yield f"{META} is missing"
        return
    try:
        record = read_json(there.pop(META))
        own = record.pop(_OWN)
        expected: dict[str, dict[str, Any]] = record["files"]
        about = (record["kind"], record["key"])
    except (ValueError, KeyError, TypeError, AttributeError):
        yield f"{META} is no record with checksums"
        return
    if own != _checksum(record):
        yield f"{META} was changed"
        return
    if about != (kind, key):
        yield f"{META} is the record of {'/'.join(about)}"
        return
    for name in sorted(expected.keys() | there.keys()):
        if name not in there:
            yield f"{name} is missing"
        elif name not in expected:
            yield f"{name} was added"
        elif (found := _measure(there[name])) != expected[name]:
            yield _difference(name, found["bytes"], expected[name]["bytes"])


def _difference(name: str, bytes_: int, expected: int) -> str:
    if bytes_ == expected:
        return f"{name} was changed"
    return f"{name} has {bytes_:,} of {expected:,} bytes" if bytes_ < expected else f"{name} has grown"


def _measure(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return {"bytes": stream.tell(), "sha256": digest}


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _looks(folder: Path) -> _Seen:
    found = [(name, path.stat()) for name, path in files_of(folder)]
    return tuple(sorted((n, s.st_size, s.st_ino, s.st_mtime_ns, s.st_ctime_ns) for n, s in found))
