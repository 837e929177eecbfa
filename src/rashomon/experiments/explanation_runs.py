"""Explanations in the store: which of them a request leads to, and how the missing ones are made.

A request is cut into blocks of texts, and what a method says of a block is one finished run, so that a killed run loses
at most one block and two studies that ask the same share all of it. Blocks do not depend on how many workers there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from pathlib import Path

import numpy as np

from rashomon.data import Example
from rashomon.data.batches import Encoding
from rashomon.data.example import fingerprint
from rashomon.explainers import Explainer, Explanations, explain, make_explainer
from rashomon.models.base import Model
from rashomon.models.build import load_model
from rashomon.models.evaluator import with_dropout
from rashomon.models.tasks import Space
from rashomon.runs.files import read_json, write_json
from rashomon.runs.specifications import Plain
from rashomon.runs.store import Store

KIND = "explanations"
EXPLANATIONS, SECONDS = "explanations.parquet", "seconds.json"
DROPPED_OUT = "explained with dropout on, so that the model was another one at every reading"
BLOCK_TOKENS = 2048  # of text in a block: enough to fill batches, few enough to share out


@dataclass(frozen=True)
class Request:
    """What is asked of one model: by which methods, in which space, referring to which training texts."""

    explainers: tuple[Explainer, ...]
    seed: int
    space: Space
    background: tuple[Example, ...]
    dropout: bool = False  # whether it stays on while the model is explained

    @classmethod
    def of(
        cls,
        model: Model,
        methods: Sequence[str | Explainer],
        seed: int = 0,
        space: Space = "logit",
        background: Sequence[Example] = (),
        dropout: bool = False,
    ) -> Request:
        explainers = tuple(make_explainer(method).suited(model) for method in methods)
        return cls(explainers, seed, space, tuple(background), dropout)


@dataclass(frozen=True)
class Block:
    """Texts that are explained together, with one specification of a run for each method."""

    examples: tuple[Example, ...]
    specifications: tuple[dict[str, Plain], ...]

    def paths(self, store: Store) -> list[Path]:
        return [store.path(specification, KIND) for specification in self.specifications]

    def missing(self, store: Store) -> list[int]:
        """The methods that are not in the store."""
        return [n for n, spec in enumerate(self.specifications) if not store.finished(spec, KIND)]


def blocks_of(model: Model, examples: Sequence[Example], request: Request) -> list[Block]:
    common: dict[str, Plain] = {
        "model": model.fingerprint(),
        "labels": list(model.labels),
        "space": request.space,
        "task": model.task.name,
        "background": fingerprint(request.background),
        **({"dropout": str(request.seed)} if request.dropout else {}),
    }
    encodings = model.encode(examples)
    by_method = [_method_key(explainer, request.seed) for explainer in request.explainers]
    blocks = []
    for places in _evenly([len(encoding) for encoding in encodings]):
        texts = tuple(examples[place] for place in places)
        read = common | _texts_key(texts, [encodings[place] for place in places])
        blocks.append(Block(texts, tuple(read | method for method in by_method)))
    return blocks


def _evenly(lengths: Sequence[int]) -> list[list[int]]:
    """Neighbouring places, in blocks of about the same number of tokens and at most one text too many."""
    if not lengths:
        return []
    count = ceil(sum(lengths) / BLOCK_TOKENS)
    ends = np.cumsum(lengths)
    block_of = np.minimum((ends - 1) * count // ends[-1], count - 1)
    return [found.tolist() for block in range(count) if len(found := np.flatnonzero(block_of == block))]


def _texts_key(examples: Sequence[Example], encodings: Sequence[Encoding]) -> dict[str, Plain]:
    """The texts, and how the model cuts them into ids, which its weights do not tell."""
    reading = hashlib.sha256()
    for encoding in encodings:
        reading.update(encoding.ids.tobytes() + encoding.segments.tobytes())
    return {"examples": fingerprint(examples), "reading": reading.hexdigest()[:16]}


def _method_key(explainer: Explainer, seed: int) -> dict[str, Plain]:
    fields = {"method": explainer.name, "configuration": explainer.configuration()}
    return fields | {"seed": seed if explainer.stochastic else None}


def make_block(store: Store, model: Model | Path, block: Block, request: Request) -> None:
    """Explain a block by the methods that are missing, and keep what each says with the time that it took."""
    loaded = load_model(model) if isinstance(model, Path) else model
    missing = block.missing(store)
    if not missing:
        return
    with with_dropout(request.seed) if request.dropout else nullcontext():
        explanations = explain(
            loaded,
            block.examples,
            [request.explainers[n] for n in missing],
            seed=request.seed,
            space=request.space,
            background=request.background,
        )
    size = len(block.examples)
    for number, n in enumerate(missing):
        part = explanations[number * size : (number + 1) * size]
        seconds = explanations.seconds[request.explainers[n].label]
        store.run(block.specifications[n], KIND, partial(_save, part, seconds))


def _save(explanations: Explanations, seconds: float, folder: Path) -> None:
    explanations.save(folder / EXPLANATIONS)
    write_json(folder / SECONDS, seconds)


def read_blocks(store: Store, blocks: Sequence[Block], request: Request) -> Explanations:
    """What is in the store, method by method, with the seconds that each method took for a text."""
    by_method = list(zip(*(block.paths(store) for block in blocks), strict=True))
    sizes = [len(block.examples) for block in blocks]
    seconds = {}
    for explainer, paths in zip(request.explainers, by_method, strict=False):  # no texts: no paths
        took = [float(read_json(path / SECONDS)) for path in paths]
        seconds[explainer.label] = float(np.average(took, weights=sizes))
    items = (item for paths in by_method for path in paths for item in Explanations.load(path / EXPLANATIONS))
    if request.dropout:
        items = (replace(item, warnings=(*item.warnings, DROPPED_OUT)) for item in items)
    return Explanations(items, seconds)
