from __future__ import annotations

import html
import io
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rashomon.explainers.collection import Explanations
from rashomon.explainers.display import (
    DARK,
    LEVELS,
    LIGHT,
    RGB,
    heat_spans,
    legend,
    pieces,
    prediction,
    strongest,
    to_html,
    to_html_fragment,
    to_rich,
)
from rashomon.explainers.importers import from_scores
from rashomon.explainers.record import Explanation


def explanation(tokens: list[str], scores: list[float], text: str | None = None, **known: Any) -> Explanation:
    known = {"texts": [text]} | known if text is not None else known
    return from_scores([tokens], [scores], known.pop("method", "lime"), **known)[0]


REVIEW = explanation(
    ["[CLS]", "un", "##believ", "##able", ",", "dull", "plot", "[SEP]"],
    [50, 1, 4, 2, 0, -3, 0.1, -50],
    "Unbelievable,  dull plot",
    special=[[True, *[False] * 6, True]],
    targets=[1],
    labels=["negative", "positive"],
    probabilities=[[0.1, 0.9]],
)


def printed(item: Any, **settings: Any) -> str:
    stream = io.StringIO()
    Console(**{"file": stream, "width": 100, "force_terminal": False} | settings).print(item)
    return stream.getvalue()


# ---- from scores to the text


def test_spans_lie_on_the_original_text_and_are_scaled_to_the_strongest() -> None:
    spans = heat_spans(REVIEW)
    assert [REVIEW.text[start:end] for start, end, _, _ in spans] == [
        "Un",
        "believ",
        "able",
        ",",
        "dull",
        "plot",
    ]
    assert [span.strength for span in spans] == pytest.approx([0.25, 1, 0.5, 0, -0.75, 0.025])
    assert all(span.segment == 0 for span in spans)


def test_special_tokens_tokens_without_a_place_and_undefined_scores_have_no_heat() -> None:
    item = explanation(["[UNK]", "good"], [9, 1], "?? good")
    assert heat_spans(item) == [(3, 7, 0, 1.0)]
    item = explanation(["a", "b", "c"], [float("nan"), float("inf"), -2], "a b c")
    assert [span.strength for span in heat_spans(item)] == [0, 0, -1]
    assert [span.strength for span in heat_spans(explanation(["a", "b"], [0, 0], "a b"))] == [0, 0]


def test_bytes_of_one_character_are_one_span() -> None:
    item = replace(explanation(["x", "y", "z"], [1, 2, 1], "🙂 z"), offsets=[[0, 1], [0, 1], [2, 3]])
    assert heat_spans(item) == [(0, 1, 0, 1.0), (2, 3, 0, 1 / 3)]


def test_spans_of_a_pair_keep_their_segment() -> None:
    item = explanation(["a", "b", "c"], [1, -2, 2], "a b", segments=[[0, 0, 1]], pair_texts=["  c"])
    assert heat_spans(item) == [(0, 1, 0, 0.5), (2, 3, 0, -1.0), (2, 3, 1, 1.0)]
    assert [piece.text for piece in pieces(item, 1)] == ["  ", "c"]


@given(
    text=st.text(st.characters(codec="utf-8"), max_size=30),
    cuts=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.floats(-1e6, 1e6)), max_size=8),
)
def test_spans_never_overlap_and_pieces_are_the_whole_text(
    text: str, cuts: list[tuple[int, int, float]]
) -> None:
    n = len(cuts)
    bounds = [sorted((min(a, len(text)), min(b, len(text)))) for a, b, _ in cuts]
    item = replace(
        REVIEW,
        text=text,
        tokens=("t",) * n,
        offsets=np.array(bounds).reshape(-1, 2),
        word_ids=np.arange(n),
        segments=np.zeros(n),
        special=np.zeros(n),
        scores=[score for *_, score in cuts],
    )
    spans = heat_spans(item)
    assert all(one.end <= other.start for one, other in pairwise(spans))
    assert all(-1 <= span.strength <= 1 for span in spans)
    assert "".join(piece.text for piece in pieces(item)) == text
    assert _Cells.of(to_html([item]))[0] == text.replace("\r\n", "\n").replace("\r", "\n").replace(
        "\0", "\ufffd"
    )


def test_the_strongest_are_listed_as_they_stand_in_the_text() -> None:
    assert strongest(REVIEW) == [("believ", 4), ("dull", -3), ("able", 2)]
    assert [piece.text for piece in pieces(REVIEW) if piece.top] == ["believ", "able", "dull"]
    assert strongest(explanation(["a", "b"], [0, 0], "a b")) == []


@pytest.mark.parametrize(
    ("target", "probabilities", "line"),
    [
        (1, (0.1, 0.9), "Prediction: positive (90.0%)"),
        (0, (0.1, 0.9), "Explained class: positive (10.0%); the model predicts class number 1 (90.0%)"),
        (1, (), "Explained class: positive (probability unknown)"),
        (-1, (0.1, 0.9), "Explained class: positive"),
    ],
)
def test_the_prediction_in_a_line(target: int, probabilities: tuple[float, ...], line: str) -> None:
    assert prediction(replace(REVIEW, target=target, probabilities=probabilities)) == line


# ---- the terminal


@pytest.mark.parametrize("unseen", [0.0, 0.4])
def test_what_did_not_fit_is_struck_out(unseen: float) -> None:
    """Else it would look like words of no weight."""
    item = replace(explanation(["a", "dull"], [0, 1], "a dull plot & more"), unseen=unseen)
    assert [piece.text for piece in pieces(item) if not piece.seen] == ([" plot & more"] if unseen else [])
    assert ('<mark class="unread"> plot &amp; more</mark>' in to_html([item])) == bool(unseen)
    assert ("Struck out" in to_html([item])) == bool(unseen)
    coloured = printed(to_rich([item]), force_terminal=True, color_system="truecolor")
    assert ("\x1b[2;9m plot & more" in coloured) == bool(unseen)
    whole = replace(
        explanation(["a", "dull"], [0, 1], "a dull "), unseen=unseen
    )  # the other text of a pair was cut
    assert all(piece.seen for piece in pieces(whole))


def test_spaces_that_belong_to_tokens_are_not_coloured() -> None:
    item = explanation([" a", " gor", "geous", "  ", " film "], [1, 2, 3, 4, 5], " a gorgeous   film ")
    item = replace(item, offsets=np.array([[0, 2], [2, 6], [6, 11], [11, 13], [13, 19]]))
    assert [item.text[span.start : span.end] for span in heat_spans(item)] == [
        "a",
        "gor",
        "geous",
        "  ",
        "film",
    ]
    assert "".join(piece.text for piece in pieces(item)) == item.text


@pytest.mark.parametrize(
    ("unseen", "said"),
    [
        (None, ""),
        (0.0, ""),
        (0.001, "; less than 1% of the text not seen"),
        (0.344, "; 34% of the text not seen"),
    ],
)
def test_what_was_not_seen_is_said(unseen: float | None, said: str) -> None:
    item = replace(REVIEW, unseen=unseen)
    line = f"Prediction: positive (90.0%){said}"
    assert prediction(item) == line
    assert line in printed(to_rich([item]))
    assert line in to_html([item])
    pair = replace(item, text_pair="another")
    assert prediction(pair) == line.replace("the text ", "the texts ")


def test_a_row_a_method_readable_without_colour() -> None:
    other = replace(
        REVIEW, method="attention", scores=-REVIEW.scores, gap=0.031, warnings=("careful [bold]",)
    )
    shown = printed(to_rich([REVIEW, other]))
    assert "\x1b" not in shown
    assert shown.count("Unbelievable,  dull plot") == 2
    assert "Prediction: positive (90.0%)" in shown
    assert "believ +4, dull -3, able +2" in shown
    assert "believ -4, dull +3, able -2" in shown
    assert "gap 3.1%" in shown
    assert "! attention: careful [bold]" in shown  # markup in a text stays text


def test_colour_and_a_cue_besides() -> None:
    shown = printed(to_rich([REVIEW], dark=True), force_terminal=True, color_system="truecolor")
    orange, blue = (";".join(map(str, rgb)) for rgb in DARK[2:])
    assert re.search(rf"\x1b\[1;4;38;[\d;]+48;2;{orange}mbeliev\x1b", shown)  # bold and underlined: for
    assert re.search(r"\x1b\[1;3;38;[\d;]+mdull\x1b", shown)  # bold and italic: against
    assert blue in printed(legend(dark=True), force_terminal=True, color_system="truecolor")
    plain = printed(to_rich([REVIEW]), force_terminal=True, color_system="truecolor", no_color=True)
    assert "\x1b[1;4mbeliev\x1b" in plain
    assert "48;2" not in plain


def test_the_terminal_background_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def shown() -> str:
        return printed(to_rich([REVIEW]), force_terminal=True, color_system="truecolor")

    monkeypatch.delenv("COLORFGBG", raising=False)
    dark = shown()
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert shown() == printed(to_rich([REVIEW], dark=False), force_terminal=True, color_system="truecolor")
    assert shown() != dark


def test_terminal_commands_in_a_text_are_not_sent() -> None:
    text = "bad\x1b]0;title\x07\r\n \x9b31m good"
    item = explanation(["bad", "good"], [1, 2], "bad good", method="\x1b[31m")
    item = replace(item, text=text, offsets=[[0, 3], [len(text) - 4, len(text)]])
    shown = printed(to_rich([item]))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x80-\x9f]", shown)
    assert "bad␛]0;title␇" in shown
    coloured = printed(to_rich([item], dark=True), force_terminal=True, color_system="truecolor")
    assert re.search(r"mgood\x1b\[0m", coloured)  # the colour sits on its word in spite of them


def test_nothing_to_show() -> None:
    assert "No explanations" in printed(to_rich([]))
    assert "No explanations" in to_html([])


# ---- the page


class _Cells(HTMLParser):
    """The text of each heatmap cell, and every tag of the page."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._inside = False

    @classmethod
    def of(cls, page: str) -> list[str]:
        return cls.read(page).cells

    @classmethod
    def read(cls, page: str) -> _Cells:
        parser = cls()
        # A browser turns line ends into \n and NUL into a mark before it parses.
        parser.feed(page.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd"))
        parser.close()
        return parser

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "p" and ("class", "text") in attrs:
            self._inside = True
            self.cells.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "p"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.cells[-1] += data


HOSTILE = "<script>document.title='hacked'</script> & \"><img src=x onerror=\"document.title='hacked'\">"


def hostile() -> Explanation:
    tokens = HOSTILE.split()
    item = explanation(
        tokens, list(range(1, len(tokens) + 1)), HOSTILE, method=HOSTILE, example_ids=[HOSTILE]
    )
    return replace(item, target_label=HOSTILE, warnings=(HOSTILE,))


def test_the_page_shows_the_original_text_and_needs_nothing() -> None:
    page = to_html([REVIEW, replace(REVIEW, method="attention")], "Two <methods>")
    parsed = _Cells.read(page)
    assert parsed.cells == [REVIEW.text] * 2
    names = [tag for tag, _ in parsed.tags]
    assert names.count("section") == 1
    assert {"main", "h1", "h2", "table", "thead", "th"} <= set(names)
    assert not {"script", "img", "iframe"} & set(names)
    assert {value for _, attrs in parsed.tags for key, value in attrs.items() if key in ("src", "href")} == {
        "data:,"
    }
    assert "url(" not in page
    assert "@import" not in page
    assert [attrs.get("scope") for tag, attrs in parsed.tags if tag == "th"] == ["col"] * 3 + ["row"] * 2
    assert "prefers-color-scheme:dark" in page
    assert 'name="viewport"' in page
    assert "<title>Two &lt;methods&gt;</title>" in page


def test_colours_and_marks_of_the_page() -> None:
    page = to_html([REVIEW])
    assert f'<mark class="for top for-{LEVELS}">believ</mark>' in page
    assert '<mark class="against top against-6">dull</mark>' in page
    assert '<mark class="for for-2">Un</mark><mark' in page  # sub-words of a word join up
    assert "<bdi>dull</bdi> −3" in page
    assert f".rashomon .for-{LEVELS}{{background:rgb(var(--ra-for)/1)}}" in page


def test_pairs_are_two_labelled_texts_and_warnings_are_shown() -> None:
    item = explanation(["a", "b"], [1, -2], "a", segments=[[0, 1]], pair_texts=["b <i>"])
    page = to_html([item])
    assert _Cells.of(page) == ["a", "b <i>"]
    assert page.index("First text") < page.index("Second text")
    assert html.escape(item.warnings[0]) in page


def test_one_section_an_example_and_the_differences_of_rows() -> None:
    rows = [
        replace(REVIEW, seed=1),
        replace(REVIEW, seed=2, target=0, target_label="negative"),
        replace(REVIEW, example_id="other", unit="word", merged_by="max"),
    ]
    page = to_html(Explanations(rows))
    assert page.count("<section") == 2
    assert re.findall(r'class="note">([^<]*)<', page) == [
        "seed 1",
        "of negative",
        "seed 2",
        "words (max)",
    ]


@pytest.mark.parametrize(
    "make", [lambda item: to_html([item], HOSTILE), lambda item: to_html_fragment([item])]
)
def test_hostile_text_is_escaped_everywhere(make: Any) -> None:
    parsed = _Cells.read(make(hostile()))
    assert parsed.cells == [HOSTILE]
    assert not [tag for tag, _ in parsed.tags if tag in ("script", "img")]
    assert not [key for _, attrs in parsed.tags for key in attrs if key.startswith("on")]


@pytest.mark.browser
def test_hostile_text_is_inert_in_a_browser(tmp_path: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no chromium")
    (tmp_path / "page.html").write_text(to_html([hostile()], "safe"), encoding="utf-8")
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    command += ["--virtual-time-budget=500", "--dump-dom", (tmp_path / "page.html").as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    parsed = _Cells.read(shown)
    assert "<title>safe</title>" in shown
    assert parsed.cells == [HOSTILE]
    assert not [tag for tag, _ in parsed.tags if tag in ("script", "img")]


# ---- the colours themselves


def _linear(rgb: Any) -> np.ndarray[Any, Any]:
    share = np.asarray(rgb) / 255
    return np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)


def _luminance(rgb: Any) -> float:
    return float(_linear(rgb) @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_text_keeps_its_contrast_on_every_level(palette: tuple[RGB, RGB, RGB, RGB]) -> None:
    """WCAG 2 AA asks for 4.5 to 1."""
    paper, ink, *sides = (np.array(rgb) for rgb in palette)
    for side in sides:
        for level in range(LEVELS + 1):
            mixed = paper + (side - paper) * level / LEVELS
            low, high = sorted((_luminance(mixed), _luminance(ink)))
            assert (high + 0.05) / (low + 0.05) >= 4.5


# How linear RGB looks without one kind of cone (Machado, Oliveira and Fernandes 2009, severity 1).
DEFICIENCIES = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.01182, 0.04294, 0.968881],
    ],
}


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("kind", DEFICIENCIES)
def test_for_and_against_differ_for_colour_blind_readers(
    kind: str, palette: tuple[RGB, RGB, RGB, RGB]
) -> None:
    matrix = np.array(DEFICIENCIES[kind])
    one, other = (np.clip(matrix @ _linear(rgb), 0, 1) for rgb in palette[2:])
    assert np.abs(one ** (1 / 2.2) - other ** (1 / 2.2)).max() > 0.3
