"""Reviews that read like reviews and whose deciding words are known: the built-in default data.

A grammar (``words/reviews.toml``) writes one to three sentences about a film, a book, a hotel, a restaurant
or a gadget. Exactly one clause holds the verdict of the one who tells: an opinion word, in part of the texts
denied ("never dull"), and these tokens are the rationale. Around it stand facts, and sometimes what somebody
else thought, for or against by chance. So neither an opinion word nor a "not" decides by itself: it matters
whose opinion it is and what the negation belongs to. Everything else is independent of the label.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from rashomon.data.example import Dataset, Example
from rashomon.data.tokens import tokenise
from rashomon.errors import UserError

T = TypeVar("T")
LABELS = ("negative", "positive")
DOMAINS = ("film", "book", "hotel", "restaurant", "gadget")
SHORTEST, LONGEST = 12, 45  # tokens, punctuation included
_GRAMMAR = Path(__file__).parent / "words" / "reviews.toml"
_MARK = "*"  # stands before a token that belongs to the rationale
_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\ba\(n\)(?= \*?(\w))")
_NARRATORS = (
    {"I": "I", "me": "me", "my": "my", "was": "was"},
    {"I": "we", "me": "us", "my": "our", "was": "were"},
)
# What denies the word that follows; all go with praise and with blame, so none tells the label by itself.
_DENIALS = ("*not", "*not at all", "*never", "*hardly", "*far *from", "in *no way")


@cache
def _grammar() -> Mapping[str, Any]:
    return tomllib.loads(_GRAMMAR.read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True)
class _Aspect:
    name: str
    kind: str
    plural: bool
    of: str


@dataclass(slots=True)
class _Writer:
    """Writes the clauses of one review; it knows what was mentioned already."""

    domain: str
    generator: np.random.Generator
    voice: Mapping[str, str] = field(init=False)
    noun: str = field(init=False)
    mentioned: bool = False
    in_focus: bool = False  # whether "it" would be understood as the subject
    facts_given: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.voice = self.pick(_NARRATORS)
        self.noun = self.pick(self.rules["nouns"])

    @property
    def rules(self) -> Mapping[str, Any]:
        rules: Mapping[str, Any] = _grammar()[self.domain]
        return rules

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.generator.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        return bool(self.generator.random() < share)

    def fill(self, template: str) -> str:
        """Slots from left to right, so that the first mention of the subject names it."""

        def one(match: re.Match[str]) -> str:
            name = match.group(1)
            if name == "it":
                return self.subject()
            if name in self.voice:
                return self.voice[name]
            return self.fill(self.pick(self.rules.get(name) or _grammar()["common"][name]))

        return _SLOT.sub(one, template)

    def subject(self, aside: bool = False) -> str:
        """ "this crime novel", maybe with an aside; later "it" or "the novel"."""
        if self.mentioned:
            name = "it" if self.in_focus else f"the {self.noun.split()[-1]}"
            self.in_focus = True
            return name
        self.mentioned = self.in_focus = True
        if aside and self.chance(0.4):
            return f"this {self.noun}, which {self.fill(self.pick(self.rules['asides']))},"
        return f"this {self.noun}"

    def aspect(self) -> _Aspect:
        name, kind, *rest = self.pick(self.rules["aspects"]).split("|")
        of = next((word for word in rest if word != "plural"), self.rules["of"])
        return _Aspect(name, kind, "plural" in rest, of)

    def named(self, aspect: _Aspect, aside: bool = False) -> str:
        """An aspect, of the subject by name where that is not known yet."""
        name = f"the {aspect.name}"
        if not self.mentioned:
            name = f"{name} {aspect.of} {self.subject(aside)}"
        self.in_focus = False
        return name

    def be(self, plural: bool = False) -> str:
        form: str = self.rules["be"][plural]
        return form

    def opinion(self, sort: str, polarity: str, denied: bool, kind: str | None = None) -> tuple[str, str]:
        """An opinion word of a sort and its grade; only words of degree are denied."""
        grade = "strong" if not denied and self.chance(0.45) else "degree"
        words = _grammar()["opinions"][sort]
        # Few texts are about each kind of thing: preferring its words lets all of them be met in training.
        if kind is not None and self.chance(0.35 if grade == "strong" else 0.6):
            words = _grammar()["kinds"][kind]
        return self.pick(words[grade][polarity]), grade

    def adjective(self, kind: str, polarity: str, denied: bool) -> str:
        """An adjective that fits the thing, with an intensifier now and then; denied ones are bare."""
        word, grade = self.opinion("adjectives", polarity, denied, kind)
        if denied or self.chance(0.6):
            return f"*{word}"
        return f"{self.pick(_grammar()['common'][f'more_{grade}'])} *{word}"

    def predicate(self, be: str, what: str, denied: bool) -> str:
        """``was superb``; denied: ``was never bad``, ``wasn't bad``."""
        if not denied:
            return f"{be} {what}"
        return f"*{be}n't {what}" if self.chance(0.2) else f"{be} {self.pick(_DENIALS)} {what}"


def _fact(writer: _Writer) -> str:
    """Something that is so, once. The first sentence of a review names its subject."""
    facts = [fact for fact in writer.rules["facts"] if fact not in writer.facts_given]
    template = writer.pick([fact for fact in facts if writer.mentioned or "{it}" in fact])
    writer.facts_given.add(template)
    if "{it}" not in template:
        writer.in_focus = False
    return writer.fill(template)


def _verdict(writer: _Writer, label: int, denied: bool) -> str:
    """The clause that decides. Its word speaks for the label, or against it and is denied."""
    polarity = LABELS[label != denied]
    voice = writer.voice
    form = writer.generator.choice(6, p=(0.34, 0.18, 0.14, 0.12, 0.12, 0.10))
    aspect = writer.aspect()
    if form == 0:
        what = writer.adjective(aspect.kind, polarity, denied)
        name = writer.named(aspect, aside=True)
        return f"{name} {writer.predicate(writer.be(aspect.plural), what, denied)}"
    if form == 1:
        what = writer.adjective(aspect.kind, polarity, denied)
        verb = writer.pick(("did *not find", "*never found")) if denied else "found"
        return f"{voice['I']} {verb} {writer.named(aspect)} {what}"
    if form == 2:
        what = writer.adjective(writer.rules["kind"], polarity, denied)
        return f"{writer.subject(aside=True)} {writer.predicate(writer.be(), what, denied)}"
    if form == 3:
        feeling, _ = writer.opinion("feelings", polarity, denied)
        what = f"*{feeling} with {writer.named(aspect, aside=True)}"
        return f"{voice['I']} {writer.predicate(voice['was'], what, denied)}"
    if form == 4:
        past, plain = writer.opinion("deeds", polarity, denied)[0].split(":")
        verb = writer.pick((f"did *not *{plain}", f"*never *{past}")) if denied else f"*{past}"
        return f"{voice['I']} {verb} {writer.fill('{doing}')} {writer.subject(aside=True)}"
    noun, _ = writer.opinion("nouns", polarity, denied)
    return f"{writer.subject(aside=True)} {writer.be()} {'*not ' if denied else ''}a(n) *{noun}"


def _hearsay(writer: _Writer) -> str:
    """What somebody else thought, for or against by chance: it decides nothing."""
    polarity = writer.pick(LABELS)
    denied = writer.chance(0.2)
    aspect = writer.aspect()
    someone = writer.fill("{someone}")
    form = writer.generator.integers(4)
    if form == 0:
        what = writer.adjective(writer.rules["kind"], polarity, denied=False)
        clause = f"{someone} called {writer.subject()} {what}"
    elif form == 1:
        what = writer.adjective(aspect.kind, polarity, denied)
        clause = f"{someone} {'did not find' if denied else 'found'} {writer.named(aspect)} {what}"
    elif form == 2:
        what = writer.predicate(
            writer.be(aspect.plural), writer.adjective(aspect.kind, polarity, denied), denied
        )
        clause = f"according to {writer.fill('{source}')}, {writer.named(aspect)} {what}"
    else:
        feeling, _ = writer.opinion("feelings", polarity, denied)
        verb = "did not seem" if denied else "seemed"
        clause = f"{someone} {verb} {feeling} with {writer.named(aspect)}"
    return clause.replace(_MARK, "")


def _sentences(writer: _Writer, label: int, denied: bool, hearsay: bool) -> Iterator[str]:
    """The verdict alone or among other things, in any order.

    Hearsay and verdict are never one sentence, for "and" and "but" would tell whether they agree.
    """
    facts = int(writer.generator.integers(2 if hearsay else 3))
    parts = ["verdict", *["hearsay"] * hearsay, *["fact"] * facts]
    for position in writer.generator.permutation(len(parts)):
        if parts[position] == "fact":
            yield _fact(writer)
        elif parts[position] == "hearsay":
            yield _hearsay(writer)
        else:
            opener = writer.fill("{openers} ") if writer.chance(0.35) else ""
            yield opener + _verdict(writer, label, denied)


def _spell(sentences: Iterable[str]) -> str:
    """Sentences as text, with the marks still in: articles, capitals, full stops."""
    text = " ".join(f"{sentence[0].upper()}{sentence[1:].rstrip(',')}." for sentence in sentences)
    return _ARTICLE.sub(lambda match: "an" if match.group(1) in "aeiou" else "a", text)


def _review(
    key: str, label: int, domain: str, options: tuple[float, float], generator: np.random.Generator
) -> Example:
    """One review of the length that is wanted."""
    negated, hearsay = options
    denied, heard = generator.random(2) < (negated, hearsay)
    while True:
        marked = _spell(_sentences(_Writer(domain, generator), label, bool(denied), bool(heard)))
        tokens, rationale = _without_marks(marked)
        if SHORTEST <= len(tokens) <= LONGEST:
            return Example(key, marked.replace(_MARK, ""), label, tokens=tokens, rationale=rationale)


def _without_marks(marked: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The tokens of a marked text, and which of them had the mark before them: there it is a token of its own."""
    tokens: list[str] = []
    marks: list[int] = []
    is_next = 0
    for word in tokenise(marked):
        if word.form == _MARK:
            is_next = 1
        else:
            tokens.append(word.form)
            marks.append(is_next)
            is_next = 0
    return tuple(tokens), tuple(marks)


def planted_reviews(
    seed: int = 0,
    train_size: int = 2400,
    dev_size: int = 400,
    test_size: int = 600,
    negated: float = 0.3,
    hearsay: float = 0.35,
) -> Dataset:
    """Reviews with known deciding words; no text is there twice, and the labels are balanced in each split.

    ``negated`` is the share of verdicts that deny their opinion word, ``hearsay`` that of texts in which
    somebody else has an opinion too.
    """
    for name, share in (("negated", negated), ("hearsay", hearsay)):
        if not 0 <= share <= 1:
            raise UserError(
                f"The share {name!r} of planted reviews must lie between 0 and 1, not at {share}."
            )
    generator = np.random.default_rng(seed)
    seen: set[str] = set()
    splits = {}
    for split, size in (("train", train_size), ("dev", dev_size), ("test", test_size)):
        if size < len(LABELS):
            raise UserError(f"The {split} split of planted reviews needs at least two examples, not {size}.")
        splits[split] = tuple(_new_reviews(split, size, (negated, hearsay), generator, seen))
    return Dataset("planted-reviews", splits, LABELS)


def _new_reviews(
    split: str, size: int, options: tuple[float, float], generator: np.random.Generator, seen: set[str]
) -> Iterator[Example]:
    """Reviews not seen before, labels and subjects in turn, in random order."""
    for row, turn in enumerate(generator.permutation(size).tolist()):
        label, domain = turn % len(LABELS), DOMAINS[turn // len(LABELS) % len(DOMAINS)]
        while (example := _review(f"{split}-{row}", label, domain, options, generator)).text in seen:
            continue
        seen.add(example.text)
        yield example
