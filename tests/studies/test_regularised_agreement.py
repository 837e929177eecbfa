"""Regularised agreement: the same texts and seeds under every penalty, its tests, its epochs and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as students_t
from scipy.stats import wilcoxon

from rashomon.errors import UserError
from rashomon.experiments.context import Context, Work
from rashomon.experiments.explanation_runs import DROPPED_OUT
from rashomon.experiments.figures import Plot
from rashomon.experiments.pairing import compare_each, gaps_over_seeds
from rashomon.measures import measures
from rashomon.measures.base import Ragged
from rashomon.models.evaluator import evaluating, with_dropout
from rashomon.runs.store import Store
from rashomon.studies import regularised_agreement
from rashomon.studies.base import Finding
from rashomon.studies.regularised_agreement import RegularisedAgreement, with_marks
from tests.models.tiny import tiny_checkpoint
from tests.studies.planted import subject_in
from tests.studies.trials import check_finding, finished_runs

METHODS = ("gradient-x-input", "integrated-gradients", "gradient-shap(samples=4)")
VARIANTS = ("conicity(weight=0.1)", "tying(weight=0.5)")


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return Context(Store(tmp_path_factory.mktemp("store")), workers=1)


def study_in(context: Context, **settings: object) -> RegularisedAgreement:
    subject = replace(subject_in(context), seeds=(0, 1, 2))
    subject = replace(subject, training=replace(subject.how_trained, epochs=2))
    return RegularisedAgreement(
        subject,
        METHODS,
        10,
        **{"variants": VARIANTS, **settings},  # type: ignore[arg-type]
    )


@pytest.fixture(scope="module")
def finding(context: Context) -> Finding:
    return study_in(context).run(context)


def test_what_it_owes_its_reader(finding: Finding, context: Context) -> None:
    check_finding(finding)
    summary = finding.summary
    assert summary.groupby("measure")["variant"].apply(list).to_dict() == {
        "kendall": ["base", "conicity", "tying"],
        "pearson": ["base", "conicity", "tying"],
    }
    assert (summary["n"] == 30).all()
    assert len(finding.tables["pairs"]) == 2 * 3 * 3
    means = finding.tables["pairs"].groupby(["measure", "variant"])["mean"].mean()
    shown = summary.set_index(["measure", "variant"])["mean"]
    pd.testing.assert_series_equal(means, shown.sort_index(), check_names=False)
    assert finding.tables["chosen"]["weight"].tolist() == [0.1, 0.5]
    before = finished_runs(context)
    assert study_in(context).run(context).verdict == finding.verdict
    assert finished_runs(context) == before


def test_nothing_is_concluded_from_a_model_like_a_constant(
    finding: Finding, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        regularised_agreement, "like_a_constant", lambda data, runs: {"tying": "tying is like a constant."}
    )
    found = study_in(context).run(context)
    assert "Tying predicts no better than a constant, so nothing follows from its" in found.verdict
    assert found.verdict.split("Tying")[0] == finding.verdict.split("Tying")[0]
    assert "tying is like a constant." in found.warnings
    assert "tying is like a constant." not in finding.warnings


def test_every_epoch_is_told_and_drawn(finding: Finding) -> None:
    epochs = finding.tables["epochs"]
    assert len(epochs) == 2 * 3 * 2
    last = epochs[(epochs["epoch"] == 2) & (epochs["measure"] == "pearson")].set_index("variant")["mean"]
    shown = finding.summary[finding.summary["measure"] == "pearson"].set_index("variant")["mean"]
    pd.testing.assert_series_equal(last, shown)
    plots = [figure for figure in finding.figures if isinstance(figure, Plot)]
    assert [plot.y_label for plot in plots] == ["mean kendall", "mean pearson"]
    assert all(list(series.x) == [1.0, 2.0] for plot in plots for series in plot.series)


def test_scores_are_those_of_the_trainings(finding: Finding, context: Context) -> None:
    scores = finding.tables["scores"].set_index(["variant", "split", "figure"])
    study = study_in(context)
    kept = [trained.scores["test"]["f1"] for trained in context.trained([study.base])[0]]
    row = scores.loc[("base", "test", "f1")]
    assert (row["mean"], row["n"]) == (pytest.approx(np.mean(kept)), 3)
    assert row["std"] == pytest.approx(np.std(kept, ddof=1), abs=1e-12)


def made_up(values: dict[str, np.ndarray], seeds: int) -> pd.DataFrame:
    """Values ``[seeds, texts]`` of each variant as a study's table."""
    return pd.DataFrame(
        [
            {"seed": seed, "example": str(text), "variant": name, "measure": "pearson", "value": value}
            for name, table in values.items()
            for seed, row in enumerate(table[:seeds])
            for text, value in enumerate(row)
        ]
    )


def test_the_papers_test_is_scipys_over_texts_and_the_honest_one_knows_seeds() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(0.3, 0.1, (4, 60))
    luck = np.array([0.3, -0.25, 0.3, -0.15])[:, None]  # a training's luck moves all of its texts
    values = {"base": base, "tying": base + 0.05 + luck + rng.normal(0, 0.02, (4, 60))}
    table = compare_each(made_up(values, 4)).set_index(["variant", "than"])
    row = table.loc[("tying", "base")]
    difference = (values["tying"] - base).mean(0)
    assert row["p_texts"] == pytest.approx(wilcoxon(difference, alternative="greater").pvalue)
    assert row["p_texts_holm"] < 0.001 < 0.05 < row["p_seeds"]
    assert row["difference"] == pytest.approx(difference.mean())
    assert np.isnan(compare_each(made_up(values, 1))["p_seeds"]).all()


def test_measures_are_compared_on_the_same_texts() -> None:
    rng = np.random.default_rng(0)
    kendall = rng.normal(0.3, 0.2, (3, 40)) + np.array([0.2, -0.2, 0.1])[:, None]
    both = [
        made_up({"base": kendall + 0.1 * (name == "pearson")}, 3).assign(measure=name)
        for name in ("kendall", "pearson")
    ]
    table = compare_each(pd.concat(both), "measure", "variant").set_index(["variant", "measure", "than"])
    row = table.loc[("base", "pearson", "kendall")]
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((0.1, 0.1, 0.1))
    assert table.loc[("base", "kendall", "pearson"), "difference"] == pytest.approx(-0.1)


def test_scores_are_compared_seed_by_seed() -> None:
    values = {"base": [0.70, 0.80, 0.90], "tying": [0.66, 0.77, 0.88]}
    scores = pd.DataFrame(
        [
            {"variant": name, "seed": seed, "split": "test", "figure": "f1", "value": value}
            for name, of in values.items()
            for seed, value in enumerate(of)
        ]
    )
    (row,) = gaps_over_seeds(scores, "variant", "base", ["split", "figure"]).to_dict("records")
    half = students_t.ppf(0.975, 2) * np.std([0.04, 0.03, 0.02], ddof=1) / np.sqrt(3)
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((-0.03, -0.03 - half, -0.03 + half))
    assert (row["variant"], row["than"], row["figure"], row["n"]) == ("tying", "base", "f1", 3)


def test_a_mark_is_for_what_is_higher_than_each_other_variant() -> None:
    rng = np.random.default_rng(1)
    base = rng.normal(0.3, 0.1, (3, 40))
    values = {"base": base, "conicity": base + 0.001 * rng.normal(size=base.shape), "tying": base + 0.2}
    comparison = compare_each(made_up(values, 3))
    summary = pd.DataFrame({"measure": "pearson", "variant": list(values)})
    marked = with_marks(summary, comparison).set_index("variant")
    assert marked["marked"].to_dict() == {"base": False, "conicity": False, "tying": True}
    assert marked["marked_over_seeds"].to_dict() == {"base": False, "conicity": False, "tying": True}


def test_pearson_is_near_one_where_kendall_is_negative() -> None:
    """The made-up pair of the paper's Figure 1."""
    first = Ragged.from_list([[0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 1.00]])
    second = Ragged.from_list([[0.06, 0.05, 0.04, 0.03, 0.02, 0.01, 0.80]])
    assert measures.get("kendall")(first, second)[0] == pytest.approx(-0.43, abs=0.005)
    assert measures.get("pearson")(first, second)[0] == pytest.approx(0.99, abs=0.005)


def test_all_models_are_explained_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine models after two epochs each, whose few texts make one block a model."""
    context = Context(Store(tmp_path), workers=1)
    shared: list[int] = []
    together = Context.side_by_side

    def counted(self: Context, work: Sequence[Work], what: str) -> None:
        if work and what.startswith("explaining"):
            shared.append(len({one.place for one in work}))
        together(self, work, what)

    monkeypatch.setattr(Context, "side_by_side", counted)
    study_in(context).run(context)
    assert shared == [18]


def test_dropout_is_a_switch_with_a_warning(context: Context) -> None:
    base = study_in(context, variants=(), each_epoch=False)
    subject = replace(base.subject, seeds=(0,)).with_model(dropout=0.5)
    off, on = (replace(base, subject=subject, dropout=how).run(context) for how in ("off", "on"))
    assert any(DROPPED_OUT in warning for warning in on.all_warnings)
    assert not any(DROPPED_OUT in warning for warning in off.all_warnings)
    assert on.summary["mean"].tolist() != off.summary["mean"].tolist()
    assert on.configuration["dropout"] == "on"
    model = context.models(subject)[0].model
    with with_dropout(0), evaluating(model):
        assert model.training
    with evaluating(model):
        assert not model.training


def test_a_checkpoint_cannot_be_trained_anew(context: Context, tmp_path: Path) -> None:
    checkpoint = str(tiny_checkpoint("bert", tmp_path / "bert"))
    study = study_in(context)
    with pytest.raises(UserError, match="trained anew"):
        replace(study, subject=replace(study.subject, checkpoint=checkpoint)).run(context)
    with pytest.raises(UserError, match="at least two methods"):
        replace(study, methods=("attention",)).run(context)
