"""What an audit says of attention must survive the full protocol: the same words on three kinds of base.

Attention over BiLSTM states of reviews can be moved freely, and so can that of token vectors over planted words. Where
each token names a class and the highest rank decides, nothing but attention can pick the deciding one: no other token
speaks for the label, and no bounded vector can outweigh the others by itself.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rashomon.data import Dataset, Example, load_dataset
from rashomon.data.planted import mock
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.store import Store
from rashomon.studies.attefa import FRESH, Attefa
from rashomon.studies.base import Finding
from rashomon.studies.instance_adversary import InstanceAdversary
from rashomon.training.settings import TrainingSpec

QUICKLY = TrainingSpec(epochs=8, batch_size=64, learning_rate=3e-3)
LONGER = replace(QUICKLY, epochs=25, patience=None)
NEVER_ELSEWHERE, ELSEWHERE = {"good", "mixed"}, {"poor"}


def ranked_words(sizes: tuple[int, int, int], classes: int = 8, ranks: int = 16, length: int = 5) -> Dataset:
    """Texts of words such as ``r12c3``, all of different ranks and classes; the class of the highest rank is the label."""
    generator = np.random.default_rng(0)
    splits = {}
    for split, size in zip(("train", "dev", "test"), sizes, strict=True):
        examples = []
        for number in range(size):
            rank = generator.choice(ranks, length, replace=False)
            kind = generator.choice(classes, length, replace=False)
            text = " ".join(f"r{r}c{c}" for r, c in zip(rank, kind, strict=True))
            examples.append(Example(f"{split}-{number}", text, label=int(kind[rank.argmax()])))
        splits[split] = tuple(examples)
    return Dataset("ranked-words", splits, tuple(f"class {c}" for c in range(classes)))


def reviews() -> Dataset:
    return load_dataset("planted-reviews")


def planted_words() -> Dataset:
    return mock("mock-5", train_size=2000, dev_size=300, test_size=300)


def trial_and_protocol(context: Context, subject: Subject, full: Attefa) -> tuple[Finding, Finding]:
    trial = Attefa.for_audit(Ask(subject, instances=100))
    assert isinstance(trial, Attefa)
    return trial.run(context), full.run(context)


def words_of(finding: Finding) -> str:
    (judgement,) = finding.judgements
    return judgement.words


CASES = [
    pytest.param(reviews, ModelSpec(hidden=64), QUICKLY, ELSEWHERE, id="reviews-bilstm"),
    pytest.param(planted_words, ModelSpec(name="mlp"), QUICKLY, ELSEWHERE, id="mock-5-mlp"),
    pytest.param(
        lambda: ranked_words((6000, 500, 500)),
        ModelSpec(name="mlp", hidden=64, embedding_dim=64),
        LONGER,
        NEVER_ELSEWHERE,
        id="ranked-mlp",
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "model", "training", "ratings"), CASES)
def test_an_audit_says_what_the_full_protocol_says(
    tmp_path: Path, make: object, model: ModelSpec, training: TrainingSpec, ratings: set[str]
) -> None:
    context = Context(Store(tmp_path / "store"))
    subject = Subject(context.adopt(make()), model, training)  # type: ignore[operator]
    full = Attefa(subject, seeds=(10, 50, 257), training=FRESH, other_seeds=(1, 2, 3))
    trial, protocol = trial_and_protocol(context, subject, full)
    assert words_of(trial) == words_of(protocol), (trial.verdict, protocol.verdict)
    assert trial.judgements[0].rating in ratings
    searches = [
        study.run(context).verdict.split(":")[0]
        for study in (InstanceAdversary.for_audit(Ask(subject, instances=100)), InstanceAdversary(subject))
        if study is not None
    ]
    assert searches[0] == searches[1]
