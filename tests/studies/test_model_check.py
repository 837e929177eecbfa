"""What probing found out, as a section of a report: the same as `rashomon check` says, and what the texts lose."""

from __future__ import annotations

from pathlib import Path

import pytest

import rashomon as ra
from rashomon.data import Example
from rashomon.explainers import check_model, explainers
from rashomon.models.base import Model
from rashomon.report.page import render
from tests.models.test_architectures import REFUSED, model_of
from tests.models.tiny import SINGLES
from tests.studies.planted import planted

LONG = Example("long", "A witty film, warm and great; the plot is cold but not awful. " * 12, 1)


def asked(model: Model, texts: object, tmp_path: Path) -> ra.Finding:
    return ra.study("model-check", model, texts, store=tmp_path / "store")


@pytest.mark.parametrize("name", ["qwen3", "bart", "fnet"])
def test_it_says_what_check_says(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    finding = asked(model, SINGLES, tmp_path)
    said = dict(finding.summary.itertuples(index=False))
    assert said == {k: v for k, v in check_model(model).rows() if k not in ("task", "speed")}
    every = len(explainers.names())
    if name in REFUSED:
        assert finding.verdict.startswith(
            f"{every - len(REFUSED[name])} of {every} methods can be asked, but not "
        )
        assert all(method in finding.verdict for method in REFUSED[name])
    else:
        assert finding.verdict.startswith(f"All of {every} methods can be asked.")
    assert finding.verdict.endswith("All of 6 texts are read whole.")


def test_what_is_not_seen_of_long_texts_is_counted(tmp_path: Path) -> None:
    model = model_of("qwen3")
    finding = asked(model, [*SINGLES, LONG], tmp_path)
    whole = len(model.tokenizer(LONG.text)["input_ids"])
    share = 1 - model.max_length / whole
    instances = finding.tables["instances"].set_index("example")
    assert instances.loc["long", "unseen"] == pytest.approx(share)
    assert instances.loc["long", "tokens"] == model.max_length
    assert (instances["unseen"] > 0).sum() == 1
    assert f"1 of 7 texts are longer than the 64 tokens that it reads: {share:.0%} of such" in finding.verdict


def test_it_is_a_section_of_the_report(tmp_path: Path) -> None:
    model = ra.train("mlp", planted(), embedding_dim=8, hidden=8, epochs=1)
    report = ra.audit(model, planted(), methods=("attention", "leave-one-out"), instances=4, store=tmp_path)
    found = report.audit.findings[1]
    assert found.study == "model-check"
    assert "attention-flow, attention-rollout (the model has no layers of self-attention)" in found.verdict
    page = render(report.audit)
    assert "What can be asked of it" in page
    assert "really is left out of the row" in page
