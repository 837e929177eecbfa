"""Finished work is kept and found again; independent work is spread over processes."""

from rashomon.runs.executor import Backend, one_thread, run_tasks
from rashomon.runs.files import (
    read_json,
    read_parquet,
    read_tensors,
    write_bytes,
    write_json,
    write_parquet,
    write_tensors,
)
from rashomon.runs.specifications import from_plain, key, to_plain
from rashomon.runs.store import RunInfo, Store, default_root, library_versions

__all__ = [
    "Backend",
    "RunInfo",
    "Store",
    "default_root",
    "from_plain",
    "key",
    "library_versions",
    "one_thread",
    "read_json",
    "read_parquet",
    "read_tensors",
    "run_tasks",
    "to_plain",
    "write_bytes",
    "write_json",
    "write_parquet",
    "write_tensors",
]
