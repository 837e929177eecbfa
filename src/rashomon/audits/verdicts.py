"""From numbers to words: what the audit says of each method, and of all of them together.

The thresholds are stated here and nowhere else; every word stands beside the number it was made from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rashomon.audits.record import Judgement, MethodVerdict
from rashomon.experiments.summaries import FLOOR, Row, ranked_rows, summary_of
from rashomon.experiments.testimony import samples
from rashomon.measures.significance import HIERARCHICAL
from rashomon.studies.base import Finding
from rashomon.studies.erasure import FLOORS
from rashomon.studies.noise_ceiling import MODEL, SAMPLING
from rashomon.wording import capitalised, milliseconds, sample, with_interval

CLOSE_TO_CEILING = 0.8  # share of a method's agreement with itself that counts as agreeing with others
SOME_AGREEMENT = 0.3  # tau; below it a ceiling is too low to say anything, too
STABLE, SHAKY = 0.8, 0.5  # tau of a method with itself
FAITHFUL_SHARE = 0.7  # of the best method's comprehensiveness
NOTICEABLE = (
    0.05  # probability that erasing must cost beyond a random order's before the model "uses" the tokens
)
FOUND, PARTLY_FOUND = 0.7, 0.3  # of the way from a random order's average precision to a perfect one
LEVEL = 0.05  # of significance
QUICK, SLOW = 0.1, 2.0  # seconds a text


def verdicts(
    methods: Sequence[str], findings: Mapping[str, Finding], costs: Mapping[str, float]
) -> tuple[MethodVerdict, ...]:
    """A verdict on every method, by the studies that were carried out."""
    return tuple(_verdict(method, findings, costs) for method in methods)


def _verdict(method: str, findings: Mapping[str, Finding], costs: Mapping[str, float]) -> MethodVerdict:
    judged = [
        _agreement(method, findings),
        _stability(method, findings),
        _faithfulness(method, findings),
        _truth(method, findings),
    ]
    judgements = (*(j for j in judged if j is not None), _cost(method, costs))
    said = [j.words for j in judgements if j.aspect != "cost" and j.rating != "unknown"]
    sentence = f"{capitalised(method)} {_join(said)}." if said else f"Nothing can be said of {method} here."
    return MethodVerdict(method, sentence, judgements)


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _agreement(method: str, findings: Mapping[str, Finding]) -> Judgement | None:
    if "agreement" not in findings:
        return None
    row = _with_others(method, findings["agreement"])
    if row is None:
        return Judgement("agreement", "unknown", "cannot be compared", "undefined")
    text, mean = f"tau {_counted(row)} with the others", row["mean"]
    if _too_few(row, _family(findings)):
        return Judgement("agreement", "unknown", "was compared on too few texts to tell", text)
    ceiling, how = _ceiling(method, findings)
    text += f", {how}" if how else ""
    if ceiling >= SOME_AGREEMENT and mean >= CLOSE_TO_CEILING * ceiling:
        return Judgement("agreement", "good", "agrees with the others about as well as with itself", text)
    if mean >= SOME_AGREEMENT:
        return Judgement("agreement", "mixed", "partly agrees with the others", text)
    return Judgement("agreement", "poor", "tells another story than the others", text)


def _with_others(method: str, finding: Finding) -> Row | None:
    """Tau with the other methods: of every text the mean over pairs, and of those n, mean and interval."""
    table = finding.tables["instances"]
    own = table[
        (table["measure"] == "kendall")
        & ((table["first"] == method) | (table["second"] == method))
        & (table["first"] != FLOOR)
        & (table["second"] != FLOOR)
    ].dropna(subset=["value"])
    texts = own.groupby(["seed", "example"])["value"].mean().reset_index()
    return summary_of(texts, "value", (-1.0, 1.0)) if len(texts) else None


def _counted(row: Row) -> str:
    return f"{with_interval(row)} ({sample(row['n'])})"


def _family(findings: Mapping[str, Finding]) -> int:
    """How many tests faithfulness is one of, which decides how many texts a verdict needs."""
    return int(findings["erasure"].tables["summary"]["p_holm"].notna().sum()) if "erasure" in findings else 1


def _too_few(row: Row, family: int) -> bool:
    """Whether a method that won on every text would still not stand out among so many tests."""
    return 0.5 ** int(row["n"]) * max(family, 1) >= LEVEL


def _ceiling(method: str, findings: Mapping[str, Finding]) -> tuple[float, str]:
    """The agreement with itself, and in words: under another model seed, or where there is none, sampled again."""
    if "noise-ceiling" in findings:
        for against in (MODEL, SAMPLING):
            row = _self_row(method, findings["noise-ceiling"], against)
            if row is None or _too_few(row, _family(findings)):
                continue
            how = f"{_counted(row)} with itself under {against}"
            if against == SAMPLING and not samples(method):
                how = "1.00 with itself, being deterministic"
            return float(row["mean"]), how
    return float("nan"), ""


def _self_row(method: str, finding: Finding, against: str) -> Row | None:
    table = finding.tables["summary"]
    rows = ranked_rows(table[(table["method"] == method) & (table["against"] == against)])
    return rows[0] if rows else None


def _stability(method: str, findings: Mapping[str, Finding]) -> Judgement | None:
    """By repetition on the same model; another model may rightly be explained in another way, which is only said.

    A method that does not sample repeats itself by definition, which is no test that it has passed.
    """
    if "noise-ceiling" not in findings:
        return None
    varied = (SAMPLING, MODEL) if samples(method) else (MODEL,)
    rows = {a: _self_row(method, findings["noise-ceiling"], a) for a in varied}
    known = {against: row for against, row in rows.items() if row is not None}
    said = [f"tau {_counted(row)} under {against}" for against, row in known.items()]
    text = ", ".join(said if samples(method) else ["deterministic", *said])
    found = {a: float(row["mean"]) for a, row in known.items() if not _too_few(row, _family(findings))}
    if not found and not samples(method):
        return Judgement("stability", "unknown", "is deterministic: sampling again changes nothing", text)
    if not known:
        return Judgement("stability", "unknown", "cannot be repeated", "undefined")
    if not found:
        return Judgement("stability", "unknown", "was repeated on too few texts to tell", text)
    again, elsewhere = found.get(SAMPLING), found.get(MODEL)
    if again is not None and again < SHAKY:
        return Judgement("stability", "poor", "changes when it is sampled again", text)
    if again is not None and again < STABLE:
        return Judgement("stability", "mixed", "partly repeats itself", text)
    if elsewhere is not None and elsewhere < SHAKY:
        return Judgement("stability", "mixed", "changes when the model is trained again", text)
    words = (
        "repeats itself"
        if samples(method)
        else "is deterministic and mostly stands when the model is retrained"
    )
    return Judgement("stability", "good", words, text)


def _faithfulness(method: str, findings: Mapping[str, Finding]) -> Judgement | None:
    if "erasure" not in findings:
        return None
    table = findings["erasure"].tables["summary"]
    gone = {row["method"]: row for row in ranked_rows(table[table["measure"] == "comprehensiveness"])}
    kept = {row["method"]: row for row in ranked_rows(table[table["measure"] == "sufficiency"])}
    if method not in gone:
        return None
    row, floor = gone[method], gone.get(FLOOR)
    text = f"comprehensiveness {with_interval(row)}"
    text += f", {with_interval(floor)} for a random order" if floor else ""
    text += f"; sufficiency {with_interval(kept[method])}" if method in kept else ""
    tested = _tested("faithfulness", "erased", row, int(table["p_holm"].notna().sum()), text)
    if tested is not None or floor is None:
        return tested
    best = max(other["mean"] for name, other in gone.items() if name not in FLOORS)
    if row["mean"] - floor["mean"] < NOTICEABLE:
        words = "beats chance when its tokens are erased, but the model hardly minds"
        return Judgement("faithfulness", "mixed", words, text)
    if row["mean"] >= FAITHFUL_SHARE * best:
        return Judgement("faithfulness", "good", "names tokens that the model uses", text)
    words = "beats chance when its tokens are erased, but others do better"
    return Judgement("faithfulness", "mixed", words, text)


def _tested(aspect: str, done: str, row: Row, family: int, text: str) -> Judgement | None:
    """A judgement where a method does not beat the random order, or where that could not be found out."""
    if row["p_holm"] < LEVEL:
        return None
    if row["p_holm"] != row["p_holm"]:
        return Judgement(aspect, "unknown", "was not compared with a random order", text)
    if _too_few(row, family):
        return Judgement(
            aspect, "unknown", "was tried on too few texts to tell", f"{text}, {sample(row['n'])}"
        )
    if row["p_against_random"] < LEVEL:
        # It wins on its own and not among so many tests, which few texts or seeds can hardly bring about.
        if row["test"] == HIERARCHICAL:
            return Judgement(aspect, "unknown", "was tried on too few seeds to tell", text)
        perhaps = {
            "erased": "may beat a random order when its tokens are erased, which more texts would tell",
            "found": "may find the tokens known to matter, which more texts would tell",
        }
        return Judgement(aspect, "mixed", perhaps[done], text)
    words = {
        "erased": "does not beat a random order when its tokens are erased",
        "found": "finds the tokens known to matter no better than a random order",
    }
    return Judgement(aspect, "poor", words[done], text)


def _truth(method: str, findings: Mapping[str, Finding]) -> Judgement | None:
    if "recovery" not in findings:
        return None
    table = findings["recovery"].tables["summary"]
    found = {row["method"]: row for row in ranked_rows(table[table["measure"] == "average-precision"])}
    if method not in found:
        return Judgement("truth", "unknown", "was not compared with the known tokens", "undefined")
    row, floor = found[method], found.get(FLOOR)
    text = f"average precision {with_interval(row)}" + (
        f", {with_interval(floor)} for a random order" if floor else ""
    )
    tested = _tested("truth", "found", row, int(table["p_holm"].notna().sum()), text)
    if tested is not None or floor is None:
        return tested
    way = (row["mean"] - floor["mean"]) / (1 - floor["mean"]) if floor["mean"] < 1 else 0.0
    if way >= FOUND:
        return Judgement("truth", "good", "finds the tokens known to matter", text)
    if way >= PARTLY_FOUND:
        return Judgement("truth", "mixed", "finds some of the tokens known to matter", text)
    return Judgement("truth", "poor", "finds few of the tokens known to matter", text)


def _cost(method: str, costs: Mapping[str, float]) -> Judgement:
    seconds = costs.get(method)
    if seconds is None:
        return Judgement("cost", "unknown", "not timed", "undefined")
    rating = "good" if seconds < QUICK else "mixed" if seconds < SLOW else "poor"
    words = {"good": "quick", "mixed": "takes a moment", "poor": "slow"}[rating]
    return Judgement("cost", rating, words, f"{milliseconds(seconds)} a text")


def overall(judged: Sequence[MethodVerdict], findings: Mapping[str, Finding]) -> str:
    """The answer on top of the page: what passed the tests of faithfulness and truth, and what failed one."""
    ratings = {
        verdict.method: {
            j.aspect: j.rating for j in verdict.judgements if j.aspect in ("faithfulness", "truth")
        }
        for verdict in judged
    }
    known = {m: {a: r for a, r in of.items() if r != "unknown"} for m, of in ratings.items()}
    trusted = [m for m, of in known.items() if of and set(of.values()) == {"good"}]
    failed = [m for m, of in known.items() if _failed(of)]
    parts = []
    if not any(known.values()):
        parts.append("Nothing could be tested that says which method to trust.")
    elif trusted:
        reasons = [
            reason
            for aspect, reason in _REASONS.items()
            if all(aspect in known[method] for method in trusted)
        ]
        why = _join(reasons) if reasons else "each passes every test that was made of it"
        parts.append(f"Trust {_join(trusted)} most: {why}.")
    else:
        parts.append(
            "No method passes every test that was made, so none should be shown without its caveats."
        )
    if failed:
        parts.append(f"Do not rely on {_join(failed)} here.")
    if "agreement" in findings:
        parts.append(findings["agreement"].verdict)
    return " ".join(parts)


def _failed(rated: Mapping[str, str]) -> bool:
    """A faithful method that misses the marked tokens tells of the model: people may have marked what it ignores."""
    faithful = rated.get("faithfulness")
    return faithful == "poor" or (faithful != "good" and rated.get("truth") == "poor")


_REASONS = {
    "faithfulness": "the model uses the tokens named",
    "truth": "the tokens known to matter are found",
}
