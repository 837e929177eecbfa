"""The papers' figures on the papers' data: slow, run by ``make replicate``, skipped where the data is absent.

Each test states what must come out; ``docs/measured.md`` lists what did, beside the published figures.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rashomon.models.model_spec import ModelSpec
from rashomon.runs.store import Store
from rashomon.studies import Agreement, Attefa, Context, DatasetSpec, Subject
from rashomon.training import TrainingSpec

FOLDER = Path(os.environ.get("RASHOMON_DATA") or Path(__file__).parents[2] / "shared" / "data")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.data,
    pytest.mark.skipif(not (FOLDER / "sst").is_dir(), reason="the papers' datasets are not here"),
]


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    """Work is kept in $RASHOMON_STORE when it is set, so that an interrupted replication goes on."""
    root = Path(os.environ.get("RASHOMON_STORE") or tmp_path_factory.mktemp("store"))
    return Context(Store(root), data_dir=FOLDER)


def subject(dataset: str, model: str, seeds: tuple[int, ...] = (0,), **settings: int) -> Subject:
    vectors = str(FOLDER / "embeddings" / "glove_sg_100d.npz")
    spec = ModelSpec(name=model) if model == "minilm" else ModelSpec(name=model, embeddings=vectors)
    training = TrainingSpec(**settings) if settings else None
    return Subject(DatasetSpec(name=dataset), spec, training, seeds)


@pytest.mark.parametrize(
    ("dataset", "model", "figure", "least"),
    [
        ("sst", "bilstm", "f1", 0.80),
        ("sst", "mlp", "f1", 0.79),
        ("snli", "bilstm", "accuracy", 0.60),
        ("imdb", "bilstm", "f1", 0.87),
        ("sst", "minilm", "accuracy", 0.84),
    ],
)
def test_classifiers_reach_the_papers_level(
    context: Context, dataset: str, model: str, figure: str, least: float
) -> None:
    (trained,) = context.models(subject(dataset, model))
    assert trained.scores["test"][figure] >= least


def test_the_order_of_agreement_on_sst(context: Context) -> None:
    """IG and gradient SHAP agree most; attention agrees little with anything. Preprocessed as in the paper."""
    asked = subject("sst", "bilstm", seeds=(0, 1, 2)).with_model(steps=("lowercase", "alphanumeric"))
    finding = Agreement(asked, instances=500, measures=("kendall",)).run(context)
    table = finding.tables["summary"]
    table = table[(table["first"] != "random") & (table["second"] != "random")]
    best = table.loc[table["mean"].idxmax()]
    assert {best["first"], best["second"]} == {"integrated-gradients", "gradient-shap"}
    with_attention = table[(table["first"] == "attention") | (table["second"] == "attention")]
    others = table.drop(with_attention.index)
    assert with_attention["mean"].max() < 0.4
    assert with_attention["mean"].max() < others["mean"].min()


def test_the_order_of_attefa_on_planted_evidence(context: Context) -> None:
    """The rarer the evidence, the harder the attention of a token MLP is to move; where it is rare, none is found."""
    study = Attefa(
        subject("mock-1", "mlp", seeds=(0, 1)),
        datasets=("mock-1", "mock-2", "mock-1q", "mock-4q"),
        encoders=("mlp",),
        seeds=(10,),
    )
    table = study.run(context).tables["summary"].set_index("dataset")
    assert min(table["mean"]["mock-1"], table["mean"]["mock-2"]) > 0.4
    assert max(table["mean"]["mock-1q"], table["mean"]["mock-4q"]) < 0.1
    assert (table["gave_up"] > 0.5).tolist() == [True, True, False, False]


@pytest.mark.parametrize("dataset", ["mock-1", "sst"])
def test_attention_over_a_bilstm_is_free(context: Context, dataset: str) -> None:
    """It carries what a word says to other tokens, so that even where one word decides another attention is found."""
    study = Attefa(subject(dataset, "bilstm"), seeds=(10,))
    (row,) = study.run(context).tables["summary"].to_dict("records")
    assert row["mean"] < 0.12
    assert row["gave_up"] == 0
