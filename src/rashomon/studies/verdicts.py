"""From numbers to words: what the audit says of each method, and of all of them together.

The thresholds are stated here and nowhere else; every word stands beside the number it was made from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rashomon.studies.base import Finding, Judgement, MethodVerdict
from rashomon.studies.noise_ceiling import MODEL, SAMPLING
from rashomon.studies.tables import Row, number, ranked_rows

CLOSE_TO_CEILING = 0.8  # share of a method's agreement with itself that counts as agreeing with others
SOME_AGREEMENT = 0.3
STABLE, SHAKY = 0.8, 0.5
FAITHFUL_SHARE = 0.7  # of the best method's comprehensiveness
FOUND, PARTLY_FOUND = 0.8, 0.5


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
    sentence = f"{method.capitalize()} {_join(said)}." if said else f"Nothing can be said of {method} here."
    return MethodVerdict(method, sentence, judgements)


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _agreement(method: str, findings: Mapping[str, Finding]) -> Judgement | None:
    if "agreement" not in findings:
        return None
    table = findings["agreement"].tables["summary"]
    own = table[
        (table["measure"] == "kendall")
        & ((table["first"] == method) | (table["second"] == method))
        & (table["first"] != "random")
        & (table["second"] != "random")
    ].dropna(subset=["mean"])
    if own.empty:
        return Judgement("agreement", "unknown", "cannot be compared", "undefined")
    mean = float(own["mean"].mean())
    ceiling = _ceiling(method, findings)
    text = f"tau {mean:.2f} with the others" + (f", {ceiling:.2f} with itself" if ceiling is not None else "")
    if ceiling is not None and mean >= CLOSE_TO_CEILING * ceiling:
        return Judgement("agreement", "good", "agrees with the others about as well as with itself", text)
    if mean >= SOME_AGREEMENT:
        return Judgement("agreement", "mixed", "partly agrees with the others", text)
    return Judgement("agreement", "poor", "tells another story than the others", text)


def _ceiling(method: str, findings: Mapping[str, Finding]) -> float | None:
    """The agreement with itself under another model seed, or another sampling seed where there is no other."""
    if "noise-ceiling" not in findings:
        return None
    for against in (MODEL, SAMPLING):
        row = _self_row(method, findings["noise-ceiling"], against)
        if row is not None:
            return float(row["mean"])
    return None


def _self_row(method: str, finding: Finding, against: str) -> Row | None:
    table = finding.tables["summary"]
    rows = ranked_rows(table[(table["method"] == method) & (table["against"] == against)])
    return rows[0] if rows else None


def _stability(method: str, findings: Mapping[str, Finding]) -> Judgement | None:
    if "noise-ceiling" not in findings:
        return None
    rows = {a: _self_row(method, findings["noise-ceiling"], a) for a in (SAMPLING, MODEL)}
    found = {against: float(row["mean"]) for against, row in rows.items() if row is not None}
    if not found:
        return Judgement("stability", "unknown", "cannot be repeated", "undefined")
    text = ", ".join(f"tau {value:.2f} under {against}" for against, value in found.items())
    again = found.get(SAMPLING, 1.0)
    if again >= STABLE:
        return Judgement("stability", "good", "repeats itself", text)
    if again >= SHAKY:
        return Judgement("stability", "mixed", "partly repeats itself", text)
    return Judgement("stability", "poor", "changes when it is sampled again", text)


def _faithfulness(method: str, findings: Mapping[str, Finding]) -> Judgement | None:
    if "erasure" not in findings:
        return None
    table = findings["erasure"].tables["summary"]
    gone = {row["method"]: row for row in ranked_rows(table[table["measure"] == "comprehensiveness"])}
    if method not in gone:
        return None
    row = gone[method]
    best = max(other["mean"] for other in gone.values())
    text = f"comprehensiveness {number(row)}"
    if not row["p_holm"] < 0.05:
        return Judgement(
            "faithfulness", "poor", "does no better than chance when its tokens are erased", text
        )
    if row["mean"] >= FAITHFUL_SHARE * best:
        return Judgement("faithfulness", "good", "names tokens that the model uses", text)
    return Judgement(
        "faithfulness", "mixed", "beats chance when its tokens are erased, but others do better", text
    )


def _truth(method: str, findings: Mapping[str, Finding]) -> Judgement | None:
    if "recovery" not in findings:
        return None
    table = findings["recovery"].tables["summary"]
    rows = ranked_rows(table[(table["measure"] == "average-precision") & (table["method"] == method)])
    if not rows:
        return Judgement("truth", "unknown", "was not compared with the known tokens", "undefined")
    row = rows[0]
    text = f"average precision {number(row)}"
    if row["mean"] >= FOUND:
        return Judgement("truth", "good", "finds the tokens known to matter", text)
    if row["mean"] >= PARTLY_FOUND:
        return Judgement("truth", "mixed", "finds some of the tokens known to matter", text)
    return Judgement("truth", "poor", "misses the tokens known to matter", text)


def _cost(method: str, costs: Mapping[str, float]) -> Judgement:
    seconds = costs.get(method)
    if seconds is None:
        return Judgement("cost", "unknown", "not timed", "undefined")
    rating = "good" if seconds < 0.1 else "mixed" if seconds < 2 else "poor"
    words = {"good": "quick", "mixed": "takes a moment", "poor": "slow"}[rating]
    return Judgement("cost", rating, words, f"{seconds * 1000:.0f} ms a text")


def overall(judged: Sequence[MethodVerdict], findings: Mapping[str, Finding]) -> str:
    """The answer on top of the page."""
    deciding = ("faithfulness", "truth")
    trusted, doubtful = [], []
    for verdict in judged:
        ratings = [j.rating for j in verdict.judgements if j.aspect in deciding]
        if ratings and all(rating == "good" for rating in ratings):
            trusted.append(verdict.method)
        if "poor" in ratings:
            doubtful.append(verdict.method)
    parts = []
    if trusted:
        parts.append(f"Trust {_join(trusted)} most: the model uses the tokens that they name.")
    else:
        parts.append(
            "No method passes every test that was made, so none should be shown without its caveats."
        )
    if doubtful:
        parts.append(f"Do not rely on {_join(doubtful)} here.")
    if "agreement" in findings:
        parts.append(findings["agreement"].verdict)
    return " ".join(parts)
