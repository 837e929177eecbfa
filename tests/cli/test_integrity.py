"""``runs verify`` and ``runs clean``, damage as the command line tells it, and folders for models and reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rashomon.runs.store import Store
from tests.cli.conftest import Command

QUICK = ("--epochs", 1, "--hidden", 8, "--embedding-dim", 8, "--model", "mlp")
OWN = ("--text-column", "body", "--label-column", "stars")


@pytest.fixture
def train(rashomon: Command, reviews: Path) -> Command:
    return lambda *more: rashomon("train", "--data", reviews, *OWN, *QUICK, *more)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_damage_is_named_by_verify_and_mended_by_asking_again(
    rashomon: Command, train: Command, store: Store
) -> None:
    assert rashomon("runs", "verify").code == 0
    scores = json.loads(train("--json").out)["scores"]
    said = rashomon("runs", "verify")
    assert (said.code, said.err) == (0, "")
    assert "1 finished runs" in said.out
    assert "0 damaged" in said.out
    (info,) = store.list()
    path = info.path / "model" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    for _ in range(2):  # looking changes nothing
        said = rashomon("runs", "verify", "--json")
        assert said.code == 1
        (damaged,) = json.loads(said.out)["damaged"]
        assert (damaged["kind"], damaged["key"]) == ("models", info.key)
        assert "model/model.safetensors has" in damaged["damage"][0]
    assert "model/model.safetensors has" in rashomon("runs", "verify").out
    said = train("--json")
    assert said.code == 0
    assert json.loads(said.out)["scores"] == scores
    assert f"models/{info.key} was damaged (model/model.safetensors has" in said.err
    assert rashomon("runs", "verify", "--quiet").code == 0


@pytest.mark.parametrize("name", ["meta.json", "spec.json"])
def test_runs_with_a_broken_record_are_listed_and_removed(
    rashomon: Command, train: Command, store: Store, name: str
) -> None:
    train("--quiet")
    (info,) = store.list()
    (info.path / name).write_text("{")
    said = rashomon("runs", "list")
    assert said.code == 0
    assert "damaged" in said.out
    assert rashomon("runs", "show", info.key).code == 0
    assert rashomon("runs", "remove", info.key).code == 0
    assert store.list() == []


def test_clean_tells_first_and_deletes_when_told(rashomon: Command, train: Command, store: Store) -> None:
    train("--quiet")
    train("--quiet", "--seed", 1)
    whole, spoilt = store.list()
    (spoilt.path / "history.json").unlink()

    def die(folder: Path) -> None:
        (folder / "half").write_bytes(b"x" * 1000)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.run({"of": "another"}, "models", die)
    (store.root / ".trash" / "old").mkdir(parents=True)
    said = rashomon("runs", "clean", "--json")
    document = json.loads(said.out)
    assert said.code == 0
    found = {(entry["what"], entry["name"].split("/")[0]) for entry in document["leftovers"]}
    assert found == {("unfinished", "models"), ("damaged", "models"), ("removed", "old")}
    assert document["bytes"] > 1000
    assert not document["deleted"]
    assert len(store.list()) == 3
    assert "run it again with --yes" in rashomon("runs", "clean").out
    assert "3 leftovers" in rashomon("runs", "clean", "--yes").out
    assert [info.key for info in store.list()] == [whole.key]
    assert "0 leftovers" in rashomon("runs", "clean").out
    assert sorted(path.name for path in store.root.iterdir()) == [".locks", "models"]


def test_clean_leaves_a_run_at_work_alone(rashomon: Command, store: Store) -> None:
    def work(folder: Path) -> None:
        assert json.loads(rashomon("runs", "clean", "--yes", "--json").out)["leftovers"] == []
        assert folder.is_dir()

    assert store.run({}, "models", work).is_dir()


def test_a_foreign_folder_is_refused_before_the_training(
    rashomon: Command, train: Command, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "project").mkdir()
    config = tmp_path / "project" / "config.json"
    config.write_text('{"mine": 1}')
    said = train("--out", tmp_path / "project")
    assert said.code == 2
    assert "holds files that are not of an earlier model (config.json)" in said.err
    assert config.read_text() == '{"mine": 1}'
    assert store.list() == []
    assert rashomon("audit", "--out", tmp_path / "project").code == 2
    assert rashomon("study", "agreement", "--out", tmp_path / "project").code == 2


def test_a_model_is_replaced_whole(rashomon: Command, train: Command, tmp_path: Path) -> None:
    out = tmp_path / "model"
    assert train("--quiet", "--out", out, "--seed", 0, "--seed", 1).code == 0
    assert {path.name for path in out.iterdir() if path.is_dir()} == {"seed-0", "seed-1"}
    assert train("--quiet", "--out", out).code == 0
    assert sorted(path.name for path in out.iterdir()) == [
        ".rashomon.json",
        "config.json",
        "model.safetensors",
    ]
    assert rashomon("explain", "a wonderful film", "--model", out, "--methods", "attention", "-q").code == 0
