"""Data that is in memory: frames and lists become the dataset that their file would become."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rashomon.data import Columns, Dataset, Example, load_file
from rashomon.errors import UserError

TEXTS = [f"the {'good' if number % 2 else 'bad'} film number {number}" for number in range(40)]
STARS = [5 if number % 2 else 1 for number in range(40)]
FRAME = pd.DataFrame({"body": TEXTS, "stars": STARS})


def test_a_frame_gives_what_its_file_gives(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "reviews.csv", index=False)
    from_file = load_file(tmp_path / "reviews.csv", Columns(text="body", label="stars"), seed=3)
    data = Dataset.from_pandas(FRAME, text="body", label="stars", seed=3)
    assert data.labels == from_file.labels == ("1", "5")
    for split in ("train", "dev", "test"):
        texts_and_labels = [(e.text, e.label) for e in data[split]]
        assert texts_and_labels == [(e.text, e.label) for e in from_file[split]]
    assert "80/10/10" in data.notes[0]


def test_rows_go_by_the_index_or_by_a_column_of_ids() -> None:
    frame = FRAME.set_index(pd.Index([f"k{n}" for n in range(40)]))
    found = Dataset.from_pandas(frame, "body", label="stars")
    assert all(frame.loc[e.id, "body"] == e.text for split in found for e in found[split])
    named = Dataset.from_pandas(FRAME.assign(key=range(100, 140)), "body", label="stars", id="key")
    assert {e.id for split in named for e in named[split]} == {str(n) for n in range(100, 140)}
    repeated = FRAME.set_index(pd.Index([0] * 40))
    data = Dataset.from_pandas(repeated, "body", label="stars")
    ids = [e.id for split in data for e in data[split]]
    assert len(set(ids)) == 40


def test_splits_by_a_column() -> None:
    frame = FRAME.assign(part=["train"] * 20 + ["Validation"] * 10 + ["test"] * 10)
    data = Dataset.from_pandas(frame, "body", label="stars", split="part")
    assert {split: len(data[split]) for split in data} == {"train": 20, "dev": 10, "test": 10}
    without_dev = Dataset.from_pandas(frame[frame.part != "Validation"], "body", label="stars", split="part")
    assert {split: len(without_dev[split]) for split in without_dev} == {"train": 18, "dev": 2, "test": 10}
    assert "set aside" in without_dev.notes[0]


def test_without_labels_everything_is_to_be_explained() -> None:
    data = Dataset.from_pandas(FRAME.rename(columns={"stars": "label"}), "body", label=None)
    assert list(data) == ["test"]
    assert (len(data["test"]), data.labels, data["test"][0].label) == (40, (), None)


def test_numpy_values_pairs_and_rationales() -> None:
    frame = FRAME.assign(
        other="a plot", marks=[np.array([0, 1, 0, 0, 0])] * 40, stars=pd.array(STARS, dtype="Int64")
    )
    data = Dataset.from_pandas(frame, "body", "other", "stars", rationale="marks", labels=("5", "1"))
    example = data["train"][0]
    assert (example.text_pair, example.rationale) == ("a plot", (0, 1, 0, 0, 0))
    assert data.labels == ("5", "1")
    assert all((e.label == 0) == ("good" in e.text) for e in data["train"])


@pytest.mark.parametrize(
    ("items", "pairs"),
    [
        (list(zip(TEXTS, STARS, strict=True)), False),
        ([(text, "a plot", star) for text, star in zip(TEXTS, STARS, strict=True)], True),
        ([{"text": t, "label": s} for t, s in zip(TEXTS, STARS, strict=True)], False),
        ([Example(str(n), t, s // 5) for n, (t, s) in enumerate(zip(TEXTS, STARS, strict=True))], False),
    ],
)
def test_lists_of_every_kind(items: list[object], pairs: bool) -> None:
    data = Dataset.from_list(items, seed=1)
    assert {split: len(data[split]) for split in data} == {"train": 32, "dev": 4, "test": 4}
    assert data.is_pair == pairs
    assert data.labels == (("0", "1") if isinstance(items[0], Example) else ("1", "5"))
    assert all((e.label == 1) == ("good" in e.text) for split in data for e in data[split])


def test_a_list_of_texts_has_no_labels() -> None:
    assert repr(Dataset.from_list(TEXTS)) == "Dataset(list: texts test 40; labels none)"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Dataset.from_pandas(FRAME), "no column 'text' in the frame"),
        (lambda: Dataset.from_pandas(FRAME, "body"), "label=None"),
        (lambda: Dataset.from_pandas(FRAME, "bodi", label="stars"), "did you mean 'body'"),
        (lambda: Dataset.from_pandas(FRAME, "body", label="star"), "did you mean 'stars'"),
        (lambda: Dataset.from_pandas(FRAME, "stars", label="body"), "should hold text"),
        (lambda: Dataset.from_pandas(FRAME, "body", label="stars", split="part"), "no column 'part'"),
        (lambda: Dataset.from_pandas(FRAME.assign(p=1), "body", label="stars", split="p"), "name train, dev"),
        (lambda: Dataset.from_pandas(FRAME[:0], "body", label="stars"), "holds no rows"),
        (lambda: Dataset.from_pandas(pd.concat([FRAME, FRAME], axis=1), "body"), "are named 'body'"),
        (lambda: Dataset.from_pandas(TEXTS), "from_list"),  # type: ignore[arg-type]
        (
            lambda: Dataset.from_pandas(
                FRAME.assign(body=[None, *TEXTS[1:]]), "body", label="stars", empty="error"
            ),
            "row 1",
        ),
        (lambda: Dataset.from_list(["a", " "], empty="all"), "way with blank texts named 'all'"),  # type: ignore[arg-type]
        (lambda: Dataset.from_pandas(FRAME.assign(stars=1), "body", label="stars"), "only one class"),
        (lambda: Dataset.from_list("a text"), "put one text into a list"),
        (lambda: Dataset.from_list([]), "is empty"),
        (lambda: Dataset.from_list([1, 2]), "Item 1 of the list is an int"),
        (lambda: Dataset.from_list(["a", ("b", "c")]), "different kinds"),
        (lambda: Dataset.from_list([("a", "b", "c", "d")]), "Item 1"),
        (lambda: Dataset.from_list([Example("0", "a", 0), "b"]), "Item 2"),
        (lambda: Dataset.from_list([Example("0", "a", 0), Example("0", "b", 1)]), "have the id '0'"),
        (lambda: Dataset.from_list([Example("0", "a", 3)], labels=("no", "yes")), "label 3"),
    ],
)
def test_mistakes_are_named(make: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        make()  # type: ignore[operator]


def test_a_dataset_shows_itself_in_a_line_and_inertly() -> None:
    hostile = "<script>alert(1)</script>"
    data = Dataset.from_list(
        [(f"{text} {hostile}", hostile if n % 2 else "b") for n, text in enumerate(TEXTS)]
    )
    assert repr(data).count("\n") == 0
    assert len(repr(data)) < 200
    assert "train 32, dev 4, test 4" in repr(data)
    shown = data._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown
