"""How does a table become one that a Parquet file can hold? With plain column names, and one kind of value a column."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pyarrow as pa


def tidy(frame: pd.DataFrame) -> pd.DataFrame:
    """The table with plain column names and an index that says nothing."""
    default = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
    flat = frame.copy() if default else frame.reset_index()
    flat.columns = pd.Index([_column(name) for name in flat.columns])
    return flat.reset_index(drop=True)


def storable(frame: pd.DataFrame) -> pd.DataFrame:
    """The table in columns that Parquet can hold: one of mixed kinds becomes text."""
    safe = frame.loc[:, ~frame.columns.duplicated()].copy()
    for name in safe.columns:
        try:
            pa.array(safe[name], from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError):
            safe[name] = [None if is_missing(value) else str(value) for value in safe[name]]
    return safe


def is_missing(value: Any) -> bool:
    return (
        value is pd.NA or value is pd.NaT or value is None or (isinstance(value, float) and math.isnan(value))
    )


def _column(name: Any) -> str:
    return " ".join(str(part) for part in name if str(part)) if isinstance(name, tuple) else str(name)
