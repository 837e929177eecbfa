"""What every measure works on and says about itself: ragged rows of scores, and the record of a measure.

Texts differ in length, and shared padding fakes agreement (two independent vectors of 30 scores go from a
tau of .03 to .68 after 30 common zeros). So scores travel as `Ragged`: one flat array and where each text
starts. There is no padding that a measure could forget to mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rashomon.errors import UserError
from rashomon.registry import Registry

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Rows of different lengths: row i is ``values[starts[i]:starts[i + 1]]``."""

    values: Floats
    starts: Ints

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", np.ascontiguousarray(self.values, dtype=np.float64))
        object.__setattr__(self, "starts", np.ascontiguousarray(self.starts, dtype=np.int64))
        starts = self.starts
        if starts.ndim != 1 or len(starts) == 0 or starts[0] != 0 or starts[-1] != self.values.size:
            raise ValueError("the starts of ragged rows run from 0 to the number of values")
        if self.values.ndim != 1 or (np.diff(starts) < 0).any():
            raise ValueError("ragged rows are one flat array and starts that never decrease")

    @classmethod
    def from_list(cls, rows: Iterable[ArrayLike]) -> Ragged:
        """One row per item, each a sequence of numbers."""
        arrays = [np.asarray(row, dtype=np.float64).ravel() for row in rows]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in arrays])])
        return cls(np.concatenate([*arrays, np.empty(0)]), starts.astype(np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def row(self, i: int) -> Floats:
        return self.values[self.starts[i] : self.starts[i + 1]]

    @property
    def lengths(self) -> Ints:
        return np.diff(self.starts)

    @property
    def row_ids(self) -> Ints:
        """For every value, the number of its row."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def with_values(self, values: NDArray[Any]) -> Ragged:
        """The same rows with other values."""
        return Ragged(values.astype(np.float64), self.starts)

    def select(self, keep: Bools) -> Ragged:
        """Only the marked values of each row; a row may become empty."""
        counts = np.concatenate([[0], np.cumsum(keep)])
        return Ragged(self.values[keep], counts[self.starts])

    def split(self, flat: NDArray[Any]) -> list[NDArray[Any]]:
        """A flat array that runs along ``values``, cut into one array per row."""
        return np.split(flat, self.starts[1:-1])

    def reduce(self, ufunc: np.ufunc, flat: NDArray[Any], empty: float = 0.0) -> Floats:
        """``ufunc`` over each row of a flat array that runs along ``values``; ``empty`` for rows of none."""
        result = np.full(len(self), empty)
        filled = self.lengths > 0  # reduceat reads a wrong value for an empty row, so those are left out
        if filled.any():
            result[filled] = ufunc.reduceat(flat.astype(np.float64), self.starts[:-1][filled])
        return result

    def sum(self, flat: NDArray[Any]) -> Floats:
        """The sum over each row of a flat array that runs along ``values``."""
        return self.reduce(np.add, flat)


def as_floats(values: ArrayLike, what: str) -> Floats:
    """An array of numbers from whatever holds them; ``what`` begins the sentence that refuses anything else."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{what} must be numbers, in rows of equal length.") from error


def check_same_rows(*rows: Ragged) -> None:
    """Two methods can only be compared on the same tokens of the same texts."""
    for other in rows[1:]:
        if not np.array_equal(rows[0].starts, other.starts):
            raise UserError(
                "The scores to compare cover different tokens; explain the same texts with both methods, "
                "at the same granularity."
            )


def speechless(row: Ragged) -> Bools:
    """Rows that rank nothing: fewer than two values, all values equal, or a value that is not a number."""
    highest, lowest = row.reduce(np.maximum, row.values), row.reduce(np.minimum, row.values)
    broken = ~np.isfinite(highest) | ~np.isfinite(lowest)
    return np.asarray((row.lengths < 2) | broken | (highest == lowest))


Family = Literal["agreement", "divergence", "erasure", "recovery"]
Function = TypeVar("Function", bound=Callable[..., Floats])


@dataclass(frozen=True, slots=True)
class Measure:
    """A function on arrays with what a table, a colour scale or a reader must know about it.

    Agreement, divergence and recovery take two `Ragged` (two methods; two distributions; scores and a 0/1
    rationale), erasure takes arrays of probabilities. All return one value per instance, NaN = undefined.
    """

    name: str
    function: Callable[..., Floats]
    low: float
    high: float
    better: Literal["higher", "lower"] | None
    family: Family
    summary: str
    undefined: str

    def __call__(self, *arguments: Any) -> Floats:
        return self.function(*arguments)


measures: Registry[Measure] = Registry("measure", "measures", "rashomon.measures")


def measure(
    name: str,
    *,
    bounds: tuple[float, float],
    better: Literal["higher", "lower"] | None,
    family: Family,
    undefined: str,
    summary: str = "",
) -> Callable[[Function], Function]:
    """Decorator: registers a function as a measure and leaves it a plain function."""

    def decorate(function: Function) -> Function:
        line = summary or (function.__doc__ or "").strip().split("\n")[0]
        record = Measure(name, function, bounds[0], bounds[1], better, family, line, undefined)
        measures.register(name, line)(record)
        return function

    return decorate


def family_of(family: Family) -> Sequence[Measure]:
    """The registered measures of one family, by name."""
    return [entry.value for entry in measures if entry.value.family == family]
