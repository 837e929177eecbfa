"""How is a file written so that it is there in full or not at all? Aside, flushed to disk, then renamed.

JSON, Parquet and safetensors, never pickle. Tensors carry a checksum of their own, because a checkpoint of
unfinished work is in no record yet.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rashomon.errors import UserError

if TYPE_CHECKING:  # these take seconds to import, and listing runs does not need them
    import pandas as pd
    from torch import Tensor

TEMPORARY = ".tmp"
_FULL = {errno.ENOSPC, errno.EDQUOT}
_FROM_OUTSIDE = (".DS_Store", "Thumbs.db", "desktop.ini")  # file managers leave these wherever one looks
_CHECKSUM = "sha256"  # in the metadata of a safetensors file
_OF_OTHERS: tuple[dict[str, str], ...] = (
    {},
    {"format": "pt"},
)  # the metadata of transformers, which has none


def aside_of(path: Path) -> Path:
    """A hidden name beside ``path`` that nobody else uses; ``remove_strays`` knows it again."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}{TEMPORARY}")


def remove_strays(folder: Path) -> None:
    """Delete what was being written below ``folder`` when a process died."""
    for stray in list(folder.rglob(f".*{TEMPORARY}")):
        if stray.is_dir():
            shutil.rmtree(stray)
        else:
            stray.unlink(missing_ok=True)  # it may have been in a folder that is gone already


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """All files below ``folder`` with their names in it, but for what file managers and NFS put there."""
    for path in folder.rglob("*"):
        if not path.is_dir() and path.name not in _FROM_OUTSIDE and not path.name.startswith(".nfs"):
            yield path.relative_to(folder).as_posix(), path


_flushed_later: ContextVar[bool] = ContextVar("flushed_later", default=False)


@contextmanager
def flushed_later() -> Iterator[None]:
    """What is written inside is not flushed to disk file by file: whoever opened this flushes all of it at its end."""
    token = _flushed_later.set(True)
    try:
        yield
    finally:
        _flushed_later.reset(token)


def write_bytes(path: Path, data: bytes) -> None:
    """Write aside, flush to disk, rename."""
    aside = aside_of(path)
    try:
        with aside.open("wb") as stream:
            stream.write(data)
            if not _flushed_later.get():
                stream.flush()
                os.fsync(stream.fileno())
        aside.replace(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


@contextmanager
def written_or_told(sentence: str) -> Iterator[None]:
    """``sentence`` and the reason, where what is inside cannot be written."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError) or disk_is_full(error):
            reason = os.strerror(errno.ENOSPC) if disk_is_full(error) else getattr(error, "strerror", None)
            raise UserError(f"{sentence}: {reason or error}; choose another place.") from error
        raise


def disk_is_full(error: BaseException) -> bool:
    """Also when an error is told in other words: safetensors writes without Python and has an error of its own."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    if isinstance(error, UserError):
        return error.__cause__ is not None and disk_is_full(error.__cause__)
    return any(f"os error {number}" in str(error) for number in _FULL)


def write_json(path: Path, data: Any, *, compact: bool = False) -> None:
    """JSON for programs and people; numbers that JSON does not have (NaN, infinity) become null.

    ``compact`` is for tables of many rows, which Python otherwise takes seconds to put on lines of their own.
    """
    indent = None if compact else 1
    try:
        text = json.dumps(data, indent=indent, ensure_ascii=False, allow_nan=False)
    except (
        TypeError,
        ValueError,
    ):  # most data have no such numbers, and looking at each takes as long as writing
        text = json.dumps(finite(data), indent=indent, ensure_ascii=False, allow_nan=False)
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
    write_bytes(path, save(apart, metadata={_CHECKSUM: _checksum(apart)}))


def read_tensors(path: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = load_file(path)
    return tensors


def intact_tensors(path: Path) -> bool:
    """Whether a safetensors file can be read and holds what was written; files of other writers can only be read."""
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        tensors = load_file(path)
    except (OSError, SafetensorError, ValueError):
        return False
    return metadata in _OF_OTHERS or metadata.get(_CHECKSUM) == _checksum(tensors)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """However the files were written: all of it must be on disk before the folder counts as finished."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # a run at work replaces its files
            continue
    return total


def finite(data: Any) -> Any:
    """JSON has no NaN and no infinity; they become null."""
    if isinstance(data, np.generic):
        data = data.item()
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {name: finite(item) for name, item in data.items()}
    if isinstance(data, list | tuple):
        return [finite(item) for item in data]
    return data


def _checksum(tensors: Mapping[str, Tensor]) -> str:
    import torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)};".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
