"""What every study says of itself, and how it trains the model that it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rashomon.experiments.abilities import able_model
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask
from rashomon.models.build import build_model
from rashomon.models.model_spec import ModelSpec
from rashomon.studies import studies
from rashomon.studies.base import AttentionStudy, Study, in_order
from rashomon.training.settings import FINE_TUNING, TrainingSpec
from tests.studies.planted import planted, subject_in

OF_ATTENTION: list[Any] = [kind.value for kind in studies if issubclass(kind.value, AttentionStudy)]


@pytest.mark.parametrize("kind", OF_ATTENTION, ids=lambda kind: kind.name)
def test_studies_of_attention_keep_the_epoch_with_the_best_roc_auc(kind: Any) -> None:
    assert kind().base.training.select == "roc-auc"
    assert kind(Subject(model=ModelSpec(name="minilm"))).base.training == FINE_TUNING
    asked = TrainingSpec(epochs=2, select="f1")
    assert kind(Subject(training=asked)).base.training == asked
    assert kind(Subject(checkpoint="given")).base.training is None
    assert kind().configuration()["subject"]["training"]["select"] == "roc-auc"


def test_there_are_seven_of_them() -> None:
    names = {kind.name for kind in OF_ATTENTION}
    assert names == {
        "adversary",
        "attefa",
        "guided-mlp",
        "instance-adversary",
        "necessity",
        "permutation",
        "seed-variance",
    }


EVERY: list[type[Study]] = in_order()


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
def test_every_study_says_what_a_report_needs(kind: type[Study]) -> None:
    study = kind()
    assert studies.get(kind.name) is kind
    assert study.title
    assert study.question.endswith("?")
    assert isinstance(study.subject, Subject)
    assert study.subject in [
        replace(need, training=None, seeds=study.subject.seeds, callbacks=study.subject.callbacks)
        for need in study.needed_models()
    ]


def test_places_in_an_audit_are_not_shared() -> None:
    assert len({kind.order for kind in EVERY}) == len(EVERY)


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.name)
def test_an_audit_asks_every_study_about_its_own_subject(kind: type[Study]) -> None:
    asked = Ask(Subject(seeds=(7,)), ("attention", "lime"), 13, "dev")
    study = kind.for_audit(asked)
    if study is None:
        return
    assert (study.subject.dataset, study.subject.model) == (asked.subject.dataset, asked.subject.model)
    assert 7 in study.subject.seeds
    for name in ("methods", "instances", "split"):
        assert getattr(study, name, getattr(asked, name)) == getattr(asked, name)


def test_an_audit_does_not_train_adversaries_of_what_was_fine_tuned() -> None:
    for subject in (Subject(checkpoint="folder"), Subject(model=ModelSpec(name="minilm"))):
        left_out = {kind.name for kind in EVERY if kind.for_audit(Ask(subject)) is None}
        assert {"adversary", "attefa"} <= left_out
        assert "erasure" not in left_out


def test_a_kind_of_model_can_do_the_same_before_it_is_trained(context: Context) -> None:
    for name in ("mlp", "transformer"):
        model = ModelSpec(name=name, hidden=8, embedding_dim=8, self_heads=2)
        subject = subject_in(context, planted(train=16, held_out=8), model=model)
        before = able_model(context, subject)
        assert not context.store.list()
        assert before.capabilities == build_model(model, planted(), 3).capabilities
    trained = context.models(subject)[0].model
    assert able_model(context, subject).fingerprint() == trained.fingerprint()
    assert before.fingerprint() != trained.fingerprint()
