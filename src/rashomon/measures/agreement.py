"""Do two methods tell the same story? Agreement of two score vectors over the tokens of each text.

Headline: Kendall's tau-b (paper *disagreement*). Top-k overlap, rank and sign agreement follow Krishna et
al., "The Disagreement Problem in Explainable Machine Learning" (2022). Whether scores are signed or
magnitudes is the caller's choice and changes every ranking; only sign agreement needs signed scores.

Undefined (NaN) everywhere: a text of one token, a constant vector (uniform attention ranks nothing), a
score that is not finite.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rashomon.errors import UserError
from rashomon.measures import kendall as kernels
from rashomon.measures.base import Floats, Ragged, check_same_rows, measure, speechless
from rashomon.measures.ranks import Top, average_ranks, descending_ranks, in_top, top_count

SILENT = "one token, a constant vector, or a score that is not finite"
TOPS: dict[str, Top] = {"5": 5, "10": 10, "25pct": 0.25, "50pct": 0.5}
"""The k of the top-k measures that have a name of their own."""


def _where_defined(a: Ragged, b: Ragged, values: Floats) -> Floats:
    return np.where(speechless(a) | speechless(b), np.nan, values)


@measure("kendall", bounds=(-1, 1), better="higher", family="agreement", undefined=SILENT)
def kendall(a: Ragged, b: Ragged) -> Floats:
    """Kendall's tau-b: share of token pairs ordered alike minus share ordered against, ties accounted for."""
    return np.asarray(kendall_matrix([a, b])[0, 1])


def kendall_matrix(methods: Sequence[Ragged]) -> Floats:
    """Tau-b between all pairs of methods on every text, [M, M, N]; each method is ranked once per text."""
    if not methods:
        raise UserError("There are no scores to compare; give at least one method.")
    check_same_rows(*methods)
    values = np.stack([method.values for method in methods])
    result = kernels.tau_b(np.where(np.isfinite(values), values, 0.0), methods[0].starts)
    silent = np.stack([speechless(method) for method in methods])
    result[silent[:, None, :] | silent[None, :, :]] = np.nan
    return result


@measure("pearson", bounds=(-1, 1), better="higher", family="agreement", undefined=SILENT)
def pearson(a: Ragged, b: Ragged) -> Floats:
    """Pearson's r: linear correlation of the two score vectors."""
    check_same_rows(a, b)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        product = _standardised(a) * _standardised(b)
        return _where_defined(a, b, np.clip(a.sum(product), -1.0, 1.0))


def _standardised(scores: Ragged) -> Floats:
    """Each row with mean 0 and length 1; scaled by its largest entry first, so tiny scores keep digits."""
    rows = scores.row_ids
    centred = scores.values - (scores.sum(scores.values) / scores.lengths)[rows]
    centred /= scores.reduce(np.maximum, np.abs(centred))[rows]
    return np.asarray(centred / np.sqrt(scores.sum(centred**2))[rows])


@measure("spearman", bounds=(-1, 1), better="higher", family="agreement", undefined=SILENT)
def spearman(a: Ragged, b: Ragged) -> Floats:
    """Spearman's rho: Pearson's r of the ranks, equal scores sharing their mean rank."""
    check_same_rows(a, b)
    ranked = pearson(a.with_values(average_ranks(a)), b.with_values(average_ranks(b)))
    return _where_defined(a, b, ranked)


@measure("weighted-tau", bounds=(-1, 1), better="higher", family="agreement", undefined=SILENT)
def weighted_tau(a: Ragged, b: Ragged) -> Floats:
    """Weighted tau (Vigna): disagreement among high scores counts more, a token of rank r weighs 1/(r+1).

    As SciPy's default: the mean of the value with ranks by ``a`` (then ``b``) and by ``b`` (then ``a``).
    """
    check_same_rows(a, b)
    by_a = 1.0 / (1.0 + descending_ranks(a, then_by=b).astype(np.float64))
    by_b = 1.0 / (1.0 + descending_ranks(b, then_by=a).astype(np.float64))
    return _where_defined(a, b, kernels.weighted_tau(a.values, b.values, by_a, by_b, a.starts))


def kendall_top(a: Ragged, b: Ragged, k: Top) -> Floats:
    """Tau-b on the tokens that either method has in its top k.

    A token outside a method's own top k is tied, for that method, with all others outside, below the top k.
    Inside the top k scores keep their order and their ties. With k of at least the text's length this is
    plain tau-b. Of equal scores at the border the first token of the text is inside.

    Where each method names one token, there is no order to compare: the value is 1 if it is the same token, and
    -1 if not, which is what tau-b says of the two tokens.
    """
    check_same_rows(a, b)
    counts = top_count(a.lengths, k)
    top_a, top_b = in_top(a, counts), in_top(b, counts)
    union = top_a | top_b
    # ranks from 1 inside the top, 0 outside: the order of the scores, whatever their sign
    lifted_a = a.with_values(np.where(top_a, 1.0 + average_ranks(a), 0.0)).select(union)
    lifted_b = b.with_values(np.where(top_b, 1.0 + average_ranks(b), 0.0)).select(union)
    alone = a.sum(union) == 1  # tau-b is undefined on one token, yet the methods agree on it
    return _where_defined(a, b, np.where(alone, 1.0, kendall(lifted_a, lifted_b)))


@measure("kendall-nonzero", bounds=(-1, 1), better="higher", family="agreement", undefined=SILENT)
def kendall_nonzero(a: Ragged, b: Ragged) -> Floats:
    """Tau-b on the tokens to which at least one of the methods gives a score other than zero."""
    check_same_rows(a, b)
    union = (a.values != 0) | (b.values != 0)
    return kendall(a.select(union), b.select(union))


def overlap_top(a: Ragged, b: Ragged, k: Top) -> Floats:
    """Share of the top k that both methods name, |A ∩ B| / k; undefined when k covers the whole text."""
    check_same_rows(a, b)
    counts = top_count(a.lengths, k)
    common = a.sum(in_top(a, counts) & in_top(b, counts))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(counts < a.lengths, common / counts, np.nan)
    return _where_defined(a, b, share)


def kappa_top(a: Ragged, b: Ragged, k: Top) -> Floats:
    """Cohen's kappa of being in the top k: the overlap, 0 where it is as by chance (k / n) and 1 where it is complete.

    Five of six tokens overlap by .83 in random orders, five of fifty by .1; only beyond chance do texts compare.
    """
    overlap = overlap_top(a, b, k)
    chance = top_count(a.lengths, k) / a.lengths
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((overlap - chance) / (1 - chance))


def rank_agreement(a: Ragged, b: Ragged, k: Top) -> Floats:
    """Share of the top k places at which both methods name the same token; equal scores rank by position."""
    check_same_rows(a, b)
    counts = top_count(a.lengths, k)
    rank_a, rank_b = descending_ranks(a), descending_ranks(b)
    same = (rank_a == rank_b) & (rank_a < counts[a.row_ids])
    with np.errstate(invalid="ignore", divide="ignore"):
        return _where_defined(a, b, a.sum(same) / counts)


@measure(
    "sign-agreement",
    bounds=(0, 1),
    better="higher",
    family="agreement",
    undefined=f"{SILENT}, or all scores zero in both",
)
def sign_agreement(a: Ragged, b: Ragged) -> Floats:
    """Share of tokens that both methods push to the same side; tokens that are zero in both do not count."""
    check_same_rows(a, b)
    counted = (a.values != 0) | (b.values != 0)
    same = counted & (np.sign(a.values) == np.sign(b.values))
    with np.errstate(invalid="ignore", divide="ignore"):
        return _where_defined(a, b, a.sum(same) / a.sum(counted))


def sign_top(a: Ragged, b: Ragged, k: Top) -> Floats:
    """Share of the top k by magnitude that both methods name with the same sign; needs signed scores."""
    check_same_rows(a, b)
    counts = top_count(a.lengths, k)
    top_a = in_top(a.with_values(np.abs(a.values)), counts)
    top_b = in_top(b.with_values(np.abs(b.values)), counts)
    same = top_a & top_b & (np.sign(a.values) == np.sign(b.values))
    with np.errstate(invalid="ignore", divide="ignore"):
        return _where_defined(a, b, a.sum(same) / counts)


def _at(function: Callable[[Ragged, Ragged, Top], Floats], k: Top) -> Callable[[Ragged, Ragged], Floats]:
    def at_k(a: Ragged, b: Ragged) -> Floats:
        return function(a, b, k)

    return at_k


def _register_tops() -> None:
    for label, k in TOPS.items():
        size = f"{k:.0%}" if isinstance(k, float) else str(k)
        named = [
            (
                f"kendall-top-{label}",
                kendall_top,
                -1,
                f"Tau-b on the tokens in either method's top {size}; "
                "1 where both name the same single token.",
            ),
            (f"overlap-top-{label}", overlap_top, 0, f"Share of the top {size} that both methods name."),
            (
                f"kappa-top-{label}",
                kappa_top,
                -1,
                f"Share of the top {size} that both methods name, beyond chance.",
            ),
            (f"rank-top-{label}", rank_agreement, 0, f"Share of the top {size} places with the same token."),
            (f"sign-top-{label}", sign_top, 0, f"Share of the top {size} named by both with the same sign."),
        ]
        for name, function, low, line in named:
            undefined = f"{SILENT}, or k covers the text" if function in (overlap_top, kappa_top) else SILENT
            register = measure(
                name, bounds=(low, 1), better="higher", family="agreement", undefined=undefined, summary=line
            )
            register(_at(function, k))


_register_tops()
