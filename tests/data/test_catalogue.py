from __future__ import annotations

import builtins
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rashomon.data import Dataset, datasets, hub, known_names, load_dataset, words_of
from rashomon.data import catalogue as named
from rashomon.errors import UserError


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def miss(name: str, config: str | None) -> None:
        raise hub.HubMissError("the hub cannot be reached")

    monkeypatch.setattr(hub, "_download", miss)


def folder(place: Path, name: str, splits: dict[str, int], zipped: bool = False) -> Path:
    (place / name).mkdir()
    for split, count in splits.items():
        lines = [json.dumps({"text": f"{split} {n}", "label": n % 2}) + "\n" for n in range(count)]
        path = place / name / f"{split}.jsonl"
        text = "".join(lines)
        if zipped:
            path.with_suffix(".jsonl.gz").write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
    return place


def test_every_built_in_dataset_loads_and_says_what_it_is() -> None:
    assert {"planted-reviews", "mock-1", "mock-4q"} <= set(datasets.names())
    for entry in datasets:
        dataset = load_dataset(entry.name, train_size=40, dev_size=10, test_size=10)
        assert dataset.name == entry.name
        assert entry.summary
        assert len(dataset["train"]) == 40
        assert all(example.rationale for example in dataset["test"])


def test_options_and_seed_reach_the_maker() -> None:
    dataset = load_dataset("mock-2", classes="3", placement="end", train_size=9, seed=4)
    assert (dataset.classes, len(dataset["train"])) == (3, 9)
    assert all((example.rationale or ())[-2:] == (1, 1) for example in dataset["train"])
    assert (
        dataset["train"] != load_dataset("mock-2", classes=3, placement="end", train_size=9, seed=5)["train"]
    )
    reviews = load_dataset("planted-reviews", negated="1.0", train_size=9)["train"]
    assert all(sum(example.rationale or ()) > 1 for example in reviews), "a denial is marked with its word"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mock-1", {"clases": 3}, "no option of the dataset 'mock-1' named 'clases'; did you mean 'classes'"),
        ("mock-1", {"classes": "three"}, "'classes' of 'mock-1' must be a number, got 'three'"),
        ("planted-reviews", {"lexicon": Path("x")}, "takes no lexicon"),
        ("elsewhere", {"lexicon": Path("x")}, "A lexicon is for the mock datasets"),
        ("mock-1", {"data_dir": Path("absent")}, "no folder absent"),
    ],
)
def test_wrong_options(name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_dataset(name, **options)


def test_a_lexicon_folder(tmp_path: Path) -> None:
    (tmp_path / "positive.txt").write_text("yes\n")
    (tmp_path / "negative.txt").write_text("no\n")
    for example in load_dataset("mock-5", lexicon=tmp_path, train_size=6)["train"]:
        assert Counter(example.tokens)["yes" if example.label else "no"] == 5


@pytest.mark.parametrize("zipped", [False, True])
def test_a_folder_of_the_data_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zipped: bool
) -> None:
    folder(tmp_path, "mine", {"train": 20, "dev": 4, "test": 6}, zipped)
    dataset = load_dataset("mine", data_dir=tmp_path)
    assert {split: len(dataset[split]) for split in dataset} == {"train": 20, "dev": 4, "test": 6}
    assert dataset.labels == ("0", "1")
    monkeypatch.setenv("RASHOMON_DATA", str(tmp_path))
    assert load_dataset("mine").fingerprint == dataset.fingerprint
    assert known_names()[-1] == "mine"
    with pytest.raises(UserError, match="takes no options"):
        load_dataset("mine", classes=2)


def test_label_names_of_the_papers_and_dev_from_train(tmp_path: Path) -> None:
    dataset = load_dataset("sst", data_dir=folder(tmp_path, "sst", {"train": 20, "test": 4}))
    assert dataset.labels == ("negative", "positive")
    assert len(dataset["dev"]) == 2
    assert "labels named 0 negative, 1 positive" in dataset.notes


def test_a_folder_without_training_data(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no train.jsonl or train.jsonl.gz"):
        load_dataset("mine", data_dir=folder(tmp_path, "mine", {"test": 4}))


@pytest.mark.usefixtures("no_hub")
def test_when_nothing_answers_the_error_says_what_was_tried(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_dataset("mock-3", data_dir=folder(tmp_path, "mine", {"train": 4}))
    said = str(caught.value)
    assert f"no built-in one, no folder 'mock-3' in {tmp_path}, and the hub cannot be reached" in said
    assert "did you mean 'mock-" in said
    with pytest.raises(
        UserError, match=r"no data directory \(set \$RASHOMON_DATA or --data-dir\).*known: mock-1,"
    ):
        load_dataset("zzzzzz")
    with pytest.raises(UserError, match="did you mean 'mine'"):
        load_dataset("minne", data_dir=tmp_path)


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **keywords: Any) -> Any:
        if name == "datasets":
            raise ImportError(name)
        return real(name, *rest, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UserError, match=r"pip install 'rashomon\[hub\]'"):
        load_dataset("someone/something")


SIZES = {
    "20news_sports": (1243, 311, 387), "agnews": (4560, 1520, 1520), "agnews_binary": (2280, 755, 765),
    "imdb": (17101, 4304, 4363), "mrpc": (3668, 408, 1725), "qed": (813, 271, 271),
    "snli": (9842, 4912, 4912), "sst": (6920, 872, 1821), "subj": (7000, 1000, 2000),
    "trec": (4907, 545, 500), "trec_binary": (2255, 218, 159), "yelp_hat": (2556, 852, 852),
}  # fmt: skip


@pytest.mark.data
@pytest.mark.parametrize("name", SIZES)
def test_the_papers_datasets(shared_data: Path, name: str) -> None:
    dataset: Dataset = load_dataset(name, data_dir=shared_data)
    assert tuple(len(dataset[split]) for split in ("train", "dev", "test")) == SIZES[name]
    assert dataset.labels == named.LABEL_NAMES.get(name, ())
    assert dataset.is_pair == (name in ("mrpc", "qed", "snli"))
    everything = [example for split in dataset for example in dataset[split]]
    assert len({example.id for example in everything}) == len(everything)
    if name != "qed":
        assert {example.label for example in everything} == set(range(dataset.classes))
    marked = sum(bool(example.rationale or example.rationale_pair) for example in everything)
    assert marked == {"yelp_hat": 4260, "snli": 6452}.get(name, 0)
    assert any(example.phrases for example in everything) == (name == "sst")
    assert any(example.equalities for example in everything) == (name == "qed")
    for example in everything[:100]:
        for segment, text in ((0, example.text), (1, example.text_pair or "")):
            assert all(text[word.start : word.end] == word.form for word in words_of(example, segment))
