"""Which words speak for a class? The opinion and topic words that planted evidence is made of.

The package brings lists of its own, graded strong or weak. The opinion words are replaced by
``lexicon/positive.txt`` and ``negative.txt`` of the data folder when they are there (the papers use the list
of Hu & Liu), or by the lists of a folder that is asked for; topics for further classes stay available.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rashomon.data.data_folder import data_folder
from rashomon.errors import UserError, unknown_name

BUILTIN = "builtin"  # the name that asks for the package's own lists whatever the data folder holds
STRENGTHS = ("strong", "weak", "any")
_OWN = Path(__file__).parent / "words"
_OPINIONS = ("negative", "positive")  # labels 0 and 1


@dataclass(frozen=True, slots=True)
class WordList:
    """The words of one class. Lists without grades have no ``strengths``."""

    name: str
    words: tuple[str, ...]
    strengths: tuple[str, ...] | None
    source: str

    def of_strength(self, strength: str) -> tuple[str, ...]:
        if strength not in STRENGTHS:
            raise unknown_name("strength", strength, STRENGTHS)
        if strength == "any":
            return self.words
        if self.strengths is None:
            raise UserError(
                f"The words in {self.source} are not graded, so {strength} ones cannot be chosen; write "
                f"'strong' or 'weak' after each word, or ask for the lexicon {BUILTIN!r}."
            )
        return tuple(
            word for word, grade in zip(self.words, self.strengths, strict=True) if grade == strength
        )


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Word lists in the order of the classes: negative, positive, then topics."""

    lists: tuple[WordList, ...]
    source: str

    def choose(self, classes: int = 2, strength: str = "any") -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Names and words of the first classes. Words in more than one of their lists are dropped."""
        if not 2 <= classes <= len(self.lists):
            raise UserError(f"The lexicon has words for 2 to {len(self.lists)} classes, not for {classes}.")
        chosen = self.lists[:classes]
        shared = Counter(word for one in chosen for word in set(one.words))
        named = []
        for one in chosen:
            words = tuple(word for word in one.of_strength(strength) if shared[word] == 1)
            if not words:
                raise UserError(f"The list {one.source} has no {strength} words of its own.")
            named.append((one.name, words))
        return tuple(named)


def load_lexicon(folder: Path | None = None, data_dir: Path | None = None) -> Lexicon:
    """The lists of a folder, else of the data folder's ``lexicon``, else the built-in ones.

    Opinions come from the first of these places; topics too where it has them, then the built-in ones.
    """
    place = _place(folder, data_dir)
    lists = {name: _read(place / f"{name}.txt") for name in _OPINIONS}
    for topics in (place, _OWN):
        for path in sorted(topics.glob("*.txt")):
            if path.stem not in lists:
                lists[path.stem] = _read(path)
    return Lexicon(tuple(lists.values()), "the built-in lists" if place == _OWN else str(place))


def _place(folder: Path | None, data_dir: Path | None) -> Path:
    if folder is not None:
        folder = Path(folder)
        if str(folder) == BUILTIN and not folder.is_dir():
            return _OWN
        missing = [f"{name}.txt" for name in _OPINIONS if not (folder / f"{name}.txt").is_file()]
        if missing:
            raise UserError(f"The lexicon folder {folder} has no {' and no '.join(missing)}.")
        return folder
    shared = data_folder(data_dir)
    if shared is not None and all((shared / "lexicon" / f"{name}.txt").is_file() for name in _OPINIONS):
        return shared / "lexicon"
    return _OWN


def _read(path: Path) -> WordList:
    """Lines of a word, or of a word and its strength; ``#`` and ``;`` begin remarks."""
    grades: dict[str, str | None] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The word list {path} cannot be read as UTF-8 text: {error}.") from error
    for number, line in enumerate(lines, start=1):
        fields = line.split()
        if not fields or fields[0].startswith(("#", ";")):
            continue
        if len(fields) > 2 or (len(fields) == 2 and fields[1] not in STRENGTHS[:2]):
            raise UserError(f"Line {number} of {path} is not a word, or a word and 'strong' or 'weak'.")
        grades.setdefault(fields[0], fields[1] if len(fields) == 2 else None)
    if not grades:
        raise UserError(f"The word list {path} is empty.")
    strengths = tuple(grade for grade in grades.values() if grade is not None)
    if strengths and len(strengths) < len(grades):
        raise UserError(f"The word list {path} grades some of its words and not others; grade all or none.")
    return WordList(path.stem, tuple(grades), strengths or None, str(path))
