"""Every explainer on every family of models: one table, the same demands on all."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch

from rashomon.data.example import Example
from rashomon.errors import UserError
from rashomon.explainers import Explainer, Explanation, explain, explainers, make_explainer
from rashomon.models import Model
from tests.explainers.conftest import CHECKPOINTS, FAMILIES, Families
from tests.models.tiny import PAIRS, SINGLES

QUICK: dict[str, dict[str, object]] = {
    "lime": {"samples": 30},
    "kernel-shap": {"samples": 30},
    "gradient-shap": {"samples": 6, "references": "training"},
    "deep-shap": {"samples": 2},
    "integrated-gradients": {"steps": 4},
    "layer-conductance": {"steps": 4},
}
METHODS = explainers.names()
LONG = "a witty film and the plot is long but good " * 10
EXAMPLES = {
    False: (*SINGLES, Example("long", LONG, 1)),
    True: (*PAIRS, Example("long", LONG, 1, "a film " * 20)),
}
WITH_LAYERS = ("transformer", *CHECKPOINTS)
ONLY_LAYERS = ("attention-rollout", "attention-flow")
# What is taken out or moved along a path is content alone, so special tokens get exactly nothing.
UNTOUCHED = {
    *("lime", "kernel-shap", "leave-one-out", "integrated-gradients", "gradient-shap", "gradient-x-delta"),
    *("deeplift", "deep-shap", "random", "trivial"),
}
WITHOUT_FURTHER_PASSES = {"random", "trivial"}

ExplanationsOf = Callable[..., dict[tuple[str, str], Explanation]]


def quick(method: str) -> Explainer:
    return make_explainer(method, **QUICK.get(method, {}))


def fitting(model: Model) -> list[Explainer]:
    return [explainer for explainer in map(quick, METHODS) if explainer.refusal(model) is None]


@pytest.fixture(scope="module")
def explanations_of(families: Families) -> ExplanationsOf:
    """Explanations by (method, example): ``which`` examples in one call, or one call each."""

    @cache
    def get(
        family: str, pair: bool, which: tuple[int, ...], seed: int = 0
    ) -> dict[tuple[str, str], Explanation]:
        model = families(family, pair)
        examples = [EXAMPLES[pair][i] for i in which]
        made = explain(model, examples, fitting(model), seed=seed, background=EXAMPLES[pair][:4])
        return {(item.method.partition("(")[0], item.example_id): item for item in made}

    return get


CASES = [
    pytest.param(family, pair, method, id=f"{family}-{'pair' if pair else 'single'}-{method}")
    for family in FAMILIES
    for pair in (False, True)
    for method in METHODS
    if method not in ONLY_LAYERS or family in WITH_LAYERS
]


def _all_of(explanations_of: ExplanationsOf, family: str, pair: bool) -> dict[tuple[str, str], Explanation]:
    return explanations_of(family, pair, tuple(range(len(EXAMPLES[pair]))))


def _of(made: dict[tuple[str, str], Explanation], method: str) -> list[Explanation]:
    found = [item for (name, _), item in made.items() if name == method]
    assert found
    return found


@pytest.mark.parametrize(("family", "pair", "method"), CASES)
def test_one_finite_score_a_token(
    families: Families, explanations_of: ExplanationsOf, family: str, pair: bool, method: str
) -> None:
    encodings = {e.example_id: e for e in families(family, pair).encode(EXAMPLES[pair])}
    items = _of(_all_of(explanations_of, family, pair), method)
    assert [item.example_id for item in items] == list(encodings)
    for item in items:
        encoding = encodings[item.example_id]
        assert item.scores.shape == (len(encoding),)  # no padding can get in
        assert item.tokens == encoding.tokens
        assert np.isfinite(item.scores).all()
        if method in UNTOUCHED:
            assert (item.scores[item.special] == 0).all()
        assert np.abs(item.scores[item.content]).max() > 0
    assert any("did not fit" in warning for warning in items[-1].warnings)
    assert not any("did not fit" in warning for item in items[:-1] for warning in item.warnings)


@pytest.mark.parametrize(("family", "pair", "method"), CASES)
def test_alone_and_in_a_batch_the_same(
    explanations_of: ExplanationsOf, family: str, pair: bool, method: str
) -> None:
    for number in (1, 2):
        (alone,) = _of(explanations_of(family, pair, (number,)), method)
        together = _all_of(explanations_of, family, pair)[method, alone.example_id]
        np.testing.assert_allclose(together.scores, alone.scores, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("family", "pair", "method"), CASES)
def test_another_seed_counts_for_the_stochastic_alone(
    explanations_of: ExplanationsOf, family: str, pair: bool, method: str
) -> None:
    number = len(EXAMPLES[pair]) - 1  # long enough that nothing is enumerated
    (other,) = _of(explanations_of(family, pair, (number,), seed=1), method)
    same = _all_of(explanations_of, family, pair)[method, other.example_id]
    if explainers.get(method).stochastic:
        assert np.abs(other.scores - same.scores).max() > 1e-6
        assert (other.seed, same.seed) == (1, 0)
    else:
        np.testing.assert_allclose(other.scores, same.scores, atol=1e-5, rtol=1e-4)
        assert other.seed is None


class _BrokenError(Exception):
    pass


def _state(model: Model) -> tuple[object, ...]:
    return (
        [(module.training, len(module._forward_hooks)) for module in model.modules()],
        [(parameter.requires_grad, parameter.grad is None) for parameter in model.parameters()],
        model.wants_attention,
        (torch.is_inference_mode_enabled(), torch.is_grad_enabled(), torch._C._len_torch_function_stack()),
    )


@pytest.mark.parametrize(
    ("family", "method"),
    [(f, m) for f in FAMILIES for m in METHODS if m not in ONLY_LAYERS or f in WITH_LAYERS],
)
def test_nothing_is_left_behind_by_an_exception(families: Families, family: str, method: str) -> None:
    model, explainer = families(family), quick(method)
    before = explain(model, SINGLES[:2], [explainer], background=SINGLES)
    model.train()
    next(model.parameters()).requires_grad_(False)
    calls = 0

    def break_down(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls > 1 or explainer.at_inputs_alone:  # otherwise the first pass is the prediction
            raise _BrokenError

    hook = model.first_layer().register_forward_hook(break_down)
    try:
        state = _state(model)
        if method in WITHOUT_FURTHER_PASSES:
            explain(model, SINGLES[:2], [explainer], background=SINGLES)
        else:
            with pytest.raises(_BrokenError) as caught:  # its traceback keeps every frame alive
                explain(model, SINGLES[:2], [explainer], background=SINGLES)
            assert caught.value is not None
        assert _state(model) == state
        hook.remove()
        # In train mode dropout would speak; explanations are made in eval mode, whatever the model is in.
        after = explain(model, SINGLES[:2], [explainer], background=SINGLES)
    finally:
        hook.remove()
        next(model.parameters()).requires_grad_(True)
        model.eval()
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(one.scores, other.scores, atol=1e-6)


@pytest.mark.parametrize("method", ONLY_LAYERS)
@pytest.mark.parametrize("family", ["bilstm", "gru", "cnn", "mlp"])
def test_refused_early_with_the_reason(families: Families, family: str, method: str) -> None:
    with pytest.raises(UserError, match="no layers of self-attention"):
        explain(families(family), SINGLES, [method])
