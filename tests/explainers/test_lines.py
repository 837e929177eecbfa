"""What is told along lines behind a model's first map is what is told between embeddings."""

from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from rashomon.explainers.difference.deeplift import lift
from rashomon.explainers.engine import Engine
from rashomon.explainers.paths import Point, gather_gradients
from rashomon.explainers.references import Reference
from rashomon.models.encoders import Encoder
from tests.explainers.conftest import Jobs

REFERENCES: tuple[Reference, ...] = ("pad", "zero", "mask")


@pytest.mark.parametrize("reference", REFERENCES)
def test_gradients_on_paths(jobs: Jobs, reference: Reference, monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs("bilstm", False)
    points = [Point(i, alpha, 0.5, reference) for i in range(len(job.encodings)) for alpha in (0.1, 0.8)]
    gradients = gather_gradients(job, points, "sum")
    monkeypatch.setattr(Encoder, "enters", False)
    expected = gather_gradients(job, points, "norm")
    for ours, theirs in zip(gradients, expected, strict=True):
        assert ours.shape == (len(theirs), 1)
        np.testing.assert_allclose(ours[:, 0], theirs.sum(1), atol=2e-6)


def test_deeplift_reads_each_text_and_reference_once(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs("bilstm", False)
    ends = [*REFERENCES, *job.encodings[:2]]
    pairs = [(i, end) for i in range(len(job.encodings)) for end in ends]
    lifted = lift(job, pairs, "sum")
    monkeypatch.setattr(Encoder, "enters", False)
    expected = lift(job, pairs, "sum")
    for ours, theirs in zip(lifted, expected, strict=True):
        np.testing.assert_allclose(ours.values, theirs.values, atol=5e-6)
        assert ours.change == pytest.approx(theirs.change, abs=2e-6)
        assert ours.values.sum() == pytest.approx(ours.change, abs=1e-5)


@pytest.mark.parametrize("pair", [False, True])
def test_texts_without_some_tokens(jobs: Jobs, pair: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    job = jobs("bilstm", pair)
    generator = np.random.default_rng(0)
    kept = [generator.random((40, len(encoding))) < 0.6 for encoding in job.encodings]
    asked: list[int] = []
    monkeypatch.setattr(nn.LSTM, "forward", lambda *_: asked.append(1))
    logits = Engine(job.model).logits(job.encodings, kept)
    assert not asked  # each distinct token is read once, not by torch's LSTM
    monkeypatch.undo()
    monkeypatch.setattr(Encoder, "enters", False)
    for ours, theirs in zip(logits, Engine(job.model).logits(job.encodings, kept), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)
