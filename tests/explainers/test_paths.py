"""Both ends of a path, and gradients on it against plain autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rashomon.errors import UserError
from rashomon.explainers.paths import (
    Point,
    gather_gradients,
    path_ends,
    values_at_inputs,
    values_at_references,
)
from rashomon.explainers.references import draw_references
from rashomon.models.base import Output
from tests.explainers.conftest import FAMILIES, Jobs
from tests.models.tiny import PAIRS


@pytest.mark.parametrize("name", ["bilstm", "bert", "roberta"])
def test_references_replace_content_alone(jobs: Jobs, name: str) -> None:
    job = jobs(name, pair=True)
    model = job.model
    ends = path_ends(job, [(2, "pad"), (2, "mask"), (2, "zero"), (0, "pad")])
    encoding = job.encodings[2]
    table = model.embed(model.collate([encoding]))[0].detach()
    for row, kind in enumerate(("pad", "mask", "zero")):
        batch = model.collate([encoding])
        batch.ids[0, :] = model.mask_id if kind == "mask" else model.pad_id
        wanted = model.embed(batch)[0].detach() * (kind != "zero")
        other = ends.others[row, : len(encoding)]
        torch.testing.assert_close(other[encoding.content], wanted[encoding.content])
        torch.testing.assert_close(other[encoding.special], table[encoding.special], rtol=0, atol=0)
        # Positions and types are the same at both ends (T14): the path is one of word embeddings.
        assert ends.batch.positions[row, : len(encoding)].tolist() == encoding.positions.tolist()
        assert ends.batch.segments[row, : len(encoding)].tolist() == encoding.segments.tolist()


def test_training_references_are_laid_over_text_by_text(jobs: Jobs) -> None:
    job = jobs("bert", pair=True)
    example, other = job.encodings[0], job.encodings[2]  # 4 + 2 tokens; 9 + 2 tokens
    ends = path_ends(job, [(0, other), (2, example)])
    model = job.model
    first = other.ids[other.content & (other.segments == 0)][:4]
    second = other.ids[other.content & (other.segments == 1)]
    ids = example.ids.copy()
    ids[example.content] = np.r_[first, second]
    batch = model.collate([example])
    batch.ids[0] = torch.from_numpy(ids)
    torch.testing.assert_close(ends.others[0, : len(ids)], model.embed(batch)[0].detach())
    padded = other.ids.copy()
    padded[other.content] = model.pad_id
    for segment in (0, 1):
        places = np.flatnonzero(other.content & (other.segments == segment))
        tokens = example.ids[example.content & (example.segments == segment)][: len(places)]
        padded[places[: len(tokens)]] = tokens
    batch = model.collate([other])
    batch.ids[0] = torch.from_numpy(padded)
    torch.testing.assert_close(ends.others[1, : len(padded)], model.embed(batch)[0].detach())


def explained(output: Output, space: str) -> torch.Tensor:
    mean = output.logits.mean(1, keepdim=True)
    return {"logit": output.logits, "centred": output.logits - mean}.get(space, output.probabilities)


@pytest.mark.parametrize("space", ["logit", "probability", "centred"])
@pytest.mark.parametrize("name", FAMILIES)
def test_sums_over_points_equal_autograd(jobs: Jobs, name: str, space: str) -> None:
    job = jobs(name, space=space)
    places = ((0.25, 2.0), (0.9, -1.0))
    points = [Point(i, a, w, "mask") for i in range(len(job.encodings)) for a, w in places]
    gradients = gather_gradients(job, points)
    for i, encoding in enumerate(job.encodings):
        batch = job.model.collate([encoding])
        ends = path_ends(job, [(i, "mask")])
        total = torch.zeros_like(ends.inputs)
        for alpha, weight in places:
            at = (ends.others + alpha * (ends.inputs - ends.others)).requires_grad_()
            output = job.model(batch, embeddings=at)
            value = explained(output, space)[0, job.targets[i]]
            total += weight * torch.autograd.grad(value, at)[0] * (ends.inputs - ends.others)
        np.testing.assert_allclose(gradients[i], total[0].numpy(), atol=1e-5)


@pytest.mark.parametrize("space", ["logit", "probability", "centred"])
def test_values_at_both_ends(jobs: Jobs, space: str) -> None:
    job = jobs("transformer", space=space)
    with torch.no_grad():
        for i, encoding in enumerate(job.encodings):
            batch = job.model.collate([encoding])
            plain = job.model(batch)
            batch.ids[:] = job.model.pad_id
            empty = job.model(batch)
            for output, value in (
                (plain, values_at_inputs(job)[i]),
                (empty, values_at_references(job, ["pad"] * len(job.encodings))[i]),
            ):
                wanted = explained(output, space)[0, job.targets[i]]
                assert value == pytest.approx(wanted.item(), abs=1e-5)


def test_gradients_in_small_memory_and_small_batches(jobs: Jobs) -> None:
    calm, tight = jobs("gru"), jobs("gru", token_budget=10)
    points = [Point(i, a, 1.0) for i in range(len(calm.encodings)) for a in (0.1, 0.5, 1.0)]
    expected = gather_gradients(calm, points)
    for one, other in zip(expected, gather_gradients(tight, points), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    failing = jobs("gru")

    def guard(module: object, args: tuple[torch.Tensor, ...]) -> None:
        if args[0].ids.numel() > 60:  # type: ignore[attr-defined]
            raise torch.OutOfMemoryError

    hook = failing.model.register_forward_pre_hook(guard)
    try:
        gradients = gather_gradients(failing, points)
    finally:
        hook.remove()
    for one, other in zip(expected, gradients, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_gradients_flow_whatever_the_callers_mode(jobs: Jobs, mode: type) -> None:
    job = jobs("cnn")
    points = [Point(i, 1.0, 1.0) for i in range(len(job.encodings))]
    expected = gather_gradients(job, points)
    with mode():
        gradients = gather_gradients(job, points)
    np.testing.assert_allclose(gradients[0], expected[0], atol=1e-6)


def test_drawn_references(jobs: Jobs) -> None:
    job = jobs("bilstm", pair=True)
    generator = np.random.default_rng(0)
    assert draw_references(job, "zero", 3, generator) == ["zero"] * 3
    with pytest.raises(UserError, match="need `background` examples"):
        draw_references(job, "training", 3, generator)
    behind = jobs("bilstm", pair=True, background=job.encodings)
    drawn = draw_references(behind, "training", 6, generator)
    ids = [end.example_id for end in drawn if not isinstance(end, str)]
    assert sorted(ids[:4]) == [example.id for example in PAIRS]  # each once before any comes again
    assert len(ids) == 6
