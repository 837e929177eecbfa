"""The queue: the same answers as plain runs of the model, for less work, whatever memory allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from rashomon.data.batches import Batch
from rashomon.data.example import Example
from rashomon.errors import UserError
from rashomon.explainers import Engine
from rashomon.explainers.perturbed_rows import Table
from rashomon.models import Model
from tests.explainers.conftest import BUILT_IN, CHECKPOINTS, FAMILIES, Families, rows_of
from tests.models.tiny import PAIRS, SINGLES


def random_rows(encodings: list[Any], count: int = 6) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.random((count, len(encoding))) < 0.5 for encoding in encodings]


def run(model: Model, batch: Batch) -> np.ndarray:
    with torch.no_grad():
        return model(batch).logits.double().numpy()  # type: ignore[no-any-return]


@contextmanager
def limited(model: Model, tokens: int, error: Callable[[], Exception]) -> Iterator[list[int]]:
    """A model that runs out of memory on batches of more than ``tokens`` padded tokens."""
    sizes: list[int] = []

    def guard(module: Model, args: tuple[Batch, ...]) -> None:
        if args[0].ids.numel() > tokens:
            raise error()
        sizes.append(args[0].ids.numel())

    hook = model.register_forward_pre_hook(guard)
    try:
        yield sizes
    finally:
        hook.remove()


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_removed_tokens_equal_masked_ones_in_a_transformer(families: Families, name: str, pair: bool) -> None:
    model = families(name, pair)
    encodings = model.encode(PAIRS if pair else SINGLES)
    kept = random_rows(encodings)
    all_logits = Engine(model).logits(encodings, kept)
    for encoding, rows, logits in zip(encodings, kept, all_logits, strict=True):
        network: Any = model.network
        ids = torch.from_numpy(np.repeat(encoding.ids[None], len(rows), 0))
        inputs = {"input_ids": ids, "attention_mask": torch.from_numpy(rows | encoding.special).long()}
        if name == "bert":
            inputs["token_type_ids"] = torch.from_numpy(np.repeat(encoding.segments[None], len(rows), 0))
        with torch.no_grad():
            masked = network(**inputs).logits
        np.testing.assert_allclose(logits, masked.numpy(), atol=1e-5)


@pytest.mark.parametrize("pair", [False, True], ids=["single", "pair"])
@pytest.mark.parametrize("name", FAMILIES)
def test_models_without_removal_mask_instead(families: Families, name: str, pair: bool) -> None:
    model = families(name, pair)
    encodings = model.encode(PAIRS if pair else SINGLES)
    kept = random_rows(encodings)
    removed = Engine(model).logits(encodings, kept)
    before = model.capabilities
    try:
        model.capabilities = before - {"removal"}
        engine = Engine(model)
        masked = engine.logits(encodings, kept)
    finally:
        model.capabilities = before
    for one, other in zip(removed, masked, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("how", ["mask", "pad"])
@pytest.mark.parametrize("name", ["bilstm", "mlp", "bert"])
def test_replaced_tokens_are_replaced_ids(families: Families, name: str, how: str) -> None:
    model = families(name, True)
    encodings = model.encode(PAIRS)
    kept = random_rows(encodings)
    other = model.mask_id if how == "mask" else model.pad_id
    for encoding, rows, logits in zip(
        encodings, kept, Engine(model).logits(encodings, kept, how), strict=True
    ):  # type: ignore[arg-type]
        batch = model.collate([encoding] * len(rows))
        batch.ids[torch.from_numpy(~(rows | encoding.special))] = other
        np.testing.assert_allclose(logits, run(model, batch), atol=1e-5)


@pytest.mark.parametrize("name", ["bilstm", "transformer", "roberta"])
def test_special_tokens_segments_and_positions_survive(families: Families, name: str) -> None:
    model = families(name, True)
    encodings = model.encode(PAIRS[2:3])
    kept = [np.zeros((1, len(encodings[0])), dtype=np.bool_)]
    kept[0][0, [2, -2]] = True
    seen: list[Batch] = []
    hook = model.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    try:
        Engine(model).logits(encodings, kept)
    finally:
        hook.remove()
    (batch,) = seen
    left = np.flatnonzero(kept[0][0] | encodings[0].special)
    np.testing.assert_array_equal(batch.segments[0].numpy(), encodings[0].segments[left])
    np.testing.assert_array_equal(batch.positions[0].numpy(), encodings[0].positions[left])


def test_a_side_that_loses_everything_keeps_one_padding_token(families: Families) -> None:
    model = families("bilstm", True)
    (encoding,) = model.encode(PAIRS[:1])
    batch = Table([encoding], model.pad_id).removed(np.array([0]), encoding.segments[None] == 0)
    assert batch.ids[0].tolist() == [*encoding.ids[encoding.segments == 0].tolist(), model.pad_id]
    assert batch.segments[0].tolist() == [0] * 4 + [1]
    assert batch.mask.all()


def test_identical_rows_are_evaluated_once(families: Families) -> None:
    engine = Engine(families("bilstm"))
    encodings = engine.model.encode((SINGLES[2], SINGLES[4], SINGLES[2]))
    rows = rows_of([1] * 8, [0] + [1] * 7, [1] * 8, [0] + [1] * 7)
    longer = np.ones((2, 11), dtype=np.bool_)
    logits = engine.logits(encodings, [rows, longer, rows[::-1]])
    assert (engine.counts.asked, engine.counts.evaluated) == (10, 3)
    np.testing.assert_array_equal(logits[0], logits[2][::-1])
    again = engine.logits(encodings[:1], [np.vstack([rows, rows_of([1, 0] * 4)])])
    assert engine.counts.evaluated == 4
    np.testing.assert_array_equal(again[0][:4], logits[0])
    engine.logits(encodings[:1], [rows], "mask")  # another perturbation is another row
    assert engine.counts.evaluated == 6
    engine.forget()
    engine.logits(encodings[:1], [rows])
    assert engine.counts.evaluated == 8


def test_a_model_without_context_sees_which_tokens_are_left_not_where(families: Families) -> None:
    example = (Example("x", "plot film plot film plot film"),)
    rows = rows_of([1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 1, 0, 0, 1, 0], [1, 0, 1, 0, 0, 0])
    for name, evaluated in (("mlp", 2), ("transformer", 4)):
        engine = Engine(families(name))
        encodings = engine.model.encode(example)
        (all_logits,) = engine.logits(encodings, [rows])
        assert engine.counts.evaluated == evaluated
        for row, logits in zip(rows, all_logits, strict=True):
            (plain,) = Engine(engine.model).logits(encodings, [row[None]])
            np.testing.assert_allclose(logits, plain[0], atol=1e-6)


def test_batches_stay_under_the_budget_and_mix_examples(families: Families) -> None:
    model = families("bilstm")
    encodings = model.encode(SINGLES)
    kept = random_rows(encodings, 20)
    expected = Engine(model).logits(encodings, kept)
    with limited(model, 10**9, RuntimeError) as sizes:
        logits = Engine(model, token_budget=64).logits(encodings, kept)
    assert max(sizes) <= 64
    assert len(sizes) < sum(sizes) / 25  # well filled
    for one, other in zip(expected, logits, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


ERRORS: dict[str, Callable[[], Exception]] = {
    "cuda": lambda: torch.OutOfMemoryError("CUDA out of memory"),
    "cpu": lambda: RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate"),
    "python": lambda: MemoryError(),
}


@pytest.mark.parametrize("kind", ERRORS)
def test_batches_shrink_when_memory_runs_out(families: Families, kind: str) -> None:
    model = families("gru")
    encodings = model.encode(SINGLES)
    kept = random_rows(encodings, 30)
    expected = Engine(model).logits(encodings, kept)
    engine = Engine(model)
    with limited(model, 100, ERRORS[kind]) as sizes:
        logits = engine.logits(encodings, kept)
    assert 50 <= engine.token_budget <= 100  # halved until it fits, and no further
    assert len(sizes) < 30
    for one, other in zip(expected, logits, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_row_that_never_fits_and_other_errors_are_told(families: Families) -> None:
    model = families("gru")
    encodings = model.encode(SINGLES)
    engine = Engine(model)
    kept = random_rows(encodings)
    with limited(model, 0, ERRORS["cuda"]), pytest.raises(torch.OutOfMemoryError):
        engine.logits(encodings, kept)
    with (
        limited(model, 0, lambda: RuntimeError("shape mismatch")),
        pytest.raises(RuntimeError, match="shape"),
    ):
        engine.logits(encodings, kept)
    logits = engine.logits(encodings, kept)  # nothing half-known stayed behind
    for one, other in zip(logits, Engine(model).logits(encodings, kept), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_an_unknown_perturbation_is_refused(families: Families) -> None:
    engine = Engine(families(BUILT_IN[0]))
    with pytest.raises(UserError, match="did you mean 'remove'"):
        engine.logits(engine.model.encode(SINGLES[:1]), [rows_of([1] * 8)], "removed")  # type: ignore[arg-type]


def test_no_text_is_tokenised_again(families: Families, monkeypatch: pytest.MonkeyPatch) -> None:
    """T6: perturbed ids are never decoded and encoded."""
    model = families("bert")
    encodings = model.encode(SINGLES)
    monkeypatch.setattr(type(model), "encode", lambda *_: pytest.fail("encoded again"))
    for how in ("remove", "mask", "pad"):
        Engine(model).logits(encodings, random_rows(encodings), how)  # type: ignore[arg-type]
