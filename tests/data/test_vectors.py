from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from rashomon.data import Vocabulary, load_vectors
from rashomon.errors import UserError

VOCABULARY = Vocabulary.build([["good", "Bad", "film", "zzz"]])
TABLE = {"good": [1.0, 2.0, 3.0], "bad": [-1.0, 0.5, 0.25], "film": [0.0, 1.0, 0.0], "other": [9.0, 9.0, 9.0]}
LINES = [" ".join([word, *map(str, row)]) for word, row in TABLE.items()]


def write(folder: Path, kind: str) -> Path:
    path = folder / kind
    if kind == "v.npz":
        np.savez(path, words=np.array(list(TABLE)), vectors=np.array(list(TABLE.values()), dtype=np.float16))
    else:
        header = [f"{len(TABLE)} 3"] if ".vec" in kind else []
        text = "\n".join([*header, ". . 5 5 5", *LINES]) + "\n" if kind != "v.txt" else "\n".join(LINES)
        path.write_bytes(gzip.compress(text.encode()) if kind.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("kind", ["v.npz", "v.txt", "v.vec", "v.vec.gz"])
def test_every_kind_of_file(tmp_path: Path, kind: str) -> None:
    matrix, found = load_vectors(write(tmp_path, kind), VOCABULARY, np.random.default_rng(0))
    assert found.sum() == 3
    assert matrix.dtype == np.float32
    assert matrix.shape == (len(VOCABULARY), 3)
    rows = dict(zip(VOCABULARY.words, matrix.tolist(), strict=True))
    assert rows["<pad>"] == [0.0, 0.0, 0.0]
    assert rows["good"] == TABLE["good"]
    assert rows["film"] == TABLE["film"]
    assert rows["Bad"] == TABLE["bad"]  # no vector of its own: that of its lower-case form
    assert any(rows["zzz"])
    assert any(rows["<unk>"])


def test_an_exact_form_comes_before_its_lower_case(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("bad 1 1 1\nBad 2 2 2\n")
    matrix, _ = load_vectors(path, VOCABULARY, np.random.default_rng(0))
    assert matrix[VOCABULARY.words.index("Bad")].tolist() == [2, 2, 2]


def test_words_without_a_vector_are_spread_like_the_others(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    known = [f"k{number}" for number in range(300)]
    unknown = [f"u{number}" for number in range(300)]
    np.savez(tmp_path / "v.npz", words=np.array(known), vectors=generator.normal(0, 0.37, (300, 50)))
    vocabulary = Vocabulary.build([known, unknown])
    matrix, found = load_vectors(tmp_path / "v.npz", vocabulary, np.random.default_rng(2))
    drawn = matrix[vocabulary.ids(unknown)]
    assert found.sum() == 300
    assert drawn.std() == pytest.approx(0.37, rel=0.02)
    assert abs(drawn.mean()) < 0.01
    again, _ = load_vectors(tmp_path / "v.npz", vocabulary, np.random.default_rng(2))
    other, _ = load_vectors(tmp_path / "v.npz", vocabulary, np.random.default_rng(3))
    assert np.array_equal(matrix, again)
    assert not np.array_equal(matrix, other)


@pytest.mark.parametrize("kind", ["v.npz", "v.vec.gz"])
@pytest.mark.parametrize("scale", [0.1, 0.47, 3.0])
def test_vectors_are_scaled_to_a_standard_deviation(tmp_path: Path, kind: str, scale: float) -> None:
    path = write(tmp_path, kind)
    plain, found = load_vectors(path, VOCABULARY, np.random.default_rng(0))
    scaled, also_found = load_vectors(path, VOCABULARY, np.random.default_rng(0), scale)
    assert np.array_equal(found, also_found)
    assert scaled[found].std(dtype=np.float64) == pytest.approx(scale, abs=1e-6)
    # Only the length changes, of drawn vectors too; padding stays zero.
    factor = scale / plain[found].std(dtype=np.float64)
    np.testing.assert_allclose(scaled, plain * factor, rtol=1e-5)


def test_vectors_without_spread_cannot_be_scaled(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("good 1 1 1\nfilm 1 1 1\n")
    with pytest.raises(UserError, match="cannot be scaled"):
        load_vectors(path, VOCABULARY, np.random.default_rng(0), 0.1)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("v.txt", b"good 1 2 3\nfilm 1 2\n", "Line 2 of .*v.txt is not a word and 3 numbers"),
        ("v.txt", b"good 1 2 3\nfilm 1 2 x\n", "Line 2 of"),
        ("v.txt", b"good 1 nan 3\n", "Line 1 of"),
        ("v.vec", b"2 3\ngood 1 2\n", "Line 2 of .*v.vec is not a word and 3 numbers"),
        ("v.txt", b"hello\n", "holds no word vectors"),
        ("v.txt", b"nothing 1 2 3\n", "None of the 6 words"),
        ("v.txt", b"", "None of the 6 words"),
        ("v.vec.gz", b"not gzip", "cannot be read"),
        ("v.npz", b"not a zip", "must hold two arrays|cannot be read"),
    ],
)
def test_malformed_files(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        load_vectors(path, VOCABULARY, np.random.default_rng(0))


def test_arrays_that_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "v.npz"
    np.savez(path, words=np.array(["good"]), vectors=np.zeros((2, 3)))
    with pytest.raises(UserError, match="one row for each"):
        load_vectors(path, VOCABULARY, np.random.default_rng(0))
    np.savez(path, words=np.array(["good"]))
    with pytest.raises(UserError, match="two arrays"):
        load_vectors(path, VOCABULARY, np.random.default_rng(0))
    np.savez(path, words=np.array(["good"], dtype=object), vectors=np.zeros((1, 3)))  # would need pickle
    with pytest.raises(UserError, match="two arrays"):
        load_vectors(path, VOCABULARY, np.random.default_rng(0))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_arrays_that_hold_no_numbers(tmp_path: Path, value: float) -> None:
    path = tmp_path / "v.npz"
    np.savez(path, words=np.array(["good", "other"]), vectors=np.array([[1.0, value], [0.0, 1.0]]))
    with pytest.raises(UserError, match=r"In .*v.npz, the vector of 'good' holds"):
        load_vectors(path, VOCABULARY, np.random.default_rng(0))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no file of word vectors"):
        load_vectors(tmp_path / "absent.txt", VOCABULARY, np.random.default_rng(0))


@pytest.mark.data
def test_the_shared_vectors(shared_data: Path) -> None:
    path = shared_data / "embeddings" / "glove_sg_100d.npz"
    vocabulary = Vocabulary.build([["good", "bad", "n't"]])
    matrix, found = load_vectors(path, vocabulary, np.random.default_rng(0))
    assert (matrix.shape, found.sum()) == ((5, 100), 2)
