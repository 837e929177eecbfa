"""What is wrong with a checkpoint is told, and nothing that comes with one is run."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from rashomon.cli.main import run
from rashomon.errors import Caution, UserError
from rashomon.models.checkpoints import load_checkpoint
from rashomon.models.soundness import TRUST, unknown_words
from tests.models.tiny import tiny_checkpoint, wordpiece_tokenizer

WEIGHTS = "model.safetensors"
Change = Callable[[Path], None]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint("bert", tmp_path_factory.mktemp("sound") / "bert")


@pytest.fixture
def folder(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "checkpoint"))


def change_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def cut(folder: Path) -> None:
    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def emptied(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(b"")


def garbage(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(b"<html>404: not found</html>" * 50)


def pointer(folder: Path) -> None:
    """What a clone without git-lfs leaves."""
    (folder / WEIGHTS).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")


def no_weights(folder: Path) -> None:
    (folder / WEIGHTS).unlink()


def no_tokeniser(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer_config.json").unlink()


def no_vocabulary(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    change_json(folder / "tokenizer_config.json", tokenizer_class="BertTokenizer")


def broken_tokeniser(folder: Path) -> None:
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model"')


def larger_vocabulary(folder: Path) -> None:
    """As of a tokeniser to which words were added after the network had been made."""
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    known = tokenizer["model"]["vocab"]
    known |= {"added": len(known)}
    path.write_text(json.dumps(tokenizer))


def weight(value: float) -> Change:
    def change(folder: Path) -> None:
        tensors = load_file(folder / WEIGHTS)
        tensors["bert.encoder.layer.1.output.dense.weight"][3, 5] = value
        save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})

    return change


def as_pickle(content: bytes | None) -> Change:
    def change(folder: Path) -> None:
        path = folder / "pytorch_model.bin"
        torch.save(load_file(folder / WEIGHTS), path)
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] if content is None else content)
        (folder / WEIGHTS).unlink()

    return change


class Payload:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch run-by-pickle",)


def wider(folder: Path) -> None:
    change_json(folder / "config.json", intermediate_size=64)


def broken_configuration(folder: Path) -> None:
    (folder / "config.json").write_text("{")


FAULTS: list[tuple[Change, str]] = [
    (cut, "weights of .* damaged or was not downloaded to the end"),
    (emptied, "weights of .* damaged or was not downloaded to the end"),
    (garbage, "weights of .* damaged or was not downloaded to the end"),
    (pointer, "weights of .* damaged or was not downloaded to the end"),
    (no_weights, "not a complete checkpoint: .*model.safetensors"),
    (no_tokeniser, "its tokeniser knows no words"),
    (no_vocabulary, "its tokeniser knows no words"),
    (broken_tokeniser, "The tokeniser of .* cannot be read"),
    (larger_vocabulary, "counts tokens up to 105, and the network has embeddings up to 104"),
    (
        weight(float("nan")),
        "spoilt: bert.encoder.layer.1.output.dense.weight holds values that are not finite",
    ),
    (weight(float("inf")), "not finite numbers"),
    (as_pickle(None), "weights of .* damaged or was not downloaded to the end"),
    (as_pickle(b""), "weights of .* damaged or was not downloaded to the end"),
    (as_pickle(b"garbage" * 99), "the .bin file is damaged or holds more than weights"),
    (as_pickle(pickle.dumps(Payload())), "nothing of it is run"),
    (wider, "do not have the sizes that its config.json gives"),
    (broken_configuration, "not a valid JSON"),
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(("fault", "sentence"), FAULTS)
def test_what_is_wrong_with_a_checkpoint_is_said(
    folder: Path, fault: Change, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fault(folder)
    with pytest.raises(UserError, match=sentence) as error:
        load_checkpoint(folder)
    assert str(folder) in str(error.value)
    assert "\n" not in str(error.value)
    assert "weights_only" not in str(error.value)  # torch advises to run what is in the file
    assert not (tmp_path / "run-by-pickle").exists()


@pytest.mark.parametrize("fault", [cut, no_tokeniser, weight(float("nan"))])
def test_the_command_line_says_it_with_code_2(
    folder: Path, fault: Change, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RASHOMON_STORE", str(folder.parent / "store"))
    fault(folder)
    assert run(["explain", "a good film", "--model", str(folder), "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) == 1


@pytest.mark.parametrize("kind", ["bert", "distilbert", "roberta"])
def test_sound_checkpoints_give_no_warning(kind: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Caution)
        load_checkpoint(tiny_checkpoint(kind, tmp_path / kind))


def test_other_sizes_below_a_fresh_head_are_refused(folder: Path) -> None:
    """For fine-tuning a head of another size is made afresh, but nothing below it."""
    assert load_checkpoint(folder, seed=0, labels=("a", "b", "c")).network.config.num_labels == 3
    wider(folder)
    with pytest.raises(UserError, match=r"do not have the sizes .* such as bert\."):
        load_checkpoint(folder, seed=0, labels=("a", "b", "c"))


def test_a_tokeniser_that_hardly_knows_a_word_is_a_warning(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    known = tokenizer["model"]["vocab"]
    letters = [word for word in known if len(word.removeprefix("##")) == 1 and word not in "[]"]
    for word in letters:  # without single letters a word that is not in the vocabulary is unknown
        known[f"{word}-no-more"] = known.pop(word)
    path.write_text(json.dumps(tokenizer))
    # of 19 words it has: the, people, walk, the, and
    with pytest.warns(Caution, match="does not know 74% of the words"):
        load_checkpoint(folder)
    assert (
        run(["explain", "the film was good", "--model", str(folder), "--methods", "attention", "--json"]) == 0
    )
    said = capsys.readouterr()
    assert "does not know 74% of the words" in said.err
    json.loads(said.out)


def test_the_share_of_unknown_words() -> None:
    assert unknown_words(wordpiece_tokenizer("bert")) == 0.0


# ---- program code


CODE = """
from pathlib import Path
Path({marker!r}).write_text("run")
from transformers import BertConfig, BertForSequenceClassification
class OwnConfig(BertConfig):
    model_type = "own"
class OwnModel(BertForSequenceClassification):
    config_class = OwnConfig
"""


@pytest.fixture
def armed(folder: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A checkpoint with program code that leaves a mark when it is run, and the mark."""
    marker = tmp_path / "marker"
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    auto = {"AutoConfig": "own.OwnConfig", "AutoModelForSequenceClassification": "own.OwnModel"}
    change_json(folder / "config.json", model_type="own", auto_map=auto)
    change_json(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": [None, "own.OwnTokenizer"]})
    return folder, marker


def typed(folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "rashomon", "explain", "a good film", "--methods", "attention"]
    home = {"HF_HOME": str(folder.parent / "home"), "RASHOMON_STORE": str(folder.parent / "store")}
    environment = {name: value for name, value in os.environ.items() if name != TRUST} | home
    return subprocess.run(
        [*command, "--model", str(folder), "--json", *more],
        input="y\ny\ny\n",
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )


def test_program_code_of_a_checkpoint_is_not_run_whatever_stands_on_standard_input(
    armed: tuple[Path, Path],
) -> None:
    folder, marker = armed
    said = typed(folder)
    assert said.returncode == 2
    assert said.stdout == ""
    assert said.stderr.count("\n") == 1
    assert "brings program code of its own, which is not run" in said.stderr
    assert "--trust-remote-code" in said.stderr
    assert not marker.exists()


def test_code_beside_a_known_architecture_is_passed_over(armed: tuple[Path, Path]) -> None:
    """Where transformers has the class itself, the checkpoint loads and the code is still not run."""
    folder, marker = armed
    change_json(folder / "config.json", model_type="bert")
    load_checkpoint(folder)
    assert not marker.exists()


def test_code_is_run_when_the_user_says_so(armed: tuple[Path, Path]) -> None:
    folder, marker = armed
    change_json(folder / "tokenizer_config.json", auto_map={})
    said = typed(folder, "--trust-remote-code")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)
    assert marker.exists()
