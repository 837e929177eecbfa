"""Do intervals of 95 % hold the truth in 95 of 100 cases, and do tests reject a true null in 5? By simulation.

Values are seed effect + text effect + noise of the two, normal and skewed, in every design that the studies use: one
seed, several seeds on the same texts, on other texts, on texts that partly overlap, one number a seed, and several
adversaries against each of several bases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from rashomon.measures import intervals
from rashomon.measures.base import Floats
from rashomon.measures.significance import compare_variants, hierarchical_test

TRIALS = 2500  # the share of hits of a true 95 % then varies by .0044
VARIANCES = {  # of seed, text, and the two together
    "texts": (0.0, 1.0, 1.0),
    "texts and a little training": (0.003, 1.0, 0.3),
    "both": (0.03, 1.0, 1.0),
    "training": (1.0, 1.0, 1.0),
    "noise": (0.01, 0.1, 1.0),
}


@dataclass(frozen=True)
class Design:
    seeds: int
    texts: int
    shared: float = 1.0  # of the texts of a seed, how many all seeds have

    def draw(self, variances: tuple[float, float, float], rng: np.random.Generator, trials: int) -> Floats:
        """[seeds, texts, trials] with a true mean of 0, NaN where a seed does not have a text."""
        common = round(self.shared * self.texts)
        own = self.texts - common
        width = common + own * self.seeds
        of_seed, of_text, of_both = np.sqrt(variances)
        shape = (self.seeds, width, trials)
        values = np.full(shape, np.nan)
        text = of_text * rng.normal(size=(width, trials))
        seed = of_seed * rng.normal(size=(self.seeds, trials))
        for number in range(self.seeds):
            places = np.r_[0:common, common + own * number : common + own * (number + 1)]
            noise = of_both * rng.normal(size=(len(places), trials))
            values[number, places] = seed[number] + text[places] + noise
        return values


SAME = [Design(seeds, texts) for seeds in (3, 5, 9) for texts in (20, 100)]
OTHER = [
    Design(seeds, texts, shared) for seeds in (3, 5, 9) for texts, shared in ((1, 0.0), (20, 0.0), (20, 0.5))
]
LARGE = [Design(3, 500), Design(5, 500)]


def covered(values: Floats, truth: float = 0.0) -> float:
    summaries = intervals.summarise_seed_columns(values)
    assert {summary.kind for summary in summaries} == {"95 %"}
    return float(np.mean([summary.low <= truth <= summary.high for summary in summaries]))


@pytest.mark.parametrize("variances", VARIANCES.values(), ids=VARIANCES)
@pytest.mark.parametrize("design", [*SAME, *OTHER], ids=str)
def test_seeds_and_texts(design: Design, variances: tuple[float, float, float]) -> None:
    values = design.draw(
        variances, np.random.default_rng(design.seeds), TRIALS if design.texts < 100 else 1200
    )
    assert 0.93 <= covered(values) <= 0.97


@pytest.mark.parametrize("design", LARGE, ids=str)
def test_many_texts(design: Design) -> None:
    values = design.draw(VARIANCES["both"], np.random.default_rng(1), 800)
    assert 0.93 <= covered(values) <= 0.97


@pytest.mark.parametrize("texts", [20, 100, 500])
def test_one_seed(texts: int) -> None:
    rng = np.random.default_rng(texts)
    assert 0.93 <= covered(rng.normal(size=(1, texts, TRIALS))) <= 0.97
    bounded = rng.beta(6.0, 1.5, size=(1, texts, TRIALS))  # as a tau that is mostly high
    assert 0.93 <= covered(bounded, 0.8) <= 0.97


@pytest.mark.parametrize(("bases", "adversaries"), [(3, 3), (4, 9), (5, 1)])
def test_adversaries_of_several_bases(bases: int, adversaries: int) -> None:
    """Bases differ more than the adversaries of one; AtteFa's score is between 0 and 1."""
    design = Design(bases, adversaries, shared=0.0)
    values = design.draw((0.01, 0.0, 0.0025), np.random.default_rng(2), TRIALS)
    assert 0.93 <= covered(values) <= 0.97


def test_taus_of_several_seeds_are_covered_too() -> None:
    """Not normal, bounded, and skewed: what the texts of a high agreement look like."""
    rng = np.random.default_rng(3)
    easy = rng.beta(8.0, 2.0, size=(1, 100, TRIALS))
    values = np.clip(
        easy + 0.02 * rng.normal(size=(3, 1, TRIALS)) + 0.05 * rng.normal(size=(3, 100, TRIALS)), -1, 1
    )
    many = rng.beta(8.0, 2.0, size=10**6) + np.hypot(0.02, 0.05) * rng.normal(size=10**6)
    assert 0.93 <= covered(values, float(np.clip(many, -1, 1).mean())) <= 0.97


def _rejected(values: Floats) -> float:
    """By the test that the studies call, one trial after the other."""
    found = []
    for trial in values.transpose(2, 0, 1):
        texts = [np.flatnonzero(np.isfinite(of_seed)).tolist() for of_seed in trial]
        groups = [of_seed[places] for of_seed, places in zip(trial, texts, strict=True)]
        found.append(hierarchical_test(groups, texts=texts).p < 0.05)
    return float(np.mean(found))


@pytest.mark.parametrize(
    "design", [Design(3, 20), Design(9, 20), Design(5, 4, 0.0), Design(5, 20, 0.5)], ids=str
)
@pytest.mark.parametrize("kind", ["texts", "both", "training"])
def test_a_true_null_is_rejected_in_5_of_100(design: Design, kind: str) -> None:
    values = design.draw(VARIANCES[kind], np.random.default_rng(4), 600)
    assert 0.03 <= _rejected(values) <= 0.07


@pytest.mark.parametrize("design", SAME, ids=str)
def test_the_test_is_the_interval_inverted(design: Design) -> None:
    """So that what holds of one holds of the other, in every design."""
    values = design.draw(VARIANCES["both"], np.random.default_rng(5), 12)
    for trial, summary in zip(
        values.transpose(2, 0, 1), intervals.summarise_seed_columns(values), strict=True
    ):
        texts = [range(design.texts)] * design.seeds
        at_the_end = hierarchical_test(list(trial - summary.low), texts=texts)
        assert at_the_end.p == pytest.approx(0.05)


def test_two_trainings_a_seed_differ_by_luck() -> None:
    """Right and wrong answers of two variants that are equally good; a test over texts alone would see differences."""
    rng = np.random.default_rng(6)
    texts, found, fooled = [range(100)] * 3, [], []
    for _ in range(400):
        hard = rng.normal(size=100)
        first, second = (
            hard + 0.3 * rng.normal(size=(3, 1)) + rng.normal(size=(3, 100)) > -1 for _ in range(2)
        )
        found.append(compare_variants(list(first), list(second), texts).p < 0.05)
        means = first.mean(0) - second.mean(0)
        fooled.append(stats.ttest_1samp(means, 0.0).pvalue < 0.05)
    assert 0.02 <= np.mean(found) <= 0.08
    assert np.mean(fooled) > 0.15
