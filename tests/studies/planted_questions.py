"""Questions whose answers, and the words that lead to them, are known."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from rashomon.data import Dataset, Example
from rashomon.data.example import Equality, Span

KEYS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
VALUES = ("good", "bad", "great", "awful", "dull", "witty", "warm", "cold", "long", "short")
BARE = 4  # every so many questions nobody said what means the same


def planted_questions(train: int = 96, held_out: int = 24, facts: int = 3, seed: int = 5) -> Dataset:
    """``is two`` of a passage ``one is good, two is bad, six is warm``: the answer is ``two``, which two refers to."""
    rng = np.random.default_rng(seed)
    splits = {
        name: tuple(_question(f"{name}-{i}", i, facts, rng) for i in range(size))
        for name, size in (("train", train), ("dev", held_out), ("test", held_out))
    }
    return Dataset("tiny-questions", splits, ())


def _question(name: str, number: int, facts: int, rng: np.random.Generator) -> Example:
    keys = [str(key) for key in rng.choice(KEYS, facts, replace=False)]
    values = [str(value) for value in rng.choice(VALUES, facts, replace=False)]
    passage = ", ".join(f"{key} is {value}" for key, value in zip(keys, values, strict=True))
    asked = int(rng.integers(facts))
    question, place = f"is {keys[asked]}", passage.index(keys[asked])
    answer = Span(place, place + len(keys[asked]))
    equalities = () if number % BARE == BARE - 1 else (Equality(Span(3, len(question)), answer),)
    return Example(name, question, None, passage, answers=(answer,), equalities=equalities)


def write_questions(data: Dataset, folder: Path) -> Path:
    """The splits as JSONL, in the layout of the datasets by name."""
    folder.mkdir(parents=True)
    for split in data:
        rows = [
            {
                "id": example.id,
                "question": example.text,
                "passage": example.text_pair,
                "answers": [asdict(answer) for answer in example.answers or ()],
                "referential_equalities": [
                    {side: list(asdict(getattr(pair, side)).values()) for side in ("question", "passage")}
                    for pair in example.equalities or ()
                ],
            }
            for example in data[split]
        ]
        (folder / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return folder
