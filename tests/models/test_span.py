"""Question answerers: tiny BERT, DistilBERT and RoBERTa checkpoints through the contract."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from rashomon.data.example import Example, Span
from rashomon.errors import UserError
from rashomon.models import ModelSpec, build_model, load_model, without_attention
from rashomon.models.evaluator import predict, rows_of, scores_of
from rashomon.models.huggingface import HuggingFaceClassifier, HuggingFaceSpanModel
from rashomon.models.tasks import NO_TARGET, OUTSIDE, SPAN, answer_text, passage_of
from rashomon.training.train import train

from .tiny import PAIRS, QUESTIONS, SINGLES, dataset, questions, tiny_checkpoint

KINDS = ("bert", "distilbert", "roberta")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("answerers")
    return {kind: tiny_checkpoint(kind, base / kind, answers=True) for kind in KINDS}


@pytest.fixture(scope="module")
def loaded(folders: dict[str, Path]) -> dict[str, HuggingFaceSpanModel]:
    return {kind: load_model(folder) for kind, folder in folders.items()}  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS)
def test_contract(loaded: dict[str, HuggingFaceSpanModel], kind: str) -> None:
    model = loaded[kind]
    assert isinstance(model, HuggingFaceSpanModel)
    assert model.task is SPAN
    assert model.labels == ()
    assert model.capabilities == {"attention", "layers", "gradients"}
    encodings = model.encode(QUESTIONS)
    batch = model.collate(encodings)
    with torch.no_grad():
        output = model(batch)
    size, width = batch.ids.shape
    assert output.logits.shape == (size, width, 2)
    assert output.attention is not None
    assert output.layers is not None
    assert output.readout is not None
    torch.testing.assert_close(output.attention.sum(-1), torch.ones(size, 4))
    assert (output.attention.masked_select(~batch.mask.unsqueeze(1)) == 0).all()
    inside = passage_of(batch)
    assert (output.logits[~inside] == OUTSIDE).all()
    assert (output.logits[inside] > OUTSIDE / 2).all()
    for number, (start, end) in enumerate(SPAN.answers(output.logits).tolist()):
        assert inside[number, start]
        assert inside[number, end]
        expected = (output.layers[-1][number, :, start] + output.layers[-1][number, :, end]) / 2
        torch.testing.assert_close(output.attention[number], expected)
        middle = (output.hidden[number, start] + output.hidden[number, end]) / 2
        torch.testing.assert_close(output.pooled[number], middle)
    for number, encoding in enumerate(encodings):
        alone = model(model.collate([encoding]))
        torch.testing.assert_close(
            alone.logits[0], output.logits[number, : len(encoding)], atol=1e-5, rtol=1e-5
        )
    given = model(batch, model.embed(batch))
    torch.testing.assert_close(given.logits, output.logits, atol=1e-5, rtol=1e-5)
    with torch.no_grad(), without_attention(model):
        torch.testing.assert_close(model(batch).logits, output.logits, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_plain_library(folders: dict[str, Path], kind: str) -> None:
    network = AutoModelForQuestionAnswering.from_pretrained(folders[kind]).eval()
    tokenizer = AutoTokenizer.from_pretrained(folders[kind])
    model = load_model(folders[kind])
    for example in QUESTIONS:
        inputs = tokenizer(example.text, example.text_pair, return_tensors="pt")
        batch = model.collate(model.encode([example]))
        with torch.no_grad():
            expected = network(**inputs)
            got = model(batch).logits[0]
        inside = passage_of(batch)[0]
        for side, logits in enumerate((expected.start_logits[0], expected.end_logits[0])):
            torch.testing.assert_close(got[inside, side], logits[inside], atol=1e-5, rtol=0)


def test_answers_are_read_from_the_passage(loaded: dict[str, HuggingFaceSpanModel]) -> None:
    model = loaded["bert"]
    rows = rows_of(model, QUESTIONS)
    logits = predict(model, rows).logits
    spans = SPAN.answers(torch.from_numpy(logits)).tolist()
    texts = [
        answer_text(example, encoding, span)
        for (example, encoding), span in zip(rows.source or (), spans, strict=True)
    ]
    assert all(text in (example.text_pair or "") for text, example in zip(texts, QUESTIONS, strict=True))
    # By hand: the best pair of places in order, among all.
    for row, (start, end) in enumerate(spans):
        sums = logits[row, :, 0][:, None] + logits[row, :, 1][None, :]
        allowed = np.triu(np.ones_like(sums)) - np.triu(np.ones_like(sums), 30)
        assert sums[start, end] == np.where(allowed > 0, sums, -np.inf).max()


def test_save_and_load(folders: dict[str, Path], tmp_path: Path) -> None:
    model = build_model(ModelSpec(name=str(folders["bert"]), max_length=30), questions(), seed=1).eval()
    assert isinstance(model, HuggingFaceSpanModel)
    model.save(tmp_path)
    again = load_model(tmp_path)
    assert again.fingerprint() == model.fingerprint()
    assert (again.max_length, again.task) == (30, SPAN)
    batch = model.collate(model.encode(QUESTIONS))
    assert torch.equal(again(batch).logits, model(batch).logits)


def test_a_head_for_answers_on_any_encoder(tmp_path: Path) -> None:
    """From the seed alone where the checkpoint has none, and refused where it should be trained."""
    folder = tiny_checkpoint("bert", tmp_path)
    spec = ModelSpec(name=str(folder))
    one, same, other = (build_model(spec, questions(), seed) for seed in (1, 1, 2))
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()
    with pytest.raises(UserError, match="no trained head for answers"):
        HuggingFaceSpanModel.load(folder)


def test_long_passages_are_cut_and_questions_are_not(loaded: dict[str, HuggingFaceSpanModel]) -> None:
    model = loaded["bert"]
    passage = "a film " * 60 + "good"
    question = "is the movie very good or very bad"
    cut = Example("long", question, None, passage, answers=(Span(len(passage) - 4, len(passage)),))
    (encoding,) = model.encode([cut])
    assert (len(encoding), encoding.cut) == (64, 1 + 8 + 1 + 121 + 1 - 64)
    assert (encoding.content & (encoding.segments == 0)).sum() == 8
    rows = rows_of(model, [cut, *QUESTIONS])
    assert rows.whole.extras["start"][0] == NO_TARGET  # its answer was cut off
    assert np.isfinite(list(scores_of(model, rows).values())).all()
    with pytest.raises(UserError, match="leaves no room"):
        model.encode([Example("odd", "film " * 70, None, "a film", answers=())])


def test_the_loss_is_that_of_both_ends(loaded: dict[str, HuggingFaceSpanModel]) -> None:
    model = loaded["bert"]
    rows = rows_of(model, QUESTIONS)
    log = torch.from_numpy(predict(model, rows).logits).log_softmax(1)
    index = torch.arange(len(QUESTIONS))
    expected = (
        -(log[index, rows.whole.extras["start"], 0] + log[index, rows.whole.extras["end"], 1]).mean() / 2
    )
    assert scores_of(model, rows)["loss"] == pytest.approx(float(expected), rel=1e-5)


def test_training_learns_the_answers(folders: dict[str, Path]) -> None:
    model = train(str(folders["bert"]), questions(), epochs=30, batch_size=4, learning_rate=3e-3)
    scores = scores_of(model, rows_of(model, QUESTIONS))
    assert scores["f1"] > 0.9
    assert scores["exact-match"] > 0.7


def test_tasks_are_told_apart(folders: dict[str, Path], tmp_path: Path) -> None:
    answerer = load_model(folders["bert"])
    classifier = HuggingFaceClassifier.load(tiny_checkpoint("bert", tmp_path))
    with pytest.raises(UserError, match="has no passage"):
        answerer.encode(SINGLES)
    with pytest.raises(UserError, match="chooses between classes"):
        classifier.encode([*PAIRS, QUESTIONS[0]])
    built_in = build_model(ModelSpec(embedding_dim=4, hidden=4), dataset(pair=True), seed=0)
    with pytest.raises(UserError, match="chooses between classes"):
        built_in.encode(QUESTIONS)
    with pytest.raises(UserError, match=r"bilstm chooses between classes.*minilm"):
        build_model(ModelSpec(), questions(), seed=0)
