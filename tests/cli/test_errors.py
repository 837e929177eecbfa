"""Whatever a user gets wrong ends in one sentence and exit code 2, never in a traceback or a half-written file."""

from __future__ import annotations

import json
import os
import struct
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rashomon.cli.explain import TRAINED_ON
from rashomon.cli.options import ModelOptions
from rashomon.experiments.subject import DatasetSpec
from rashomon.measures import measures
from rashomon.models.build import build_model
from rashomon.models.encoders import encoders
from rashomon.models.model_spec import PRETRAINED, models
from rashomon.registry import Entry
from tests.cli.conftest import Command

QUICK = "--encoder mlp --hidden 4 --epochs 1"
BAD = [
    # what is typed, and what the sentence must speak of
    ("train --data nowhere.csv", "nowhere.csv"),
    ("train --data reviews.csv", "text"),  # the text column is called body
    ("train --data reviews.csv --text-column boddy --label-column stars", "body"),  # did you mean
    ("train --data empty.csv", "empty.csv"),
    ("train --data header.csv", "header.csv"),
    ("train --data one_class.csv", "class"),
    ("train --data once.csv", "once"),
    ("train --data numbers.csv", "number"),
    ("train --data broken.jsonl", "line 2"),
    ("train --data blank.csv", "line 3"),
    (
        "train --data gaps.csv --empty error",
        "2 of 30 rows of gaps.csv have an empty text ('text'): lines 4 and 6.",
    ),
    ("study agreement --data gaps.csv --empty leave", "way with blank texts named 'leave'"),
    ("train --train train.csv --test stray.csv", "stray"),
    ("train --data notes.docx", ".docx"),
    ("train --dataset sstt", "sstt"),
    ("train --dataset mock-7", "mock-"),
    ("train --model bilstmm", "bilstm"),
    ("train --model ./folder", "folder"),
    ("train --dataset mock-1 --data reviews.csv", "one of"),
    ("train --dev reviews.csv", "--train"),
    ("train --epochs 0", "epoch"),
    ("train --epochs many", "--epochs"),
    ("train --optimizer sgdd", "sgdd"),
    ("train --attention multiplicative", "attention"),
    ("train --embeddings nowhere.npz", "nowhere.npz"),
    ("train --out file.txt/inside", "file.txt"),
    ("train --backend cloud --seed 0 --seed 1 --epochs 1 --dataset mock-1", "cloud"),
    ("train --seed -1", "not -1"),
    ("train --seed 0 --seed 18446744073709551616", "not 18446744073709551616"),
    ("data show --data-seed -1", "seed of the data"),
    ("study attefa --set 'seeds=[3, -1]'", "not -1"),
    ("study seed-variance --set 'other_seeds=[-2]'", "not -2"),
    ("study attefa --set 'subject.seeds=[-3]'", "not -3"),
    ("study attefa --set subject.dataset.seed=-4", "not -4"),
    ("study permutation --set seed=-5", "not -5"),
    ("study guided-mlp --set adversary_seed=-6", "not -6"),
    ('study guided-mlp --set \'guides=["base", "lime(sample=3)"]\'', "no setting 'sample'"),
    ("train --data reviews.csv --classes 3", "--classes"),
    ("train --train train.csv --strength weak", "--strength"),
    ("train --data reviews.csv --lexicon folder", "--lexicon"),
    ("explain wonderful --model ./folder --max-length 4", "--max-length"),
    ("explain wonderful --model owner/name --epochs 4", "--epochs"),
    ("audit --model ./folder --step lowercase", "--step"),
    ("study erasure --model ./folder --embeddings nowhere.npz", "--embeddings"),
    ("explain wonderful --model ./folder --seed -1", "not -1"),
    ("explain", "text"),
    ('explain "  "', "empty"),
    ("audit --methods 'attention,lime(sample=3)'", "no setting 'sample'"),
    ("study agreement --methods 'attention,lime(samples=3'", "lime(samples=500"),
    ("explain wonderful --methods 'lime(samples=few)'", "samples"),
    ("explain wonderful --methods limee --dataset mock-1 --epochs 1", "lime"),
    ("explain wonderful --out heat.docx", "heat.docx"),
    ("explain wonderful --methods attention-flow --dataset mock-1 --epochs 1 --hidden 8", "self-attention"),
    ("audit --methods limee --epochs 1", "lime"),
    ("audit --out file.txt", "file.txt"),
    ("study agreementt", "agreement"),
    ("study erasure --set fractions", "NAME=VALUE"),
    ("study erasure --set fraction=[0.1]", "fractions"),
    ("study agreement --config nowhere.toml", "nowhere.toml"),
    ("study agreement --explanations reviews.csv", "reviews.csv"),
    ("data show nowhere", "nowhere"),
    ("list explainer", "explainers"),
    ("runs show 123", "123"),
    ("runs remove 123", "123"),
    ("train --workers 0", "at least 1, not 0"),
    ("study agreement --workers -2", "at least 1, not -2"),
    ("train --backend cloudd", "cloudd"),
    ("train --data-dir nowhere", "nowhere"),
    ("train --dataset ''", "--dataset is empty"),
    ("data show ''", "name of the dataset is empty"),
    ("data show mock-1 --rows -1", "--rows"),
    ("explain wonderful --model ''", "--model is empty"),
    ("train --model ./nowhere", "checkpoint folder at ./nowhere"),
    ("train --out file.txt", "file.txt"),
    ("explain wonderful --out folder.html", "folder.html is a folder"),
    ("study agreement --out file.txt", "file.txt"),
    ("audit --instances 0", "at least 1, not 0"),
    ("train --data folder", "folder, not a file"),
    ("train --data /dev/null", "not an ordinary file"),
    ("study agreement --config binary.toml", "not UTF-8"),
    ("study agreement --config folder", "folder, not a file"),
    ("study agreement --config broken.toml", "not valid TOML"),
    ("study agreement --explanations nowhere.parquet", "nowhere.parquet"),
    ("audit --explanations nowhere.parquet", "nowhere.parquet"),
    ("audit --explanations folder", "folder, not a file"),
    ("audit --explanations file.txt --seed 0 --seed 1", "give one seed"),
    ("train --hidden 9999999999999999999999", "hidden must be"),
    ("train --layers 100000000", "layers must be"),
    ("train --width 99999999999999999999999", "widths"),
    ("train --epochs 9999999999999999", "number of epochs"),
    ("train --batch-size 99999999999999999999999", "batch size"),
    (
        "train --dataset mock-1 --encoder mlp --hidden 1000000 --embedding-dim 1 --layers 2",
        "memory",
    ),
    ("train --data-seed 99999999999999999999999", "seed of the data"),
    ("study agreement --seed 99999999999999999999999", "seed of a model"),
    ("train --patience few", "few"),
    ("train --objective tyingg", "did you mean 'tying'"),
    ("train --objective 'tying(wait=3)'", "no setting 'wait'"),
    ("train --objective attefa-adversary --dataset mock-1", "only a study"),
    ("train --callback dynamic", "dynamics"),
    ("explain 'caf\udce9 film'", "not UTF-8"),
    ("train --text-column 'caf\udce9'", "not UTF-8"),
    ("train --data foreign.parquet", "not UTF-8"),
    ("train --data nested.jsonl", "Line 1 of nested.jsonl is nested too deeply"),
    ("train --data digits.jsonl", "Line 2 of digits.jsonl holds a number with too many digits"),
    ("train --data lists.jsonl", "The label ('label') in line 1 of lists.jsonl is a list or an object"),
    ("train --data objects.jsonl", "is a list or an object"),
    ("train --data pipe.csv", "not an ordinary file"),
    ("audit --explanations pipe.csv", "not an ordinary file"),
    ("study agreement --config pipe.csv", "not an ordinary file"),
    ("study agreement --config digits.toml", "too many digits"),
    ("study agreement --config nested.toml", "nested too deeply"),
    (f"study agreement --set instances={'1' * 5000}", "too many digits"),
    (f"study agreement --set x={'[' * 5000}", "nested too deeply"),
    (f"explain wonderful --methods 'lime(samples={'1' * 5000})'", "samples"),
    (f"train --epochs {'1' * 5000}", "--epochs"),
    ("explain wonderful --model ./deep --methods lime", "configuration of deep cannot be read"),
    (
        "train --dataset mock-1 --epochs 1 --store /proc/nowhere",
        "Cannot write to the run store /proc/nowhere",
    ),
    ("train --dataset mock-1 --epochs 1 --store /dev/null", "Cannot write to the run store /dev/null"),
    ("list encoder", "encoders"),
    ("--nope", "--nope"),
    ("traiin", "train"),
]


@pytest.fixture
def bad_files(tmp_path: Path, reviews: Path) -> None:
    files = {
        "empty.csv": "",
        "header.csv": "text,label\n",
        "one_class.csv": "text,label\n" + "a fine day,1\n" * 9,
        "once.csv": "text,label\n" + "a fine day,1\na grey day,0\n" * 9 + "odd,once\n",
        "numbers.csv": "text,label\n1.5,0\n2.5,1\n" * 5,
        "broken.jsonl": '{"text": "fine", "label": 1}\n{"text": \n',
        "blank.csv": "text,label\na fine day,1\n ,0\na grey day,0\n",
        "gaps.csv": "text,label\na fine day,1\na grey day,0\n,1\na long day,0\n ,1\n" + "a day,1\n" * 25,
        "train.csv": "text,label\n" + "a fine day,good\na grey day,bad\n" * 9,
        "stray.csv": "text,label\na fine day,stray\n",
        "notes.docx": "text",
        "file.txt": "a file, not a folder",
        "nested.jsonl": f'{{"text": {"[" * 50_000}',
        "digits.jsonl": '{"text": "fine", "label": 1}\n{"text": "grey", "label": ' + "1" * 5000 + "}\n",
        "lists.jsonl": '{"text": "fine", "label": [1, 2]}\n' * 20,
        "objects.jsonl": '{"text": "fine", "label": {"a": 1}}\n' * 20,
        "digits.toml": f"instances = {'1' * 5000}\n",
        "nested.toml": f"instances = {'[' * 5000}\n",
        "deep/config.json": f'{{"a": {"[" * 50_000}',
    }
    (tmp_path / "deep").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.html").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    places = struct.pack("<3i", 0, 3, 6)
    wrong = pa.Array.from_buffers(pa.string(), 2, [None, pa.py_buffer(places), pa.py_buffer(b"a\xff\xfeabc")])
    pq.write_table(pa.table({"text": wrong, "label": ["x", "y"]}), tmp_path / "foreign.parquet")
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    (tmp_path / "broken.toml").write_text("instances = \n", encoding="utf-8")


@pytest.mark.usefixtures("bad_files")
@pytest.mark.parametrize(("typed", "about"), BAD, ids=[ascii(typed)[:80] for typed, _ in BAD])
def test_mistakes_end_in_one_sentence(rashomon: Command, tmp_path: Path, typed: str, about: str) -> None:
    import shlex

    said = rashomon(*shlex.split(typed))
    assert said.code == 2, said
    assert about.lower() in said.err.lower(), said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    unfinished = [path for path in (tmp_path / "store").rglob("*.partial") if any(path.iterdir())]
    assert [path for path in unfinished if (path / "model").exists()] == []


def test_a_cut_emoji_does_not_end_a_training(rashomon: Command, tmp_path: Path) -> None:
    lines = [
        rf'{{"text": "a {word} day {n} \ud83d", "label": {label}}}'
        for n in range(10)
        for label, word in enumerate(("grey", "fine"))
    ]
    (tmp_path / "cut.jsonl").write_text("\n".join(lines), encoding="utf-8")
    quick = ("--epochs", 1, "--hidden", 8, "--embedding-dim", 8)
    said = rashomon("train", "--data", "cut.jsonl", *quick, "--quiet")
    assert said.code == 0, said


@pytest.mark.parametrize("name", ["owner/name", "./folder", "~/folder"])
def test_a_folder_or_a_hub_id_is_a_checkpoint(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "folder").mkdir()
    options = ModelOptions(of_model={"name": name}, seed=[5, 6])
    assert options.checkpoint()
    subject = options.any_subject(DatasetSpec())
    assert (subject.checkpoint, subject.training, subject.seeds) == (name, None, (5, 6))
    assert ModelOptions(of_model={"name": name}).any_subject(DatasetSpec(), (3,)).seeds == (3,)
    assert options.subject(DatasetSpec()).checkpoint is None  # `rashomon train` fine-tunes it


@pytest.mark.parametrize("name", [*encoders.names(), *PRETRAINED, *PRETRAINED.values(), "owner/registered"])
def test_what_has_to_be_trained_is_no_checkpoint(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Entry("owner/registered", build_model, "of another package")
    monkeypatch.setitem(models._entries, "owner/registered", made)
    options = ModelOptions(of_model={"name": name}, of_training={"epochs": 2})
    assert not options.checkpoint()
    subject = options.any_subject(DatasetSpec())
    assert (subject.checkpoint, subject.how_trained.epochs) == (None, 2)


def test_an_interrupted_command_says_so(rashomon: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rashomon.experiments.context.load_dataset", stop)
    said = rashomon("data", "show", "planted-reviews")
    assert said.code == 130
    assert "Interrupted" in said.err


@pytest.mark.parametrize(
    "typed", ["audit --dataset nosuch --out made", "study agreement --dataset nosuch --out made"]
)
def test_a_mistake_leaves_no_folder_behind(rashomon: Command, tmp_path: Path, typed: str) -> None:
    out = tmp_path / "made" / "deep"
    assert rashomon(*typed.replace("made", str(out)).split()).code == 2
    assert not (tmp_path / "made").exists()


def test_a_place_that_cannot_be_written_is_told_before_the_work(rashomon: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    said = rashomon("audit", "--dataset", "nosuch", "--out", str(tmp_path / "file" / "report"))
    assert (said.code, "Cannot write to" in said.err) == (2, True), said.err


def test_endings_of_file_names_may_be_in_capitals(rashomon: Command, reviews: Path, tmp_path: Path) -> None:
    shouted = tmp_path / "REVIEWS.CSV"
    shouted.write_bytes(reviews.read_bytes())
    said = rashomon("data", "show", "--data", shouted, "--text-column", "body", "--label-column", "stars")
    assert (said.code, "40" in said.out) == (0, True), said


def test_a_label_of_thousands_of_digits_is_no_label(rashomon: Command, tmp_path: Path) -> None:
    lines = [f"a text {n},{'1' * 5000 + '.0' if n % 2 else 2}" for n in range(20)]
    (tmp_path / "digits.csv").write_text("\n".join(["text,label", *lines]), encoding="utf-8")
    said = rashomon("train", "--data", "digits.csv", *QUICK.split(), "--quiet")
    assert said.code == 2
    assert "in line 3 of digits.csv has 5,002 characters, which is too long for a name.\n" in said.err


def test_texts_cannot_steer_the_terminal(rashomon: Command, tmp_path: Path) -> None:
    evil = "\x1b[2J\x1b]0;owned\x07 a fine\x9b31m day"
    (tmp_path / "evil.csv").write_text(f"text,label\n{evil},\x1b[31mred\na grey day,0\n", encoding="utf-8")
    said = rashomon("data", "show", "--data", "evil.csv")
    assert said.code == 0, said
    assert "\\x1b[2J\\x1b]0;owned\\x07 a fine\\x9b31m day" in said.out
    assert not set(said.out) & {"\x1b", "\x07", "\x9b"}


@pytest.mark.parametrize(
    "words",
    ["data show", "explain --model ./model --methods attention", f"explain --methods attention {QUICK}"],
)
def test_a_few_blank_texts_are_left_out_and_told_of_once(
    rashomon: Command, tmp_path: Path, words: str
) -> None:
    lines = [f"a {word} day {n},{word}" for n in range(20) for word in ("fine", "grey")]
    (tmp_path / "gaps.csv").write_text("\n".join(["text,label", *lines, ",fine", " ,grey"]), encoding="utf-8")
    if "--model" in words:
        assert rashomon("train", "--data", "gaps.csv", *QUICK.split(), "--out", "model").code == 0
    said = rashomon(*words.split(), "--data", "gaps.csv")
    left_out = "2 of 42 rows of gaps.csv have an empty text ('text') and were left out: lines 42-43."
    assert (said.code, said.err.count(f"warning: {left_out}\n")) == (0, 1), said
    assert said.out.count(f"note: {left_out}") == 1


def test_a_plugin_that_is_broken_is_told_in_a_line(
    rashomon: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rashomon.registry.entry_points",
        lambda group: [EntryPoint("broken", "no_such_package.at_all:Broken", group)],
    )
    monkeypatch.setattr(measures, "_complete", False)
    said = rashomon("list", "measures", "--json")
    assert (said.code, "kendall" in said.out) == (0, True)
    assert said.err.startswith("warning: The measure 'broken' is left out")


@pytest.mark.parametrize("words", [("train",), ("explain", "a wonderful film", "--methods", "attention")])
def test_what_was_done_to_the_data_is_told(rashomon: Command, reviews: Path, words: tuple[str, ...]) -> None:
    own = ("--data", reviews, "--text-column", "body", "--label-column", "stars", "--keep", "max-tokens:9")
    quick = (*own, "--encoder", "mlp", "--hidden", 4, "--epochs", 1)
    said = rashomon(*words, *quick)
    assert (said.code, "note: max-tokens:9 dropped 0 of 32 in train" in said.out) == (0, True), said
    assert "note:" not in rashomon(*words, *quick, "--quiet").out


def test_texts_that_were_trained_on_are_marked(rashomon: Command, reviews: Path) -> None:
    """Of 40 rows 32 are for training; a text of one's own is none of them."""
    quick = ("--encoder", "mlp", "--hidden", 4, "--epochs", 1, "--methods", "attention", "--limit", 40)
    own = ("--data", reviews, "--text-column", "body", "--label-column", "stars")
    document = json.loads(rashomon("explain", *own, *quick, "--json").out)
    assert sum(TRAINED_ON in item["warnings"] for item in document) == 32
    assert f"attention: {TRAINED_ON} (32 of 40 texts)" in rashomon("explain", *own, *quick).out
    records = json.loads(rashomon("explain", "a dull and moving film", *own, *quick, "--json").out)
    assert [(item["tokens"], item["warnings"]) for item in records] == [
        (["a", "dull", "and", "moving", "film"], [])
    ]
