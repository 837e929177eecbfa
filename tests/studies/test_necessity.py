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
from rashomon.studies.necessity import POOLING_ONLY, Necessity, _verdict, uniform_twin
from rashomon.training.settings import TrainingSpec
from tests.studies.planted import QUICK, SMALL, planted, subject_in


def test_figures_equal_scikit_learn_and_statsmodels(context: Context) -> None:
    data = planted()
    subject = subject_in(context, data, seeds=(0, 1))
    finding = Necessity(subject).run(context)
    labels = [example.label for example in data["test"]]
    right: dict[str, list[np.ndarray]] = {"learned": [], "uniform": []}
    seeds = finding.tables["seeds"].set_index(["attention", "seed"])
    for name, twin in (("learned", subject), ("uniform", uniform_twin(subject))):
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
    assert set(finding.tables["summary"]["figure"]) == {"accuracy", "f1", "roc-auc"}


def test_the_uniform_twin_attends_uniformly(context: Context) -> None:
    subject = uniform_twin(subject_in(context))
    model = context.models(subject)[0].model
    told = predict(model, rows_of(model, planted()["test"]), attention=True)
    assert told.attention is not None
    for weights, length in zip(told.attention[:, 0], told.lengths, strict=True):
        assert weights[:length].tolist() == pytest.approx([1 / length] * length)
    told.attention.requires_grad_()  # a loss may be taken against it


def test_a_transformer_is_fine_tuned_twice(context: Context, checkpoint: Callable[..., Path]) -> None:
    once = TrainingSpec(epochs=1, batch_size=8, learning_rate=1e-3, optimizer="adamw")
    model = ModelSpec(name=str(checkpoint("distilbert")))
    subject = subject_in(context, planted(train=16, held_out=8), model=model, training=once)
    finding = Necessity(subject).run(context)
    assert set(finding.tables["seeds"]["attention"]) == {"learned", "uniform"}
    folder = context.folders(uniform_twin(subject))[0]
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
    ("difference", "p", "start"),
    [
        (0.10, 0.01, "The model needs its attention:"),
        (0.10, 0.20, "Attention is not needed here"),
        (-0.10, 0.20, "Attention is not needed here"),
        (-0.10, 0.01, "Attention does harm here"),
        (0.0, float("nan"), "Too few texts to tell"),
    ],
)
def test_the_verdict_follows_the_test(difference: float, p: float, start: str) -> None:
    seeds = pd.DataFrame(
        {"attention": ["learned", "uniform"], "seed": 0, "accuracy": [0.8, 0.8 - difference]}
    )
    comparison = pd.DataFrame([{"seed": "all", "p": p, "difference": difference, "n": 50}])
    assert _verdict(seeds, comparison).startswith(start)


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
    for seeds, compared in (((0,), (0, 1)), ((5,), (5, 6)), ((3, 1, 2), (3, 1, 2))):
        study = Necessity.for_audit(Ask(Subject(seeds=seeds)))
        assert study is not None
        assert study.subject.seeds == compared


def test_only_the_pooling_of_a_transformer_is_made_uniform(context: Context) -> None:
    model = ModelSpec(name="transformer", hidden=8, embedding_dim=8, self_heads=2)
    subject = subject_in(
        context, planted(train=16, held_out=8), model=model, training=replace(QUICK, epochs=1)
    )
    assert Necessity(subject).run(context).warnings == (POOLING_ONLY,)
    pooled = replace(subject, model=SMALL)
    assert Necessity(pooled).run(context).warnings == ()
