"""``rashomon replicate``: what is typed, what is said, and that an interruption changes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rashomon.studies.base import Finding
from rashomon.studies.necessity import Necessity
from tests.cli.conftest import Command
from tests.papers.replications import data_folder_of

SMALL = (
    *("--set", "subject.model.hidden=4", "--set", "subject.model.embedding_dim=4"),
    *("--set", "subject.training.epochs=1", "--workers", "1", "--backend", "serial"),
)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("nott_not",), "There is no paper named 'nott_not'; did you mean 'not_not'?"),
        (("not_not", "--table", "12"), "There is no table of not_not named '12'"),
        (("not_not", "--only", "ssst"), "There is no dataset of not_not named 'ssst'; did you mean 'sst'?"),
        (("not_not", "--encoder", "gru"), "There is no encoder of not_not named 'gru'"),
        (("not_not", "--only", "anemia"), "Anemia is left out: MIMIC-III may not be passed on"),
        (("not_not", "--budget", "0"), "A budget is a number of minutes above 0, not 0."),
        (("not_not", "--budget", "0.01"), "Nothing fits into 0.01 minutes"),
        (("not_not", "--write", "x.md"), "--write is of all papers"),
        (("--write", "no/such/folder.md"), "Cannot write no/such/folder.md"),
        (("not_not", "--seeds", "0"), "at least one seed, not 0"),
        (("not_not", "--set", "hiden=4"), "hiden"),
        (("--table", "2"), "Say which paper to replicate"),
        (("--claims", "nott_not"), "There is no paper named 'nott_not'"),
        (("--claims", "--budget", "5"), "--claims reads what was run and runs nothing"),
        (("--claims", "--dry-run"), "--claims reads what was run and runs nothing"),
    ],
)
def test_mistakes_end_in_one_sentence(
    rashomon: Command, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    data = data_folder_of(tmp_path / "data", "sst", "imdb")
    said = rashomon("replicate", *words, "--data-dir", data)
    assert said.code == 2
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert not (tmp_path / "rashomon-replication").exists()


def test_a_dry_run_shows_the_plan_and_runs_nothing(rashomon: Command, tmp_path: Path) -> None:
    data = data_folder_of(tmp_path / "data", "sst")
    said = rashomon("replicate", "not_not", "--table", "2", "--dry-run", "--json", "--data-dir", data)
    document = json.loads(said.out)
    (row,) = document["plan"]
    assert row["point"] == "necessity on sst, bilstm"
    assert row["by"].startswith("a guess")
    assert document["seconds"] > 0
    assert "Anemia is left out: MIMIC-III may not be passed on." in document["not_run"]
    assert not (tmp_path / "store").exists()


def test_all_conclusions_and_tables_are_listed(rashomon: Command) -> None:
    said = rashomon("replicate", "--claims", "--json")
    document = json.loads(said.out)
    assert [row["claim"] for row in document["claims"]] == [f"C{number}" for number in range(1, 31)]
    assert document["outcomes"] == {"not run": 30}
    assert "C30" in rashomon("replicate", "--claims").out
    assert not Path("rashomon-replication").exists(), "no page unless a place is named"
    tables = json.loads(rashomon("replicate", "--json").out)["tables"]
    assert {row["paper"] for row in tables} >= {"attefa", "not_not"}


def test_killed_and_resumed_gives_the_same_page(
    rashomon: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rashomon.papers.kept.perf_counter", lambda: 0.0)  # times are on the page
    monkeypatch.setattr(
        "rashomon.papers.kept.usual_workers", lambda workers: float("inf")
    )  # of found runs too
    data = data_folder_of(tmp_path / "data", "sst", "imdb")
    words = ("replicate", "not_not", "--table", "2", "--seeds", 3, *SMALL, "--data-dir", data)
    whole = rashomon(*words, "--out", "whole", "--store", "one")
    assert whole.code == 0, whole.err

    run = Necessity.run

    def killed_at_the_second(self: Necessity, context: Any) -> Finding:
        if self.subject.dataset.name == "sst":
            raise KeyboardInterrupt
        return run(self, context)

    with monkeypatch.context() as patched:
        patched.setattr(Necessity, "run", killed_at_the_second)
        assert rashomon(*words, "--out", "parts", "--store", "two").code == 130
    assert not Path("parts").exists()
    resumed = rashomon(*words, "--out", "parts", "--store", "two")
    assert resumed.code == 0
    for name in ("report.html", "replication.json"):
        assert Path("parts", name).read_bytes() == Path("whole", name).read_bytes()
    for table in Path("whole", "tables").iterdir():
        pd.testing.assert_frame_equal(
            pd.read_parquet(table), pd.read_parquet(Path("parts", "tables", table.name))
        )
    document = json.loads(Path("whole", "replication.json").read_text(encoding="utf-8"))
    assert document["paper"] == "not_not"
    assert {row["claim"] for row in document["claims"]} == {f"C{number}" for number in range(7, 13)}
    page = Path("whole", "report.html").read_text(encoding="utf-8")
    assert "Rashomon replication" in page
    assert "replication.json" in page
    said = rashomon("replicate", "--claims", "--store", "two", *SMALL, "--out", "conclusions", "--json")
    assert json.loads(said.out)["report"] == str(Path("conclusions", "report.html"))
    conclusions = json.loads(Path("conclusions", "replication.json").read_text(encoding="utf-8"))
    assert [row["claim"] for row in conclusions["claims"]] == [f"C{number}" for number in range(1, 31)]
    of_paper = {row["claim"]: row["outcome"] for row in document["claims"]}
    assert of_paper.items() <= {row["claim"]: row["outcome"] for row in conclusions["claims"]}.items()
    outcomes = {row["claim"]: row["outcome"] for row in json.loads(said.out)["claims"]}
    assert outcomes["C7"] != "not run"
    written = rashomon(
        "replicate", "--write", "done.md", "--store", "two", *SMALL, "--data-dir", data, "--json"
    )
    assert json.loads(written.out) == {"document": "done.md", "figures": "done.json"}
    text = Path("done.md").read_text(encoding="utf-8")
    assert f"| C7 | {_says('C7', said.out)} | {outcomes['C7']} |" in text
    assert re.search(r"\| necessity on sst, bilstm \| [^|]+ \| 3 \| all \|", text)
    assert re.search(r"\| sst \| bilstm \| uniform \| f1 \| \.822 \| \d\.\d{3} \[.*\] \| −?\.\d{3} \|", text)
    assert "disagreement problem" not in text  # of that paper nothing was run
    rashomon(
        "replicate", "--write", "again.md", "--store", "two", *SMALL
    )  # what was run is told without the data
    assert _tables(Path("again.md").read_text(encoding="utf-8")) == _tables(text)
    for _ in range(2):  # a store that knows nothing of it keeps what the figures beside the document tell
        rashomon("replicate", "--write", "done.md", "--store", "three", "--data-dir", data)
        kept = Path("done.md").read_text(encoding="utf-8")
        assert f"| C7 | {_says('C7', said.out)} | {outcomes['C7']} |" in kept
        assert _tables(kept) == _tables(text)
    taken = rashomon("replicate", "--claims", "--take-over", "done.json", "--store", "four", "--json")
    assert {row["claim"]: row["outcome"] for row in json.loads(taken.out)["claims"]} == outcomes
    alone = rashomon("replicate", "--take-over", "done.json", "--store", "five")
    assert alone.out.strip() == "2 points of done.json count as run here."
    as_json = rashomon("replicate", "--take-over", "done.json", "--store", "five", "--json")
    assert json.loads(as_json.out) == {"taken_over": 2}
    assert "There is no file" in rashomon("replicate", "--take-over", "nothing.json").err
    refused = rashomon("replicate", "--claims", "--take-over", "done.md", "--store", "six")
    assert refused.code == 2
    assert "is no record of replications" in refused.err


def _tables(document: str) -> str:
    """All that a document tells but for the versions that it was written with."""
    return document[document.index("## Conclusions") :]


def _says(claim: str, document: str) -> str:
    return next(str(row["says"]) for row in json.loads(document)["claims"] if row["claim"] == claim)
