"""A network in memory: explained as it is, left as it came, refused in a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModel,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    pipeline,
)

from rashomon.errors import UserError
from rashomon.explainers import explain
from rashomon.models import load_model
from rashomon.models.checkpoints import quiet
from rashomon.models.wrapping import wrap
from tests.models.tiny import SINGLES, dataset, questions, tiny_checkpoint

METHODS = (
    "attention",
    "attention-rollout",
    "integrated-gradients",
    "deeplift",
    "layer-conductance",
    "leave-one-out",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint("bert", tmp_path_factory.mktemp("wrap") / "bert")


def parts(folder: Path, kind: Any = AutoModelForSequenceClassification, **options: Any) -> tuple[Any, Any]:
    with quiet():
        return kind.from_pretrained(folder, **options), AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("state", ["sdpa", "eager", "training", "frozen"])
def test_scores_are_those_of_the_loaded_checkpoint(folder: Path, state: str) -> None:
    network, tokenizer = parts(folder, attn_implementation="eager" if state == "eager" else "sdpa")
    network.train(state == "training")
    network.requires_grad_(state != "frozen")
    weights = {name: value.clone() for name, value in network.state_dict().items()}
    explanations = explain(wrap(network, tokenizer), SINGLES[:3], METHODS)
    expected = explain(load_model(folder), SINGLES[:3], METHODS)
    for one, other in zip(explanations, expected, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5, atol=1e-7)
    assert network.training == (state == "training")
    assert all(parameter.requires_grad == (state != "frozen") for parameter in network.parameters())
    assert all(parameter.grad is None for parameter in network.parameters())
    assert all(torch.equal(value, weights[name]) for name, value in network.state_dict().items())


def test_labels_are_the_networks_own_or_given(folder: Path) -> None:
    network, tokenizer = parts(folder)
    network.config.id2label = {0: "down", 1: "up"}
    assert wrap(network, tokenizer).labels == ("down", "up")
    assert wrap(network, tokenizer, ["no", "yes"], max_length=7).labels == ("no", "yes")
    assert wrap(network, tokenizer, max_length=7).max_length == 7


def test_one_logit_counts_as_two_classes(tmp_path: Path) -> None:
    network, tokenizer = parts(tiny_checkpoint("bert", tmp_path, labels=1))
    assert wrap(network, tokenizer, ("bad", "good")).classes == 2


def test_mistakes_are_named(folder: Path, tmp_path: Path) -> None:
    network, tokenizer = parts(folder)
    body, _ = parts(folder, AutoModel)
    tags, _ = parts(folder, AutoModelForTokenClassification)
    answerer, _ = parts(folder, AutoModelForQuestionAnswering)
    _, other = parts(tiny_checkpoint("roberta", tmp_path))
    several, _ = parts(folder)
    several.config.problem_type = "multi_label_classification"
    whole = pipeline("text-classification", model=network, tokenizer=tokenizer)
    for arguments, said in (
        ((tokenizer, network), "network comes first"),
        ((wrap(network, tokenizer), tokenizer), "model already"),
        ((whole, tokenizer), r"pipeline\.model"),
        ((torch.nn.Linear(2, 2), tokenizer), "no Hugging Face network"),
        ((body, tokenizer), "neither classifies"),
        ((tags, tokenizer), "neither classifies"),
        ((answerer, tokenizer, ["no", "yes"]), "no classes to name"),
        ((several, tokenizer), "several labels"),
        ((network, "bert"), "no Hugging Face tokenizer"),
        ((network, other), "another network's"),
        ((network, tokenizer, ["one"]), "2 classes"),
        ((network, tokenizer, "no"), "2 classes"),
        ((network, tokenizer, None, 0), "length of texts"),
    ):
        with pytest.raises(UserError, match=said):
            wrap(*arguments)


def test_predictions_are_the_networks(folder: Path) -> None:
    network, tokenizer = parts(folder)
    texts = [example.text for example in SINGLES]
    table = wrap(network.eval(), tokenizer).predict(texts)
    with torch.no_grad():
        inputs = tokenizer(texts, padding=True, return_tensors="pt")
        expected = network(**inputs).logits.softmax(-1).numpy()
    np.testing.assert_allclose(table[["LABEL_0", "LABEL_1"]], expected, atol=1e-5)
    assert table["prediction"].tolist() == [f"LABEL_{row.argmax()}" for row in expected]
    np.testing.assert_allclose(table["probability"], expected.max(1), atol=1e-5)


def test_predictions_of_frames_and_of_nothing(folder: Path) -> None:
    model = load_model(folder)
    assert len(model.predict([])) == 0
    assert model.predict("a good film").index.tolist() == ["0"]
    whole, alone = model.predict(dataset()["test"]), model.predict(dataset()["test"][2:3])
    np.testing.assert_allclose(whole.loc["s2", "probability"], alone.loc["s2", "probability"], rtol=1e-6)


def test_a_network_that_answers_questions(tmp_path: Path) -> None:
    folder = tiny_checkpoint("bert", tmp_path, answers=True)
    network, tokenizer = parts(folder, AutoModelForQuestionAnswering)
    own, loaded = wrap(network, tokenizer), load_model(folder)
    asked = [(example.text, example.text_pair) for example in questions()["test"]]
    for one, other in zip(explain(own, asked, METHODS[-1]), explain(loaded, asked, METHODS[-1]), strict=True):
        assert one.target_label == other.target_label
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5, atol=1e-7)
    table = own.predict(asked)
    assert all(answer in passage for answer, (_, passage) in zip(table["prediction"], asked, strict=True))
