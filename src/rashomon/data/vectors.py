"""Where do a model's word embeddings start? Ready-made vectors from a file, for the words of a vocabulary.

Read are ``.npz`` files (arrays ``words`` and ``vectors``), GloVe text and fastText ``.vec`` (with its header
line), the latter two also gzipped. Only the rows of the vocabulary's words are kept. A word that is not in
the file takes the vector of its lower-case form; failing that, it starts from its own random vector.
"""

from __future__ import annotations

import gzip
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rashomon.data.batches import Bools
from rashomon.data.vocabulary import PAD_ID, Vocabulary
from rashomon.errors import UserError

Floats = NDArray[np.float32]


def load_vectors(
    path: Path, vocabulary: Vocabulary, generator: np.random.Generator, scale: float | None = None
) -> tuple[Floats, Bools]:
    """A row for each id of the vocabulary, and which of the words were found.

    With ``scale`` the found vectors are multiplied so that this is their standard deviation. Padding is zero; words
    without a vector are drawn from a normal distribution as wide as the found vectors.
    """
    if not path.is_file():
        raise UserError(f"There is no file of word vectors at {path}.")
    wanted = {form for word in vocabulary.words if word in vocabulary for form in (word, word.lower())}
    try:
        rows = dict(_read_npz(path, wanted) if path.suffix == ".npz" else _read_text(path, wanted))
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise UserError(f"The word vectors in {path} cannot be read: {error}.") from error
    vectors = [
        rows.get(word, rows.get(word.lower())) if word in vocabulary else None for word in vocabulary.words
    ]
    known = [number for number, vector in enumerate(vectors) if vector is not None]
    if not known:
        raise UserError(f"None of the {len(vocabulary)} words in the vocabulary has a vector in {path}.")
    found = np.stack([vector for vector in vectors if vector is not None])
    if scale is not None:
        found = _scaled(found, scale, path)
    matrix = generator.normal(0.0, float(found.std()), (len(vocabulary), found.shape[1])).astype(np.float32)
    matrix[known] = found
    matrix[PAD_ID] = 0.0
    was_found = np.zeros(len(vocabulary), dtype=np.bool_)
    was_found[known] = True
    return matrix, was_found


def _scaled(vectors: Floats, scale: float, path: Path) -> Floats:
    spread = float(vectors.std(dtype=np.float64))
    if spread == 0.0:
        raise UserError(f"The word vectors in {path} are all the same number and cannot be scaled.")
    return (vectors * (scale / spread)).astype(np.float32)


def _read_npz(path: Path, wanted: set[str]) -> Iterator[tuple[str, Floats]]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            words, vectors = arrays["words"], arrays["vectors"]
    except (KeyError, ValueError) as error:
        raise UserError(f"{path} must hold two arrays, 'words' (strings) and 'vectors' (numbers).") from error
    if words.ndim != 1 or vectors.ndim != 2 or len(words) != len(vectors):
        raise UserError(
            f"In {path}, 'vectors' {vectors.shape} must have one row for each of 'words' {words.shape}."
        )
    for number, word in enumerate(words.tolist()):
        if word in wanted:
            vector = vectors[number].astype(np.float32)
            if not np.isfinite(vector).all():
                raise UserError(f"In {path}, the vector of {word!r} holds something that is not a number.")
            yield word, vector


def _read_text(path: Path, wanted: set[str]) -> Iterator[tuple[str, Floats]]:
    """Lines of a word and its numbers. The word may hold spaces, so the numbers are counted from the end."""
    opener = gzip.open if path.suffix == ".gz" else open
    width = 0
    # Some releases hold broken characters, and words with odd line breaks inside: neither ends a line here.
    with opener(path, "rt", encoding="utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            line = line.rstrip(" \r\n")
            if number == 1:
                width, is_header = _width(line, path)
                if is_header:
                    continue
            if line.split(" ", 1)[0] not in wanted:
                continue
            word, *values = line.rsplit(" ", width)
            if word in wanted:
                yield word, _numbers(values, width, path, number)


def _width(first: str, path: Path) -> tuple[int, bool]:
    """How many numbers a line has, and whether the first line is a header that says so."""
    fields = first.split(" ")
    if len(fields) == 2 and all(field.isdecimal() for field in fields):
        return int(fields[1]), True
    if len(fields) < 3:
        raise UserError(f"{path} holds no word vectors: its first line is not a word and its numbers.")
    return len(fields) - 1, False


def _numbers(values: list[str], width: int, path: Path, line: int) -> Floats:
    try:
        vector = np.array(values, dtype=np.float32)
    except ValueError:
        vector = np.empty(0, dtype=np.float32)
    if len(vector) != width or not np.isfinite(vector).all():
        raise UserError(f"Line {line} of {path} is not a word and {width} numbers.")
    return vector
