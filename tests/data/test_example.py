from __future__ import annotations

from dataclasses import replace

import pytest

from rashomon.data import Dataset, Example, Span, fingerprint, require_labels
from rashomon.errors import UserError

ONE = Example("a", "good", 1, tokens=("good",), rationale=(1,))
TWO = Example("b", "bad", 0)


def make(**splits: tuple[Example, ...]) -> Dataset:
    return Dataset("toy", splits, ("negative", "positive"))


def test_a_dataset_gives_its_splits() -> None:
    dataset = make(train=(ONE, TWO), test=(TWO,))
    assert dataset["train"] == (ONE, TWO)
    assert list(dataset) == ["train", "test"]
    assert dataset.classes == 2


def test_a_wrong_split_is_answered_with_the_nearest() -> None:
    with pytest.raises(UserError, match=r"no split of toy named 'tset'; did you mean 'test'\?"):
        make(train=(ONE,), test=(TWO,))["tset"]


def test_pairs_are_told_from_single_texts() -> None:
    assert not make(train=(ONE,)).is_pair
    assert make(train=(replace(ONE, text_pair="x"),)).is_pair
    assert replace(ONE, text_pair="x").is_pair


@pytest.mark.parametrize(
    "change",
    [
        {"text": "fine"},
        {"label": 0},
        {"rationale": (0,)},
        {"id": "c"},
        {"text_pair": ""},
        {"answers": (Span(0, 1),)},
    ],
)
def test_the_fingerprint_sees_every_field(change: dict[str, object]) -> None:
    changed = replace(ONE, **change)  # type: ignore[arg-type]
    assert fingerprint([ONE]) != fingerprint([changed])
    assert make(train=(ONE, TWO)).fingerprint != make(train=(changed, TWO)).fingerprint


def test_the_fingerprint_sees_order_splits_and_labels_but_not_the_name() -> None:
    dataset = make(train=(ONE,), test=(TWO,))
    assert dataset.fingerprint == replace(dataset, name="other", notes=("said",)).fingerprint
    assert (
        dataset.fingerprint == Dataset("toy", {"test": (TWO,), "train": (ONE,)}, dataset.labels).fingerprint
    )
    assert dataset.fingerprint != make(train=(TWO,), test=(ONE,)).fingerprint
    assert dataset.fingerprint != replace(dataset, labels=("no", "yes")).fingerprint
    assert fingerprint([ONE, TWO]) != fingerprint([TWO, ONE])


def test_missing_labels_are_refused_by_name() -> None:
    require_labels([ONE, TWO], "training")
    with pytest.raises(UserError, match="training needs labels, and example 'c' has none"):
        require_labels([ONE, Example("c", "text")], "training")
