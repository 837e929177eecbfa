"""What users feed in, and how it comes damaged: texts of every script, JSON of every shape, bytes that were hit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

ODD = [
    "",
    " ",
    "\x00",
    "\ufeff",
    "\u2028",
    "\r",
    '"',
    "'",
    ",",
    "\t",
    "\\",
    "nan",
    "None",
    "1e999",
    "🙂",
    "é",
    "ß",
    "\u0301",
]
WORDS = [
    "a",
    "good",
    "film",
    "don't",
    "well-made",
    "3.5",
    "1,000",
    "ǅ",
    "日本",
    "हिन्दी",
    "...",
    "[CLS]",
    "##s",
    "Ġthe",
    *ODD,
]
NUMBERS = [0, 1, -1, 2, 1.0, 0.5, -0.0, 1e308, 2**31, 2**63, 10**400, float("nan"), float("inf"), True, False]
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1", "cp1252", "shift_jis", "cp037"]

texts = st.lists(st.sampled_from(WORDS) | st.text(max_size=8), max_size=8).map(" ".join)
spoken = texts.filter(lambda text: bool(text.strip()))
single_words = st.sampled_from([word for word in WORDS if word.split() == [word]]) | st.text(
    st.characters(exclude_categories=["Z", "Cc", "Cs"]), min_size=1, max_size=5
)
odd_numbers = st.sampled_from(NUMBERS) | st.integers() | st.floats()
scalars = st.none() | odd_numbers | texts
json_values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)


@st.composite
def hit(draw: st.DrawFn, data: bytes) -> bytes:
    """Bytes after one to four accidents."""
    for _ in range(draw(st.integers(1, 4))):
        data = draw(st.sampled_from(ACCIDENTS))(draw, data)
    return data


def _place(draw: st.DrawFn, data: bytes) -> int:
    """Drawn as a share, so that the same draws fit data whose length varies with the time they were made."""
    return len(data) * draw(st.integers(0, 10_000)) // 10_000


def _cut(draw: st.DrawFn, data: bytes) -> bytes:
    return data[: _place(draw, data)]


def _beheaded(draw: st.DrawFn, data: bytes) -> bytes:
    return data[_place(draw, data) :]


def _flipped(draw: st.DrawFn, data: bytes) -> bytes:
    if not data:
        return data
    place = min(_place(draw, data), len(data) - 1)
    return data[:place] + bytes([data[place] ^ draw(st.integers(1, 255))]) + data[place + 1 :]


def _inserted(draw: st.DrawFn, data: bytes) -> bytes:
    place = _place(draw, data)
    odd = st.binary(max_size=6) | st.sampled_from([word.encode() for word in ODD])
    return data[:place] + draw(odd) + data[place:]


def _doubled(draw: st.DrawFn, data: bytes) -> bytes:
    first, last = sorted((_place(draw, data), _place(draw, data)))
    return data[:last] + data[first:last] + data[last:]


def _zeroed(draw: st.DrawFn, data: bytes) -> bytes:
    first, last = sorted((_place(draw, data), _place(draw, data)))
    return data[:first] + bytes(last - first) + data[last:]


ACCIDENTS: list[Callable[[st.DrawFn, bytes], bytes]] = [
    _cut,
    _beheaded,
    _flipped,
    _inserted,
    _doubled,
    _zeroed,
]


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """A JSON document of which one to three values, at any depth, are gone, another or under another name."""
    for _ in range(draw(st.integers(1, 3))):
        ways = sorted(_ways(document), key=str)
        document = _changed_at(draw, document, draw(st.sampled_from(ways)))
    return document


def _ways(value: Any) -> Iterator[tuple[Any, ...]]:
    """The way to every value: names and positions, from the outside in."""
    yield ()
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in inside:
        yield from ((name, *way) for way in _ways(inner))


def _changed_at(draw: st.DrawFn, value: Any, way: tuple[Any, ...]) -> Any:
    if not way:
        return draw(json_values)
    first, rest = way[0], way[1:]
    how = "deeper" if rest else draw(st.sampled_from(["deeper", "deeper", "gone", "renamed"]))
    if isinstance(value, dict):
        others = {name: inner for name, inner in value.items() if name != first}
        if how == "deeper":
            return {**value, first: _changed_at(draw, value[first], rest)}
        return (
            others
            if how == "gone"
            else {**others, draw(st.sampled_from(sorted(value)) | texts): value[first]}
        )
    inner = [_changed_at(draw, value[first], rest)] if how == "deeper" else []
    return [*value[:first], *inner, *value[first + 1 :]]
