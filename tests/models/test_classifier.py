"""Every built-in family x attention x weighting, single and pair, through the contract."""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor

from rashomon.data.batches import Batch
from rashomon.data.example import Example
from rashomon.errors import UserError
from rashomon.models import AttentionClassifier, Output, build_model, load_model
from rashomon.models import classifier as classifier_module
from rashomon.models.encoders import encoders
from rashomon.models.model_spec import ATTENTIONS, WEIGHTS, ModelSpec

from .tiny import PAIRS, SINGLES, dataset

CASES = [
    pytest.param(
        name, attention, weights, pair, id=f"{name}-{attention}-{weights}-{'pair' if pair else 'single'}"
    )
    for name, (attention, weights), pair in product(
        encoders.names(),
        [case for case in product(ATTENTIONS, WEIGHTS) if case[0] == "additive" or case[1] in WEIGHTS[:3]],
        (False, True),
    )
]


def _model(
    name: str = "bilstm", pair: bool = False, seed: int = 0, **settings: object
) -> AttentionClassifier:
    small = {"embedding_dim": 6, "hidden": 8, "self_heads": 2, "heads": 2, "max_length": 40}
    spec = ModelSpec.from_json({"name": name, **small, **settings})
    model = build_model(spec, dataset(pair), seed)
    assert isinstance(model, AttentionClassifier)
    return model.eval()


def _preset(batch: Batch) -> Batch:
    """Weights that belong to the token, so that an example carries the same ones into any batch."""
    return batch.with_extras(preset=1.0 + (batch.ids % 5).float() + batch.positions)


def _run(model: AttentionClassifier, examples: tuple[Example, ...]) -> tuple[Batch, Output]:
    batch = _preset(model.collate(model.encode(examples)))
    return batch, model(batch)


def _close(one: Tensor, other: Tensor, atol: float = 1e-5) -> None:
    torch.testing.assert_close(one, other, atol=atol, rtol=0)


@pytest.mark.parametrize(("name", "attention", "weights", "pair"), CASES)
def test_contract(name: str, attention: str, weights: str, pair: bool, tmp_path: Path) -> None:
    model = _model(name, pair, attention=attention, weights=weights)
    examples = PAIRS if pair else SINGLES
    batch, output = _run(model, examples)
    size, width = batch.ids.shape
    assert output.logits.shape == (size, 3 if pair else 2)
    assert output.hidden.shape[:2] == (size, width)
    assert output.attention is not None
    assert output.attention.shape == (size, 2, width)
    assert (output.attention.masked_select(~batch.mask.unsqueeze(1)) == 0).all()
    for side in (0, 1) if pair else (0,):
        of_side = (batch.mask & (batch.segments == side)).unsqueeze(1)
        _close((output.attention * of_side).sum(-1), torch.ones(size, 2))
    _check_alone(model, examples, batch, output)
    _close(model(batch, model.embed(batch)).logits, output.logits, atol=1e-6)
    if name == "transformer":
        assert output.layers is not None
        assert output.readout is not None
        assert [tuple(layer.shape) for layer in output.layers] == [(size, 2, width, width)] * 2
        _close(output.readout.sum(1), torch.ones(size))
        _close(output.layers[0].sum(-1), torch.ones(size, 2, width))
    model.save(tmp_path)
    again = load_model(tmp_path)
    assert again.fingerprint() == model.fingerprint()
    assert torch.equal(again(batch).logits, output.logits)
    assert (again.labels, again.max_length) == (model.labels, model.max_length)


def _check_alone(
    model: AttentionClassifier, examples: tuple[Example, ...], batch: Batch, output: Output
) -> None:
    assert output.attention is not None
    for number, example in enumerate(examples):
        _, alone = _run(model, (example,))
        length = int(batch.mask[number].sum())
        assert alone.attention is not None
        _close(alone.logits[0], output.logits[number])
        _close(alone.pooled[0], output.pooled[number])
        _close(alone.attention[0], output.attention[number, :, :length])
        _close(alone.hidden[0], output.hidden[number, :length])


@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("name", encoders.names())
def test_removing_a_token_equals_masking_it(name: str, pair: bool) -> None:
    model = _model(name, pair)
    assert "removal" in model.capabilities
    batch = model.collate(model.encode((PAIRS if pair else SINGLES)[:1]))
    keep = torch.ones_like(batch.mask)
    keep[0, [1, 4]] = False
    masked = model(replace(batch, mask=batch.mask & keep))
    left = model(
        Batch(
            batch.ids[keep][None],
            batch.mask[keep][None],
            batch.segments[keep][None],
            batch.positions[keep][None],
            batch.content[keep][None],
        )
    )
    _close(masked.logits, left.logits, atol=1e-6)
    assert (masked.logits - model(batch).logits).abs().max() > 1e-4  # and it does make a difference
    nothing = model(replace(batch, mask=torch.zeros_like(batch.mask)))
    _close(nothing.logits[0], model.decoder.bias)


@pytest.mark.parametrize("name", encoders.names())
def test_gradients_reach_embeddings_in_eval_mode(name: str) -> None:
    model = _model(name)
    batch = model.collate(model.encode(SINGLES))
    embeddings = model.embed(batch).detach().requires_grad_()
    model(batch, embeddings).logits[:, 1].sum().backward()
    assert embeddings.grad is not None
    reached = embeddings.grad.abs().sum(-1) > 0
    assert torch.equal(reached, batch.mask)


def test_seeds_reproduce_and_leave_the_global_state_alone() -> None:
    before = torch.get_rng_state()
    one, same, other = _model(seed=3), _model(seed=3), _model(seed=4)
    assert torch.equal(before, torch.get_rng_state())
    assert one.fingerprint() == same.fingerprint() != other.fingerprint()


def test_models_that_differ_in_attention_only_start_alike() -> None:
    learned, frozen = _model(weights="softmax").state_dict(), _model(weights="uniform").state_dict()
    assert frozen.keys() < learned.keys()
    assert all(torch.equal(frozen[name], learned[name]) for name in frozen)


def test_encoding_leads_back_to_the_text() -> None:
    encoding = _model(steps=["lowercase", "alphanumeric"]).encode(SINGLES[:1])[0]
    assert encoding.tokens == ("a", "witty", "warm", "film", "and", "a", "great", "plot")
    assert [SINGLES[0].text[start:end] for start, end in encoding.offsets][:3] == ["A", "witty", "warm"]
    assert encoding.word_ids.tolist() == [0, 1, 3, 4, 5, 6, 7, 8]  # the comma keeps its number
    assert not encoding.special.any()


def test_pairs_lie_in_one_sequence() -> None:
    encoding = _model(pair=True).encode(PAIRS[:1])[0]
    assert encoding.segments.tolist() == [0, 0, 0, 0, 1, 1]
    assert encoding.positions.tolist() == [0, 1, 2, 3, 0, 1]
    assert encoding.word_ids.tolist() == [0, 1, 2, 3, 0, 1]
    assert [PAIRS[0].text_pair[start:end] for start, end in encoding.offsets[4:]] == ["people", "sleep"]


def test_pair_segments_matter() -> None:
    model = _model(pair=True)
    batch = model.collate(model.encode(PAIRS[:1]))
    swapped = replace(batch, segments=1 - batch.segments)
    assert (model(batch).logits - model(swapped).logits).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("first", "second", "kept"), [(30, 30, (5, 5)), (30, 3, (7, 3)), (2, 30, (2, 8)), (4, 6, (4, 6))]
)
def test_long_pairs_lose_from_the_longer_side(first: int, second: int, kept: tuple[int, int]) -> None:
    model = _model(pair=True, max_length=10)
    encoding = model.encode([Example("x", "film " * first, text_pair="plot " * second)])[0]
    assert ((encoding.segments == 0).sum(), (encoding.segments == 1).sum()) == kept
    assert encoding.cut == first + second - 10


def test_long_texts_report_the_cut() -> None:
    model = _model("transformer")
    encoding = model.encode([Example("x", "film " * 100)])[0]
    assert (len(encoding), encoding.cut) == (40, 60)
    assert model(model.collate([encoding])).logits.isfinite().all()


def test_unknown_words_and_masks_share_an_id() -> None:
    model = _model()
    encoding = model.encode([Example("x", "qqqqq wwwww <pad>")])[0]
    assert set(encoding.ids.tolist()) == {model.mask_id}
    assert (model.embedding.weight[model.pad_id] == 0).all()


@pytest.mark.parametrize(
    ("pair", "example", "words"),
    [
        (False, Example("nil", "  "), "text of example 'nil'"),
        (True, Example("nil", "good", text_pair=""), "second text of example 'nil'"),
        (False, PAIRS[0], "single texts.*'p0' is a pair"),
        (True, SINGLES[0], "pairs.*'s0' is a single text"),
    ],
)
def test_wrong_examples_are_refused_by_name(pair: bool, example: Example, words: str) -> None:
    with pytest.raises(UserError, match=words):
        _model(pair=pair).encode([example])


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("pair", [False, True])
@pytest.mark.parametrize("factor", [0, 10_000], ids=["by-place", "by-token"])
def test_distinct_tokens_give_the_same_with_gradients(
    weights: str, pair: bool, factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = _model("mlp", pair, weights=weights, layers=2)
    assert "token-level" in model.capabilities
    batch = _preset(model.collate(model.encode(PAIRS if pair else SINGLES)))
    monkeypatch.setattr(classifier_module, "TABLE_FACTOR", factor)
    gradients = []
    outputs = []
    for share in (-1.0, 2.0):  # never, always
        monkeypatch.setattr(classifier_module, "DISTINCT_SHARE", share)
        model.zero_grad()
        outputs.append(model(batch))
        (outputs[-1].logits[:, 1].sum() + outputs[-1].attention.square().sum()).backward()
        gradients.append([weight.grad.clone() for weight in model.parameters() if weight.grad is not None])
    _close(outputs[0].logits, outputs[1].logits, atol=1e-6)
    _close(outputs[0].hidden, outputs[1].hidden, atol=1e-6)
    _close(outputs[0].attention, outputs[1].attention, atol=1e-6)
    assert len(gradients[0]) == len(gradients[1]) > 0
    for one, other in zip(*gradients, strict=True):
        _close(one, other, atol=1e-5)


def test_dropout_acts_in_training_only() -> None:
    model = _model("mlp", dropout=0.5)
    batch = model.collate(model.encode(SINGLES))
    assert torch.equal(model(batch).logits, model(batch).logits)
    model.train()
    assert not torch.equal(model(batch).logits, model(batch).logits)


def test_attention_parameters_are_the_scorer() -> None:
    model = _model(heads=1)
    assert [tuple(weight.shape) for weight in model.attention_parameters()] == [(8, 16), (8,), (1, 8)]
    assert model.first_layer() is model.encoder.layers[0]


def test_pair_decoder_reads_both_their_difference_and_product() -> None:
    model = _model(pair=True, heads=1)
    pooled = _run(model, PAIRS)[1].pooled
    first, second, difference, product_ = pooled.chunk(4, -1)
    _close(difference, (first - second).abs())
    _close(product_, first * second)


def test_broken_folder_is_one_sentence(tmp_path: Path) -> None:
    _model().save(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(UserError, match="cannot be read"):
        load_model(tmp_path)


@pytest.mark.parametrize("change", [{"weights": "sparsemax"}, {"temperature": 2.0}, {"max_length": 20}])
def test_the_fingerprint_tells_settings_apart_that_no_weight_shows(change: dict[str, object]) -> None:
    plain, other = _model(), _model(**change)
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])
    assert plain.fingerprint() == _model().fingerprint() != other.fingerprint()


def test_the_fingerprint_follows_every_change_of_a_weight() -> None:
    """The kept hash is given up whichever way a weight is changed, and comes back with the weight."""
    model = _model()
    before = model.fingerprint()
    weight = next(iter(model.parameters()))
    with torch.no_grad():
        weight[0, 0] += 1
    added = model.fingerprint()
    with torch.no_grad():
        weight[0, 0] -= 1
    assert before != added
    weight.data[...] *= 1.5  # torch does not count this one
    scaled = model.fingerprint()
    assert scaled not in (before, added)
    copied = copy.deepcopy(model)
    assert copied.fingerprint() == scaled
    with torch.no_grad():
        next(iter(copied.parameters())).zero_()
    assert copied.fingerprint() != scaled == model.fingerprint()
