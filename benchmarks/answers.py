"""How well are questions answered without reading them? The baselines beside which a trained answerer stands.

``constant span``: the same words of every passage, from the i-th to the j-th, chosen on the training questions.
``random sentence``: a whole sentence of the passage; ``random words``: a span of the training answers' lengths.

    python benchmarks/answers.py --data-dir DIR [--dataset qed]
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from rashomon.data import Example, load_dataset
from rashomon.measures.answers import exact_match, token_f1

Answerer = Callable[[Example], str]
FURTHEST = 60  # words from the beginning where a constant span may begin
LONGEST = 30
DRAWS = 20
_SENTENCE = re.compile(r"[^.!?]+[.!?]?")


def scores(examples: Sequence[Example], answer: Answerer) -> tuple[float, float]:
    """Token F1 and exact match, the best over each question's answers."""
    f1, exact = [], []
    for example in examples:
        mine = answer(example)
        golds = [(example.text_pair or "")[a.start : a.end] for a in example.answers or ()]
        f1.append(max(token_f1(mine, gold) for gold in golds))
        exact.append(max(exact_match(mine, gold) for gold in golds))
    return float(np.mean(f1)), float(np.mean(exact))


def constant(first: int, length: int) -> Answerer:
    def answer(example: Example) -> str:
        words = (example.text_pair or "").split()
        return " ".join(words[first : first + length] or words[-1:])

    return answer


def best_constant(train: Sequence[Example]) -> tuple[int, int]:
    """The places with the best F1 on the training questions."""
    grid = [(first, length) for first in range(FURTHEST) for length in range(1, LONGEST)]
    sample = train[::4]  # every fourth question is enough to rank the grid; the best are compared on all
    ranked = sorted(grid, key=lambda place: -scores(sample, constant(*place))[0])[:20]
    return max(ranked, key=lambda place: scores(train, constant(*place))[0])


def random_sentence(generator: np.random.Generator) -> Answerer:
    def answer(example: Example) -> str:
        sentences = [s.strip() for s in _SENTENCE.findall(example.text_pair or "") if len(s.split()) > 2]
        return sentences[generator.integers(len(sentences))] if sentences else example.text_pair or ""

    return answer


def random_words(train: Sequence[Example], generator: np.random.Generator) -> Answerer:
    lengths = [len((e.text_pair or "")[a.start : a.end].split()) for e in train for a in e.answers or ()]

    def answer(example: Example) -> str:
        words = (example.text_pair or "").split()
        length = int(generator.choice(lengths))
        first = int(generator.integers(max(1, len(words) - length + 1)))
        return " ".join(words[first : first + length])

    return answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("RASHOMON_DATA"))
    parser.add_argument("--dataset", default="qed")
    asked = parser.parse_args()
    if asked.data_dir is None:
        print("The baselines need --data-dir or $RASHOMON_DATA.")
        return
    data = load_dataset(asked.dataset, data_dir=asked.data_dir)
    train, test = data["train"], data["test"]
    first, length = best_constant(train)
    f1, exact = scores(test, constant(first, length))
    print(f"best constant span (words {first} to {first + length - 1}): F1 {f1:.3f}, exact match {exact:.3f}")
    generator = np.random.default_rng(0)
    for name, answer in (
        ("random sentence", random_sentence(generator)),
        ("random words", random_words(train, generator)),
    ):
        drawn = np.array([scores(test, answer) for _ in range(DRAWS)]).mean(0)
        print(f"{name}: F1 {drawn[0]:.3f}, exact match {drawn[1]:.3f} (mean of {DRAWS} draws)")


if __name__ == "__main__":
    main()
