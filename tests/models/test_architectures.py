"""Every architecture that people fine-tune: which methods answer, and do their answers hold?

All families are looked at by the slow run; the ordinary one takes one of each kind.
"""

from __future__ import annotations

import warnings
from functools import cache

import networkx as nx
import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from rashomon.data.example import Example
from rashomon.explainers import Explanation, explain, explainers, make_explainer
from rashomon.models.evaluator import predict, rows_of
from rashomon.models.huggingface import HuggingFaceClassifier
from tests.explainers.test_every_explainer import QUICK
from tests.models.architectures import BY_NAME, FAMILIES, small_network, small_tokenizer
from tests.models.tiny import PAIRS, SINGLES

USUAL = (
    "bert",
    "mobilebert",
    "fnet",
    "funnel",
    "xlnet",
    "gpt2",
    "opt",
    "qwen3",
    "gemma2",
    "bloom",
    "bart",
    "t5",
)
NAMES = [
    pytest.param(family.name, marks=() if family.name in USUAL else pytest.mark.slow) for family in FAMILIES
]
EXAMPLES = (*SINGLES, *PAIRS)
WITH_ATTENTION = ("attention", "attention-rollout", "attention-flow")
METHODS = explainers.names()
STACKED = ("bart", "mbart", "plbart", "mvp", "t5", "mt5", "umt5")
# What is refused, by family; anything else is answered.
REFUSED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(STACKED, ("layer-conductance",)),  # the decoder reads the words again
    **dict.fromkeys(("xlm", "flaubert"), ("layer-conductance",)),  # no module stands for a layer
    "xlnet": ("layer-conductance",),  # tokens before the batch
    "squeezebert": (
        *WITH_ATTENTION,
        "layer-conductance",
    ),  # channels before tokens, and scores before softmax
    "funnel": (*WITH_ATTENTION, "layer-conductance"),  # pools tokens
    "longformer": WITH_ATTENTION,  # a band instead of a square
    "fnet": WITH_ATTENTION,  # mixes by Fourier transforms
    "ibert": tuple(m for m in METHODS if "gradients" in explainers.get(m).needs),  # quantised embeddings
}
WITHOUT_RULES = {"mixtral", "bloom", "longformer"}  # experts, a GELU of its own making, strided windows


@cache
def model_of(name: str, pad: str | None = "[PAD]", side: str = "right") -> HuggingFaceClassifier:
    family = BY_NAME[name]
    tokenizer = small_tokenizer(family, pad, side)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return HuggingFaceClassifier(small_network(family, len(tokenizer)), tokenizer).eval()


@cache
def explanations_of(
    name: str, which: tuple[int, ...] = tuple(range(len(EXAMPLES)))
) -> dict[tuple[str, str], Explanation]:
    model = model_of(name)
    asked = [make_explainer(m, **QUICK.get(m, {})) for m in METHODS if m not in REFUSED.get(name, ())]
    made = explain(model, [EXAMPLES[i] for i in which], asked, background=SINGLES)
    return {(item.method.partition("(")[0], item.example_id): item for item in made}


def close(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.abs(one - other).max() < 1e-4 * max(1.0, np.abs(other).max()))


def test_there_are_enough() -> None:
    """Of all families: 34 or more answer every method that needs no attention, 30 or more every method."""
    every = [family.name for family in FAMILIES if not REFUSED.get(family.name)]
    without = [f.name for f in FAMILIES if set(REFUSED.get(f.name, ())) <= set(WITH_ATTENTION)]
    assert len(FAMILIES) >= 36
    assert len(every) >= 30
    assert len(without) >= 34


@pytest.mark.parametrize("name", NAMES)
def test_what_is_refused_and_why(name: str) -> None:
    model = model_of(name)
    refused = {m: make_explainer(m).refusal(model) for m in METHODS}
    assert {m for m, why in refused.items() if why} == set(REFUSED.get(name, ()))
    assert all(why is None or why for why in refused.values())


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_the_network_s_own(name: str) -> None:
    """Of every text alone, as the tokeniser and the network make them by themselves."""
    model = model_of(name)
    tokenizer: PreTrainedTokenizerFast = model.tokenizer
    logits = predict(model, rows_of(model, EXAMPLES)).logits
    for example, row in zip(EXAMPLES, logits, strict=True):
        inputs = tokenizer(example.text, example.text_pair, return_tensors="pt")
        with torch.no_grad():
            expected = model.network(**inputs).logits[0].numpy()
        assert close(row, expected)


@pytest.mark.parametrize("name", NAMES)
def test_every_method_answers_and_alone_as_in_a_batch(name: str) -> None:
    together = explanations_of(name)
    for number in (2, 7):
        for (method, example), alone in explanations_of(name, (number,)).items():
            same = together[method, example]
            assert np.isfinite(same.scores).all()
            assert close(same.scores, alone.scores), method
            assert same.target == alone.target


@pytest.mark.parametrize("name", NAMES)
def test_what_should_add_up_does_or_says_so(name: str) -> None:
    if "deeplift" in REFUSED.get(name, ()):
        pytest.skip("refused")
    items = [
        item for (method, _), item in explanations_of(name).items() if method in ("deeplift", "deep-shap")
    ]
    assert items
    for item in items:
        assert item.gap is not None
        if name in WITHOUT_RULES:
            assert any("no DeepLIFT rule for" in warning for warning in item.warnings)
        else:
            assert item.gap < 1e-2


@pytest.mark.parametrize("name", NAMES)
def test_another_class_gets_other_scores(name: str) -> None:
    model = model_of(name)
    methods = ["leave-one-out", *(["gradient-x-delta"] if "gradients" in model.capabilities else [])]
    for_first, for_second = (explain(model, SINGLES[:1], methods, targets=[label]) for label in (0, 1))
    for one, other in zip(for_first, for_second, strict=True):
        assert np.abs(one.scores - other.scores).max() > 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_taking_the_last_word_out_moves_the_end(name: str) -> None:
    """Leave-one-out by hand: the text without the word, read by the network itself, where places do not count."""
    model = model_of(name)
    encoding = model.encode([SINGLES[0]])[0]
    last = int(np.flatnonzero(encoding.content)[-1])
    if not (model.equal_lengths or model.traits.pooling == "last"):
        pytest.skip("the end of the text does not decide")
    kept = np.delete(np.arange(len(encoding)), last)
    ids = torch.from_numpy(encoding.ids[kept])[None]
    with torch.no_grad():
        whole = model.network(input_ids=torch.from_numpy(encoding.ids)[None]).logits[0]
        rest = model.network(input_ids=ids).logits[0]
    (item,) = explain(model, SINGLES[:1], ["leave-one-out"])
    if encoding.special[kept[-1]] and model.call.first_position is not None:
        pytest.skip("a mark behind the word keeps its place")
    assert item.scores[last] == pytest.approx(float(whole[item.target] - rest[item.target]), abs=1e-3)


DECIDED_BY_THE_END = [name for name in NAMES if BY_NAME[str(name.values[0])].reads == "bare"]


@pytest.mark.parametrize("name", DECIDED_BY_THE_END)
def test_padding_is_of_no_account(name: str) -> None:
    """On either side, with the token that ends texts, or with none at all."""
    usual = predict(model_of(name), rows_of(model_of(name), EXAMPLES)).logits
    for pad, side in (("[PAD]", "left"), ("[SEP]", "right"), ("[SEP]", "left"), (None, "right")):
        model = model_of(name, pad, side)
        assert close(predict(model, rows_of(model, EXAMPLES)).logits, usual), (pad, side)
    model, ends = model_of(name, "[SEP]"), model_of(name)
    one, other = (
        explain(
            m, EXAMPLES[:3], [make_explainer("integrated-gradients", steps=5, reference="zero"), "attention"]
        )
        for m in (model, ends)
    )
    for mine, same in zip(one, other, strict=True):
        assert close(mine.scores, same.scores)


def test_padding_is_set_in_memory_with_a_warning() -> None:
    tokenizer = small_tokenizer(BY_NAME["gpt2"], pad=None)
    network = small_network(BY_NAME["gpt2"], len(tokenizer))
    network.config.pad_token_id = None
    with pytest.warns(UserWarning, match="no padding token"):
        model = HuggingFaceClassifier(network, tokenizer).eval()
    assert (model.pad_id, network.config.pad_token_id) == (3, 3)


@pytest.mark.parametrize("name", ["gpt2", "qwen3", "bart"])
def test_equal_to_captum(name: str) -> None:
    captum = pytest.importorskip("captum.attr")
    model = model_of(name)
    example = SINGLES[0]
    (encoding,) = model.encode([example])
    batch = model.collate([encoding])
    inputs = model.embed(batch).detach()
    blank = torch.where(batch.content[..., None], model.embed(batch).detach() * 0, inputs)
    ours = explain(
        model,
        [example],
        [make_explainer("integrated-gradients", steps=20, reference="zero"), "gradient-x-input"],
    )

    def forward(embedded: torch.Tensor) -> torch.Tensor:
        return model(batch.rows(torch.zeros(len(embedded), dtype=torch.long)), embedded).logits

    steps = {"n_steps": 20, "method": "gausslegendre"}
    path = captum.IntegratedGradients(forward).attribute(inputs, blank, target=ours[0].target, **steps)
    slope = captum.InputXGradient(forward).attribute(inputs.requires_grad_(), target=ours[1].target)
    for item, theirs in zip(ours, (path, slope), strict=True):
        expected = theirs.sum(-1)[0].detach().numpy()
        np.testing.assert_allclose(item.scores, expected, atol=1e-4 * max(1.0, np.abs(expected).max()))


def test_gradients_of_a_decoder_are_those_of_the_library() -> None:
    """Without our hooks: one text alone, embeddings handed over, where the last place is the last token's."""
    model = model_of("qwen3")
    (encoding,) = model.encode(SINGLES[:1])
    (item,) = explain(model, SINGLES[:1], ["gradient-x-input"])
    ids = torch.from_numpy(encoding.ids)[None]
    embedded = model.network.get_input_embeddings()(ids).detach().requires_grad_()
    logits = model.network(inputs_embeds=embedded).logits
    (gradient,) = torch.autograd.grad(logits[0, item.target], embedded)
    np.testing.assert_allclose(item.scores, (gradient * embedded).sum(-1)[0].detach().numpy(), atol=1e-5)


def test_rows_of_one_length_go_together() -> None:
    """A network that reads its padding: the same answers in any batch, and a masked token is one that is not there."""
    model = model_of("mobilebert")
    assert model.equal_lengths
    batch = model.collate(model.encode(EXAMPLES))
    with torch.no_grad():
        output = model(batch)
    assert output.attention is not None
    torch.testing.assert_close(output.attention.sum(-1), torch.ones(output.attention.shape[:2]))
    for number, encoding in enumerate(model.encode(EXAMPLES)):
        with torch.no_grad():
            alone = model(model.collate([encoding]))
        n = len(encoding)
        torch.testing.assert_close(alone.logits[0], output.logits[number], atol=1e-5, rtol=0)
        torch.testing.assert_close(alone.hidden[0], output.hidden[number, :n], atol=1e-4, rtol=1e-5)
        torch.testing.assert_close(alone.layers[0][0], output.layers[0][number, :, :n, :n], atol=1e-5, rtol=0)
    assert (output.hidden[~batch.mask] == 0).all()


def test_two_stacks_tell_what_the_end_attends_to() -> None:
    model = model_of("bart")
    examples = [Example("a", "one two [SEP] three", text_pair="four"), *SINGLES]  # several end marks
    encodings = model.encode(examples)
    batch = model.collate(encodings)
    with torch.no_grad():
        output = model(batch)
    assert output.attention is not None
    for number, encoding in enumerate(encodings):
        ids = torch.from_numpy(encoding.ids)[None]
        if (encoding.ids == 3).sum() > 1:
            continue
        with torch.no_grad():
            plain = model.network(input_ids=ids, output_attentions=True)
        expected = plain.cross_attentions[-1][0, :, -1]
        got = output.attention[number, :, : len(encoding)]
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)


def _by_hand(model: HuggingFaceClassifier, example: Example) -> np.ndarray:
    """Rollout through both stacks in plain loops: what every place holds of every token, layer by layer."""
    (encoding,) = model.encode([example])
    ids = torch.from_numpy(encoding.ids)[None]
    model.network.set_attn_implementation("eager")
    with torch.no_grad():
        given = model.network(input_ids=ids, output_attentions=True)
    n = len(encoding)
    read, decoded = np.eye(n), np.eye(n, k=-1)  # the decoder's first place holds no token
    for maps in given.encoder_attentions:
        read = 0.5 * maps[0].double().mean(0).numpy() @ read + 0.5 * read
    for own, across in zip(given.decoder_attentions, given.cross_attentions, strict=True):
        decoded = 0.5 * own[0].double().mean(0).numpy() @ decoded + 0.5 * decoded
        decoded = 0.5 * across[0].double().mean(0).numpy() @ read + 0.5 * decoded
    return np.asarray(decoded[np.flatnonzero(encoding.ids == 3)[-1]])


@pytest.mark.parametrize(
    "name", ["bart", "t5", *(pytest.param(n, marks=pytest.mark.slow) for n in STACKED[1:4])]
)
def test_rollout_through_both_stacks(name: str) -> None:
    model = model_of(name)
    for item, example in zip(explain(model, EXAMPLES, ["attention-rollout"]), EXAMPLES, strict=True):
        expected = _by_hand(model, example)
        np.testing.assert_allclose(item.scores, expected, atol=1e-6)
        assert 0.5 < item.scores.sum() < 1  # the rest belongs to the mark that the decoder starts with


def test_flow_through_both_stacks() -> None:
    """Against networkx, on a graph drawn by hand: no token lets through more than its two places do."""
    model = model_of("bart")
    (item,) = explain(model, [SINGLES[5]], ["attention-flow"])
    (encoding,) = model.encode([SINGLES[5]])
    with torch.no_grad():
        given = model.network(input_ids=torch.from_numpy(encoding.ids)[None], output_attentions=True)
    n, graph = len(encoding), nx.DiGraph()

    def edge(level: int, one: tuple[str, int], other: tuple[str, int], room: float) -> None:
        if room:
            graph.add_edge((level + 1, *one), (level, *other), capacity=room)

    maps = [("enc", "enc", m) for m in given.encoder_attentions]
    for own, across in zip(given.decoder_attentions, given.cross_attentions, strict=True):
        maps += [("dec", "dec", own), ("dec", "enc", across)]
    for level, (rows, columns, weights) in enumerate(maps, start=1):
        mean = weights[0].double().mean(0).numpy()
        for i in range(n):
            for stack in ("enc", "dec"):
                own = mean[i, i] if rows == columns == stack else 0.0
                edge(level, (stack, i), (stack, i), 0.5 + 0.5 * own if stack == rows else 1.0)
            for j in range(n):
                if (rows, i) != (columns, j):
                    edge(level, (rows, i), (columns, j), 0.5 * mean[i, j])
    for i in range(n):
        graph.add_edge((1, "enc", i), ("token", i), capacity=1.0)
        if i:
            graph.add_edge((1, "dec", i), ("token", i - 1), capacity=1.0)
    top = (len(maps) + 1, "dec", int(np.flatnonzero(encoding.ids == 3)[-1]))
    graph.add_edge("source", top, capacity=1.0)
    expected = [nx.maximum_flow_value(graph, "source", ("token", i)) for i in range(n)]
    np.testing.assert_allclose(item.scores, expected, atol=1e-6)


def test_a_single_layer_of_two_stacks_is_refused() -> None:
    why = make_explainer("attention", layer=0).refusal(model_of("bart"))
    assert (
        why
        == "its layers are those of an encoder and a decoder, and no single one is what the prediction reads"
    )
