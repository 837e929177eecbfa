"""From judgements to sentences: what the audit says of each method, and of all of them together.

The studies judge the methods by thresholds of their own; here only what a method costs is judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rashomon.audits.record import MethodVerdict
from rashomon.experiments.figures import Gauge
from rashomon.experiments.judging import Rating
from rashomon.studies.base import Finding, Judgement
from rashomon.wording import capitalised, milliseconds

QUICK, SLOW = 0.1, 2.0  # seconds a text
TIMES = (0.001, 10.0)  # what the drawing of costs spans at least
COST = "cost"
# The aspects that decide whether a method is to be trusted, and what it then does.
CAPPING = ("stability", "exclusiveness")  # poor in one of these, a method is not trusted
DECISIVE = {
    "faithfulness": "the model uses the tokens named",
    "truth": "the tokens known to matter are found",
}


def verdicts(
    methods: Sequence[str], findings: Sequence[Finding], costs: Mapping[str, float]
) -> tuple[MethodVerdict, ...]:
    """A verdict on every method, by the studies that were carried out."""
    judged = [judgement for finding in findings for judgement in finding.judgements]
    return tuple(
        _verdict(method, [*(j for j in judged if j.method == method), _cost(method, costs)])
        for method in methods
    )


def _verdict(method: str, judgements: Sequence[Judgement]) -> MethodVerdict:
    said = [j.words for j in judgements if j.aspect != COST and j.rating != "unknown"]
    if said:
        sentence = f"{capitalised(method)} {_join(said)}."
    else:
        reasons = list(dict.fromkeys(j.words for j in judgements if j.aspect != COST))
        sentence = f"Nothing can be said of {method} here{f': it {_join(reasons)}' if reasons else ''}."
    return MethodVerdict(method, sentence, tuple(judgements))


def _join(parts: Sequence[str]) -> str:
    if len(parts) == 1:
        return parts[0]
    closed = "," if ", " in parts[-2] else ""  # "repeats itself, by its top five tokens, and names ..."
    return f"{', '.join(parts[:-1])}{closed} and {parts[-1]}"


def _cost(method: str, costs: Mapping[str, float]) -> Judgement:
    seconds = costs.get(method)
    if seconds is None:
        return Judgement(method, COST, "unknown", "not timed", "undefined")
    rating: Rating = "good" if seconds < QUICK else "mixed" if seconds < SLOW else "poor"
    words = {"good": "quick", "mixed": "takes a moment", "poor": "slow"}[rating]
    ends = (min(TIMES[0], seconds), max(TIMES[1], seconds))
    drawn = Gauge("seconds a text", seconds, ends=ends, better="lower", logarithmic=True)
    return Judgement(method, COST, rating, words, f"{milliseconds(seconds)} a text", (drawn,))


def overall(judged: Sequence[MethodVerdict], findings: Sequence[Finding]) -> str:
    """The answer on top of the page: what passed the decisive tests, what failed one, and whether methods agree."""
    known = {verdict.method: _known(verdict) for verdict in judged}
    capped = {verdict.method for verdict in judged if _capped(verdict)}
    trusted = [m for m, of in known.items() if of and set(of.values()) == {"good"} and m not in capped]
    failed = [m for m, of in known.items() if _failed(of)]
    parts = []
    if not any(known.values()):
        parts.append("Nothing could be tested that says which method to trust.")
    elif trusted:
        reasons = [
            reason
            for aspect, reason in DECISIVE.items()
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
    parts += [
        f"{capitalised(v.method)} {words}."
        for v in judged
        if (words := _caveat(v)) and v.method not in failed
    ]
    agreed = [f.verdict for f in findings if any(j.aspect == "agreement" for j in f.judgements)]
    return " ".join([*parts, *map(_first_sentence, agreed)])


def _first_sentence(verdict: str) -> str:
    """The rest of a verdict is for its own section."""
    return f"{verdict.split('. ')[0].removesuffix('.')}."


def _capped(verdict: MethodVerdict) -> bool:
    """What cannot be repeated, or is one account of several, is not to be trusted, however faithful it looks."""
    return any(j.aspect in CAPPING and j.rating == "poor" for j in verdict.judgements)


def _caveat(verdict: MethodVerdict) -> str:
    """Why a method is capped, in the words of its judgements."""
    return " and ".join(j.words for j in verdict.judgements if j.aspect in CAPPING and j.rating == "poor")


def _known(verdict: MethodVerdict) -> dict[str, Rating]:
    return {j.aspect: j.rating for j in verdict.judgements if j.aspect in DECISIVE and j.rating != "unknown"}


def _failed(rated: Mapping[str, Rating]) -> bool:
    """A faithful method that misses the marked tokens tells of the model: people may have marked what it ignores."""
    faithful = rated.get("faithfulness")
    return faithful == "poor" or (faithful != "good" and rated.get("truth") == "poor")
