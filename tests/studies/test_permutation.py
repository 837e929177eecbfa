"""Shuffled attention: nothing happens to equal weights, and a planted word is missed when it loses its weight."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from rashomon.errors import UserError
from rashomon.models.build import build_model
from rashomon.models.classifier import AttentionClassifier
from rashomon.models.model_spec import ModelSpec
from rashomon.studies.permutation import Permutation, shuffle_all
from tests.models.tiny import PAIRS, SINGLES, dataset
from tests.studies.trials import check_finding, trial_of


def build(weights: str = "softmax", pair: bool = False, heads: int = 1) -> AttentionClassifier:
    spec = ModelSpec(name="mlp", hidden=8, embedding_dim=8, weights=weights, heads=heads)
    model = build_model(spec, dataset(pair), 0)
    assert isinstance(model, AttentionClassifier)
    return model


@pytest.mark.parametrize("pair", [False, True])
def test_uniform_weights_can_be_shuffled(pair: bool) -> None:
    shuffled = shuffle_all(build("uniform", pair), PAIRS if pair else SINGLES, 10, seed=0)
    assert shuffled["largest_change"].max() < 1e-6


def test_the_median_equals_a_plain_loop() -> None:
    model = build(heads=2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)  # so that a shuffle shows
    shuffled = shuffle_all(model, SINGLES, 7, seed=3)
    for number, example in enumerate(SINGLES):
        batch = model.collate(model.encode([example]))
        output = model(batch)
        assert output.attention is not None
        length = int(batch.mask.sum())
        orders = np.random.default_rng([3, number]).random((7, length)).argsort(1)
        changes = []
        for order in orders:
            context = (output.attention[0][:, order] @ output.hidden[0]).flatten()
            after = model.decoder(context).softmax(-1)
            changes.append((after - output.probabilities[0]).abs().sum().item() / 2)
        assert shuffled.iloc[number]["change"] == pytest.approx(np.median(changes), abs=1e-5)


def test_the_study(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, model="gru")
    finding = Permutation(subject, permutations=9, instances=12).run(context)
    check_finding(finding)
    instances = finding.tables["instances"]
    assert len(instances) == 12
    assert (instances["change"] <= instances["largest_change"]).all()
    with pytest.raises(UserError, match="at least one permutation"):
        Permutation(subject, permutations=0).run(context)
