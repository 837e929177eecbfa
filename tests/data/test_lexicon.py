from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from rashomon.data import load_lexicon
from rashomon.data.tokens import tokenise
from rashomon.errors import UserError


def write(folder: Path, **lists: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in lists.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_the_built_in_lists() -> None:
    lexicon = load_lexicon()
    sizes = {one.name: len(one.words) for one in lexicon.lists}
    assert list(sizes)[:2] == ["negative", "positive"]
    assert min(sizes["negative"], sizes["positive"]) >= 300
    assert len(sizes) >= 6
    assert min(sizes.values()) >= 60
    for one, other in combinations(lexicon.lists, 2):
        assert not set(one.words) & set(other.words), (one.name, other.name)
    for one in lexicon.lists:
        assert set(one.strengths or ()) == {"strong", "weak"}
        assert min(len(one.of_strength("strong")), len(one.of_strength("weak"))) >= 30
        assert all(word == word.lower() and len(tokenise(word)) == 1 for word in one.words)


def test_strength_chooses() -> None:
    lexicon = load_lexicon()
    for strength, word in (("strong", "superb"), ("weak", "pleasant")):
        chosen = dict(lexicon.choose(2, strength))["positive"]
        assert word in chosen
        assert set(chosen) < set(dict(lexicon.choose(2))["positive"])
    with pytest.raises(UserError, match="did you mean 'strong'"):
        lexicon.choose(2, "stron")


def test_classes_are_limited_by_the_lists() -> None:
    lexicon = load_lexicon()
    most = len(lexicon.lists)
    assert len(lexicon.choose(most)) == most
    for wrong in (1, most + 1):
        with pytest.raises(UserError, match=f"words for 2 to {most} classes, not for {wrong}"):
            lexicon.choose(wrong)


def test_the_data_folder_replaces_opinions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        tmp_path / "lexicon",
        positive="; a remark\nfine\nmixed\n\nfine\n",
        negative="# a remark\nmixed\nawful\n",
    )
    monkeypatch.setenv("RASHOMON_DATA", str(tmp_path))
    for lexicon in (load_lexicon(), load_lexicon(None, tmp_path)):
        assert lexicon.choose(2) == (("negative", ("awful",)), ("positive", ("fine",)))  # in both: dropped
        assert len(lexicon.choose(4)) == 4  # topics stay available
    assert len(load_lexicon(Path("builtin")).choose(2)[0][1]) > 300


def test_a_folder_comes_before_the_data_folder(tmp_path: Path) -> None:
    write(tmp_path / "data" / "lexicon", positive="fine", negative="awful")
    own = write(
        tmp_path / "own", positive="super strong\nmeh weak", negative="dire strong", animals="cat weak\n"
    )
    lexicon = load_lexicon(own, tmp_path / "data")
    assert lexicon.choose(2, "strong") == (("negative", ("dire",)), ("positive", ("super",)))
    assert lexicon.choose(3)[2] == ("animals", ("cat",))
    with pytest.raises(UserError, match="has no weak words"):
        lexicon.choose(2, "weak")


def test_lists_without_grades_cannot_be_filtered(tmp_path: Path) -> None:
    lexicon = load_lexicon(write(tmp_path, positive="fine", negative="awful"))
    with pytest.raises(UserError, match="are not graded, so weak ones cannot be chosen"):
        lexicon.choose(2, "weak")


@pytest.mark.parametrize(
    ("positive", "message"),
    [
        ("very good\n", "Line 1 of .*positive.txt is not a word"),
        ("good strong\nfine\n", "grades some of its words and not others"),
        ("# nothing\n", "is empty"),
        (None, "has no positive.txt"),
    ],
)
def test_malformed_lists(tmp_path: Path, positive: str | None, message: str) -> None:
    folder = write(tmp_path, negative="awful")
    if positive is not None:
        write(folder, positive=positive)
    with pytest.raises(UserError, match=message):
        load_lexicon(folder)


@pytest.mark.data
def test_the_shared_lexicon(shared_data: Path) -> None:
    lexicon = load_lexicon(None, shared_data)
    (_, negative), (_, positive) = lexicon.choose(2)
    assert (len(negative), len(positive)) == (4783 - 3, 2006 - 3)  # three words are in both
    assert not set(negative) & set(positive)
