"""How do numbers become words, places and colours? The small arithmetic that all figures share.

Colours are chosen for readers who do not see red and green apart: violet and green for numbers, and for words
in a text the orange and blue of ``explainers.display``. Every coloured cell gets an ink with a contrast of at
least 4.5 to 1, computed here for the light and the dark page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rashomon.explainers.display import DARK, LEVELS, LIGHT, RGB
from rashomon.wording import number

STEPS = 10  # shades of a coloured cell on each side of zero
_POSITIVE: dict[str, RGB] = {"light": (74, 62, 150), "dark": (146, 132, 226)}
_NEGATIVE: dict[str, RGB] = {"light": (22, 118, 92), "dark": (70, 176, 142)}
_LINES = {  # variables of the style sheets, light and dark
    "quiet": ("#5a6068", "#a3a9b1"),
    "rule": ("#dfe2e6", "#343a42"),
    "panel": ("#f5f6f8", "#1e2329"),
    "s0": ("#4d5560", "#a9b3bf"),  # grey is for controls alone
    "s1": ("#4a3e96", "#9284e2"),
    "s2": ("#16765c", "#46b08e"),
    "s3": ("#b5540a", "#ea9a55"),
    "s4": ("#0b6fa8", "#62b4e6"),
    "s5": ("#a2306e", "#e58abb"),
    "s6": ("#6b6f00", "#bdc14a"),
    "s7": ("#7b4a1e", "#c99a6a"),
    "s8": ("#9c2020", "#f08a80"),
}


def finite(values: Iterable[Any]) -> list[float]:
    """The values that are numbers."""
    return [float(value) for value in values if value is not None and math.isfinite(float(value))]


def ticks(low: float, high: float, about: int = 6) -> list[float]:
    """Round places (steps of 1, 2 or 5) inside the range."""
    raw = (high - low) / max(about, 1)
    if not math.isfinite(raw) or raw <= 0:
        return [low] if math.isfinite(low) else []
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((factor * power for factor in (1, 2, 5) if factor * power >= raw * 0.999), 10 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [place * step for place in range(first, last + 1)]


def tick_labels(places: Sequence[float]) -> list[str]:
    """Labels with as many digits as tell the places apart."""
    if not places:
        return []
    step = places[1] - places[0] if len(places) > 1 else abs(places[0]) or 1.0
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    if digits > 4 or max(map(abs, places)) >= 1e6:
        return [f"{place:.3g}".replace("-", "−") for place in places]
    return [
        "0" if place == 0 else number(round(place, digits) if digits else round(place), digits)
        for place in places
    ]


@dataclass(frozen=True)
class Scale:
    """A linear axis from numbers to places on the page."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, margin: float = 0.04) -> Scale:
        """An axis that holds all values with a little room at both ends."""
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        room = (high - low) * margin or abs(high) * 0.1 or 0.5
        return cls(low - room, high + room, start, end)

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return self.start + share * (self.end - self.start)


def shade(value: float | None, span: tuple[float, float]) -> str:
    """The class of a cell's colour: ``p0`` to ``p10``, below zero ``n1`` to ``n10``, undefined ``na``.

    A span that holds zero inside is coloured from zero to both sides, another from its lower end.
    """
    if value is None or not math.isfinite(value):
        return "na"
    low, high = span
    if low < 0 < high:
        share = value / max(-low, high)
    else:
        share = (value - low) / (high - low) if high > low else 0.0
        share = max(share, 0.0)
    step = min(STEPS, round(abs(share) * STEPS))
    return f"n{step}" if share < 0 and step else f"p{step}"


def contrast(one: Sequence[int], other: Sequence[int]) -> float:
    """The contrast ratio of two colours as WCAG 2 defines it."""

    def luminance(rgb: Sequence[int]) -> float:
        parts = [value / 255 for value in rgb]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def mixed(full: RGB, paper: RGB, share: float) -> RGB:
    red, green, blue = (round(share * a + (1 - share) * b) for a, b in zip(full, paper, strict=True))
    return red, green, blue


def ink_on(background: RGB, ink: RGB) -> RGB:
    """The page's own ink where it can be read, else white or black."""
    choices: list[RGB] = [ink, (255, 255, 255), (0, 0, 0)]
    readable = [colour for colour in choices if contrast(colour, background) >= 4.5]
    return readable[0] if readable else max(choices, key=lambda colour: contrast(colour, background))


def colour_css(root: str = ":root") -> str:
    """Colours of lines and shades of cells and words as CSS, each light and dark; variables stand in ``root``."""
    lines = "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in _LINES.items())
    rules = [
        f"{root}{{{lines}--paper:{_both(LIGHT[0], DARK[0])};--ink:{_both(LIGHT[1], DARK[1])};"
        f"--for:{_both(LIGHT[2], DARK[2])};--against:{_both(LIGHT[3], DARK[3])};"
        f"--accent:{_both(_POSITIVE['light'], _POSITIVE['dark'])};"
        f"--counter:{_both(_NEGATIVE['light'], _NEGATIVE['dark'])}}}"
    ]
    for name, hue in (("p", _POSITIVE), ("n", _NEGATIVE)):
        for step in range(STEPS + 1):
            light = mixed(hue["light"], LIGHT[0], step / STEPS)
            dark = mixed(hue["dark"], DARK[0], step / STEPS)
            inks = _both(ink_on(light, LIGHT[1]), ink_on(dark, DARK[1]))
            shade = _both(light, dark)
            rules.append(f".{name}{step}{{background:{shade};fill:{shade};color:{inks}}}")
    for side in ("for", "against"):
        for level in range(1, LEVELS + 1):
            share = f"{100 * level / LEVELS:g}%"
            rules.append(
                f".{side}-{level}{{background:color-mix(in srgb,var(--{side}) {share},var(--paper))}}"
            )
    return "\n".join(rules)


def _both(light: RGB, dark: RGB) -> str:
    return f"light-dark({_hex(light)},{_hex(dark)})"


def _hex(rgb: RGB) -> str:
    return "#" + "".join(f"{value:02x}" for value in rgb)
