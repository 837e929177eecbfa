"""The hub is not reached from tests: the library's own objects stand in for what it would answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rashomon.data import Dataset, hub, load_dataset
from rashomon.errors import UserError

library = pytest.importorskip("datasets", reason="the hub extra is not installed")

NAMES = ["negative", "positive"]
Answer = Callable[..., Dataset]


def split(labels: list[int], names: list[str] | None = NAMES, **columns: list[Any]) -> Any:
    columns = columns or {"text": [f"text {number} of {len(labels)}" for number in range(len(labels))]}
    table = library.Dataset.from_dict({**columns, "label": labels})
    return table if names is None else table.cast_column("label", library.ClassLabel(names=names))


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """``answer(options, train=..., validation=...)``: what the hub is made to say, and what comes of it."""

    def load(options: dict[str, object] | None = None, **splits: Any) -> Dataset:
        monkeypatch.setattr(hub, "_ask", lambda name: None)
        monkeypatch.setattr(library, "load_dataset", lambda name, config: library.DatasetDict(splits))
        return load_dataset("someone/something", **(options or {}))

    return load


def test_splits_and_class_names(answer: Answer) -> None:
    dataset = answer(train=split([0, 1] * 10), validation=split([1, 0]), test=split([1, 1, 0]))
    assert dataset.name == "someone/something"
    assert dataset.labels == ("negative", "positive")
    assert {name: len(dataset[name]) for name in dataset} == {"train": 20, "dev": 2, "test": 3}
    assert [example.label for example in dataset["test"]] == [1, 1, 0]
    assert dataset["dev"][0].text == "text 0 of 2"


def test_class_names_keep_their_order(answer: Answer) -> None:
    train = split([0, 1] * 5, names=["yes", "no"])
    dataset = answer(train=train, validation=train, test=train)
    assert dataset.labels == ("yes", "no")
    assert dataset["train"][1].label == 1


def test_plain_labels(answer: Answer) -> None:
    train = split([4, 2, 10] * 5, names=None)
    assert answer(train=train, validation=train, test=train).labels == ("2", "4", "10")


def test_dev_is_made_from_train_where_absent(answer: Answer) -> None:
    dataset = answer(train=split([0, 1] * 20), test=split([0, 1]))
    assert {name: len(dataset[name]) for name in dataset} == {"train": 36, "dev": 4, "test": 2}
    assert any("no dev split given" in note for note in dataset.notes)


def test_a_test_split_without_labels_gives_way_to_validation(answer: Answer) -> None:
    dataset = answer(train=split([0, 1] * 20), validation=split([0, 1, 1]), test=split([-1] * 4))
    assert {name: len(dataset[name]) for name in dataset} == {"train": 36, "dev": 4, "test": 3}
    assert "the validation split serves as test" in dataset.notes
    assert any("labels are not published" in note for note in dataset.notes)


def test_rows_without_a_label_are_left_out(answer: Answer) -> None:
    train = split([0, 1, -1, 1] * 5)
    dataset = answer(train=train, validation=split([0, -1, 1]), test=split([1, 0]))
    assert {name: len(dataset[name]) for name in dataset} == {"train": 15, "dev": 2, "test": 2}
    assert [example.label for example in dataset["dev"]] == [0, 1]
    assert any("5 rows of someone/something (train) without a label" in note for note in dataset.notes)


def test_train_alone_is_split(answer: Answer) -> None:
    dataset = answer(train=split([0, 1] * 20))
    assert {name: len(dataset[name]) for name in dataset} == {"train": 32, "dev": 4, "test": 4}


def test_pairs_and_rows_without_text(answer: Answer) -> None:
    train = split(
        [0, 1] * 6,
        premise=["a", "", *("b" * n for n in range(1, 11))],
        hypothesis=["c"] * 12,
        idx=list(range(12)),
    )
    dataset = answer(train=train, validation=train, test=train)
    assert dataset["train"][0].text_pair == "c"
    assert len(dataset["train"]) == 11
    assert any("1 rows of someone/something (train) without text" in note for note in dataset.notes)


def test_columns_can_be_named(answer: Answer) -> None:
    train = split([0, 1] * 10, title=["t"] * 20, story=[f"s{n}" for n in range(20)], text=["x"] * 20)
    dataset = answer({"text": "story", "pair": "title"}, train=train)
    assert (dataset["train"][0].text[0], dataset["train"][0].text_pair) == ("s", "t")
    with pytest.raises(UserError, match=r"no column 'stori' in someone/something; did you mean 'story'\?"):
        answer({"text": "stori"}, train=train)


def test_an_unclear_column_is_asked_for(answer: Answer) -> None:
    train = split([0, 1] * 10, title=["t"] * 20, story=["s"] * 20)
    with pytest.raises(UserError, match="is the text is not clear; name it, there are: title, story, label"):
        answer(train=train)
    only = split([0, 1] * 10, story=[f"s{n}" for n in range(20)]).rename_column("label", "verdict")
    assert answer(train=only).labels == ("negative", "positive")  # one string, one class: clear


def test_a_dataset_without_training_labels(answer: Answer) -> None:
    with pytest.raises(UserError, match="no labelled training split; its splits are validation"):
        answer(validation=split([0, 1]))


def test_what_the_library_says_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, config: str | None) -> None:
        raise ValueError("Config name is missing.\nPick one of: ['a', 'b']")

    monkeypatch.setattr(hub, "_ask", lambda name: None)
    monkeypatch.setattr(library, "load_dataset", refuse)
    with pytest.raises(UserError, match=r"Config name is missing. Pick one of: \['a', 'b'\]") as caught:
        load_dataset("someone/something")
    assert "\n" not in str(caught.value)


def test_the_configuration_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def load(name: str, config: str | None) -> Any:
        asked.append((name, config))
        return library.DatasetDict(train=split([0, 1] * 10))

    monkeypatch.setattr(hub, "_ask", lambda name: None)
    monkeypatch.setattr(library, "load_dataset", load)
    load_dataset("glue", config="sst2")
    assert asked == [("glue", "sst2")]
    with pytest.raises(
        UserError, match="no option of the dataset 'glue' named 'confg'; did you mean 'config'"
    ):
        load_dataset("glue", confg="sst2")
