from __future__ import annotations

import pandas as pd
import pytest

from rashomon.audits.record import Judgement, MethodVerdict
from rashomon.audits.verdicts import overall, verdicts
from rashomon.studies.base import Finding
from rashomon.studies.noise_ceiling import MODEL, SAMPLING

NAN = float("nan")


def _finding(study: str, rows: list[dict], verdict: str = "They agree.") -> Finding:
    table = pd.DataFrame([{"low": NAN, "high": NAN, "n": 100, **row} for row in rows])
    return Finding(study, "?", verdict, {}, {"summary": table})


def _agreement(mean: float, n: int = 100, method: str = "a") -> Finding:
    pairs = [(method, "b", mean), (method, "c", mean), (method, "random", 0.9)]  # the control must not count
    rows = [
        {"measure": "kendall", "first": f, "second": s, "seed": 0, "example": f"e{i}", "value": m}
        for f, s, m in pairs
        for i in range(n)
    ]
    return Finding("agreement", "?", "They agree.", {}, {"instances": pd.DataFrame(rows)})


def _ceiling(sampling: float, model: float | None = None, n: int = 100, method: str = "a") -> Finding:
    values = {SAMPLING: sampling, MODEL: model}
    rows = [{"method": method, "against": k, "mean": v, "n": n} for k, v in values.items() if v is not None]
    return _finding("noise-ceiling", rows)


def _erasure(mean: float, p: float, floor: float | None = 0.1, best: float = 0.5, n: int = 100) -> Finding:
    methods = [("a", mean, p), ("b", best, 0.001), ("trivial", 0.9, NAN)]
    methods += [("random", floor, NAN)] if floor is not None else []
    gone = [
        {"measure": "comprehensiveness", "method": m, "mean": v, "n": n, **_tested(q)} for m, v, q in methods
    ]
    kept = [{"measure": "sufficiency", "method": "a", "mean": 0.2, "n": n, **_tested(p)}]
    return _finding("erasure", gone + kept)


def _recovery(mean: float, p: float, floor: float = 0.2) -> Finding:
    rows = [("a", mean, p), ("random", floor, NAN)]
    return _finding(
        "recovery",
        [{"measure": "average-precision", "method": m, "mean": v, **_tested(q)} for m, v, q in rows],
    )


def _tested(p: float) -> dict[str, object]:
    """The only test of its family."""
    return {"test": "wilcoxon", "p_against_random": p, "p_holm": p}


def _judge(*findings: Finding, aspect: str, method: str = "a") -> Judgement:
    (verdict,) = verdicts([method], {f.study: f for f in findings}, {method: 0.01})
    (judgement,) = [j for j in verdict.judgements if j.aspect == aspect]
    return judgement


@pytest.mark.parametrize(
    ("mean", "ceiling", "rating", "words"),
    [
        (0.85, _ceiling(1.0), "good", "about as well as with itself"),
        (0.45, _ceiling(1.0, 0.5), "good", "about as well as with itself"),
        (0.45, _ceiling(1.0, 0.9), "mixed", "partly"),
        (0.45, None, "mixed", "partly"),
        (0.10, _ceiling(1.0, 0.9), "poor", "another story"),
        (0.10, _ceiling(0.1), "poor", "another story"),  # a method that is noise agrees with nothing
        (-0.2, _ceiling(-0.3), "poor", "another story"),
    ],
)
def test_agreement(mean: float, ceiling: Finding | None, rating: str, words: str) -> None:
    given = [_agreement(mean), *([ceiling] if ceiling else [])]
    judged = _judge(*given, aspect="agreement")
    assert judged.rating == rating
    assert words in judged.words
    assert f"tau {mean:.2f}" in judged.number


def test_agreement_that_is_undefined_is_unknown() -> None:
    assert _judge(_agreement(NAN), aspect="agreement").rating == "unknown"


@pytest.mark.parametrize(
    ("sampling", "model", "rating", "words"),
    [
        (1.0, None, "good", "repeats itself"),
        (0.9, 0.7, "good", "repeats itself"),
        (0.9, 0.2, "mixed", "trained again"),
        (0.6, 0.9, "mixed", "partly repeats"),
        (0.3, 0.9, "poor", "sampled again"),
        (NAN, NAN, "unknown", "cannot be repeated"),
    ],
)
def test_stability(sampling: float, model: float | None, rating: str, words: str) -> None:
    judged = _judge(_ceiling(sampling, model), aspect="stability")
    assert (judged.rating, words in judged.words) == (rating, True)


def test_too_few_texts_tell_nothing() -> None:
    """Four texts cannot tell one test from chance, nor five three tests, as many as erasure makes here."""
    for given, known in (((4,), False), ((5,), True)):
        for judged in (
            _judge(_agreement(0.9, *given), aspect="agreement"),
            _judge(_ceiling(0.9, None, *given), aspect="stability"),
        ):
            assert (judged.rating != "unknown") == known
            assert known or "too few texts" in judged.words
            assert f"(n = {given[0]})" in judged.number
    assert _judge(_agreement(0.9, 5), _erasure(0.45, 0.001), aspect="agreement").rating == "unknown"
    assert _judge(_agreement(0.9, 6), _erasure(0.45, 0.001), aspect="agreement").rating != "unknown"
    few = _judge(_agreement(0.85), _ceiling(1.0, n=3), aspect="agreement")
    assert few.rating == "mixed", "a ceiling of three texts is none"


def test_agreement_is_told_with_its_interval() -> None:
    finding = _agreement(0.5)
    table = finding.tables["instances"]
    table["value"] += [0.1 * (i % 2) for i in range(len(table))]
    assert _judge(finding, aspect="agreement").number == "tau 0.55 [0.54, 0.56] (n = 100) with the others"


@pytest.mark.parametrize(
    ("model", "rating", "words"), [(None, "unknown", ""), (0.2, "mixed", "trained again"), (0.7, "good", "")]
)
def test_a_method_that_does_not_sample_is_deterministic(model: float | None, rating: str, words: str) -> None:
    judged = _judge(_ceiling(1.0, model, method="attention"), aspect="stability", method="attention")
    assert (judged.rating, words in judged.words) == (rating, True)
    assert "deterministic" in judged.number
    assert SAMPLING not in judged.number
    sampled = _judge(_ceiling(1.0, model, method="lime"), aspect="stability", method="lime")
    assert SAMPLING in sampled.number
    given = (_agreement(0.9, method="attention"), _ceiling(1.0, method="attention"))
    assert "being deterministic" in _judge(*given, aspect="agreement", method="attention").number


@pytest.mark.parametrize(
    ("finding", "rating", "words"),
    [
        (_erasure(0.45, 0.001), "good", "the model uses"),
        (_erasure(0.25, 0.001), "mixed", "others do better"),
        (_erasure(0.12, 0.001, best=0.13), "mixed", "hardly minds"),
        (_erasure(0.12, 0.40), "poor", "does not beat a random order"),
        (_erasure(0.45, NAN), "unknown", "not compared"),
        (_erasure(0.45, 0.2, n=5), "unknown", "too few texts"),
    ],
)
def test_faithfulness(finding: Finding, rating: str, words: str) -> None:
    judged = _judge(finding, aspect="faithfulness")
    assert (judged.rating, words in judged.words) == (rating, True), judged
    assert "comprehensiveness" in judged.number
    assert "sufficiency" in judged.number


@pytest.mark.parametrize(
    ("finding", "rating", "words"),
    [
        (_recovery(0.9, 0.001), "good", "finds the tokens"),
        (_recovery(0.6, 0.001), "mixed", "finds some"),
        (_recovery(0.3, 0.001), "poor", "finds few"),
        (_recovery(0.85, 0.30, floor=0.84), "poor", "no better than a random order"),
        (_recovery(0.85, 0.01, floor=0.80), "poor", "finds few"),  # most tokens are marked: .85 is nothing
    ],
)
def test_truth(finding: Finding, rating: str, words: str) -> None:
    judged = _judge(finding, aspect="truth")
    assert (judged.rating, words in judged.words) == (rating, True), judged


def test_too_few_seeds_tell_nothing() -> None:
    finding = _erasure(0.45, 0.4)
    table = finding.tables["summary"]
    for alone, rating in ((0.03, "unknown"), (0.2, "poor")):
        table["test"], table["p_against_random"] = "hierarchical t", alone
        assert _judge(finding, aspect="faithfulness").rating == rating


def test_what_holds_alone_but_not_among_so_many_tests_is_left_open() -> None:
    """A method that finds every token in ten texts is not called poor because thirty tests were made."""
    for finding, aspect in ((_erasure(0.45, 0.4), "faithfulness"), (_recovery(0.74, 0.16), "truth")):
        for alone, rating in ((0.006, "mixed"), (0.2, "poor")):
            finding.tables["summary"]["test"] = "wilcoxon"
            finding.tables["summary"]["p_against_random"] = alone
            judged = _judge(finding, aspect=aspect)
            assert (judged.rating, "more texts" in judged.words) == (rating, rating == "mixed"), judged


def test_cost_and_sentence() -> None:
    (verdict,) = verdicts(["myIG"], {}, {})
    assert verdict.sentence == "Nothing can be said of myIG here."
    assert verdict.judgements == (Judgement("cost", "unknown", "not timed", "undefined"),)
    said = verdicts(["a"], {"noise-ceiling": _ceiling(1.0), "erasure": _erasure(0.45, 0.001)}, {"a": 0.004})[
        0
    ]
    assert said.sentence == "A repeats itself and names tokens that the model uses."
    assert said.judgements[-1].number == "4.0 ms a text"
    assert [verdicts(["a"], {}, {"a": s})[0].judgements[0].rating for s in (0.05, 0.5, 5)] == [
        "good",
        "mixed",
        "poor",
    ]


def _rated(method: str, **ratings: str) -> MethodVerdict:
    return MethodVerdict(method, "", tuple(Judgement(aspect, r, "", "") for aspect, r in ratings.items()))


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
    said = overall(judged, {"agreement": _agreement(0.5)})
    assert said.startswith(start)
    assert rest in said
    assert said.endswith("They agree.")


def test_a_faithful_method_is_not_blamed_for_what_people_marked() -> None:
    assert "rely" not in overall([_rated("a", faithfulness="good", truth="poor")], {})
