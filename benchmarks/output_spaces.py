"""Do rankings of tokens become more faithful when centred logits are explained instead of logits?

The same model, texts, methods and sampling seeds in both spaces; tokens are erased in two ways, and the difference is
taken text by text. Comprehensiveness is better when it is high, sufficiency when it is low, so that a gain is a
positive difference of the one and a negative one of the other.

    python benchmarks/output_spaces.py --dataset trec --data-dir DIR [--model minilm] [--embeddings FILE] [--texts 200]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pandas as pd

from rashomon.experiments.context import Context
from rashomon.experiments.erasing import OPERATORS, erase
from rashomon.experiments.subject import DatasetSpec, Subject
from rashomon.experiments.summaries import summary_of
from rashomon.experiments.testimony import Ask, hear
from rashomon.measures.erasure import ERASER_FRACTIONS
from rashomon.models import ModelSpec
from rashomon.models.tasks import Space
from rashomon.runs.store import Store
from rashomon.training.train import default_training
from rashomon.wording import decimal, with_interval

METHODS = ("lime", "integrated-gradients", "gradient-x-input", "deeplift")
KEYS = ["perturbation", "measure", "method", "seed", "example"]


def erased(context: Context, ask: Ask, space: Space) -> pd.Series[float]:
    """What the prediction loses, averaged over thresholds, by operator, measure, method and text."""
    (testimony,) = hear(context, replace(ask, space=space))
    assert testimony.model is not None
    table = erase(testimony.model, testimony, ERASER_FRACTIONS, OPERATORS)
    means: pd.Series[float] = table.groupby(KEYS, sort=False)["value"].mean()
    return means


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="planted-reviews")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--model", default="bilstm")
    parser.add_argument("--embeddings")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", type=Path)
    asked = parser.parse_args()
    spec = ModelSpec(name=asked.model, embeddings=asked.embeddings)
    training = default_training(spec)
    if asked.epochs is not None:
        training = replace(training, epochs=asked.epochs)
    subject = Subject(DatasetSpec(asked.dataset), spec, training, (asked.seed,))
    context = Context(Store(asked.store) if asked.store else Store(), asked.data_dir, 1, "serial")
    accuracy = context.models(subject)[0].scores["test"]["accuracy"]
    classes = len(context.dataset(subject.dataset).labels)
    print(f"{asked.model} on {asked.dataset}: {classes} classes, test accuracy {decimal(accuracy, 3)}")
    ask = Ask(subject, METHODS, asked.texts)
    plain, centred = (erased(context, ask, space) for space in ("logit", "centred"))
    before, after = (table.groupby(level=KEYS[:3]).mean() for table in (plain, centred))
    print("| method | operator | measure | logit | centred | difference |\n|---|---|---|---|---|---|")
    for names, part in (centred - plain).groupby(level=KEYS[:3], sort=False):
        how, measure, method = names
        row = summary_of(part.rename("value").reset_index(), "value")
        figures = f"{decimal(before[names], 3)} | {decimal(after[names], 3)} | {with_interval(row, digits=3)}"
        print(f"| {method} | {how} | {measure} | {figures} |")


if __name__ == "__main__":
    main()
