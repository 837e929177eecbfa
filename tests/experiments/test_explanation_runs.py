"""Blocks of texts that are explained and kept together."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rashomon.experiments import explanation_runs
from rashomon.experiments.context import Context, Work
from rashomon.experiments.explanation_runs import BLOCK_TOKENS, _evenly
from rashomon.runs.store import Store
from tests.studies.planted import planted, subject_in


@given(st.lists(st.integers(1, 600), max_size=80))
def test_every_text_is_in_one_block_and_blocks_are_alike(lengths: list[int]) -> None:
    blocks = _evenly(lengths)
    assert [place for block in blocks for place in block] == list(range(len(lengths)))
    sizes = [sum(lengths[place] for place in block) for block in blocks]
    longest = max(lengths, default=0)
    assert all(size <= BLOCK_TOKENS + longest for size in sizes)
    assert not sizes or max(sizes) - min(sizes) <= 2 * longest


def test_what_others_can_do_is_done_by_workers_and_gives_the_same(
    context: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explanation_runs, "BLOCK_TOKENS", 40)
    subject, methods = subject_in(context), ["lime", "integrated-gradients"]
    examples = planted()["test"][:8]
    (trained,) = context.models(subject)
    alone = context.explanations(trained.model, examples, methods)
    shared = Context(Store(tmp_path / "other"), workers=2)
    copy = shared.models(subject_in(shared))[0].model
    work = shared.explanation_work(copy, examples, methods)
    assert len(work) > 1
    assert all(one.shared for one in work)
    shared.side_by_side(work, "explaining")
    assert shared.explanation_work(copy, examples, methods) == []
    together = shared.explanations(copy, examples, methods)
    assert together == alone
    assert set(together.seconds) == set(methods)


def test_a_model_that_was_changed_in_memory_is_not_looked_for_in_its_folder(context: Context) -> None:
    model = context.models(subject_in(context))[0].model
    examples = planted()["test"][:2]
    assert all(work.shared for work in context.explanation_work(model, examples, ["attention"]))
    model.labels = ("negative", "positive")
    assert not any(work.shared for work in context.explanation_work(model, examples, ["attention"]))


def test_the_same_work_is_done_once(context: Context, tmp_path: Path) -> None:
    done: list[int] = []
    work = [Work(tmp_path / name, lambda: done.append(1), shared=False) for name in "aab"]
    context.side_by_side(work, "counting")
    assert len(done) == 2
