"""The files of the papers name tables and columns that the studies have: each study is run once, in the small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rashomon.experiments.context import Context
from rashomon.experiments.figures import Plot
from rashomon.experiments.instance_search import Search
from rashomon.experiments.subject import Subject
from rashomon.papers import load, papers, with_published
from rashomon.studies.adversary import AdversarySweep
from rashomon.studies.agreement import Agreement
from rashomon.studies.attefa import Attefa
from rashomon.studies.base import Finding, Study
from rashomon.studies.cartography import CartographyStudy
from rashomon.studies.curvature import Curvature
from rashomon.studies.erasure import Erasure
from rashomon.studies.guided_mlp import GuidedMlp
from rashomon.studies.instance_adversary import InstanceAdversary
from rashomon.studies.necessity import Necessity
from rashomon.studies.regularised_agreement import RegularisedAgreement
from rashomon.studies.seed_variance import SeedVariance
from tests.studies.trials import FEW, fewer, planted, trial_of

ONCE = fewer(FEW, 1)
METHODS = ("attention", "integrated-gradients", "gradient-shap")
PENALTIES = ("conicity(weight=0.1)", "tying(weight=0.1)")
SMALL: dict[str, Callable[[Subject], Study]] = {
    "necessity": lambda subject: Necessity(subject),
    "adversary": lambda subject: AdversarySweep(
        subject, (0.0, 1.0), other_seeds=(), search=None, floor=0.0, training=ONCE
    ),
    "guided-mlp": lambda subject: GuidedMlp(subject, seeds=(0,), adversary=ONCE, training=ONCE),
    "attefa": lambda subject: Attefa(subject, seeds=(10,), training=ONCE),
    "agreement": lambda subject: Agreement(subject, METHODS, 4, measures=("kendall",)),
    "erasure": lambda subject: Erasure(subject, METHODS, 4, fractions=(0.1,)),
    "regularised-agreement": lambda subject: RegularisedAgreement(subject, METHODS, 4, variants=PENALTIES),
    "cartography": lambda subject: CartographyStudy(subject, METHODS, 24, variants=PENALTIES[1:]),
    "curvature": lambda subject: Curvature(subject, METHODS, 24, variants=PENALTIES[1:]),
    "seed-variance": lambda subject: SeedVariance(subject, other_seeds=(1,)),
    "instance-adversary": lambda subject: InstanceAdversary(subject, Search(starts=1, steps=2), instances=4),
}
NOT_YET = {
    ("not_not", "figure-5")
}  # no study tells how far uniform weights lie from the curve, with an interval


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Finding]:
    folder: Path = tmp_path_factory.mktemp("papers")
    data = replace(planted(size=48), name="sst")
    context, subject = trial_of(folder, data, "bilstm")
    subject = replace(subject, training=ONCE)
    return {name: _as_if_by_name(make(subject), context) for name, make in SMALL.items()}


def _as_if_by_name(study: Study, context: Context) -> Finding:
    """The finding as it would be, had the dataset been asked for by its name rather than handed over."""
    finding = study.run(context)
    about: dict[str, Any] = dict(finding.configuration)
    named = {**about["subject"], "dataset": {**about["subject"]["dataset"], "name": "sst"}}
    return replace(finding, configuration={**about, "subject": named})


MEASURED = [
    (paper, table.id)
    for paper in papers()
    for table in load(paper).tables.values()
    if table.study in SMALL and (paper, table.id) not in NOT_YET
]


@pytest.mark.parametrize(("paper", "id"), MEASURED)
def test_sources_are_there(paper: str, id: str, findings: dict[str, Finding]) -> None:
    table = load(paper).table(id)
    finding = findings[str(table.study)]
    for source in table.ours.values():
        frame = finding.tables[source.table]
        assert source.column in frame
        for column, value in source.where.items():
            frame = frame[frame[column] == value]
        assert len(frame)


@pytest.mark.parametrize(
    "study",
    ["necessity", "adversary", "guided-mlp", "attefa", "agreement", "regularised-agreement", "curvature"],
)
def test_published_figures_come_beside_ours(study: str, findings: dict[str, Finding]) -> None:
    table = with_published(findings[study]).tables["published"]
    assert table["ours"].notna().any()
    assert table.loc[table["dataset"].notna(), "dataset"].unique().tolist() == ["sst"]
    assert table["encoder"].unique().tolist() == ["bilstm"]


def test_the_published_adversaries_are_drawn_on_the_plot_of_all_texts(findings: dict[str, Finding]) -> None:
    plots = [figure for figure in with_published(findings["adversary"]).figures if isinstance(figure, Plot)]
    published = [[one.name for one in plot.series].count("published adversaries") for plot in plots]
    assert published == [1] + [0] * (len(plots) - 1)
    assert len(plots) > 1
