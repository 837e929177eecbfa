"""Where in the text does each method look? Heatmaps on the original text, for terminals, notebooks and files.

Scores are led back to character spans of the original text (``heat_spans``, the one place that does it), so
that spaces stay and the sub-words of a word join up. Orange speaks for the explained class, blue against it:
hues that colour-blind readers can tell apart. The strongest tokens are also marked without colour and
listed with their scores. Everything that comes from a text or a model is escaped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jinja2 import DictLoader, Environment
from markupsafe import Markup
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.style import Style
from rich.table import Table
from rich.text import Text

from rashomon.explainers.display_templates import BODY, CSS, FRAGMENT, PAGE
from rashomon.explainers.record import UNKNOWN_TARGET, Explanation
from rashomon.wording import percent

STRONGEST = 3  # tokens marked and listed for each method
LEVELS = 8  # steps of colour on each side of zero
UNREAD = "unread"  # the class of what the model did not see
LEAST = 0.005  # share that is written as a whole percent

RGB = tuple[int, int, int]
# (background, text, for, against): the strongest colour still gives the text a contrast of 4.5 to 1 or more.
LIGHT: tuple[RGB, RGB, RGB, RGB] = ((255, 255, 255), (28, 30, 33), (230, 159, 0), (86, 180, 233))
DARK: tuple[RGB, RGB, RGB, RGB] = ((22, 25, 29), (232, 232, 232), (154, 75, 0), (31, 95, 153))


class HeatSpan(NamedTuple):
    """Characters ``start`` to ``end`` of the text of ``segment``; strength from -1 (against) to 1 (for)."""

    start: int
    end: int
    segment: int
    strength: float


class Piece(NamedTuple):
    """A stretch of the original text with one colour."""

    text: str
    strength: float
    top: bool  # one of the strongest tokens
    seen: bool = True  # by the model; what did not fit is neither for nor against


def heat_spans(explanation: Explanation) -> list[HeatSpan]:
    """The content tokens as spans of the original text, in order, without overlap.

    The strongest token of the explanation has strength 1 or -1. Tokens that share characters (the bytes of
    one character) are one span with the sum of their scores; tokens without a place in the text have none.
    """
    places: list[tuple[int, int, int, float]] = []
    finite = np.where(np.isfinite(explanation.scores), explanation.scores, 0.0)
    order = np.lexsort((explanation.offsets[:, 0], explanation.segments))
    order = order[explanation.content[order]]
    columns = (explanation.offsets[order], explanation.segments[order], finite[order])
    for (start, end), segment, score in zip(*(column.tolist() for column in columns), strict=True):
        if start == end:
            continue
        start, end = _without_spaces(explanation.text_of(segment), start, end)
        if places and places[-1][0] == segment and start < places[-1][2]:
            _, first, last, before = places.pop()
            start, end, score = first, max(end, last), score + before
        places.append((segment, start, end, score))
    peak = max((abs(score) for *_, score in places), default=0.0)
    return [
        HeatSpan(start, end, segment, score / peak if peak else 0.0) for segment, start, end, score in places
    ]


def _without_spaces(text: str, start: int, end: int) -> tuple[int, int]:
    """Many tokenisers count the space before a word as its own; colour on it would lean to one side."""
    token = text[start:end]
    if not token.strip():
        return start, end
    return end - len(token.lstrip()), start + len(token.rstrip())


def pieces(explanation: Explanation, segment: int = 0) -> list[Piece]:
    """The whole text of a segment, cut at the borders of its heat spans."""
    text = explanation.text_of(segment)
    spans = [span for span in heat_spans(explanation) if span.segment == segment]
    tops = [
        explanation.offsets[i].tolist() for i in _strongest(explanation) if explanation.segments[i] == segment
    ]
    cut = []
    for span in spans:
        top = any(start < span.end and span.start < end for start, end in tops)
        cut.append((span.start, span.end, span.strength, top))
    whole: list[Piece] = []
    edges = [(0, 0, 0.0, False), *cut, (len(text), len(text), 0.0, False)]
    for (_, before, _, _), (start, end, strength, top) in pairwise(edges):
        if before < start:
            whole.append(Piece(text[before:start], 0.0, False))
        if start < end:
            whole.append(Piece(text[start:end], strength, top))
    if explanation.unseen and whole and spans and len(text[spans[-1].end :].strip()):
        whole[-1] = whole[-1]._replace(seen=False)  # texts are cut at their end
    return whole


def strongest(explanation: Explanation) -> list[tuple[str, float]]:
    """The strongest content tokens that say anything, as they stand in the text, with their scores."""
    return [(explanation.surface(i).strip(), float(explanation.scores[i])) for i in _strongest(explanation)]


def by_example(explanations: Iterable[Explanation]) -> list[list[Explanation]]:
    """Explanations of one text together, in the order of first appearance."""
    groups: dict[tuple[str, str, str | None], list[Explanation]] = {}
    for item in explanations:
        groups.setdefault((item.example_id, item.text, item.text_pair), []).append(item)
    return list(groups.values())


def prediction(explanation: Explanation) -> str:
    """One line on what is explained, how sure the model was, and what it did not see."""
    share = explanation.unseen or 0.0
    text = "text" if explanation.text_pair is None else "texts"
    missed = (
        f"; {percent(share) if share >= LEAST else 'less than 1%'} of the {text} not seen" if share else ""
    )
    return f"{_explained(explanation)}{missed}"


def _explained(explanation: Explanation) -> str:
    target, probabilities = explanation.target, explanation.probabilities
    if explanation.answer is not None:
        sure = f" ({probabilities[0]:.1%})" if probabilities else ""
        return f"Answer: {explanation.target_label}{sure}"
    if target == UNKNOWN_TARGET:
        return f"Explained class: {explanation.target_label}"
    if len(probabilities) == 1:
        return f"Explained: {explanation.target_label}, the number that the model gives"
    if not 0 <= target < len(probabilities):
        return f"Explained class: {explanation.target_label} (probability unknown)"
    own, best = probabilities[target], max(probabilities)
    if own == best:
        return f"Prediction: {explanation.target_label} ({own:.1%})"
    other = f"the model predicts class number {probabilities.index(best)} ({best:.1%})"
    return f"Explained class: {explanation.target_label} ({own:.1%}); {other}"


def to_rich(explanations: Iterable[Explanation], dark: bool | None = None) -> RenderableType:
    """Explanations of one example for the terminal: the prediction, then one row a method, then warnings.

    ``dark`` says whether the terminal's background is; by default ``$COLORFGBG`` is asked, else dark.
    """
    palette = DARK if (_terminal_is_dark() if dark is None else dark) else LIGHT
    blocks: list[RenderableType] = []
    for group in by_example(explanations):
        blocks.append(Text.assemble((printable(prediction(group[0])), "bold"), end="\n"))
        table = Table(box=None, show_header=False, padding=(0, 2, 1, 0))
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        for item in group:
            name = Text.assemble(printable(item.method))
            for note in _notes(item, group):
                name.append(f"\n{printable(note)}", style="dim")
            table.add_row(name, _rich_cell(item, palette))
        blocks.append(table)
        for warning, methods in _warnings(group):
            line = Text.assemble(("! ", "bold"), printable(f"{', '.join(methods)}: {warning}"))
            blocks.append(Padding(line, (0, 0, 1, 0)))
    return Group(*blocks) if blocks else Text("No explanations.")


def legend(dark: bool | None = None) -> Text:
    """How to read ``to_rich``, with colour and without."""
    palette = DARK if (_terminal_is_dark() if dark is None else dark) else LIGHT
    return Text.assemble(
        (" for ", _style(1.0, True, palette)),
        " what is explained (+)   ",
        (" against ", _style(-1.0, True, palette)),
        " it (-)   strongest: bold; colours are scaled for each row",
    )


def to_html(explanations: Iterable[Explanation], title: str = "Explanations") -> str:
    """A whole page that needs nothing else: no scripts, no network, light and dark, wide and narrow."""
    groups = by_example(explanations)
    methods = list(dict.fromkeys(item.method for group in groups for item in group))
    context = {"title": title, "methods": methods, "css": _css(), **_context(groups)}
    return _TEMPLATES.get_template("page").render(context)


def to_html_fragment(explanations: Iterable[Explanation]) -> str:
    """The same for a notebook, or for a page that has its own frame."""
    return _TEMPLATES.get_template("fragment").render({"css": _css(), **_context(by_example(explanations))})


def heat_html(explanation: Explanation, segment: int = 0) -> Markup:
    """The text of a segment, escaped, with ``mark`` elements in the classes of the page's style sheet."""
    parts = []
    for text, strength, top, seen in pieces(explanation, segment):
        level = round(abs(strength) * LEVELS)
        if not seen:
            parts.append(f'<mark class="{UNREAD}">{escape(text)}</mark>')
            continue
        if level or top:
            side = "for" if strength > 0 else "against"
            names = f"{side}{' top' if top else ''}{f' {side}-{level}' if level else ''}"
            parts.append(f'<mark class="{names}">{escape(text)}</mark>')
        else:
            parts.append(escape(text))
    return Markup("".join(parts))


def _strongest(explanation: Explanation) -> list[int]:
    best = explanation.ranked(STRONGEST).tolist()
    scores = explanation.scores
    return [position for position in best if scores[position] != 0 and np.isfinite(scores[position])]


def _notes(item: Explanation, group: Sequence[Explanation]) -> list[str]:
    """What a row must say beside the method's name."""
    notes = []
    if item.unit == "word":
        notes.append(f"words ({item.merged_by})" if item.merged_by else "words")
    if item.gap is not None:
        notes.append(f"gap {item.gap:.1%}")
    if (item.target, item.target_label) != (group[0].target, group[0].target_label):
        notes.append(f"of {item.target_label}")
    if item.seed is not None and sum(other.method == item.method for other in group) > 1:
        notes.append(f"seed {item.seed}")
    return notes


def _warnings(group: Sequence[Explanation]) -> list[tuple[str, list[str]]]:
    """Each warning once, with the methods that it concerns."""
    found: dict[str, list[str]] = {}
    for item in group:
        for warning in item.warnings:
            methods = found.setdefault(warning, [])
            if item.method not in methods:
                methods.append(item.method)
    return list(found.items())


def _segments(item: Explanation) -> list[tuple[str, int]]:
    if item.text_pair is None:
        return [("", 0)]
    first, second = ("First text", "Second text") if item.answer is None else ("Question", "Passage")
    return [(first, 0), (second, 1)]


def _rich_cell(item: Explanation, palette: tuple[RGB, RGB, RGB, RGB]) -> Text:
    cell = Text()
    for label, segment in _segments(item):
        if label:
            cell.append(f"{label}: ", style="dim")
        for piece in pieces(item, segment):
            style = _style(piece.strength, piece.top, palette) if piece.seen else _UNSEEN
            cell.append(printable(piece.text), style=style)
        cell.append("\n")
    figures = ", ".join(f"{printable(token)} {score:+.3g}" for token, score in strongest(item))
    cell.append(figures or "nothing speaks for or against", style="dim")
    return cell


_UNSEEN = Style(dim=True, strike=True)


def _style(strength: float, top: bool, palette: tuple[RGB, RGB, RGB, RGB]) -> Style:
    """Colour by strength; bold and underlined (for) or italic (against) for those who see no colour."""
    background, text, positive, negative = palette
    level = round(abs(strength) * LEVELS) / LEVELS
    cue = Style(bold=True, underline=strength > 0, italic=strength < 0) if top else Style()
    if not level:
        return cue
    full = positive if strength > 0 else negative
    mixed = [round(level * one + (1 - level) * zero) for one, zero in zip(full, background, strict=True)]
    return cue + Style(color=_hex(text), bgcolor=_hex(mixed))


def _hex(rgb: Sequence[int]) -> str:
    return "#" + "".join(f"{value:02x}" for value in rgb)


def _terminal_is_dark() -> bool:
    """``$COLORFGBG`` ends in the number of the background colour; 7 and 15 are the light ones."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] not in ("7", "15")


# A text may hold terminal commands; they are shown, never sent. Newlines and tabs stay.
_CONTROL = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_CONTROL |= {ord("\r"): ord(" "), 0x7F: 0x2421} | dict.fromkeys(range(0x80, 0xA0), 0xFFFD)


def printable(text: str) -> str:
    """The text without anything that a terminal would obey."""
    return text.translate(_CONTROL)


def _context(groups: Sequence[Sequence[Explanation]]) -> dict[str, object]:
    sections = []
    for group in groups:
        rows = [
            {
                "method": item.method,
                "notes": _notes(item, group),
                "texts": [(label, heat_html(item, segment)) for label, segment in _segments(item)],
                "strongest": [(token, f"{score:+.3g}".replace("-", "−")) for token, score in strongest(item)],
            }
            for item in group
        ]
        first = group[0]
        sections.append(
            {"id": first.example_id, "said": prediction(first), "rows": rows, "warnings": _warnings(group)}
        )
    return {"sections": sections, "cut": any(item.unseen for group in groups for item in group)}


def _css() -> str:
    def colours(palette: tuple[RGB, RGB, RGB, RGB]) -> str:
        names = ("paper", "ink", "for", "against")
        return "".join(
            f"--ra-{name}:{' '.join(map(str, rgb))};" for name, rgb in zip(names, palette, strict=True)
        )

    levels = "".join(
        f".rashomon .{side}-{level}{{background:rgb(var(--ra-{side})/{level / LEVELS:g})}}\n"
        for side in ("for", "against")
        for level in range(1, LEVELS + 1)
    )
    dark = f"@media (prefers-color-scheme:dark){{.rashomon{{{colours(DARK)}}}}}\n"
    return f".rashomon{{{colours(LIGHT)}}}\n{dark}{levels}{CSS}"


_TEMPLATES = Environment(
    loader=DictLoader({"page": PAGE, "fragment": FRAGMENT, "body": BODY}),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
