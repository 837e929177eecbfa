"""Attention on trial, in the small: how the audit runs the studies of attention.

The full protocols train dozens of adversaries; an audit should not take hours. A few lambdas and seeds over a few
epochs show the shape of the curve. For figures to quote, run the studies themselves.
"""

from __future__ import annotations

from dataclasses import replace

from rashomon.experiments.instance_search import Search
from rashomon.experiments.subject import Subject
from rashomon.studies.adversary import AdversarySweep
from rashomon.studies.attefa import Attefa
from rashomon.studies.base import Study
from rashomon.studies.instance_adversary import InstanceAdversary
from rashomon.studies.noise_ceiling import other_seeds
from rashomon.studies.permutation import Permutation
from rashomon.studies.seed_variance import SeedVariance

TRIAL = ("permutation", "instance-adversary", "seed-variance", "adversary", "attefa")
WITHOUT_TRAINING = ("permutation", "instance-adversary")  # these also fit a model that is used as it is
LAMBDAS = (0.0, 1e-3, 1e-1)
EPOCHS = 5
ATTEFA_SEEDS = (10, 50)
SEARCH = Search(steps=200)


def attention_trial(subject: Subject, instances: int, split: str) -> dict[str, Study]:
    """The studies by name. The other seeds are those that the noise ceiling trains anyway."""
    seeds = other_seeds(subject.seeds)
    training = replace(subject.how_trained, epochs=EPOCHS, patience=None, select="loss")
    return {
        "permutation": Permutation(subject, instances=instances, split=split),
        "instance-adversary": InstanceAdversary(subject, search=SEARCH, instances=instances, split=split),
        "seed-variance": SeedVariance(subject, other_seeds=seeds),
        "adversary": AdversarySweep(
            subject,
            lambdas=LAMBDAS,
            other_seeds=seeds,
            search=SEARCH,
            instances=instances,
            training=training,
        ),
        "attefa": Attefa(replace(subject, seeds=subject.seeds[:1]), seeds=ATTEFA_SEEDS, training=training),
    }
