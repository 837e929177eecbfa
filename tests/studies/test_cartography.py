"""Cartography: the map of each training, groups and lines of agreement, dynamics from elsewhere and for others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import mannwhitneyu

from rashomon.data import Dataset
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.dynamics_files import Dynamics, write_dynamics_files
from rashomon.experiments.figures import Plot, TextMap
from rashomon.experiments.summaries import summarise_by
from rashomon.measures.cartography import GROUPS
from rashomon.models.evaluator import predict, rows_of
from rashomon.runs.store import Store
from rashomon.studies.base import Finding
from rashomon.studies.cartography import (
    CartographyStudy,
    _verdict,
    between_groups,
    with_base_groups,
    within_groups,
)
from tests.models.tiny import dataset, tiny_checkpoint
from tests.studies.planted import planted, subject_in
from tests.studies.trials import check_finding

METHODS = ("gradient-x-input", "integrated-gradients")


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Store(tmp_path_factory.mktemp("store")), workers=1)


def study_in(context: Context, data: Dataset | None = None, **settings: object) -> CartographyStudy:
    subject = replace(subject_in(context, data), seeds=(0, 1))
    subject = replace(subject, training=replace(subject.how_trained, epochs=3, learning_rate=0.005))
    asked = {"variants": ("tying(weight=0.1)",), **settings}
    return CartographyStudy(subject, METHODS, 20, **asked)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def finding(context: Context) -> Finding:
    return study_in(context).run(context)


def test_what_it_owes_its_reader(finding: Finding) -> None:
    check_finding(finding)
    table = finding.tables["instances"]
    assert len(table) == 2 * 2 * 20
    assert set(finding.summary["group"]) <= set(GROUPS)
    relation = finding.tables["relation"]
    assert len(relation) == 2 * 3 * 2  # measures, attributes, variants
    counts = finding.tables["groups"]
    assert counts.groupby("variant")["texts"].sum().to_dict() == {
        "base": 24.0,
        "tying": 24.0,
    }  # the whole split
    assert [type(figure) for figure in finding.figures] == [TextMap, TextMap, Plot, Plot]


def test_confidence_is_the_mean_probability_of_the_kept_epochs(finding: Finding, context: Context) -> None:
    study = study_in(context)
    data = context.dataset(study.subject.dataset)
    folder = context.folders(study.base)[0]
    probabilities = []
    for epoch in (1, 2, 3):
        model = context.epoch_model(folder, epoch)
        found = predict(model, rows_of(model, data["test"])).probabilities
        probabilities.append([row[example.label] for row, example in zip(found, data["test"], strict=True)])
    by_id = dict(zip((e.id for e in data["test"]), np.transpose(probabilities), strict=True))
    table = finding.tables["instances"]
    own = table[(table["variant"] == "base") & (table["seed"] == 0)].set_index("example")
    for text, row in own.iterrows():
        assert row["confidence"] == pytest.approx(np.mean(by_id[text]), abs=1e-6)
        assert row["variability"] == pytest.approx(np.std(by_id[text]), abs=1e-6)
    sample = study_in(context, variants=(), ddof=1).run(context).tables["instances"]
    first = sample[sample["seed"] == 0].iloc[0]
    assert first["variability"] == pytest.approx(np.std(by_id[first["example"]], ddof=1), abs=1e-6)


def test_the_map_shows_the_texts(finding: Finding, context: Context) -> None:
    data = context.dataset(study_in(context).subject.dataset)
    figure = finding.figures[0]
    assert isinstance(figure, TextMap)
    texts = {example.id: example.text for example in data["test"]}
    assert [texts[text] for text in figure.ids] == list(figure.texts)
    assert list(figure.layers) == ["agreement (pearson)", "times right"]
    assert figure.ranges["times right"] == (0.0, 3.0)


def made_up(groups: dict[str, int], high: str, seeds: int = 3, lift: float = 0.3) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    names = [group for group, size in groups.items() for _ in range(size)]
    rows = []
    for seed in range(seeds):
        for number, group in enumerate(names):
            level = 0.4 + (lift if group == high else 0.0)
            for variant, gain in (("base", 0.0), ("tying", 0.2)):
                value = level + gain + rng.normal(0, 0.05)
                rows.append((variant, seed, str(number), group if variant == "base" else "easy", value))
    return pd.DataFrame(rows, columns=["variant", "seed", "example", "group", "pearson"])


def test_groups_are_the_bases_and_differences_are_found() -> None:
    table = made_up({"easy": 30, "ambiguous": 12, "hard": 6, "": 5}, "ambiguous")
    long = with_base_groups(table, ["pearson"])
    assert long.groupby("variant")["group"].apply(lambda g: (g == "ambiguous").sum()).tolist() == [36, 36]
    between = between_groups(long).set_index(["variant", "group", "than"])
    row = between.loc[("base", "ambiguous", "easy")]
    assert (row["n"], row["than_n"], row["seeds"]) == (12, 30, 3)
    assert row["difference"] == pytest.approx(0.3, abs=0.03)
    assert row["p_texts_holm"] < 0.001
    assert row["p_seeds_holm"] < 0.05
    means = long[long["variant"] == "base"].groupby(["group", "example"])["value"].mean()
    assert row["p_texts"] == pytest.approx(mannwhitneyu(means["ambiguous"], means["easy"]).pvalue)
    assert between.loc[("base", "hard", "easy")]["p_seeds_holm"] > 0.05
    inside = within_groups(long).set_index("group")
    assert inside["variant"].unique().tolist() == ["tying"]
    assert inside["difference"].tolist() == pytest.approx([0.2] * 3, abs=0.04)
    assert (inside["p_texts_holm"] < 0.05).all()


def test_one_training_has_an_interval_over_its_texts() -> None:
    between = between_groups(with_base_groups(made_up({"easy": 20, "ambiguous": 9}, "easy", 1), ["pearson"]))
    row = between[(between["group"] == "ambiguous") & (between["variant"] == "base")].iloc[0]
    assert row["low"] < row["difference"] < row["high"] < 0
    assert np.isnan(row["p_seeds"])


@pytest.mark.parametrize(
    ("high", "lift", "words"),
    [
        ("ambiguous", 0.3, "agree more on ambiguous texts"),
        ("easy", 0.3, "agree less on ambiguous texts"),
        ("easy", 0.0, "neither clearly more nor less"),
    ],
)
def test_the_verdict_follows_the_test(high: str, lift: float, words: str) -> None:
    long = with_base_groups(made_up({"easy": 30, "ambiguous": 12}, high, lift=lift), ["pearson"])
    groups = summarise_by(long, ["measure", "group", "variant"])
    assert words in _verdict(groups, between_groups(long), "pearson")


def test_dynamics_of_elsewhere_take_the_place_of_a_training(context: Context, tmp_path: Path) -> None:
    checkpoint = str(tiny_checkpoint("bert", tmp_path / "bert"))
    spec = context.adopt(dataset())
    texts = context.dataset(spec)["test"]
    logits = np.random.default_rng(0).normal(size=(4, len(texts), 2))
    labels = np.array([example.label or 0 for example in texts])
    write_dynamics_files(tmp_path / "theirs", Dynamics(tuple(e.id for e in texts), logits, labels))
    subject = replace(study_in(context).subject, dataset=spec, checkpoint=checkpoint, seeds=(0,))
    study = CartographyStudy(subject, METHODS, variants=(), dynamics=str(tmp_path / "theirs"))
    table = study.run(context).tables["instances"]
    assert table["epochs"].unique().tolist() == [4]
    gold = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    expected = gold[:, np.arange(len(texts)), labels].mean(0)
    np.testing.assert_allclose(table.set_index("example")["confidence"].loc[[e.id for e in texts]], expected)
    with pytest.raises(UserError, match="not known how it was trained"):
        replace(study, dynamics=None).run(context)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (None, "There is no folder"),
        ((), "no files such as"),
        (("a", "b"), "None of the 2 texts of the dynamics"),
    ],
)
def test_wrong_dynamics_are_told_before_anything_is_trained(
    tmp_path: Path, ids: tuple[str, ...] | None, message: str
) -> None:
    context = Context(Store(tmp_path / "store"), workers=1)
    if ids == ():
        (tmp_path / "theirs").mkdir()
    elif ids:
        write_dynamics_files(tmp_path / "theirs", Dynamics(ids, np.zeros((2, 2, 2)), np.array([0, 1])))
    with pytest.raises(UserError, match=message):
        study_in(context, dynamics=str(tmp_path / "theirs")).run(context)
    assert context.store.list() == []


def test_what_is_exported_gives_the_same_map(finding: Finding, context: Context, tmp_path: Path) -> None:
    study_in(context, export=str(tmp_path / "ours")).run(context)
    assert sorted(path.name for path in (tmp_path / "ours").iterdir() if path.is_dir()) == [
        "base-0",
        "base-1",
        "tying-0",
        "tying-1",
    ]
    again = replace(study_in(context, variants=(), dynamics=str(tmp_path / "ours" / "base-0")))
    again = replace(again, subject=replace(again.subject, seeds=(0,)))
    table = again.run(context).tables["instances"].set_index("example")["confidence"]
    known = (
        finding.tables["instances"]
        .query("variant == 'base' and seed == 0")
        .set_index("example")["confidence"]
    )
    pd.testing.assert_series_equal(table, known, atol=1e-6)


def test_texts_without_labels_have_no_map(context: Context) -> None:
    data = planted()
    bare = tuple(replace(example, label=None) for example in data["test"])
    unlabelled = replace(data, splits={**data.splits, "test": bare})
    with pytest.raises(UserError, match="label of every text"):
        study_in(context, unlabelled).run(context)
