"""What is to be wary of in the explanations of a method? Each kind of warning once, with the texts that it is of."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rashomon.explainers import Explanation

_NUMBER = re.compile(r"(?:(?<!\w)-)?\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Caution:
    """A warning that so many of a method's explanations carry."""

    method: str
    about: str
    texts: int
    of: int

    @property
    def kind(self) -> tuple[str, str]:
        """What it is of and about, whatever its numbers: other texts have others."""
        return self.method, re.sub(r"#(?: to #)?", "#", _NUMBER.sub("#", self.about))

    def __str__(self) -> str:
        return f"{self.method}: {self.about} ({self.texts:,} of {self.of:,} texts)"


def together(cautions: Iterable[Caution]) -> tuple[Caution, ...]:
    """Those of several models as one: each kind once, its texts counted over all of them."""
    kinds: dict[tuple[str, str], Caution] = {}
    for one in cautions:
        known = kinds.get(one.kind)
        texts, of = (one.texts, one.of) if known is None else (known.texts + one.texts, known.of + one.of)
        kinds[one.kind] = replace(known or one, texts=texts, of=of)
    return tuple(kinds.values())


def cautions_of(explanations: Iterable[Explanation]) -> tuple[Caution, ...]:
    """One for each method and kind of warning. Numbers that differ from text to text become a range."""
    records = list(explanations)
    total = Counter(item.method for item in records)
    kinds: dict[tuple[str, str], list[str]] = {}
    for item in records:
        for warning in item.warnings:
            kinds.setdefault((item.method, _NUMBER.sub("#", warning)), []).append(warning)
    return tuple(
        Caution(method, _in_common(texts), len(texts), total[method]) for (method, _), texts in kinds.items()
    )


def _in_common(texts: list[str]) -> str:
    """``2 to 4 of 5 tokens`` for ``4 of 5 tokens`` and ``2 of 5 tokens``."""
    columns = iter(
        [sorted(set(found), key=float) for found in zip(*map(_NUMBER.findall, texts), strict=True)]
    )

    def written(_: re.Match[str]) -> str:
        values = next(columns)
        return values[0] if len(values) == 1 else f"{values[0]} to {values[-1]}"

    return _NUMBER.sub(written, texts[0])
