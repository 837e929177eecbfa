"""Of several points that were run, which one stands for the paper's?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from rashomon.papers.grid import Choice
from rashomon.papers.kept import Kept, answering
from rashomon.papers.plan import Run

RUN = Run("adversary", {"dataset": "sst"}, {"subject": {"dataset": {"name": "sst"}}})
NEAR = {"training": {"epochs": 12}}
FAR = {"training": {"epochs": 12}, "warm": True}


def kept(changes: Mapping[str, Any], seeds: int = 3, texts: int = 50, day: int = 1) -> Kept:
    settings = {"subject": {"dataset": {"name": "sst"}, "model": {"name": "bilstm"}}}
    facts = {"paper": "not_not", "study": RUN.study, "asked": RUN.settings, "changes": changes}
    specification = {**facts, "settings": settings, "vectors": None}
    return Kept(Path("there"), datetime(2026, 1, day), specification, 1.0, False, 1, seeds, texts)


@pytest.mark.parametrize(
    ("others", "chosen"),
    [
        ([kept(FAR, seeds=9)], kept(NEAR, seeds=1)),  # nearer to the paper in its settings
        ([kept(NEAR, seeds=9)], kept({}, seeds=1)),
        ([kept(NEAR, seeds=2, texts=500)], kept(NEAR, seeds=3)),  # then fuller
        ([kept(NEAR, day=1)], kept(NEAR, day=2)),  # then newer
    ],
)
def test_the_nearest_then_the_fullest_then_the_newest(others: list[Kept], chosen: Kept) -> None:
    for order in ([*others, chosen], [chosen, *others]):
        assert answering(RUN, "not_not", order, Choice(), any_settings=True) is chosen


def test_other_settings_answer_only_where_any_will_do() -> None:
    far, near = kept(FAR), kept(NEAR, seeds=1)
    assert answering(RUN, "not_not", [far, near], Choice(), any_settings=False) is None
    assert answering(RUN, "not_not", [far, near], Choice(changes=FAR), any_settings=True) is far
    assert answering(RUN, "attefa", [far, near], Choice(), any_settings=True) is None
