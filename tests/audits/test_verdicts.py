"""Judgements become sentences; how the studies come to them is tested with the studies."""

from __future__ import annotations

import pytest

from rashomon.audits.record import MethodVerdict
from rashomon.audits.verdicts import overall, verdicts
from rashomon.experiments.judging import Rating
from rashomon.studies.base import Finding, Judgement


def _finding(study: str, *judgements: Judgement, verdict: str = "They agree.") -> Finding:
    return Finding(study, "?", verdict, {}, {}, judgements=judgements)


STABLE = Judgement("a", "stability", "good", "repeats itself", "tau 1.00")
FAITHFUL = Judgement("a", "faithfulness", "good", "names tokens that the model uses", ".45")
UNTOLD = Judgement("a", "truth", "unknown", "was not compared", "undefined")
OF_ANOTHER = Judgement("b", "stability", "poor", "changes", "tau 0.10")
AGREEMENT = _finding("agreement", Judgement("a", "agreement", "mixed", "partly agrees", "tau 0.50"))


def test_a_sentence_joins_what_the_studies_said() -> None:
    findings = [_finding("x", STABLE, OF_ANOTHER), _finding("y", FAITHFUL), _finding("z", UNTOLD)]
    said, other = verdicts(["a", "b"], findings, {"a": 0.004, "b": 3.0})
    assert said.sentence == "A repeats itself and names tokens that the model uses."
    assert said.judgements[:-1] == (STABLE, FAITHFUL, UNTOLD)
    assert said.judgements[-1].number == "4.0 ms a text"
    assert other.sentence == "B changes."


def test_a_part_with_a_comma_is_closed_by_one() -> None:
    lengthy = Judgement("a", "stability", "good", "repeats itself, by its top five tokens", "kappa 1.00")
    (said,) = verdicts(["a"], [AGREEMENT, _finding("x", lengthy), _finding("y", FAITHFUL)], {})
    wanted = "A partly agrees, repeats itself, by its top five tokens, and names tokens that the model uses."
    assert said.sentence == wanted


def test_an_aspect_of_another_package_is_said_too() -> None:
    own = Judgement("a", "readability", "good", "is short enough to be read", "9 words")
    (said,) = verdicts(["a"], [_finding("reading-time", own)], {})
    assert said.sentence == "A is short enough to be read."


def test_cost_and_nothing_else() -> None:
    (verdict,) = verdicts(["myIG"], [], {})
    assert verdict.sentence == "Nothing can be said of myIG here."
    assert verdict.judgements == (Judgement("myIG", "cost", "unknown", "not timed", "undefined"),)
    ratings = [verdicts(["a"], [], {"a": s})[0].judgements[0].rating for s in (0.09, 0.1, 1.9, 2.0)]
    assert ratings == ["good", "mixed", "mixed", "poor"]
    (drawn,) = verdicts(["a"], [], {"a": 30.0})[0].judgements[0].gauges
    assert (drawn.ends, drawn.logarithmic, drawn.better) == ((0.001, 30.0), True, "lower")


@pytest.mark.parametrize("aspect", ["stability", "exclusiveness"])
def test_what_cannot_be_repeated_or_is_one_of_several_accounts_is_not_trusted(aspect: str) -> None:
    good = _rated("b", faithfulness="good")
    capped = MethodVerdict(
        "a",
        "",
        (FAITHFUL, Judgement("a", aspect, "poor", "is not the only account", "")),
    )
    said = overall([capped, good], [])
    assert said.startswith("Trust b most")
    assert "A is not the only account." in said
    slow = Judgement("b", "cost", "poor", "is slow", "")
    stable = Judgement("b", aspect, "good", "repeats itself", "")
    unhurt = overall([MethodVerdict("b", "", (*good.judgements, stable, slow))], [])
    assert unhurt == "Trust b most: the model uses the tokens named.", (
        "no caveat of what is good, or only slow"
    )
    alone = overall([capped], [])
    assert alone.startswith("No method passes")


def _rated(method: str, **ratings: Rating) -> MethodVerdict:
    judged = (Judgement(method, aspect, rating, "", "") for aspect, rating in ratings.items())
    return MethodVerdict(method, "", tuple(judged))


@pytest.mark.parametrize(
    ("judged", "start", "rest"),
    [
        (
            [_rated("a", faithfulness="good", truth="good")],
            "Trust a most: the model uses the tokens named and",
            "",
        ),
        (
            [_rated("a", faithfulness="good", truth="good"), _rated("b", faithfulness="good")],
            "Trust a and b most: the model uses the tokens named.",
            "",
        ),
        (
            [_rated("a", truth="good"), _rated("b", faithfulness="good")],
            "Trust a and b most: each passes every test that was made of it.",
            "",
        ),
        ([_rated("a", truth="good")], "Trust a most: the tokens known to matter are found.", ""),
        (
            [_rated("a", faithfulness="good", truth="unknown")],
            "Trust a most: the model uses the tokens named.",
            "",
        ),
        (
            [_rated("a", faithfulness="good"), _rated("b", faithfulness="poor")],
            "Trust a most",
            "rely on b here",
        ),
        ([_rated("a", faithfulness="mixed", truth="poor")], "No method passes", "rely on a here"),
        ([_rated("a", faithfulness="unknown"), _rated("b", agreement="good")], "Nothing could be tested", ""),
    ],
)
def test_overall(judged: list[MethodVerdict], start: str, rest: str) -> None:
    said = overall(judged, [_finding("x", FAITHFUL, verdict="Not this."), AGREEMENT])
    assert said.startswith(start)
    assert rest in said
    assert said.endswith(". They agree.")
    assert "Not this." not in said


def test_a_faithful_method_is_not_blamed_for_what_people_marked() -> None:
    assert "rely" not in overall([_rated("a", faithfulness="good", truth="poor")], [])
