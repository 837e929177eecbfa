"""The per-instance adversary: within its tolerance, alone as in a batch, and far where nothing matters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from rashomon.data.batches import Batch
from rashomon.errors import UserError
from rashomon.experiments.instance_search import Search, other_attention
from rashomon.experiments.subject import Subject
from rashomon.measures.divergence import LN2, jsd
from rashomon.models.build import build_model
from rashomon.models.classifier import AttentionClassifier
from rashomon.models.evaluator import rows_of
from rashomon.models.model_spec import ModelSpec
from rashomon.studies.instance_adversary import InstanceAdversary, _verdict
from rashomon.studies.permutation import Permutation
from tests.models.tiny import PAIRS, SINGLES, dataset, tiny_checkpoint
from tests.studies.trials import check_finding, trial_of

SHORT = Search(starts=3, steps=40)


def searched(
    model: AttentionClassifier, batch: Batch, numbers: Sequence[int], search: Search, seed: int
) -> pd.DataFrame:
    found = other_attention(model, model.eval()(batch), batch, numbers, search, seed)
    return pd.DataFrame({name: value.numpy() for name, value in found.items()})


def tiny_model(heads: int = 1, pair: bool = False) -> AttentionClassifier:
    spec = ModelSpec(name="mlp", hidden=8, embedding_dim=8, heads=heads)
    model = build_model(spec, dataset(pair), 0)
    assert isinstance(model, AttentionClassifier)
    return model


@pytest.mark.parametrize(("heads", "pair"), [(1, False), (2, False), (1, True)])
def test_other_weights_decode_as_the_model_does(heads: int, pair: bool) -> None:
    model = tiny_model(heads, pair)
    batch = model.collate(model.encode(PAIRS if pair else SINGLES))
    output = model(batch)
    assert output.attention is not None
    twice = torch.stack((output.attention, output.attention), 1)
    logits = model.decode_with(output.hidden, twice, batch)
    assert torch.allclose(logits, output.logits.unsqueeze(1).expand_as(logits), atol=1e-6)


@pytest.mark.parametrize(("heads", "pair"), [(1, False), (2, False), (1, True)])
def test_the_output_stays_and_a_text_is_the_same_alone(heads: int, pair: bool) -> None:
    model = tiny_model(heads, pair)
    examples = PAIRS if pair else SINGLES
    rows = rows_of(model, examples)
    numbers = list(range(len(examples)))
    found = searched(model, rows.batch(torch.tensor(numbers)), numbers, SHORT, seed=4)
    kept = found.dropna(subset="jsd")
    assert len(kept)
    assert (kept["tvd"] <= SHORT.tolerance).all()
    assert kept["jsd"].between(0, LN2 + 1e-6).all()
    for number in numbers[:3]:
        alone = searched(model, rows.batch(torch.tensor([number])), [number], SHORT, seed=4).iloc[0]
        assert alone["jsd"] == pytest.approx(found.iloc[number]["jsd"], abs=1e-4, nan_ok=True)


def test_one_token_cannot_be_moved_and_a_deaf_decoder_lets_everything_move() -> None:
    model = tiny_model()
    with torch.no_grad():
        model.decoder.weight.zero_()
    rows = rows_of(model, SINGLES)
    found = searched(model, rows.whole, range(len(SINGLES)), Search(), seed=0)
    one_token = [number for number, length in enumerate(rows.lengths.tolist()) if length == 1]
    assert one_token
    assert found["jsd"].iloc[one_token].abs().max() < 1e-6
    attention = model(rows.whole).attention
    assert attention is not None
    for row, length in enumerate(rows.lengths.tolist()):
        base = attention[row, 0, :length].detach()
        farthest = torch.nn.functional.one_hot(base.argmin(), length).to(base.dtype)  # the best there can be
        assert (
            0.95 * float(jsd(farthest, base)) - 1e-6
            <= found["jsd"].iloc[row]
            <= float(jsd(farthest, base)) + 1e-6
        )
    assert (found["starts_kept"] == 5).all()


def test_the_study(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, model="bilstm")
    finding = InstanceAdversary(replace(subject, seeds=(0, 1)), SHORT, instances=8).run(context)
    check_finding(finding)
    instances = finding.tables["instances"]
    assert len(instances) == 16
    assert set(instances["seed"]) == {0, 1}
    again = InstanceAdversary(replace(subject, seeds=(0, 1)), SHORT, instances=8).run(context)
    assert np.allclose(again.tables["instances"]["jsd"], instances["jsd"], equal_nan=True)


def test_a_checkpoint_is_searched_once_and_needs_no_labels(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path)
    data = context.dataset(subject.dataset)
    context.trained([subject])
    bare = tuple(replace(e, label=None) for e in data["test"])
    spec = context.adopt(replace(data, splits={"test": bare}, labels=()))
    base = str(context.folders(subject)[0] / "model")
    about = Subject(spec, seeds=(0, 1, 2), checkpoint=base)
    finding = InstanceAdversary(about, search=Search(starts=1, steps=3), instances=8).run(context)
    assert len(finding.tables["instances"]) == 8
    assert set(finding.tables["instances"]["label_name"]) <= set(data.labels)
    assert "8 texts" in finding.verdict
    assert len(Permutation(about, permutations=3, instances=8).run(context).tables["instances"]) == 8


@pytest.mark.parametrize(
    ("found", "mean", "words"),
    [
        (0.2, 0.6, "decides nothing"),
        (0.9, 0.6, "very different"),
        (0.9, 0.3, "text, other weights"),
        (0.9, 0.1, "Even"),
    ],
)
def test_the_verdict_counts_what_was_not_found(found: float, mean: float, words: str) -> None:
    row = {"n": 10, "undefined": 0, "mean": mean, "low": mean, "high": mean}
    assert words in _verdict(row, 0.01, found)


def test_texts_for_which_nothing_was_found_count_with_the_base_itself() -> None:
    model = tiny_model()
    rows = rows_of(model, SINGLES)
    strict = Search(starts=2, steps=2, tolerance=0.0)
    none = searched(model, rows.whole, range(len(SINGLES)), strict, seed=0)
    lost = none[none["starts_kept"] == 0]
    assert len(lost)
    assert (lost[["jsd", "tvd"]] == 0).all().all()
    near = replace(strict, tolerance=1e-3, near_base=True)
    found = searched(model, rows.whole, range(len(SINGLES)), near, seed=0)
    assert (found["starts_kept"] > 0).all()  # near the base the output is kept from the beginning


def test_models_that_do_not_decode_from_one_attention_are_refused(tmp_path: Path) -> None:
    context, subject = trial_of(tmp_path, dataset())
    checkpoint = str(tiny_checkpoint("bert", tmp_path / "bert"))
    with pytest.raises(UserError, match="built-in"):
        InstanceAdversary(replace(subject, checkpoint=checkpoint), SHORT).run(context)
    with pytest.raises(UserError, match="at least one start"):
        Search(starts=0)
