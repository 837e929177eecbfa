from __future__ import annotations

import json
import multiprocessing
import time
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest

import rashomon as ra
from rashomon.data import Columns, Dataset
from rashomon.data.vocabulary import Vocabulary
from rashomon.errors import UserError
from rashomon.experiments import explanation_runs
from rashomon.experiments.context import Context, is_small
from rashomon.experiments.subject import GIVEN, DatasetSpec, Subject
from rashomon.explainers import make_explainer
from rashomon.models.build import load_model
from rashomon.models.classifier import AttentionClassifier
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.files import read_json
from rashomon.runs.store import Store
from rashomon.studies.agreement import Agreement
from rashomon.studies.necessity import Necessity
from rashomon.training.run import model_key
from tests.studies.planted import QUICK, SMALL, planted, subject_in
from tests.studies.slow_training import LONG, train_slowly


def _start(store: Path, log: Path) -> BaseProcess:
    """A process of its own; the server has the slow imports done, and has never computed anything."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.studies.slow_training"])
    process = processes.Process(target=train_slowly, args=(store, log))
    process.start()
    return process


def _kill_after_epochs(process: BaseProcess, store: Path, epochs: int) -> None:
    """Wait until so many further epochs were written down, then SIGKILL."""
    seen: set[int] = set()
    end = time.monotonic() + 60
    while len(seen) <= epochs and time.monotonic() < end:
        for path in store.glob("models/*.partial/checkpoint.safetensors"):
            seen.add(path.stat().st_mtime_ns)
        time.sleep(0.005)
        assert process.is_alive(), "it ended before it could be killed"
    process.kill()
    process.join()


def test_killed_while_training_and_then_asked_for_by_two_processes(tmp_path: Path) -> None:
    store, log = tmp_path / "store", tmp_path / "log"
    _kill_after_epochs(_start(store, log), store, 0)
    _kill_after_epochs(_start(store, log), store, 2)
    assert not [run for run in Store(store).list() if run.finished]
    both = [_start(store, log), _start(store, log)]
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    assert log.read_text().count("training") == 3  # two that were killed, and one of the last two

    undisturbed = Context(Store(tmp_path / "other"), workers=1)
    subject = subject_in(undisturbed, training=LONG)
    trained = undisturbed.models(subject)[0]
    (folder,) = store.glob("models/*")
    (expected,) = undisturbed.folders(subject)
    assert folder.name == expected.name
    assert read_json(folder / "history.json") == read_json(expected / "history.json")
    assert load_model(folder / "model").fingerprint() == trained.model.fingerprint()
    assert not list(folder.glob("checkpoint*"))


def test_two_studies_train_the_same_model_once(context: Context, trainings: list[tuple[str, int]]) -> None:
    subject = subject_in(context, seeds=(0, 1))
    Agreement(subject, ("attention", "leave-one-out"), 4).run(context)
    Necessity(subject).run(context)
    assert trainings == [("softmax", 0), ("softmax", 1), ("uniform", 0), ("uniform", 1)]


def test_a_model_in_use_is_read_once(context: Context) -> None:
    subject = subject_in(context)
    first = context.models(subject)[0].model
    assert context.models(subject)[0].model is first


def test_results_do_not_depend_on_the_number_of_workers(tmp_path: Path) -> None:
    contexts = [Context(Store(tmp_path / str(workers)), workers=workers) for workers in (1, 2)]
    one, two = (context.models(subject_in(context, seeds=(0, 1))) for context in contexts)
    for a, b in zip(one, two, strict=True):
        assert a.model.fingerprint() == b.model.fingerprint()
        assert (a.history, a.scores) == (b.history, b.scores)


def test_moving_a_file_of_word_vectors_changes_nothing(context: Context, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = ["film", "great", "awful"]
    lines = [f"{word} {' '.join(f'{x:.3f}' for x in rng.normal(size=12))}" for word in words]
    here, there = tmp_path / "a.txt", tmp_path / "elsewhere" / "b.txt"
    here.write_text("\n".join(lines) + "\n")
    subject = subject_in(context, model=replace(SMALL, embeddings=str(here)))
    first = context.models(subject)[0].model.fingerprint()
    folder = context.folders(subject)
    there.parent.mkdir()
    here.rename(there)
    moved = replace(subject, model=replace(SMALL, embeddings=str(there)))
    assert context.folders(moved) == folder
    assert context.models(moved)[0].model.fingerprint() == first
    with pytest.raises(UserError, match="no file of word vectors"):
        context.models(subject)
    there.write_text("\n".join(reversed(lines)) + "\n")
    assert context.folders(moved) != folder


def test_what_is_done_to_word_vectors_is_part_of_the_key_only_when_it_is_asked_for() -> None:
    plain = model_key(SMALL)
    assert {"embedding_scale", "decay_embeddings"}.isdisjoint(plain)
    assert model_key(replace(SMALL, embedding_scale=0.1)) == {**plain, "embedding_scale": 0.1}
    assert model_key(replace(SMALL, decay_embeddings=True)) == {**plain, "decay_embeddings": True}


def test_a_folder_with_the_name_of_an_encoder_is_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = model_key(ModelSpec(name="mlp"))
    (tmp_path / "mlp").mkdir()
    (tmp_path / "mlp" / "notes.txt").write_text("mine")
    monkeypatch.chdir(tmp_path)
    assert model_key(ModelSpec(name="mlp")) == before


def test_explanations_are_kept_by_method(context: Context, asked: list[tuple[str, ...]]) -> None:
    model = context.models(subject_in(context))[0].model
    examples = planted()["test"][:4]
    first = context.explanations(model, examples, ["attention", "random"])
    again = context.explanations(model, examples, ["random", "leave-one-out", "attention"])
    assert asked == [("attention", "random"), ("leave-one-out",)]
    assert again.methods == ("random", "leave-one-out", "attention")
    assert again.by_method("attention") == first.by_method("attention")
    other = context.explanations(model, examples, ["attention", "random"], seed=1)
    assert asked[2:] == [("random",)], "a seed matters only to methods that draw"
    assert other.by_method("random") != first.by_method("random")
    context.explanations(model, examples[:3], ["attention"])
    context.explanations(model, examples, ["attention"], space="probability")
    assert asked[3:] == [("attention",), ("attention",)]


def test_killed_explanations_go_on_from_their_last_block(
    context: Context, asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = context.models(subject_in(context))[0].model
    examples = planted()["test"][:6]
    whole = ra.explain(model, examples, ["random", "leave-one-out"])
    monkeypatch.setattr(explanation_runs, "BLOCK_TOKENS", 1)  # every text is a block of its own
    explain = explanation_runs.explain

    def killed_in_the_fourth(*given: object, **settings: object) -> object:
        if len(asked) == 3:
            raise KeyboardInterrupt
        return explain(*given, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(explanation_runs, "explain", killed_in_the_fourth)
    with pytest.raises(KeyboardInterrupt):
        context.explanations(model, examples, ["random", "leave-one-out"])
    assert len(asked) == 3
    monkeypatch.setattr(explanation_runs, "explain", explain)
    explanations = context.explanations(model, examples, ["random", "leave-one-out"])
    assert len(asked) == 6
    for one, other in zip(explanations, whole, strict=True):
        assert (one.method, one.example_id) == (other.method, other.example_id)
        assert one.scores == pytest.approx(other.scores, abs=1e-5)
    assert len(context.explanations(model, [], ["random"])) == 0


def test_one_method_in_two_configurations(context: Context) -> None:
    model = context.models(subject_in(context))[0].model
    examples = planted()["test"][:3]
    pair = [make_explainer("lime", samples=n) for n in (20, 40)]
    explanations = context.explanations(model, examples, pair)
    assert [item.configuration["samples"] for item in explanations] == [20] * 3 + [40] * 3
    assert context.explanations(model, examples, pair[:1]) == explanations[:3]


def test_renamed_labels_are_not_taken_from_old_explanations(context: Context) -> None:
    model = context.models(subject_in(context))[0].model
    examples = planted()["test"][:2]
    context.explanations(model, examples, ["attention"])
    model.labels = ("negative", "positive")
    explanations = context.explanations(model, examples, ["attention"])
    assert {item.target_label for item in explanations} <= {"negative", "positive"}


def test_a_split_without_labels_does_not_stop_a_training(context: Context) -> None:
    data = planted()
    bare = tuple(replace(example, label=None) for example in data["test"])
    subject = subject_in(context, Dataset("bare", {**data.splits, "test": bare}, data.labels))
    assert set(context.models(subject)[0].scores) == {"train", "dev"}


def test_datasets_from_files(context: Context, tmp_path: Path) -> None:
    path = tmp_path / "my.reviews.csv"
    path.write_text("body\ngood film\nbad film\n")
    spec = DatasetSpec(file=str(path), columns=Columns(text="body"), labelled=False)
    data = context.dataset(spec)
    assert (data.name, list(data), len(data["test"]), data.labels) == ("my", ["test"], 2, ())
    assert context.dataset(spec) is data
    path.write_text("body\ngood film\na bad film\n")
    assert len(Context(context.store).dataset(replace(spec, keep=("min-tokens:3",)))["test"]) == 1


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        (Subject(DatasetSpec(test="x.csv")), "go with one for train"),
        (Subject(checkpoint=GIVEN), "none was handed over"),
        (Subject(DatasetSpec(name="planted-review")), "planted-reviews"),
    ],
)
def test_mistakes_end_in_a_sentence(context: Context, subject: Subject, message: str) -> None:
    with pytest.raises(UserError, match=message):
        context.models(subject)


def test_a_run_can_be_read_without_us(context: Context) -> None:
    subject = subject_in(context)
    context.models(subject)
    (folder,) = context.folders(subject)
    history = json.loads((folder / "history.json").read_text())
    assert len(history["records"]) == QUICK.epochs
    assert history["scores"]["test"]["accuracy"] > 0.8


def test_a_large_vocabulary_makes_no_large_model() -> None:
    words = Vocabulary.from_json(["<pad>", "<unk>", *(f"w{number}" for number in range(20_000))])
    wide = ModelSpec(name="bilstm", hidden=8, embedding_dim=300)
    assert is_small(AttentionClassifier(wide, words, ("no", "yes"), False, 0))
    deep = replace(wide, hidden=700)
    assert not is_small(AttentionClassifier(deep, words, ("no", "yes"), False, 0))
