"""Which dataset does a name stand for? A built-in one, a folder of the data directory, or one of the hub."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path

from rashomon.data.data_folder import VARIABLE, data_folder
from rashomon.data.example import Dataset
from rashomon.data.files import load_files
from rashomon.data.hub import HubMissError, load_from_hub
from rashomon.data.lexicon import load_lexicon
from rashomon.data.planted import MOCKS, mock
from rashomon.data.reviews import planted_reviews
from rashomon.errors import UserError, unknown_name
from rashomon.registry import Registry

datasets: Registry[Callable[..., Dataset]] = Registry("dataset", "datasets")
"""Makers of built-in datasets: called with ``seed``, with ``lexicon`` if they take one, and with options."""

datasets.register("planted-reviews")(planted_reviews)
for _name, _evidence in MOCKS.items():
    datasets.register(_name, f"Mock texts with {_evidence} planted as evidence.")(partial(mock, _name))

# What the numbers mean in the papers' datasets, whose files hold numbers alone.
LABEL_NAMES: Mapping[str, tuple[str, ...]] = {
    "sst": ("negative", "positive"),
    "imdb": ("negative", "positive"),
    "yelp_hat": ("negative", "positive"),
    "subj": ("subjective", "objective"),
    "trec": ("DESC", "ENTY", "ABBR", "HUM", "LOC", "NUM"),
    "trec_binary": ("ENTY", "HUM"),
    "agnews": ("World", "Sports", "Business", "Sci/Tech"),
    "agnews_binary": ("World", "Business"),
    "20news_sports": ("baseball", "hockey"),
    "snli": ("entailment", "neutral", "contradiction"),
    "mrpc": ("different", "paraphrase"),
}


def load_dataset(
    name: str,
    *,
    data_dir: Path | None = None,
    seed: int = 0,
    lexicon: Path | None = None,
    **options: object,
) -> Dataset:
    """A dataset by name.

    Args:
        name: a built-in dataset (``"planted-reviews"``, ``"mock-1"`` to ``"mock-5"``, ...), a folder
            ``<name>/<split>.jsonl[.gz]`` in the data folder, or a dataset of the Hugging Face hub, in
            this order.
        data_dir: the data folder; by default ``$RASHOMON_DATA``.
        seed: of built-in datasets, and of splits that have to be made.
        lexicon: a folder of word lists for the mock datasets.
        options: for built-in datasets ``classes``, ``placement``, ``strength``; for the hub ``config``, ``text``,
            ``pair``, ``label``.

    Returns:
        The dataset; ``data["test"]`` are its examples.

    The mock datasets with planted evidence are those of *AtteFa* (2023).
    """
    if name in datasets:
        return _make(name, data_dir, seed, lexicon, options)
    if lexicon is not None:
        raise UserError(f"A lexicon is for the mock datasets; {name!r} is none of them.")
    folder = data_folder(data_dir)
    if folder is not None and (folder / name).is_dir():
        if options:
            raise UserError(f"The dataset {name!r} in {folder} takes no options, got {', '.join(options)}.")
        return _load_folder(folder / name, name, seed)
    maker: Callable[..., Dataset] = partial(load_from_hub, name)
    try:
        return maker(seed=seed, **_checked(name, maker, options))
    except HubMissError as miss:
        raise _nothing_found(name, folder, str(miss)) from miss


def known_names(data_dir: Path | None = None) -> list[str]:
    """The names that need no network: built-in datasets and the folders of the data directory."""
    folder = data_folder(data_dir)
    folders = [path.name for path in sorted(folder.iterdir()) if _file(path, "train")] if folder else []
    return [*datasets.names(), *folders]


def _make(
    name: str, data_dir: Path | None, seed: int, lexicon: Path | None, options: Mapping[str, object]
) -> Dataset:
    maker = datasets.get(name)
    arguments = _checked(name, maker, options)
    if "lexicon" in inspect.signature(maker).parameters:
        arguments["lexicon"] = load_lexicon(lexicon, data_dir)
    elif lexicon is not None:
        raise UserError(f"The dataset {name!r} has its own words and takes no lexicon.")
    return maker(seed=seed, **arguments)


def _checked(name: str, maker: Callable[..., Dataset], options: Mapping[str, object]) -> dict[str, object]:
    """Options the maker knows; numbers may come as text, as they do from a command line."""
    known = {
        key: parameter.default
        for key, parameter in inspect.signature(maker).parameters.items()
        if key not in ("seed", "lexicon") and parameter.default is not inspect.Parameter.empty
    }
    checked: dict[str, object] = {}
    for key, value in options.items():
        if key not in known:
            raise unknown_name(f"option of the dataset {name!r}", key, known)
        checked[key] = value
        wanted = type(known[key])
        if wanted in (int, float) and type(value) is not wanted:
            try:
                checked[key] = wanted(str(value))
            except ValueError as error:
                raise UserError(f"The option {key!r} of {name!r} must be a number, got {value!r}.") from error
    return checked


def _file(folder: Path, split: str) -> Path | None:
    paths = (folder / f"{split}.jsonl", folder / f"{split}.jsonl.gz")
    return next((path for path in paths if path.is_file()), None)


def _load_folder(folder: Path, name: str, seed: int) -> Dataset:
    train = _file(folder, "train")
    if train is None:
        raise UserError(f"The folder {folder} holds no train.jsonl or train.jsonl.gz.")
    dataset = load_files(train, _file(folder, "dev"), _file(folder, "test"), seed=seed, name=name)
    names = LABEL_NAMES.get(name, ())
    if names and dataset.labels == tuple(str(number) for number in range(len(names))):
        note = f"labels named {', '.join(f'{number} {label}' for number, label in enumerate(names))}"
        return replace(dataset, labels=names, notes=(*dataset.notes, note))
    return dataset


def _nothing_found(name: str, folder: Path | None, miss: str) -> UserError:
    known = known_names(folder)
    close = get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}."
    place = (
        f"no folder {name!r} in {folder}" if folder else f"no data directory (set ${VARIABLE} or --data-dir)"
    )
    return UserError(f"There is no dataset named {name!r}: no built-in one, {place}, and {miss}; {hint}")
