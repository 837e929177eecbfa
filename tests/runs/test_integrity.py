"""The corruption matrix: every file of every kind of run, damaged in every way, is noticed, named and made again."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pytest
import torch

from rashomon.errors import Caution, UserError
from rashomon.experiments.context import Context
from rashomon.runs import integrity
from rashomon.runs.files import intact_tensors, read_tensors, write_json, write_parquet, write_tensors
from rashomon.runs.specifications import key
from rashomon.runs.store import Store
from tests.studies.planted import subject_in

MODEL = ("model/config.json", "model/model.safetensors")
CHECKPOINT = (*MODEL, "model/tokenizer.json", "model/tokenizer_config.json", "model/rashomon.json")
RUNS = {  # what each kind of run holds
    "models": ("history.json", *CHECKPOINT),
    "given-models": MODEL,
    "explanations": ("explanations.parquet", "seconds.json"),
    "attention-on-trial": ("train.safetensors", "dev.safetensors", "test.safetensors", "about.json"),
    "adversaries": (*MODEL, "instances.parquet", "adversary.json"),
    "instance-adversaries": ("found.parquet", "other.parquet"),
    "guides": ("weights.safetensors",),
    "guided-mlps": ("correct.parquet", "scores.json"),
    "erasures": ("costs.parquet", "strange.parquet"),
    "findings": ("finding.json", "tables/0.parquet", "tables/1.parquet"),
    "replications": ("begun.json", "finding.json", "tables/0.parquet"),
    "explainers": ("config.json",),
    "teachers": ("classes.json", "answers.json"),
    "students": ("correct.parquet", "scores.json", "history.json"),
}
OWN = ("spec.json", "meta.json")


def fill(kind: str, folder: Path) -> None:
    """Small files with the right content for their names, another in every file."""
    for number, name in enumerate(RUNS[kind]):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if path.suffix == ".json":
            write_json(path, {"of": name, "values": [0.1 * number, 0.2]})
        elif path.suffix == ".parquet":
            write_parquet(path, pd.DataFrame({"example": [name, "b"], "score": [0.5 * number, 1.0]}))
        else:
            write_tensors(path, {"w": torch.arange(6.0).reshape(2, 3) + number, "n": torch.tensor(number)})


def truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    """One bit in the middle, with the file's times put back, as a failing disk does it."""
    before, data = path.stat(), bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def delete(path: Path) -> None:
    path.unlink()


def swap(path: Path) -> None:
    """With the neighbour that comes next, so that every file is where some file was written."""
    files = sorted(p for p in run_of(path).rglob("*") if p.is_file())
    other = files[(files.index(path) + 1) % len(files)]
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)


def run_of(path: Path) -> Path:
    return next(parent for parent in path.parents if parent.parent.name in RUNS)


DAMAGES = (truncate, empty, flip, delete, swap)
MATRIX = [
    (kind, name, damage) for kind, names in RUNS.items() for name in (*names, *OWN) for damage in DAMAGES
]


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "meta.json"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store(tmp_path_factory.mktemp("sound"))
    for kind in RUNS:
        store.run({"of": kind}, kind, lambda folder, kind=kind: fill(kind, folder))
    return store


@pytest.mark.parametrize(("kind", "name", "damage"), MATRIX, ids=lambda cell: getattr(cell, "__name__", cell))
def test_the_matrix(
    sound: Store, tmp_path: Path, kind: str, name: str, damage: Callable[[Path], None]
) -> None:
    store = Store(tmp_path)
    final = store.path({"of": kind}, kind)
    shutil.copytree(sound.path({"of": kind}, kind), final)
    expected = contents(final)
    assert store.finished({"of": kind}, kind)
    damage(final / name)
    made: list[Path] = []

    def make(folder: Path) -> None:
        made.append(folder)
        fill(kind, folder)

    with pytest.warns(Caution, match=f"{kind}/{final.name} was damaged") as caught:
        assert store.run({"of": kind}, kind, make) == final
    assert name in str(caught[0].message) or damage is swap
    assert len(made) == len(caught) == 1
    assert contents(final) == expected
    assert store.finished({"of": kind}, kind)
    assert [path.name.split("-")[-2] for path in (tmp_path / ".damaged").iterdir()] == [final.name]


@pytest.mark.parametrize("damage", DAMAGES)
def test_verify_names_it_and_moves_nothing(
    sound: Store, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    shutil.copytree(sound.root, tmp_path / "store")
    store = Store(tmp_path / "store")
    assert [info.damage for info in store.verify()] == [()] * len(RUNS)
    damage(store.path({"of": "guides"}, "guides") / "weights.safetensors")
    (spoilt,) = [info for info in store.verify() if info.damage]
    assert (spoilt.kind, spoilt.key) == ("guides", key({"of": "guides"}))
    assert "weights.safetensors" in " ".join(spoilt.damage) or damage is swap  # it may be with the record
    assert spoilt.path.is_dir()


def test_a_file_too_many_and_a_whole_run_in_the_place_of_another(tmp_path: Path) -> None:
    store = Store(tmp_path)
    one, two = (store.run({"seed": n}, "guides", lambda folder: fill("guides", folder)) for n in (1, 2))
    (one / "weights.bin").write_bytes(b"x")
    assert integrity.damage(one, "guides", one.name) == ["weights.bin was added"]
    (one / "weights.bin").rename(one / ".DS_Store")  # what file managers leave is nobody's damage
    assert integrity.damage(one, "guides", one.name) == []
    (one / ".DS_Store").unlink()
    one.rename(tmp_path / "other")
    two.rename(one)
    (tmp_path / "other").rename(two)
    assert integrity.damage(one, "guides", one.name) == [f"meta.json is the record of guides/{two.name}"]
    with pytest.warns(Caution, match="is the record of"):
        assert not store.finished({"seed": 1}, "guides")


@pytest.mark.parametrize(("milliseconds", "looks"), [(50, 2), (99, 2), (101, 1), (149, 1)])
def test_what_was_just_written_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, milliseconds: int, looks: int
) -> None:
    """A change within one step of the file's times would not be seen by them."""
    run = Store(tmp_path).run({"seed": 1}, "guides", lambda folder: fill("guides", folder))
    files = [path.stat() for path in run.rglob("*") if path.is_file()]
    newest = max(max(status.st_mtime_ns, status.st_ctime_ns) for status in files)
    compared, compare = [], integrity._compare
    monkeypatch.setattr(integrity, "_compare", lambda *which: compared.append(which) or compare(*which))
    monkeypatch.setattr(integrity, "_sound", {})
    monkeypatch.setattr(time, "time_ns", lambda: newest + milliseconds * 1_000_000)
    for _ in range(2):
        assert integrity.damage(run, "guides", run.name) == []
    assert len(compared) == looks


@pytest.mark.parametrize("name", ["truncated", "emptied", "changed", "missing"])
def test_the_words_say_what_is_wrong(tmp_path: Path, name: str) -> None:
    folder = Store(tmp_path).run({}, "guides", lambda folder: fill("guides", folder))
    path = folder / "weights.safetensors"
    size = path.stat().st_size
    damages = {"truncated": truncate, "emptied": empty, "changed": flip, "missing": delete}
    damages[name](path)
    sentences = {
        "truncated": f"has {size // 2:,} of {size:,} bytes",
        "emptied": f"has 0 of {size:,} bytes",
        "changed": "was changed",
        "missing": "is missing",
    }
    assert integrity.damage(folder, "guides", folder.name) == [f"weights.safetensors {sentences[name]}"]


def test_a_process_looks_at_a_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    folder = store.run({}, "guides", lambda folder: fill("guides", folder))
    monkeypatch.setattr(integrity, "_SETTLED", 0.0)
    time.sleep(0.01)  # a file's time has steps
    digest, read = hashlib.file_digest, 0

    def counted(*arguments: object) -> object:
        nonlocal read
        read += 1
        return digest(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(integrity.hashlib, "file_digest", counted)
    assert store.finished({}, "guides")
    assert read == 2
    assert store.finished({}, "guides")
    assert read == 2
    flip(folder / "weights.safetensors")  # size and time as before
    with pytest.warns(Caution, match="weights.safetensors was changed"):
        assert not store.finished({}, "guides")


def test_what_may_not_be_read_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    folder = store.run({}, "guides", lambda folder: fill("guides", folder))

    def refuse(path: Path) -> Iterator[object]:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(integrity, "_measure", refuse)
        with pytest.raises(UserError, match=r"Cannot read the run in .*: Permission denied"):
            store.finished({}, "guides")
    assert folder.is_dir()


# ---- unfinished work


@pytest.mark.parametrize("damage", [truncate, empty, flip])
def test_a_damaged_checkpoint_is_not_gone_on_from(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    store = Store(tmp_path)

    def work(folder: Path, until: int) -> None:
        path = folder / "checkpoint.safetensors"
        state = int(read_tensors(path)["steps"]) if path.exists() else 0
        for step in range(state, until):
            write_tensors(path, {"steps": torch.tensor(step + 1)})
        if until < 5:
            raise KeyboardInterrupt
        write_json(folder / "result.json", {"steps": until})

    with pytest.raises(KeyboardInterrupt):
        store.run({}, "models", lambda folder: work(folder, 3))
    partial = store.path({}, "models").with_suffix(".partial")
    damage(partial / "checkpoint.safetensors")
    with pytest.warns(Caution, match=r"partial was damaged \(checkpoint.safetensors is damaged\)"):
        final = store.run({}, "models", lambda folder: work(folder, 5))
    assert (final / "result.json").read_text() == '{\n "steps": 5\n}\n'


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_between_the_record_and_the_rename(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    store = Store(tmp_path)
    final = store.run({}, "models", lambda folder: fill("models", folder))
    expected = contents(final)
    partial = final.rename(final.with_suffix(".partial"))
    damage(partial / "history.json")
    with pytest.warns(Caution, match="meta.json" if damage is swap else "history.json"):
        store.run({}, "models", lambda folder: fill("models", folder))
    assert contents(final) == expected


def test_every_flipped_byte_of_a_checkpoint_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.safetensors"
    write_tensors(path, {"w": torch.randn(3, 4), "half": torch.randn(2).bfloat16(), "n": torch.tensor(True)})
    data = path.read_bytes()
    assert intact_tensors(path)
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        assert not intact_tensors(path), place


# ---- a real model


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_real_model_and_its_explanations(context: Context, damage: Callable[[Path], None]) -> None:
    subject = subject_in(context)
    examples = context.dataset(subject.dataset)["test"][:3]

    def results() -> tuple[object, ...]:
        trained = context.models(subject)[0]
        explanations = context.explanations(trained.model, examples, ["attention", "leave-one-out"])
        return trained.model.fingerprint(), trained.history, trained.scores, explanations

    expected = results()
    with warnings.catch_warnings():
        warnings.simplefilter("error", Caution)
        assert results() == expected
    (model,) = context.folders(subject)
    stored = next(context.store.root.glob("explanations/*"))
    for path in (model / "history.json", model / "model/model.safetensors", stored / "explanations.parquet"):
        damage(path)
        with pytest.warns(Caution, match=f"{run_of(path).name} was damaged"):
            assert results() == expected


@pytest.mark.parametrize(("count", "more"), [(3, ""), (4, " and 1 more"), (6, " and 3 more")])
def test_of_much_damage_three_files_are_named(tmp_path: Path, count: int, more: str) -> None:
    store = Store(tmp_path)
    run = store.run({}, "models", lambda folder: fill("models", folder))
    names = sorted(RUNS["models"])[:count]
    for name in names:
        empty(run / name)
    with pytest.warns(Caution) as heard:
        assert not store.finished({}, "models")
    sentence = str(heard[0].message)
    assert [name for name in names if f"{name} has" in sentence] == names[:3]
    assert f"bytes{more}) and is made again" in sentence


def test_what_is_being_made_is_no_leftover(tmp_path: Path) -> None:
    store = Store(tmp_path)
    while_made: list[str] = []

    def make(folder: Path) -> None:
        while_made.extend(leftover.name for leftover in store.leftovers())
        fill("guides", folder)

    def give_up(folder: Path) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run({"seed": 1}, "guides", give_up)
    damaged = store.run({"seed": 2}, "guides", lambda folder: fill("guides", folder))
    flip(damaged / "weights.safetensors")
    with pytest.warns(Caution):
        assert not store.finished({"seed": 2}, "guides")
    store.run({"seed": 3}, "guides", make)
    unfinished = f"guides/{key({'seed': 1})}"
    assert while_made[0] == unfinished
    assert next((one.what, one.name) for one in store.leftovers()) == ("unfinished", unfinished)
    assert [one.what for one in store.leftovers()] == ["unfinished", "damaged"]
    assert len(while_made) == 2
    store.delete(store.leftovers())
    assert list(store.leftovers()) == []
    assert store.finished({"seed": 3}, "guides")
