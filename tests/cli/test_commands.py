"""The commands as a newcomer meets them."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rashomon.cli.options import OutputOptions
from rashomon.cli.output import Printer
from rashomon.cli.study import _compact, _figure_column
from rashomon.explainers import Explanations
from rashomon.runs.specifications import to_plain
from rashomon.studies import studies
from tests.cli.conftest import Command

QUICK = ("--epochs", 1, "--hidden", 8, "--embedding-dim", 8)
OWN = ("--text-column", "body", "--label-column", "stars")


@pytest.mark.parametrize(
    "words",
    ["", "train", "audit", "explain", "study", "data show", "runs list", "runs show", "runs remove", "list"],
)
def test_help_teaches(rashomon: Command, words: str) -> None:
    said = rashomon(*words.split(), "--help")
    assert said.code == 0
    assert "Usage" in said.out


def test_version(rashomon: Command) -> None:
    assert rashomon("--version").out.startswith("rashomon ")


def test_training_keeps_its_work(rashomon: Command, reviews: Path, tmp_path: Path) -> None:
    first = rashomon("train", "--data", reviews, *OWN, *QUICK, "--json", "--out", tmp_path / "model")
    assert first.code == 0, first
    document = json.loads(first.out)
    assert {row["split"] for row in document["scores"]} == {"train", "dev", "test"}
    assert (tmp_path / "model" / "model.safetensors").is_file()
    again = rashomon("train", "--data", reviews, *OWN, *QUICK, "--json")
    assert json.loads(again.out)["scores"] == document["scores"]
    assert "training" not in again.err, "what was trained before must not be trained again"


def test_runs_are_listed_shown_and_removed(rashomon: Command, reviews: Path) -> None:
    rashomon("train", "--data", reviews, *OWN, *QUICK, "--quiet")
    (run,) = json.loads(rashomon("runs", "list", "--json").out)
    assert run["finished"]
    shown = json.loads(rashomon("runs", "show", run["key"][:6], "--json").out)
    assert "history.json" in shown["files"]
    assert rashomon("runs", "remove", run["key"]).code == 0
    assert json.loads(rashomon("runs", "list", "--json").out) == []


def test_data_show(rashomon: Command, reviews: Path) -> None:
    said = rashomon("data", "show", "--data", reviews, *OWN, "--json")
    assert sum(split["examples"] for split in json.loads(said.out)["splits"]) == 40
    assert "planted-reviews" in rashomon("data", "show", "planted-reviews").out


def test_list_names_everything(rashomon: Command) -> None:
    listed = json.loads(rashomon("list", "--json").out)
    names = {kind: {entry["name"] for entry in entries} for kind, entries in listed.items()}
    assert {"mock-1", "planted-reviews"} <= names["datasets"]
    assert {"bilstm", "minilm"} <= names["models"]
    assert {"bilstm", "mlp"} <= names["encoders"]
    assert {"cross-entropy", "tying"} <= names["objectives"]
    assert {"classification", "span"} <= names["tasks"]
    assert {"lime", "deeplift", "attention-flow"} <= names["explainers"]
    assert {"kendall", "jsd"} <= names["measures"]
    assert {"agreement", "erasure", "recovery", "necessity", "noise-ceiling"} <= names["studies"]
    assert all(entry["summary"] for entries in listed.values() for entry in entries)


def test_explain_a_text_and_save_it(rashomon: Command, reviews: Path, tmp_path: Path) -> None:
    methods = "attention,leave-one-out,gradient-x-input"
    common = ("--data", reviews, *OWN, *QUICK, "--methods", methods, "--limit", 2)
    shown = rashomon("explain", *common)
    assert shown.code == 0, shown
    assert "leave-one-out" in shown.out
    for name in (
        "explanations.parquet",
        "explanations.html",
        "explanations.json",
        "new/explanations.html",
        "newer/explanations.json",
    ):
        assert rashomon("explain", *common, "--out", tmp_path / name, "--quiet").code == 0
    explanations = Explanations.load(tmp_path / "explanations.parquet")
    assert explanations.methods == tuple(methods.split(","))
    assert len(explanations) == 6
    assert "<html" in (tmp_path / "explanations.html").read_text(encoding="utf-8")
    assert len(json.loads((tmp_path / "explanations.json").read_text(encoding="utf-8"))) == 6
    document = json.loads(rashomon("explain", *common, "--json").out)
    assert document[0]["method"] == "attention"


def test_explain_with_a_checkpoint_needs_no_data(rashomon: Command, reviews: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    rashomon("train", "--data", reviews, *OWN, *QUICK, "--quiet", "--out", folder)
    said = rashomon("explain", "a wonderful film", "--model", folder, "--methods", "attention", "--json")
    assert said.code == 0, said
    assert json.loads(said.out)[0]["tokens"] == ["a", "wonderful", "film"]
    asked = (
        "explain",
        "a wonderful film",
        "--model",
        folder,
        "--methods",
        "leave-one-out",
        "--json",
        "--space",
    )
    (record,) = json.loads(rashomon(*asked, "centred").out)
    assert record["output_space"] == "centred"
    for wrong in (rashomon(*asked, "centered"), rashomon("study", "erasure", "--space", "centered")):
        assert (wrong.code, "did you mean 'centred'" in wrong.err) == (2, True)


def test_audit_writes_a_report(rashomon: Command, reviews: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    rashomon("train", "--data", reviews, *OWN, *QUICK, "--quiet", "--out", folder)
    out = tmp_path / "report"
    said = rashomon(
        "audit", "--model", folder, "--data", reviews, *OWN, "--out", out, "--json",
        "--methods", "attention,leave-one-out,leave-one-out( perturbation = mask ),gradient-x-input",
        "--instances", 6,
    )  # fmt: skip
    assert said.code == 0, said
    assert "leave-one-out(perturbation=mask)" in json.loads(said.out)["verdicts"]
    assert set(json.loads(said.out)["findings"]) >= {"agreement", "noise-ceiling", "erasure"}
    assert (out / "report.html").is_file()
    assert json.loads((out / "findings.json").read_text(encoding="utf-8"))
    assert list((out / "tables").glob("*.parquet"))


def test_an_audit_says_first_what_a_simulation_costs(rashomon: Command, tmp_path: Path) -> None:
    few = (
        "--methods",
        "attention",
        "--instances",
        10,
        "--epochs",
        1,
        "--hidden",
        8,
        "--dataset",
        "planted-reviews",
    )
    few += ("--without", "noise-ceiling,necessity,permutation,seed-variance,instance-adversary,attefa")
    said = rashomon("audit", "--simulate", *few, "--out", "report")
    assert said.code == 0, said
    assert said.out.startswith(
        "The simulation explains 30 texts by 1 methods and trains 20 students: at most about"
    )
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "study-simulation" in page
    assert "What is it worth?" in page


def test_too_few_texts_for_a_simulation_are_told_first(
    rashomon: Command, reviews: Path, tmp_path: Path
) -> None:
    rashomon("train", "--data", reviews, *OWN, *QUICK, "--quiet", "--out", "model")
    few = (
        "--methods",
        "attention,leave-one-out",
        "--instances",
        3,
        "--without",
        "noise-ceiling,erasure,permutation",
    )
    said = rashomon(
        "audit", "--simulate", "--model", "./model", "--data", reviews, *OWN, *few, "--out", "report"
    )
    assert said.code == 0, said
    assert said.out.startswith("There will be no simulation: ")
    assert "simulation was left out: 40 texts of reviews" in said.out.replace("\n", " ")


def test_stored_explanations_take_part_in_an_audit(rashomon: Command, reviews: Path, tmp_path: Path) -> None:
    rashomon("train", "--data", reviews, *OWN, *QUICK, "--quiet", "--out", "model")
    own = ("--model", "./model", "--data", reviews, *OWN)
    explained = rashomon(
        "explain", *own, "--methods", "gradient-x-input", "--limit", 9, "--out", "explanations.parquet"
    )
    assert explained.code == 0, explained
    few = ("--methods", "attention", "--without", "noise-ceiling,permutation,erasure", "--json")
    said = rashomon("audit", *own, "--explanations", "explanations.parquet", *few, "--out", "report")
    assert said.code == 0, said
    assert list(json.loads(said.out)["verdicts"]) == ["attention", "gradient-x-input"]
    rashomon("train", "--data", reviews, *OWN, *QUICK, "--seed", 7, "--quiet", "--out", "model")
    said = rashomon("audit", *own, "--explanations", "explanations.parquet", *few, "--out", "report")
    assert (said.code, "are of another model than the one given" in said.err) == (2, True), said


def test_an_audit_begins_with_how_good_the_model_is(rashomon: Command, reviews: Path, tmp_path: Path) -> None:
    rashomon("train", "--data", reviews, *OWN, *QUICK, "--quiet", "--out", "model")
    starred = reviews.read_text(encoding="utf-8").replace(",4\n", ",4 stars\n").replace(",1\n", ",1 star\n")
    (tmp_path / "starred.csv").write_text(starred, encoding="utf-8")
    few = ("--methods", "attention,leave-one-out", "--instances", 3)
    few += ("--without", "noise-ceiling,erasure,permutation")
    said = rashomon("audit", "--model", "./model", "--data", "starred.csv", *OWN, *few, "--out", "report")
    assert said.code == 0, said
    matched = "The labels 1 star, 4 stars are not the model's 1, 4; they were matched in order: 1 star with 1"
    assert f"warning: {matched}" in said.err
    assert said.out.startswith("Accuracy ")
    assert "It predicts " in said.out
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    sections = re.findall(r'<section id="(study-[a-z-]+)"', page)
    assert sections[:3] == ["study-performance", "study-model-check", "study-agreement"]
    assert "they were matched in order: 1 star with 1, 4 stars with 4." in page


def test_a_study_from_options_and_from_a_file_is_the_same(rashomon: Command, tmp_path: Path) -> None:
    common = ("--dataset", "mock-1", *QUICK)
    asked = ("--instances", 5, "--methods", "attention,leave-one-out", "--set", "measures=['kendall']")
    first = rashomon("study", "agreement", *common, *asked, "--json", "--out", tmp_path / "study")
    assert first.code == 0, first
    page = (tmp_path / "study" / "report.html").read_text(encoding="utf-8")
    assert "Rashomon study" in page
    assert "<dd>bilstm</dd>" in page
    assert "<dd>mock-1</dd>" in page
    document = json.loads(first.out)
    assert {row["measure"] for row in document["summary"]} == {"kendall"}
    config = tmp_path / "study.toml"
    config.write_text(_toml(document["configuration"]), encoding="utf-8")
    again = rashomon("study", "agreement", "--config", config, "--json")
    assert again.code == 0, again
    assert json.loads(again.out)["summary"] == document["summary"]


def test_attefa_trains_its_bases_as_published_except_for_what_was_asked(rashomon: Command) -> None:
    data = ("--dataset", "planted-reviews", "--encoder", "mlp", "--hidden", 8, "--embedding-dim", 8)
    few = (
        "--epochs",
        1,
        "--seed",
        3,
        "--seed",
        4,
        "--seeds",
        1,
        "--set",
        "training={epochs=1, select='loss'}",
    )
    said = rashomon("study", "attefa", *data, *few, "--json")
    assert said.code == 0, said
    document = json.loads(said.out)
    training = document["configuration"]["subject"]["training"]
    assert (training["epochs"], training["select"], training["optimizer"]) == (1, "roc-auc", "adam")
    (row,) = document["summary"]
    assert (row["bases"], row["n"]) == (2, 2)


@pytest.mark.parametrize(
    ("name", "typed", "expected"),
    [
        (
            "attefa",
            "--dataset mock-1 --encoder mlp --set subject.seeds=[4,5]",
            {"subject.dataset.name": "mock-1", "subject.model.name": "mlp", "subject.seeds": [4, 5]},
        ),
        (
            "attefa",
            "--set training.epochs=40",
            {"training.epochs": 40, "training.patience": 10, "training.optimizer": "adam"},
        ),
        ("adversary", "--set training.epochs=40", {"training.epochs": 40, "training.optimizer": "amsgrad"}),
        (
            "instance-adversary",
            "--set search.steps=50 --set search.starts=2",
            {"search.steps": 50, "search.starts": 2},
        ),
        ("attefa", "--classes 3", {"subject.dataset.classes": 3, "subject.dataset.name": "mock-5"}),
        ("adversary", "--seeds 3", {"seeds": [1, 2, 3]}),
        ("seed-variance", "--seeds 2", {"other_seeds": [1, 2], "subject.seeds": [0]}),
        ("agreement", "--seeds 2", {"subject.seeds": [0, 1]}),
        ("agreement", "--epochs 2", {"subject.training.epochs": 2, "subject.training.select": "f1"}),
        ("erasure", "--set split=dev --set instances=7", {"split": "dev", "instances": 7}),
        ("necessity", "", {"subject.training": None}),
        ("necessity", "--set subject.model.name=minilm", {"subject.training": None}),
        (
            "necessity",
            "--set subject.training.epochs=2",
            {"subject.training.epochs": 2, "subject.training.select": "roc-auc"},
        ),
        (
            "necessity",
            "--set subject.model.name=minilm --set subject.training.epochs=2",
            {"subject.training.epochs": 2, "subject.training.optimizer": "adamw"},
        ),
    ],
)
def test_what_is_asked_of_a_study_changes_that_alone(
    rashomon: Command, monkeypatch: pytest.MonkeyPatch, name: str, typed: str, expected: dict[str, object]
) -> None:
    asked: list[object] = []

    def stop(self: object, context: object) -> None:
        asked.append(self)
        raise KeyboardInterrupt

    monkeypatch.setattr(studies.get(name), "run", stop)
    rashomon("study", name, *typed.split())
    plain = to_plain(asked[0])
    for path, value in expected.items():
        found: Any = plain
        for part in path.split("."):
            found = found[part]
        assert found == value, path


def test_a_file_says_what_differs_from_the_usual_training(
    rashomon: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(studies.get("necessity"), "run", lambda study, _: asked.append(study) or 1 / 0)
    file = tmp_path / "study.toml"
    for model, select in (("bilstm", "roc-auc"), ("minilm", "accuracy")):
        file.write_text(f'[subject.model]\nname = "{model}"\n[subject.training]\nepochs = 4\n')
        rashomon("study", "necessity", "--config", file)
        training = asked.pop().subject.training
        assert (training.epochs, training.select) == (4, select)


def _toml(values: dict, prefix: str = "") -> str:
    """Enough TOML for a configuration."""
    lines, tables = [], []
    for key, value in values.items():
        if isinstance(value, dict):
            tables.append((f"{prefix}{key}", value))
        elif value is not None:
            lines.append(f"{key} = {json.dumps(value)}")
    text = "\n".join(lines) + "\n"
    return text + "".join(f"[{name}]\n{_toml(value, f'{name}.')}" for name, value in tables)


def test_tables_show_the_columns_that_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"figure_{number}" for number in range(12)]
    for width, shown in ((60, 5), (300, 12)):
        monkeypatch.setenv("COLUMNS", str(width))
        Printer(OutputOptions(False, False)).table("Wide", names, [[0.123456] * 12])
        said = capsys.readouterr().out
        assert said.count("0.123") == shown
        assert ("Not shown" in said) == (shown < 12)
        assert "figure_11" in said


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("--model mlp", "--model"),
        ("--data reviews.csv", "--data"),
        ("-d mock-1", "--dataset"),
        ("--seed 3", "--seed"),
        ("--seeds 3", "--seeds"),
        ("--text-column body", "--text-column"),
    ],
)
@pytest.mark.usefixtures("reviews")
def test_a_file_is_the_whole_configuration(rashomon: Command, tmp_path: Path, typed: str, named: str) -> None:
    config = tmp_path / "study.toml"
    config.write_text("instances = 5\n", encoding="utf-8")
    said = rashomon("study", "agreement", "--config", config, *typed.split())
    assert said.code == 2
    assert f"{named} cannot be given beside --config" in said.err


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("study agreement --seeds 0", "at least one seed, not 0"),
        ("study adversary --seeds 0", "at least one seed, not 0"),
        ("study noise-ceiling --set repeated=0", "at least one text, not 0"),
        ("explain text --limit 0 --model mlp", "--limit must be at least 1, not 0"),
        ("explain --dataset mock-1 --limit -3", "--limit must be at least 1, not -3"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(rashomon: Command, typed: str, message: str) -> None:
    said = rashomon(*typed.split())
    assert said.code == 2
    assert message in said.err


@pytest.mark.parametrize("typed", ["--methods nonsense", "--without nonsense"])
def test_a_wrong_name_leaves_no_folder(rashomon: Command, tmp_path: Path, typed: str) -> None:
    assert rashomon("audit", *typed.split(), "--out", tmp_path / "zz").code == 2
    assert not (tmp_path / "zz").exists()


def test_a_command_can_be_pasted(rashomon: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[str] = []

    def stop(context: object, settings: object, command: str) -> None:
        commands.append(command)
        raise KeyboardInterrupt

    monkeypatch.setattr("rashomon.audits.run_audit", stop)
    (tmp_path / "my reviews.csv").write_text("text,label\n", encoding="utf-8")
    words = ["audit", "--data", str(tmp_path / "my reviews.csv"), "--out", str(tmp_path / "zz")]
    monkeypatch.setattr("sys.argv", ["rashomon", *words])
    rashomon(*words)
    assert shlex.split(commands[0]) == ["rashomon", *words]


def test_stored_explanations_are_filtered_and_named(rashomon: Command, reviews: Path, tmp_path: Path) -> None:
    path = tmp_path / "explanations.parquet"
    common = ("--data", reviews, *OWN, *QUICK, "--limit", 6, "--quiet", "--out", path)
    rashomon("explain", *common, "--methods", "attention,leave-one-out,gradient-x-input")
    study = ("study", "agreement", "--explanations", path, "--json")
    said = rashomon(*study, "--methods", "attention,leave-one-out", "--instances", 4, "--out", tmp_path / "r")
    document = json.loads(said.out)
    assert {(row["first"], row["second"]) for row in document["summary"]} == {("attention", "leave-one-out")}
    assert max(row["n"] for row in document["summary"]) <= 4
    assert "subject" not in document["configuration"]
    page = (tmp_path / "r" / "report.html").read_text(encoding="utf-8")
    assert "<dd>explanations.parquet: 4 texts</dd>" in page
    assert "planted-reviews" not in page
    wrong = rashomon(*study, "--methods", "lime")
    assert wrong.code == 2
    assert "only by attention, leave-one-out, gradient-x-input" in wrong.err


def test_small_numbers_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    Printer(OutputOptions(False, False)).table("Sweep", ["lambda"], [[5.25e-4], [8e-4], [0.0], [0.0123]])
    said = capsys.readouterr().out
    assert all(number in said for number in ("0.000525", "0.0008", "0.000 ", "0.012 "))


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_the_figure_comes_right_after_the_names_however_narrow_the_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    names = {
        "measure": ["kendall-top-25pct"],
        "first": ["integrated-gradients(steps=50)"],
        "second": ["lime"],
    }
    counts, figures = (
        {"n": [100], "undefined": [7]},
        {"mean": [0.5], "std": [0.1], "low": [0.4], "high": [0.6], "interval": ["95 %"]},
    )
    table = _compact(pd.DataFrame({**names, **counts, **figures, "p_holm": [0.125]}))
    assert list(table.columns) == [*names, "mean [95 %]", "n", "undefined", "p_holm"]
    Printer(OutputOptions(False, False)).table(
        "Agreement", list(table.columns), table.itertuples(index=False), keep=_figure_column(table) + 1
    )
    lines = capsys.readouterr().out.splitlines()
    assert any("0.500 [0.400, 0.600]" in line for line in lines)
    assert all(len(line) <= width for line in lines)


def test_counts_come_after_what_was_counted() -> None:
    table = _compact(pd.DataFrame({"kind": ["seed"], "n": [3], "jsd": [0.25], "f1": [0.5], "undefined": [0]}))
    assert list(table.columns) == ["kind", "jsd", "f1", "n", "undefined"]
    assert _figure_column(table) == 1


def test_undefined_figures_are_called_so() -> None:
    nan = float("nan")
    table = pd.DataFrame({"mean": [0.5, 0.5, nan], "low": [0.4, nan, nan], "high": [0.6, nan, nan]})
    table["interval"] = ["95 %", "none", "none"]
    assert _compact(table)["mean [95 %]"].tolist() == ["0.500 [0.400, 0.600]", "0.500", "undefined"]
    two_seeds = _compact(table.assign(interval=["range", "none", "none"]))
    assert two_seeds["mean (range)"].tolist() == ["0.500 (0.400 to 0.600)", "0.500", "undefined"]


def test_p_values_are_never_zero(capsys: pytest.CaptureFixture[str]) -> None:
    Printer(OutputOptions(False, False)).table("Tests", ["p_holm", "std"], [[0.0, 7.27e-17], [0.04, 0.1]])
    said = capsys.readouterr().out
    assert all(number in said for number in ("< .001", "0.040", " 0.000 ", "0.100"))
