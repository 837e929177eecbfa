from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score
from statsmodels.stats.contingency_tables import mcnemar

from rashomon.data import Dataset
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask
from rashomon.models.evaluator import predict, rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.studies.necessity import POOLING_ONLY, Necessity, _verdict
from rashomon.training.settings import TrainingSpec
from tests.studies.planted import QUICK, SMALL, planted, subject_in


def test_figures_equal_scikit_learn_and_statsmodels(context: Context) -> None:
    data = planted()
    subject = subject_in(context, data, seeds=(0, 1))
    finding = Necessity(subject).run(context)
    labels = [example.label for example in data["test"]]
    right: dict[str, list[np.ndarray]] = {"learned": [], "uniform": []}
    seeds = finding.tables["seeds"].set_index(["attention", "seed"])
    for name, twin in (("learned", subject), ("uniform", subject.uniform_twin)):
        for seed, trained in zip((0, 1), context.models(twin), strict=True):
            said = predict(trained.model, rows_of(trained.model, data["test"])).classes
            assert seeds.loc[(name, seed), "accuracy"] == pytest.approx(accuracy_score(labels, said))
            right[name].append(said == np.array(labels))
    compared = finding.tables["comparison"].set_index("seed")
    for seed in (0, 1):
        a, b = right["learned"][seed], right["uniform"][seed]
        table = [[(a & b).sum(), (a & ~b).sum()], [(~a & b).sum(), (~a & ~b).sum()]]
        assert compared.loc[str(seed), "p"] == pytest.approx(min(1.0, mcnemar(table, exact=True).pvalue))
    both = np.mean(right["learned"], axis=0) - np.mean(right["uniform"], axis=0)
    assert compared.loc["all", "difference"] == pytest.approx(both.mean())
    by_seed = [
        float(np.mean(a) - np.mean(b)) for a, b in zip(right["learned"], right["uniform"], strict=True)
    ]
    assert compared.loc["all", ["low", "high"]].tolist() == pytest.approx([min(by_seed), max(by_seed)])
    assert compared.loc["all", "interval"] == "range"
    assert set(finding.tables["summary"]["figure"]) == {"accuracy", "f1", "roc-auc"}


def test_the_uniform_twin_attends_uniformly(context: Context) -> None:
    subject = subject_in(context).uniform_twin
    model = context.models(subject)[0].model
    predicted = predict(model, rows_of(model, planted()["test"]), attention=True)
    assert predicted.attention is not None
    for weights, length in zip(predicted.attention[:, 0], predicted.lengths, strict=True):
        assert weights[:length].tolist() == pytest.approx([1 / length] * length)
    predicted.attention.requires_grad_()  # a loss may be taken against it


def test_a_transformer_is_fine_tuned_twice(context: Context, checkpoint: Callable[..., Path]) -> None:
    once = TrainingSpec(epochs=1, batch_size=8, learning_rate=1e-3, optimizer="adamw")
    model = ModelSpec(name=str(checkpoint("distilbert")))
    subject = subject_in(context, planted(train=16, held_out=8), model=model, training=once)
    finding = Necessity(subject).run(context)
    assert set(finding.tables["seeds"]["attention"]) == {"learned", "uniform"}
    folder = context.folders(subject.uniform_twin)[0]
    assert '"uniform": true' in (folder / "model" / "rashomon.json").read_text()


def test_attention_that_cannot_be_frozen_is_found_out(
    context: Context, checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from rashomon.models.huggingface import HuggingFaceClassifier

    monkeypatch.setattr(HuggingFaceClassifier, "_choose_kernel", lambda self, eager: None)  # stays eager
    once = TrainingSpec(epochs=1, batch_size=8)
    model = ModelSpec(name=str(checkpoint("bert")))
    subject = subject_in(context, planted(train=8, held_out=4), model=model, training=once)
    with pytest.raises(UserError, match="cannot be made uniform"):
        Necessity(subject).run(context)


@pytest.mark.parametrize(
    ("difference", "interval", "p", "seeds", "start"),
    [
        (0.10, (0.05, 0.15), 0.01, 3, "The model needs its attention:"),
        (0.01, (-0.02, 0.04), 0.20, 3, "Attention is not needed here"),
        (-0.10, (-0.22, 0.02), 0.20, 3, "Attention is not needed here"),
        (0.03, (-0.10, 0.16), 0.20, 3, "No need for attention was shown, but a difference that matters"),
        (-0.10, (-0.15, -0.05), 0.01, 3, "Attention does harm here"),
        (0.10, (0.09, 0.11), 0.0, 2, "Under 3 seeds nobody can tell the training's luck"),
        (0.10, (0.09, 0.11), 0.0, 1, "Under 3 seeds nobody can tell the training's luck"),
        (0.0, (float("nan"), float("nan")), float("nan"), 3, "Too few texts to tell"),
    ],
)
def test_the_verdict_follows_the_test(
    difference: float, interval: tuple[float, float], p: float, seeds: int, start: str
) -> None:
    table = pd.DataFrame(
        {"attention": ["learned", "uniform"], "seed": 0, "accuracy": [0.8, 0.8 - difference]}
    )
    row = {"seed": "all", "seeds": seeds, "n": 50, "difference": difference, "p": p}
    low, high = interval
    comparison = pd.DataFrame(
        [row | {"low": low, "high": high, "interval": "95 %" if seeds > 2 else "range"}]
    )
    said = _verdict(table, comparison)
    assert said.startswith(start)
    assert "p = 0.000" not in said
    if p == 0.01 and difference > 0:
        assert "difference 0.100 [0.050, 0.150], p = .010, 3 seeds, 50 predictions" in said
    if seeds < 3:
        assert "0.100 (0.090 to 0.110), p < .001" in said


def test_luck_of_the_training_is_no_effect() -> None:
    """Two seeds' worth of texts in favour and one against: over texts that is sure, over seeds it is nothing."""
    seeds, texts = (0, 1, 2), [f"e{i}" for i in range(200)]
    right = {"learned": (0.9, 0.9, 0.6), "uniform": (0.7, 0.7, 0.8)}
    correct = {
        name: pd.concat(
            [
                pd.DataFrame({"seed": s, "example": texts, "correct": (np.arange(200) < 200 * share) * 1.0})
                for s, share in zip(seeds, shares, strict=True)
            ]
        )
        for name, shares in right.items()
    }
    table = Necessity(Subject(seeds=seeds))._compare(correct).set_index("seed")
    assert (table.loc[["0", "1", "2"], "p_holm"] < 0.001).all()
    assert table.loc["all", "p"] > 0.3
    assert table.loc["all", "low"] < 0 < table.loc["all", "high"]
    assert table.loc["all", ["test", "interval", "seeds", "n"]].tolist() == ["hierarchical t", "95 %", 3, 600]


def test_refusals(context: Context, checkpoint: Callable[..., Path]) -> None:
    data = planted()
    bare = Dataset("d", {**data.splits, "test": (replace(data["test"][0], label=None),)}, data.labels)
    for subject, message in (
        (Subject(context.adopt(data), checkpoint=str(checkpoint("bert"))), "give a model to train"),
        (subject_in(context, model=replace(SMALL, weights="uniform")), "uniform already"),
        (subject_in(context, bare), "needs labels"),
        (subject_in(context, Dataset("d", {**data.splits, "test": ()}, data.labels)), "empty"),
    ):
        with pytest.raises(UserError, match=message):
            Necessity(subject).run(context)
    assert not context.store.list(), "told before anything is trained"


def test_an_audit_compares_the_models_that_it_trains_anyway() -> None:
    for seeds in ((0,), (5,), (3, 1, 2)):
        study = Necessity.for_audit(Ask(Subject(seeds=seeds)))
        assert study is not None
        assert study.subject.seeds == seeds


def test_only_the_pooling_of_a_transformer_is_made_uniform(context: Context) -> None:
    model = ModelSpec(name="transformer", hidden=8, embedding_dim=8, self_heads=2)
    subject = subject_in(
        context, planted(train=16, held_out=8), model=model, training=replace(QUICK, epochs=1)
    )
    assert Necessity(subject).run(context).warnings == (POOLING_ONLY,)
    pooled = replace(subject, model=SMALL)
    assert Necessity(pooled).run(context).warnings == ()
