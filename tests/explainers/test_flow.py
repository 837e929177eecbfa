from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from rashomon.errors import UserError
from rashomon.explainers.flow import attention_flow
from rashomon.models.attention import augmented as augmented_in_torch
from rashomon.models.attention import rollout as rollout_in_torch

Floats = NDArray[np.float64]


def attention(seed: int, layers: int, heads: int, tokens: int, sharpness: float) -> Floats:
    logits = sharpness * np.random.default_rng(seed).normal(size=(layers, heads, tokens, tokens))
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def augment(weights: Floats) -> Floats:
    return np.asarray(augmented_in_torch(torch.from_numpy(weights)).numpy())


def rollout(weights: Floats) -> Floats:
    """What each top position holds of each input token, from attention ``[L, heads, T, T]``."""
    layers = tuple(torch.from_numpy(weights))
    return np.asarray(rollout_in_torch(layers, torch.eye(weights.shape[-1], dtype=torch.float64)).numpy())


def by_networkx(layers: Floats, source: int | Floats) -> list[float]:
    count, tokens, _ = layers.shape
    graph = nx.DiGraph()
    graph.add_nodes_from((level, i) for level in range(count + 1) for i in range(tokens))
    for level, matrix in enumerate(layers):  # lowest first: edges lead from level + 1 down to level
        for i, j in np.argwhere(matrix > 0).tolist():
            graph.add_edge((level + 1, i), (level, j), capacity=matrix[i, j])
    top: object = (count, source)
    if not isinstance(source, int):
        top = "readout"
        for i, weight in enumerate(source):
            graph.add_edge(top, (count, i), capacity=weight)
    return [nx.maximum_flow_value(graph, top, (0, j)) for j in range(tokens)]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    layers=st.integers(1, 5),
    tokens=st.integers(1, 8),
    sharpness=st.sampled_from([0.1, 1.0, 4.0, 20.0]),
)
def test_flow_equals_networkx(seed: int, layers: int, tokens: int, sharpness: float) -> None:
    augmented = augment(attention(seed, layers, 2, tokens, sharpness))
    source = seed % tokens
    np.testing.assert_allclose(attention_flow(augmented, source), by_networkx(augmented, source), atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), layers=st.integers(1, 5), tokens=st.integers(2, 8))
def test_flow_equals_networkx_on_sparse_graphs_that_need_returned_flow(
    seed: int, layers: int, tokens: int
) -> None:
    rng = np.random.default_rng(seed)
    sparse = rng.random((layers, tokens, tokens)) * (rng.random((layers, tokens, tokens)) < 0.4)
    np.testing.assert_allclose(attention_flow(sparse, 0), by_networkx(sparse, 0), atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), layers=st.integers(1, 4))
def test_flow_from_a_readout_over_positions(seed: int, layers: int) -> None:
    augmented = augment(attention(seed, layers, 1, 5, 3.0))
    weights = np.random.default_rng(seed).dirichlet(np.ones(5))
    np.testing.assert_allclose(attention_flow(augmented, weights), by_networkx(augmented, weights), atol=1e-6)


@pytest.mark.parametrize("sharpness", [1.0, 6.0])
def test_flow_equals_scipy_on_a_longer_text(sharpness: float) -> None:
    layers, tokens, scale = 4, 48, 10**7
    augmented = augment(attention(5, layers, 1, tokens, sharpness))
    size = (layers + 1) * tokens
    dense = np.zeros((size, size), dtype=np.int32)
    for level, matrix in enumerate(augmented[::-1]):
        rows = slice(level * tokens, (level + 1) * tokens)
        dense[rows, (level + 1) * tokens : (level + 2) * tokens] = np.round(matrix * scale)
    graph = csr_array(dense)
    expected = [maximum_flow(graph, 0, layers * tokens + j).flow_value / scale for j in range(tokens)]
    # each edge of the cut is off by half a unit of the whole-number capacities
    np.testing.assert_allclose(attention_flow(augmented, 0), expected, atol=tokens * tokens / scale / 4)


def test_a_path_is_as_wide_as_its_narrowest_edge() -> None:
    chain = np.zeros((3, 3, 3))
    chain[2, 0, 1], chain[1, 1, 2], chain[0, 2, 0] = 0.7, 0.2, 0.9
    np.testing.assert_allclose(attention_flow(chain, 0), [0.2, 0.0, 0.0])


def test_an_earlier_choice_can_be_taken_back() -> None:
    """Both upper nodes can use lower node 0, only the first can use node 1; greedy filling alone gives 1."""
    layers = np.zeros((3, 2, 2))
    layers[2, 0] = [1.0, 1.0]
    layers[1] = [[1.0, 1.0], [1.0, 0.0]]
    layers[0, :, 0] = [1.0, 1.0]
    np.testing.assert_allclose(attention_flow(layers, 0), [2.0, 0.0])


def test_flow_is_bounded_by_what_leaves_and_what_arrives() -> None:
    weights = attention(1, 6, 4, 60, 2.0)
    augmented = augment(weights)
    flows = attention_flow(augmented, 0)
    assert (flows <= np.minimum(augmented[-1][0].sum(), augmented[0].sum(axis=0)) + 1e-9).all()
    assert (flows >= rollout(weights)[0] - 1e-9).all()  # rollout is one feasible flow


def test_identity_layers_keep_everything_in_place() -> None:
    identity = np.stack([np.eye(4)] * 3)
    np.testing.assert_array_equal(attention_flow(identity, 2), [0, 0, 1, 0])
    np.testing.assert_array_equal(rollout(identity[:, None]), np.eye(4))


def test_augmented_rows_sum_to_one_and_rollout_multiplies_from_the_top() -> None:
    augmented = augment(attention(2, 3, 4, 6, 1.0))
    assert augmented.shape == (3, 6, 6)
    np.testing.assert_allclose(augmented.sum(axis=-1), 1.0)
    heads = attention(2, 3, 4, 6, 1.0).mean(axis=1)
    np.testing.assert_allclose(augmented, 0.5 * heads + 0.5 * np.eye(6))
    product = augmented[2] @ augmented[1] @ augmented[0]
    np.testing.assert_allclose(rollout(attention(2, 3, 4, 6, 1.0)), product)


def test_the_same_text_gives_the_same_flow() -> None:
    augmented = augment(attention(3, 6, 2, 70, 3.0))
    np.testing.assert_array_equal(attention_flow(augmented, 0), attention_flow(augmented, 0))


@pytest.mark.parametrize(
    ("layers", "source"),
    [
        (np.ones((2, 3)), 0),
        (np.empty((0, 2, 2)), 0),
        (np.full((1, 2, 2), np.nan), 0),
        (-np.ones((1, 2, 2)), 0),
        (np.ones((2, 2, 2)), 2),
        (np.ones((2, 2, 2)), [0.5]),
        (np.ones((2, 2, 2)), [0.5, -0.5]),
    ],
)
def test_wrong_input_is_refused(layers: Floats, source: int | list[float]) -> None:
    with pytest.raises(UserError):
        attention_flow(layers, source)
