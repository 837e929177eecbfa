"""Attention, rollout and flow against the network's own maps and plain loops."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

from rashomon.errors import UserError
from rashomon.explainers import Engine, explain, make_explainer
from rashomon.explainers.attention import heads_of
from rashomon.models import Model
from tests.explainers.conftest import BUILT_IN, CHECKPOINTS, Families
from tests.models.tiny import PAIRS, SINGLES


def maps(model: Model, index: int, pair: bool = False) -> np.ndarray:
    """The network's own attention of one example: ``[layers, heads, n, n]``."""
    (encoding,) = model.encode((PAIRS if pair else SINGLES)[index : index + 1])
    batch = model.collate([encoding])
    inputs = {"input_ids": batch.ids, "attention_mask": batch.mask.long()}
    if model.call.takes_types:  # type: ignore[union-attr]
        inputs["token_type_ids"] = batch.segments
    with torch.no_grad():
        model.network.set_attn_implementation("eager")  # type: ignore[operator, union-attr]
        output = model.network(**inputs, output_attentions=True)  # type: ignore[operator]
    return torch.cat(output.attentions).double().numpy()  # type: ignore[no-any-return]


def mixed(layers: np.ndarray) -> np.ndarray:
    means = layers.mean(1)
    return np.stack([0.5 * layer + 0.5 * np.eye(len(layer)) for layer in means])


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_transformers_attention_is_what_the_top_first_token_receives(
    families: Families, name: str, pair: bool
) -> None:
    """T11: the row of [CLS], which is what it looks at, not its column."""
    model = families(name, pair)
    explanations = explain(model, PAIRS if pair else SINGLES, ["attention"])
    for index, item in enumerate(explanations):
        last = maps(model, index, pair)[-1].mean(0)
        np.testing.assert_allclose(item.scores, last[0], atol=1e-6)
        assert item.scores.sum() == pytest.approx(1, abs=1e-5)
        if len(item) > 4:
            assert np.abs(item.scores - last[:, 0]).max() > 1e-3


@pytest.mark.parametrize(("layer", "head"), [(0, None), (-1, 2), (1, 0), (None, 3)])
def test_layers_and_heads_by_option(families: Families, layer: int | None, head: int | None) -> None:
    model = families("bert")
    explanations = explain(model, SINGLES, [make_explainer("attention", layer=layer, head=head)])
    for index, item in enumerate(explanations):
        heads = maps(model, index)[-1 if layer is None else layer]
        wanted = heads.mean(0) if head is None else heads[head]
        np.testing.assert_allclose(item.scores, wanted[0], atol=1e-6)
        assert item.configuration == {"layer": layer, "head": head}


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_attention_is_the_pooling_distribution(families: Families, name: str, pair: bool) -> None:
    model = families(name, pair)
    for item in explain(model, PAIRS if pair else SINGLES, ["attention"]):
        sides = [item.scores[item.segments == side].sum() for side in ((0, 1) if pair else (0,))]
        np.testing.assert_allclose(sides, 1, atol=1e-5)
        assert (item.scores >= 0).all()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_rollout_equals_a_plain_loop(families: Families, name: str) -> None:
    model = families(name)
    for index, item in enumerate(explain(model, SINGLES, ["attention-rollout"])):
        n = len(item)
        rolled = np.eye(n)
        for layer in mixed(maps(model, index)):
            grown = np.zeros((n, n))
            for i in range(n):
                for j in range(n):
                    grown[i, j] = sum(layer[i, k] * rolled[k, j] for k in range(n))
            rolled = grown
        np.testing.assert_allclose(item.scores, rolled[0], atol=1e-6)


def test_flow_equals_networkx(families: Families) -> None:
    model = families("bert")
    for index, item in enumerate(explain(model, SINGLES[1:3], ["attention-flow"]), start=1):
        layers = mixed(maps(model, index))
        n = len(item)
        graph = nx.DiGraph()
        for level, layer in enumerate(layers, start=1):
            for i in range(n):
                for j in range(n):
                    graph.add_edge((level, i), (level - 1, j), capacity=layer[i, j])
        exact = [nx.maximum_flow_value(graph, (len(layers), 0), (0, j)) for j in range(n)]
        np.testing.assert_allclose(item.scores, exact, atol=1e-6)


def test_the_built_in_transformer_flows_from_where_the_prediction_reads(families: Families) -> None:
    for pair in (False, True):
        model = families("transformer", pair)
        examples = PAIRS if pair else SINGLES
        for item in explain(model, examples, ["attention-rollout", "attention-flow"]):
            assert (item.scores >= 0).all()
            if item.method == "attention-rollout":
                assert item.scores.sum() == pytest.approx(1, abs=1e-5)


def test_what_is_not_there_is_refused(families: Families) -> None:
    bert, lstm = families("bert"), families("bilstm")
    with pytest.raises(UserError, match="no attention layer 7; the model has 2"):
        explain(bert, SINGLES, [make_explainer("attention", layer=7)])
    assert not torch.is_inference_mode_enabled()
    with pytest.raises(UserError, match="no attention head 4; the model has 4"):
        explain(bert, SINGLES, [make_explainer("attention", head=4)])
    with pytest.raises(UserError, match="no layers of self-attention"):
        explain(lstm, SINGLES, [make_explainer("attention", layer=0)])
    before = lstm.capabilities
    try:
        lstm.capabilities = before - {"attention"}
        with pytest.raises(UserError, match="does not say what it attends to"):
            explain(lstm, SINGLES, ["attention"])
    finally:
        lstm.capabilities = before


def test_flow_leaves_torchs_threads_alone(families: Families) -> None:
    before = torch.get_num_threads()
    explain(families("bert"), SINGLES[:1], ["attention-flow"])
    assert torch.get_num_threads() == before
    torch.set_num_threads(1)
    try:
        explain(families("bert"), SINGLES[:1], ["attention-flow"])
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_every_head_is_a_method_and_one_pass_serves_them_all(
    families: Families, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = families("bert")
    heads = heads_of(model, SINGLES[0])
    assert heads[:5] == (*(f"attention(layer=0, head={n})" for n in range(4)), "attention(layer=1, head=0)")
    assert len(heads) == 2 * 4
    passes = []
    outputs = Engine.outputs

    def counted(self: Engine, *asked: Any) -> Any:
        passes.append(asked)
        return outputs(self, *asked)

    monkeypatch.setattr(Engine, "outputs", counted)
    explanations = explain(model, SINGLES, heads)
    assert len(passes) == 1
    for item in explanations:
        layer, head = item.configuration["layer"], item.configuration["head"]
        index = [example.id for example in SINGLES].index(item.example_id)
        np.testing.assert_allclose(item.scores, maps(model, index)[layer, head, 0], atol=1e-6)
