"""The weight of a penalty: found from the strongest down, exactly as the rule says, and trained once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rashomon.data import Dataset, Example
from rashomon.errors import UserError
from rashomon.experiments import regularised
from rashomon.experiments.context import Context
from rashomon.experiments.regularised import (
    BASE,
    CUT,
    FIXED,
    TRIED,
    Penalties,
    Run,
    epochs_of,
    find_variants,
    like_a_constant,
    model_of,
    runs_of,
)
from rashomon.experiments.subject import Subject
from rashomon.runs.store import Store
from tests.studies.planted import subject_in
from tests.studies.trials import finished_runs


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(Store(tmp_path / "store"), workers=1)


def scripted(monkeypatch: pytest.MonkeyPatch, f1: dict[str, float]) -> list[list[str]]:
    """Trainings whose F1 on dev is known beforehand; what was asked for, stage by stage."""
    asked: list[list[str]] = []

    def train_all(self: Context, subjects: Sequence[Subject]) -> list[Path]:
        asked.append([subject.objective for subject in subjects])
        return []

    monkeypatch.setattr(Context, "train_all", train_all)
    monkeypatch.setattr(regularised, "_dev_f1", lambda context, subject: (f1[subject.objective], math.nan))
    return asked


def test_the_strongest_weight_within_the_margin_is_taken_from_above(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    f1 = {
        "cross-entropy": 0.80,
        "conicity(weight=10.0)": 0.50,
        "conicity(weight=5.0)": 0.769,
        "conicity": 0.770,  # its usual weight is 1
        "tying(weight=20.0)": 0.79,
    }
    asked = scripted(monkeypatch, f1)
    found = find_variants(context, subject_in(context), Penalties())
    assert [(v.name, v.weight) for v in found.variants[1:]] == [("conicity", 1.0), ("tying", 20.0)]
    grid = found.grid
    assert len(grid) == 6 + 7
    assert grid.set_index(["variant", "weight"])["status"].value_counts().to_dict() == {TRIED: 4, CUT: 9}
    tried = grid[grid["status"] == TRIED].set_index(["variant", "weight"])
    assert tried["within"].to_dict() == {
        ("conicity", 10.0): False,
        ("tying", 20.0): True,
        ("conicity", 5.0): False,
        ("conicity", 1.0): True,
    }
    assert tried.loc[("conicity", 5.0), "difference"] == pytest.approx(-0.031)
    assert asked == [
        ["conicity(weight=10.0)", "tying(weight=20.0)"],  # a stage is trained side by side
        ["conicity(weight=5.0)"],
        ["conicity"],
    ]


def test_a_penalty_without_a_fitting_weight_is_left_out_and_named(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripted(monkeypatch, {"cross-entropy": 0.9, "tying": 0.5, "tying(weight=0.1)": 0.8})
    found = find_variants(context, subject_in(context), Penalties(("tying",), grid=(0.1, 1.0)))
    assert [v.name for v in found.variants] == [BASE]
    assert found.notes == ("tying is left out: with no weight of the grid is it within 3 F1 points.",)


def test_a_written_weight_is_not_searched_for(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = scripted(monkeypatch, {})
    penalties = Penalties(("tying(weight=0.5)",), reading="as-coded")
    found = find_variants(context, subject_in(context), penalties)
    assert asked == [[]]
    assert found.grid["status"].tolist() == [FIXED]
    assert found.chosen().to_dict("records") == [
        {"variant": "tying", "weight": 0.5, "reading": "as-coded", "projection": False}
    ]
    assert found.variants[1].subject.objective == "tying(weight=0.5, reading=as-coded)"


def test_a_projection_is_told(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    scripted(monkeypatch, {})
    subject = subject_in(context).with_model(embedding_dim=10)
    found = find_variants(context, subject, Penalties(("conicity(weight=1)", "tying(weight=1)")))
    assert [v.projected for v in found.variants] == [False, False, True]
    assert "tying: word embeddings and hidden states differ in width" in found.notes[0]


def test_what_was_trained_for_the_search_is_not_trained_again(context: Context) -> None:
    base = replace(subject_in(context), callbacks=("dynamics(split=test)", "epoch-models"), seeds=(0, 1))
    base = replace(base, training=replace(base.how_trained, epochs=2))
    found = find_variants(context, base, Penalties(("tying",), grid=(0.01,), margin=1.0))
    before = finished_runs(context)
    assert len(before) == 2  # the base and the penalty, with the first seed
    runs = runs_of(context, found.variants)
    assert [(run.variant, run.seed) for run in runs] == [(BASE, 0), (BASE, 1), ("tying", 0), ("tying", 1)]
    assert before < finished_runs(context)
    assert len(finished_runs(context)) == 4
    assert epochs_of(runs[0]) == [1, 2]
    first, last = model_of(context, runs[0], 1), model_of(context, runs[0])
    assert first.fingerprint() != last.fingerprint()
    assert last.fingerprint() == model_of(context, runs[0], 2).fingerprint()


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_a_run_that_kept_more_serves_those_who_ask_for_less(context: Context, split: str) -> None:
    subject = subject_in(context)
    (fuller,) = context.train_all([replace(subject, callbacks=(f"dynamics(split={split})",))])
    assert context.train_all([subject]) == [fuller] == context.folders(subject)
    (other,) = context.train_all([replace(subject, seeds=(1,))])
    assert other != fuller
    assert len(finished_runs(context)) == 2


def test_of_a_model_that_two_ask_for_at_once_the_fuller_is_trained(context: Context) -> None:
    asked = replace(subject_in(context), callbacks=("dynamics(split=test)",), seeds=(0, 1))
    first, second, third = context.train_all([asked, asked.with_seeds((1,))])
    assert third == second != first
    assert len(finished_runs(context)) == 2


def test_of_other_seeds_and_the_uniform_twin_nothing_is_kept_but_the_models() -> None:
    asked = Subject(callbacks=("dynamics(split=test)",), seeds=(3,))
    for other in (asked.with_seeds((4,)), asked.with_another_seed, asked.uniform_twin):
        assert other.callbacks == ()
    assert asked.with_another_seed.seeds == (4,)
    assert (asked.uniform_twin.model.weights, asked.uniform_twin.seeds) == ("uniform", (3,))


def test_without_epoch_models_the_kept_model_is_taken(context: Context) -> None:
    subject = subject_in(context)
    (run,) = runs_of(context, find_variants(context, subject, Penalties(())).variants)
    assert epochs_of(run) == []
    assert model_of(context, run).fingerprint() == context.models(subject)[0].model.fingerprint()
    assert isinstance(run, Run)


@pytest.mark.parametrize(
    ("positive", "accuracies", "said"),
    [
        (0.5, (0.50, 0.51), "accuracy on test is 0.51, and that of always saying the commonest class 0.50"),
        (0.5, (0.42, 0.60), "0.51, and"),
        (0.5, (0.53, 0.53), None),
        (0.9, (0.90, 0.90), "0.90, and that of always saying the commonest class 0.90"),
        (0.9, (0.91, 0.91), None),
    ],
)
def test_a_model_that_predicts_like_a_constant_is_named(
    monkeypatch: pytest.MonkeyPatch, positive: float, accuracies: tuple[float, ...], said: str | None
) -> None:
    texts = [Example(str(n), f"text {n}", label=int(n < 100 * positive)) for n in range(100)]
    data = Dataset("known", {"test": texts}, ("no", "yes"))
    runs = [Run("tying", seed, Path(str(seed)), Subject()) for seed in range(len(accuracies))]
    runs += [Run(BASE, 0, Path("base"), Subject()), Run("given", 0, None, Subject())]
    reached = {"base": 0.98} | {str(seed): of for seed, of in enumerate(accuracies)}
    monkeypatch.setattr(
        regularised, "read_history", lambda folder: (None, {"test": {"accuracy": reached[folder.name]}})
    )
    found = like_a_constant(data, runs)
    assert set(found) == ({"tying"} if said else set())
    assert said is None or said in found["tying"]
    assert not like_a_constant(Dataset("unlabelled", {"train": texts}, ("no", "yes")), runs)


def test_several_search_seeds_are_averaged(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.9, 0.7, 0.5, 0.8])
    monkeypatch.setattr(
        Context, "train_all", lambda self, subjects: [Path()] * sum(len(s.seeds) for s in subjects)
    )
    monkeypatch.setattr(regularised, "read_history", lambda folder: (None, {"dev": {"f1": next(scores)}}))
    penalties = Penalties(("tying",), grid=(1.0,), search_seeds=2, margin=0.2)
    row = find_variants(context, replace(subject_in(context), seeds=(0, 1, 2)), penalties).grid.iloc[0]
    assert (row["f1"], row["base"], row["n"]) == (pytest.approx(0.65), pytest.approx(0.8), 2)
    assert row["std"] == pytest.approx(np.std([0.5, 0.8], ddof=1))
    assert row["within"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"variants": ("tying", "tying(weight=1)")}, "named twice"),
        ({"variants": ("cross-entropy",)}, "has no weight"),
        ({"variants": ("tyin",)}, "tying"),
        ({"search_seeds": 0}, "at least one seed"),
        ({"margin": -0.1}, "negative"),
        ({"grid": ()}, "above 0"),
        ({"grid": (0.0, 1.0)}, "above 0"),
    ],
)
def test_what_cannot_be_asked(settings: dict[str, object], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Penalties(**settings)  # type: ignore[arg-type]
