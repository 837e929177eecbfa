"""What one store has replicated travels to another: the same conclusions, nothing run twice, nothing of the machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rashomon.errors import UserError
from rashomon.papers import load
from rashomon.papers.kept import all_kept
from rashomon.papers.ledger import ledger, take_over
from rashomon.papers.outcomes import all_claims
from rashomon.papers.replicating import carry_out, schedule
from rashomon.papers.replication_page import replication_of
from rashomon.runs.store import Store
from tests.papers.replications import necessity, small_context

PAPER = load("not_not")


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A context in which Table 2 was run on SST with three seeds."""
    context = small_context(tmp_path_factory.mktemp("ran"), "sst")
    choice = necessity("sst", seeds=3)
    carry_out(context, schedule(context, PAPER, choice), choice)
    return context


def test_another_store_comes_to_the_same_conclusions(ran: Any, tmp_path: Path) -> None:
    other = Store(tmp_path)
    assert take_over(other, ledger(all_kept(ran.store)), "it") == 1
    ours, theirs = (all_claims(store, necessity(), any_settings=True) for store in (ran.store, other))
    assert set(ours["outcome"]) != {"not run"}
    pd.testing.assert_frame_equal(ours.drop(columns="why"), theirs.drop(columns="why"), rtol=1e-6)
    (one,), (own,) = all_kept(other), all_kept(ran.store)
    assert one.elsewhere
    assert not own.elsewhere
    assert (one.seconds, one.size, one.departures) == (own.seconds, own.size, own.departures)
    assert abs((one.created - own.created).total_seconds()) < 1  # when it was run, not when it was taken over


def test_the_same_ledger_comes_out_of_whom_it_was_given_to(ran: Any, tmp_path: Path) -> None:
    text = ledger(all_kept(ran.store))
    for _ in range(2):  # taking over twice adds nothing
        take_over(Store(tmp_path), text, "it")
    assert ledger(all_kept(Store(tmp_path))) == text


def test_a_ledger_holds_no_texts_and_no_places(ran: Any) -> None:
    text = ledger(all_kept(ran.store))
    assert str(ran.data_dir) not in text
    assert "film number" not in text
    (point,) = json.loads(text)["points"]
    assert point["specification"]["data"] is None
    assert set(point["finding"]["tables"]) == {"summary", "gaps"}


@pytest.mark.parametrize(("seeds", "done"), [(2, True), (3, True), (4, False)])
def test_what_was_run_elsewhere_is_not_run_again_unless_more_is_asked(
    ran: Any, tmp_path: Path, seeds: int, done: bool
) -> None:
    context = replace(ran, store=Store(tmp_path))
    take_over(context.store, ledger(all_kept(ran.store)), "it")
    (step,) = schedule(context, PAPER, necessity("sst", seeds=seeds)).steps
    assert step.done is done


def test_a_page_can_be_made_of_what_was_taken_over(ran: Any, tmp_path: Path) -> None:
    context, choice = replace(ran, store=Store(tmp_path)), necessity("sst", seeds=3)
    take_over(context.store, ledger(all_kept(ran.store)), "it")
    pages = [
        replication_of(one, PAPER, choice, schedule(one, PAPER, choice)).claims for one in (context, ran)
    ]
    for taken, own in zip(*pages, strict=True):
        assert (taken["claim"], taken["outcome"]) == (own["claim"], own["outcome"])


def test_of_two_extents_the_fuller_is_passed_on(ran: Any, tmp_path: Path) -> None:
    (own,) = all_kept(ran.store)
    text = ledger([replace(own, seeds=2), own, replace(own, seeds=1)])
    assert [point["more"]["seeds"] for point in json.loads(text)["points"]] == [3]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "else", "points": []}', "null", "no JSON"])
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(UserError, match=r"it\.json is no record of replications"):
        take_over(Store(tmp_path), text, "it.json")


@pytest.mark.parametrize(
    "path",
    [
        *("specification", "more", "finding", "finding.tables", "finding.study", "finding.configuration"),
        *("specification.paper", "specification.study", "specification.settings", "specification.asked"),
        *("specification.settings.subject.dataset", "specification.settings.subject.model"),
        *("specification.changes", "specification.vectors", "specification.point"),
        *("more.created", "more.seconds", "more.models", "more.seeds", "more.texts", "more.resumed"),
    ],
)
def test_a_spoilt_point_is_named_and_spoils_no_store(ran: Any, tmp_path: Path, path: str) -> None:
    document = json.loads(ledger(all_kept(ran.store)))
    *places, last = path.split(".")
    spoilt = document["points"][0]
    for place in places:
        spoilt = spoilt[place]
    del spoilt[last]
    with pytest.raises(UserError, match=r"Point 1 of it\.json cannot be read"):
        take_over(Store(tmp_path), json.dumps(document), "it.json")
    assert all_kept(Store(tmp_path)) == []
