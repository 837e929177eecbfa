"""How are numbers written for people? The one place that turns figures, p-values, shares and times into text.

Sentences and the terminal write ``0.42``; the page writes ``.42`` and a true minus, as papers do. Nothing heavy is
imported here, because the command line writes before it loads anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

DASH = "–"  # on the page, for what is undefined
UNDEFINED = "undefined"
SMALL = 0.01  # below it, three digits behind the point would make one of .0005 and .0008
NOTHING = 1e-12  # what arithmetic leaves of zero
LEAST_P = 0.001
INTERVAL_COLUMNS = ("mean", "mean [95 %]", "mean (range)", "mean [95 %] or (range)")


def decimal(value: float, digits: int = 2) -> str:
    """``0.42``; never ``-0.00``."""
    if math.isnan(value):
        return UNDEFINED
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def with_interval(row: Mapping[str, Any], digits: int = 2) -> str:
    """``0.42 [0.38, 0.46]``, the mean with its 95 % interval; ``0.42 (0.38 to 0.46)`` where there is only a range."""
    mean, low, high = (float(row[name]) for name in ("mean", "low", "high"))
    if math.isnan(mean) or math.isnan(low):
        return decimal(mean, digits)
    least, most = decimal(low, digits), decimal(high, digits)
    if row.get("interval") == "range":
        return f"{decimal(mean, digits)} ({least} to {most})"
    return f"{decimal(mean, digits)} [{least}, {most}]"


def interval_words(kinds: Iterable[str]) -> str:
    """What the intervals of a table or a figure are, for its caption: every kind that occurs in it."""
    names = {"95 %": "95 % interval", "range": "range over two (too few for an interval)"}
    return " or ".join(names[kind] for kind in dict.fromkeys(kinds) if kind in names) or "no interval"


def interval_column(kinds: Iterable[str]) -> str:
    """The head of a column of `with_interval`."""
    known, *ways = INTERVAL_COLUMNS
    return {"": known, "95 %": ways[0], "range": ways[1]}.get("".join(set(kinds) - {"none"}), ways[2])


def p_value(p: float) -> str:
    """``p = .034``, ``p < .001``; never ``p = .000``, which no test can say."""
    if math.isnan(p):
        return f"p {UNDEFINED}"
    if p < LEAST_P:
        return "p < .001"
    return f"p = {_bare(decimal(p, 3))}"


def percent(share: float, digits: int = 0) -> str:
    """``42%`` of a share from 0 to 1."""
    return UNDEFINED if math.isnan(share) else f"{decimal(100 * share, digits)}%"


def sample(n: float) -> str:
    """``n = 1,200``."""
    return f"n = {int(n):,}"


def how_many(count: float, noun: str) -> str:
    """``1 seed``, ``1,200 seeds``."""
    return f"{int(count):,} {noun}{'' if int(count) == 1 else 's'}"


def number(value: Any, digits: int = 2) -> str:
    """A number as papers print it: ``.42``, ``−.10``, ``1.00``, ``12,345``; a dash where it is undefined."""
    if value is None or not math.isfinite(float(value)):
        infinite = value is not None and math.isinf(float(value))
        return ("∞" if value > 0 else "−∞") if infinite else DASH
    if isinstance(value, Integral):
        return f"{int(value):,}".replace("-", "−")
    size = _settled(abs(float(value)))
    if 0 < size < 0.5 * 10.0**-digits:
        text = _power(f"{size:.0e}")
    else:
        text = f"{size:,.{digits}f}" if size < 1000 else f"{size:,.0f}"
    return f"−{_bare(text)}" if value < 0 and size else _bare(text)


def brief(value: float) -> str:
    """The end of a scale: ``0``, ``1``, ``−.2``, ``.001``."""
    size = f"{abs(value):.2g}"
    return f"−{_bare(size)}" if value < 0 and float(size) else _bare(size)


def cell(value: Any, column: str = "") -> str:
    """Anything that may stand in a table of the page."""
    if _is_truth(value):
        return "yes" if value else "no"
    if isinstance(value, Real):
        if _is_p(column) and 0 <= float(value) < LEAST_P:
            return "< .001"
        # A lambda of .000525 and one of .0008 are not both .001.
        size = _settled(float(value))
        return _bare(_power(f"{size:.3g}")) if 0 < abs(size) < SMALL else number(value, 3)
    if isinstance(value, list | tuple | set | frozenset) or hasattr(value, "tolist"):
        return ", ".join(cell(item) for item in value)
    return DASH if _is_missing(value) else str(value)


def plain_cell(value: Any, column: str = "") -> str:
    """Anything that may stand in a table of the terminal."""
    if not isinstance(value, Real) or isinstance(value, Integral):
        return str(value)
    if math.isnan(value):
        return UNDEFINED
    if _is_p(column) and 0 <= float(value) < LEAST_P:
        return "< .001"
    size = _settled(float(value))
    return f"{size:.3g}" if 0 < abs(size) < SMALL else decimal(size, 3)


def duration(seconds: float) -> str:
    """Seconds as one would say them."""
    if not math.isfinite(seconds):
        return "unknown time"
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def milliseconds(seconds: float) -> str:
    """``12 ms``, below ten with a digit behind the point."""
    return f"{seconds * 1000:.{0 if seconds >= 0.01 else 1}f} ms"


def size(count: float) -> str:
    """Bytes as one would say them."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def ranges(numbers: Iterable[int], most: int = 50) -> str:
    """``3, 7-9 and 12``: whole numbers in order, neighbours together; after ``most`` of these, how many more."""
    runs: list[list[int]] = []
    for value in sorted(set(numbers)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in runs[:most]]
    more = sum(last - first + 1 for first, last in runs[most:])
    if more:
        parts.append(f"{more:,} more")
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def capitalised(text: str) -> str:
    """For the start of a sentence; names such as ``myIG`` keep their other letters."""
    return text[:1].upper() + text[1:]


def _settled(value: float) -> float:
    return 0.0 if abs(value) < NOTHING else value


def _bare(text: str) -> str:
    """Without the zero before the point."""
    return text.replace("0.", ".", 1) if text.lstrip("−").startswith("0.") else text


def _power(text: str) -> str:
    return text.replace("e-0", "e−").replace("-", "−")


def _is_p(column: str) -> bool:
    return column == "p" or column.startswith("p_")


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")  # NumPy's, without NumPy


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType")  # pandas', without pandas
