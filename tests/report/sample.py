"""An audit with made-up numbers: everything a report can show, and the texts that try to break out of it."""

from __future__ import annotations

import math
import re

import numpy as np
import pandas as pd

from rashomon.audits.record import Audit, MethodVerdict, ReportContent
from rashomon.experiments.figures import Distributions, Gauge, Matrix, Plot, Series, TextMap
from rashomon.explainers.collection import Explanations
from rashomon.explainers.record import Explanation
from rashomon.studies.base import ON_TRIAL, Finding, Judgement

METHODS = (
    "attention",
    "integrated-gradients",
    "lime",
    "kernel-shap",
    "deeplift",
    "gradient-x-input",
    "leave-one-out",
    "random",
)
HOSTILE = (
    "<script>alert(1)</script> a fine film",
    "ends here </script><script>document.title='owned'</script>",
    "{{7*7}} {% raw %} ${7*7} <img src=x onerror=alert(1)>",
    "פיצה טובה מאוד וזולה",
    "a" * 5000 + " long",
    "<!-- <script> & &lt;b&gt; \u2028 \x00 \U0001f3ac\U0001f3ac star 'quoted' \"twice\"",
)
_OPENINGS = ("The", "Our", "This", "Their", "That")
_THINGS = ("soup", "waiter", "room", "ending", "soundtrack", "service", "battery", "plot", "view", "crew")
_VERBS = ("was", "felt", "seemed", "stayed", "turned out")
_OPINIONS = ("delightful", "dreadful", "witty", "tedious", "charming", "bland", "superb", "shabby")
_FILLERS = (
    "although we had booked weeks in advance",
    "and nobody at our table could say why",
    "while the street outside was being repaired",
    "as far as anyone remembers that evening",
    "which the brochure had failed to mention",
)


def sample_audit(
    n_examples: int = 24,
    hostile: bool = False,
    methods: tuple[str, ...] = METHODS,
    pairs: bool = False,
    gold: bool = True,
    undefined: bool = False,
) -> Audit:
    """A whole audit. ``undefined`` makes every number not-a-number; ``hostile`` puts markup everywhere."""
    rng = np.random.default_rng(7)
    sign = "<script>alert('x')</script>" if hostile else ""
    texts = [_text(rng) for _ in range(n_examples)]
    if hostile:
        texts = [*HOSTILE, *texts][: max(n_examples, len(HOSTILE))]
    items, rationales, labels = [], {}, {}
    for index, text in enumerate(texts):
        name = f"ex-{index:03d}{sign}"
        pair = _text(rng) if pairs else None
        found = [_explanation(rng, name, text, pair, method + sign, undefined) for method in methods]
        items += found
        rationales[name] = [(0, m.start(), m.end()) for m in re.finditer("|".join(_OPINIONS), text)]
        labels[name] = str(rng.choice(["positive", "negative"], p=[0.85, 0.15])) + sign
    agreement = {item.example_id: float(np.clip(rng.normal(0.35, 0.2), -1, 1)) for item in items}
    if agreement:
        agreement[next(reversed(agreement))] = math.nan
    return Audit(
        title=f"Can the explanations of the review model be trusted?{sign}",
        model=f"BiLSTM with additive attention, seed 0{sign}",
        dataset=f"planted-reviews, 200 test texts{sign}",
        summary=(
            "Integrated gradients, DeepLIFT and LIME tell much the same story and find the planted evidence "
            "in nine texts of ten. Attention does not: it agrees with the others hardly more than chance, "
            f"so a heatmap of attention should not be shown as the reason for a prediction.{sign}"
        ),
        verdicts=tuple(_verdict(i, method + sign, undefined) for i, method in enumerate(methods)),
        findings=(
            *_findings(rng, tuple(m + sign for m in methods), undefined, sign),
            _mapped([f"ex-{index:03d}{sign}" for index in range(len(texts))], texts, undefined, sign),
        ),
        explanations=Explanations(items),
        example_agreement=dict.fromkeys(agreement, math.nan) if undefined else agreement,
        gold_labels=labels if gold else {},
        rationales=rationales if gold else {},
        warnings=(f"The model has seen 1,600 texts; findings on so few examples are uncertain.{sign}",),
        configuration={
            "model": {"name": "bilstm", "seed": 0, "hidden": 128},
            "methods": list(methods),
            "lime": {"samples": 1000, "kernel_width": 25.0},
            "note": sign or None,
        },
        versions={"python": "3.11.7", "rashomon": "0.1.0", "torch": "2.13.0", "numpy": "2.3.0"},
        command=f"rashomon audit --dataset planted-reviews --model bilstm --seed 0 {sign}".strip(),
        seconds=97.4,
    )


def sample_map(ids: list[str], texts: list[str], undefined: bool = False, sign: str = "") -> TextMap:
    rng = np.random.default_rng(8)
    nothing = math.nan if undefined else 1.0
    agreement = rng.uniform(-1, 1, len(ids)) * nothing
    agreement[:1] = math.nan
    return TextMap(
        f"Where the texts lie{sign}",
        "variability",
        "confidence",
        ids,
        texts,
        (rng.uniform(0, 0.5, len(ids)) * nothing).tolist(),
        (rng.uniform(0, 1, len(ids)) * nothing).tolist(),
        {f"agreement{sign}": agreement.tolist(), "times right": rng.integers(0, 6, len(ids)).tolist()},
        {f"agreement{sign}": (-1.0, 1.0), "times right": (0.0, 5.0)},
        "Made up.",
    )


def _mapped(ids: list[str], texts: list[str], undefined: bool, sign: str) -> Finding:
    return Finding(
        study="cartography",
        question=f"Where do the texts lie?{sign}",
        verdict=f"Somewhere.{sign}",
        configuration={"ddof": 0},
        tables={"summary": pd.DataFrame({"group": ["easy"], "n": [len(ids)], "mean": [0.4]})},
        figures=(sample_map(ids, texts, undefined, sign),),
    )


def bare_audit() -> Audit:
    """An audit in which nothing was done."""
    return Audit(
        title="Nothing",
        model="none",
        dataset="none",
        summary="",
        verdicts=(),
        findings=(),
        explanations=Explanations(),
        example_agreement={},
        gold_labels={},
        rationales={},
        warnings=(),
        configuration={},
        versions={},
        command="",
        seconds=0.0,
    )


def sample_study() -> ReportContent:
    """The page of one study."""
    finding = sample_audit(1).findings[0]
    return ReportContent(
        title=finding.question,
        model="bilstm",
        dataset="mock-1",
        summary=finding.verdict,
        findings=(finding,),
        warnings=(),
        configuration=finding.configuration,
        versions={"rashomon": "0.1.0"},
        command="rashomon study agreement",
        seconds=3.0,
    )


def _text(rng: np.random.Generator) -> str:
    clauses = []
    for _ in range(int(rng.integers(1, 4))):
        opening, thing = rng.choice(_OPENINGS), rng.choice(_THINGS)
        verb, opinion, filler = rng.choice(_VERBS), rng.choice(_OPINIONS), rng.choice(_FILLERS)
        clauses.append(f"{opening} {thing} {verb} {opinion}, {filler}.")
    return " ".join(clauses)


def _explanation(
    rng: np.random.Generator, name: str, text: str, pair: str | None, method: str, undefined: bool
) -> Explanation:
    tokens, offsets, segments = ["[CLS]"], [(0, 0)], [0]
    for segment, body in enumerate([text] if pair is None else [text, pair]):
        for match in re.finditer(r"\w+|[^\w\s]", body):
            tokens.append(match.group().lower())
            offsets.append(match.span())
            segments.append(segment)
    n = len(tokens)
    scores = rng.normal(0, 0.08, n)
    for position, token in enumerate(tokens):
        if token in _OPINIONS and not method.startswith("random"):
            scores[position] += rng.normal(0.5 if _OPINIONS.index(token) % 2 == 0 else -0.4, 0.15)
    scores = np.abs(scores) / np.abs(scores).sum() if method.startswith("attention") else scores
    probability = float(rng.uniform(0.55, 0.99))
    return Explanation(
        example_id=name,
        text=text,
        text_pair=pair,
        tokens=tuple(tokens),
        offsets=np.array(offsets),
        word_ids=np.arange(-1, n - 1),
        segments=np.array(segments),
        special=np.arange(n) == 0,
        scores=np.full(n, math.nan) if undefined else scores,
        method=method,
        configuration={},
        seed=None,
        target=1,
        target_label="positive",
        probabilities=(1 - probability, probability),
        output_space="logit",
        model="0123abcd",
        gap=0.031 if method.startswith("integrated") else None,
        versions={},
        warnings=("The completeness gap is 3.1 %; use more steps.",)
        if method.startswith("integrated")
        else (),
    )


def _verdict(index: int, method: str, undefined: bool) -> MethodVerdict:
    ratings = [("good", "mixed", "poor", "good", "unknown")[(index + k) % 5] for k in range(5)]
    words = (
        ("agreement", "agrees with the others about as much as with itself", ".42 [.38, .46]"),
        ("stability", "same answer under another sampling seed", ".91 [.90, .93]"),
        ("faithfulness", "removing its top words changes the prediction", ".37 [.33, .41]"),
        ("truth", "the planted word is first in most texts", ".88 [.84, .91]"),
        ("cost", "evaluations for one text", f"{1000 // (index + 1):,}"),
    )
    value = math.nan if undefined else 0.2 + 0.08 * index
    gauges = {
        "agreement": (Gauge("tau", value, value - 0.05, value + 0.05, -0.01, 1.0, (-0.1, 1.0)),),
        "stability": (
            *((Gauge("kappa", 0.9, 0.85, 0.95, 0.0, 1.0, variant="sampled again"),) if index % 2 else ()),
            Gauge("kappa", value, floor=0.0, ceiling=1.0, variant="trained again"),
        ),
        "cost": (Gauge("seconds a text", 0.003, ends=(0.001, 10.0), better="lower", logarithmic=True),),
    }
    judged = tuple(
        Judgement(method, a, r, w, x, gauges.get(a, ())) for (a, w, x), r in zip(words, ratings, strict=True)
    )
    return MethodVerdict(
        method,
        "Faithful and stable, and agrees with the other gradient methods.",
        judged[:4] if index == 1 else judged,
    )


def _findings(
    rng: np.random.Generator, methods: tuple[str, ...], undefined: bool, sign: str
) -> tuple[Finding, ...]:
    n = len(methods)
    base = np.clip(rng.normal(0.35, 0.25, (n, n)), -0.6, 0.95)
    kendall = np.round((base + base.T) / 2, 4)
    np.fill_diagonal(kendall, 1.0)
    overlap = np.clip(np.abs(kendall) + 0.1, 0, 1)
    if n > 2:
        kendall[2, n - 1] = math.nan
    if undefined:
        kendall, overlap = kendall * math.nan, overlap * math.nan
    detail = [[f"n 200, 95 % interval [.31, .45], {i + j} undefined" for j in range(n)] for i in range(n)]
    matrix = Matrix(
        f"How far do two methods rank the words alike?{sign}",
        methods,
        methods,
        {"Kendall tau-b": kendall.tolist(), "Top-3 overlap": overlap.tolist(), "Spearman": kendall.tolist()},
        {"Kendall tau-b": (-1.0, 1.0), "Top-3 overlap": (0.0, 1.0), "Spearman": (-1.0, 1.0)},
        {"Kendall tau-b": detail, "Top-3 overlap": detail},
        "Mean over 200 texts; special tokens are left out.",
    )
    spread = {
        method: (rng.normal(0.2 + 0.07 * i, 0.12, 200).clip(-1, 1) * (math.nan if undefined else 1)).tolist()
        for i, method in enumerate(methods)
    }
    lengths = [5, 10, 20, 40, 80, 160]
    by_length = tuple(
        Series(
            method,
            lengths,
            [
                math.nan if undefined or (i == 0 and x == 20) else 0.7 - 0.06 * i - 0.05 * k
                for k, x in enumerate(lengths)
            ],
            [0.65 - 0.06 * i - 0.05 * k for k in range(6)],
            [0.75 - 0.06 * i - 0.05 * k for k in range(6)],
            marker=("circle", "triangle", "square", "plus")[i % 4],
        )
        for i, method in enumerate(methods[:4])
    )
    summary = pd.DataFrame(
        {
            "method": methods,
            "mean": rng.normal(0.4, 0.1, n) * (math.nan if undefined else 1),
            "sd": 0.12,
            "low": 0.31,
            "high": 0.45,
            "n": 200,
            "undefined": range(n),
        }
    )
    agreement = Finding(
        "agreement",
        f"Do the methods agree on which words matter?{sign}",
        f"Gradient methods agree (τ .61 to .83); attention agrees with none of them (τ below .2).{sign}",
        {"measures": ["kendall", "top-k"], "instances": 200, "seeds": [0, 1, 2]},
        {"summary": summary, "per-instance": pd.concat([summary] * 30, ignore_index=True)},
        (
            matrix,
            Distributions(
                f"Agreement of each method with the others{sign}",
                spread,
                "mean Kendall tau-b",
                "One value a text.",
            ),
            Plot(
                "Agreement against text length",
                "tokens",
                "mean Kendall tau-b",
                by_length,
                "Bands are 95 % intervals.",
            ),
        ),
        ("3 texts have one word only and no defined agreement." + sign,),
        title="Agreement between methods",
    )
    erasure = Finding(
        "erasure",
        "Does the prediction change when the words a method names are removed?",
        "All methods but attention and random beat a random choice of words.",
        {"thresholds": [0.01, 0.05, 0.1, 0.2, 0.5], "replace": "pad"},
        {"summary": pd.concat([summary] * 3, ignore_index=True)},
        (
            Distributions(
                "Comprehensiveness by class",
                {
                    f"{m} | {c}": (rng.beta(2 + i, 3, 40)).tolist()
                    for i, m in enumerate(methods[:3])
                    for c in ("negative", "positive")
                },
                "change of probability",
                x_range=(0.0, 1.0),
            ),
        ),
    )
    curve = Finding(
        "adversary",
        "Can attention be changed while the predictions stay?",
        "A model with quite different attention predicts the same, so attention is one account among many.",
        {"lambdas": [0.0, 0.001, 0.01, 0.1]},
        {"summary": summary.head(4)},
        (
            Plot(
                "Distance of predictions against distance of attention",
                "Jensen-Shannon distance of attention",
                "total variation of predictions",
                (
                    Series("adversary", [0.02, 0.2, 0.4, 0.6], [0.03, 0.05, 0.09, 0.2]),
                    Series(
                        "other seeds",
                        rng.uniform(0.1, 0.3, 8).tolist(),
                        rng.uniform(0.02, 0.06, 8).tolist(),
                        line=False,
                        marker="triangle",
                    ),
                    Series("uniform", [0.35], [0.12], [0.1], [0.14], line=False, marker="square"),
                ),
            ),
        ),
        chapter=ON_TRIAL,
    )
    seeds = Finding(
        "seed-variance",
        "How far does attention move between seeds?",
        "Little.",
        {},
        {"summary": summary.head(2)},
        (
            Distributions(
                "Few and equal values",
                {"one": [0.5], "equal": [0.2] * 30, "none": [], "two": [0.1, 0.9]},
                "JSD",
            ),
        ),
        title="Attention under other seeds",
        chapter=ON_TRIAL,
    )
    return agreement, erasure, seeds, curve
