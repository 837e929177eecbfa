"""What lies on disk or comes from elsewhere: explanations, runs, scores of others. Whole, or refused, or made again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from hypothesis import given
from hypothesis import strategies as st

from rashomon.explainers import Explanations, from_captum, from_eraser, from_scores
from rashomon.explainers.collection import _SCHEMA
from rashomon.measures.cartography import cartography
from rashomon.measures.erasure import aopc_comprehensiveness, comprehensiveness, sufficiency
from rashomon.runs.files import (
    read_json,
    read_parquet,
    read_tensors,
    write_json,
    write_parquet,
    write_tensors,
)
from rashomon.runs.store import Store
from tests.fuzz.answering import answered, empty_folder, fuzz
from tests.fuzz.inputs import changed, hit, json_values, odd_numbers, scalars, single_words, texts

words = st.lists(single_words, min_size=1, max_size=5)
numbers = st.floats(-5, 5) | st.sampled_from([float("nan"), float("inf"), 0.0])


@st.composite
def tokens_and_scores(draw: st.DrawFn) -> tuple[list[str], list[float]]:
    tokens = draw(words)
    return tokens, draw(st.lists(numbers, min_size=len(tokens), max_size=len(tokens)))


collections = st.lists(tokens_and_scores(), min_size=1, max_size=3).map(
    lambda rows: from_scores([tokens for tokens, _ in rows], [scores for _, scores in rows], "mine")
)


def use(explanations: Explanations) -> None:
    """Everything that is done with explanations that were read."""
    assert repr(explanations)
    explanations.to_pandas()
    explanations.words()
    json.dumps([item.to_dict() for item in explanations])
    explanations._repr_html_()
    answered(explanations.aligned)


@fuzz(60)
@given(collections)
def test_explanations_are_read_as_they_were_written(explanations: Explanations) -> None:
    with empty_folder() as folder:
        explanations.save(folder / "explanations.parquet")
        assert Explanations.load(folder / "explanations.parquet") == explanations


@fuzz(150)
@given(collections, st.data())
def test_damaged_explanations(explanations: Explanations, data: st.DataObject) -> None:
    with empty_folder() as folder:
        path = folder / "explanations.parquet"
        explanations.save(path)
        path.write_bytes(data.draw(hit(path.read_bytes())))
        read = answered(lambda: Explanations.load(path))
        if read is not None:
            use(read)


@fuzz(200)
@given(collections, st.data())
def test_explanations_with_other_values(explanations: Explanations, data: st.DataObject) -> None:
    """The right columns, as another program might fill them."""
    with empty_folder() as folder:
        path = folder / "explanations.parquet"
        explanations.save(path)
        rows = pq.read_table(path).to_pylist()
        for name in data.draw(st.lists(st.sampled_from(_SCHEMA.names), min_size=1, max_size=3)):
            rows[0][name] = data.draw(odd_value(rows[0][name]))
        try:
            pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), path)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return  # no such file can be written
        read = answered(lambda: Explanations.load(path))
        if read is not None:
            use(read)


def odd_value(value: Any) -> st.SearchStrategy[Any]:
    if isinstance(value, list):
        inner = st.sampled_from(value) if value else st.integers(-2, 3)
        return st.none() | st.lists(st.none() | inner | st.integers(-2, 9), max_size=6)
    if isinstance(value, str):
        return st.none() | texts | json_values.map(lambda thing: json.dumps(thing))
    return st.none() | st.integers(-3, 3) | st.floats()


FACTS = [
    "example_ids", "texts", "pair_texts", "segments", "special", "word_ids", "targets", "target_labels", "labels",
    "probabilities", "gaps", "model", "configuration", "seed", "output_space", "versions", "unit", "tragets",
]  # fmt: skip
facts = st.dictionaries(
    st.sampled_from(FACTS),
    scalars
    | st.lists(scalars | st.lists(st.integers(-1, 2) | scalars, max_size=4), max_size=3)
    | json_values,
    max_size=3,
)


@fuzz(250)
@given(st.lists(tokens_and_scores(), max_size=2), facts, st.data())
def test_scores_of_others(
    rows: list[tuple[list[str], list[float]]], known: dict[str, Any], data: st.DataObject
) -> None:
    inputs: Any = [tokens for tokens, _ in rows]
    scores: Any = [values for _, values in rows]
    odd = data.draw(st.sampled_from(["none", "none", "inputs", "scores", "method"]))
    inputs = data.draw(json_values) if odd == "inputs" else inputs
    scores = data.draw(changed(scores)) if odd == "scores" else scores
    method: Any = data.draw(scalars) if odd == "method" else "mine"
    explanations = answered(lambda: from_scores(inputs, scores, method, **known))
    if explanations is not None:
        use(explanations)
        with empty_folder() as folder:
            explanations.save(folder / "explanations.parquet")
            assert Explanations.load(folder / "explanations.parquet") == explanations


@fuzz(100)
@given(
    st.lists(st.integers(0, 3), max_size=3),
    st.lists(words, max_size=2) | words,
    st.sampled_from(["sum", "norm", "none", "mean", ""]),
    st.booleans(),
)
def test_tensors_of_others(shape: list[int], tokens: Any, aggregation: Any, several: bool) -> None:
    tensor = torch.ones(shape, requires_grad=True)
    explanations = answered(lambda: from_captum([tensor] if several else tensor, tokens, "mine", aggregation))
    if explanations is not None:
        use(explanations)


ERASER = {
    "annotation_id": "one",
    "rationales": [
        {
            "docid": "d",
            "soft_rationale_predictions": [0.5, 0.25],
            "hard_rationale_predictions": [{"start_token": 0, "end_token": 1}],
        }
    ],
    "classification": "good",
    "classification_scores": {"good": 0.75, "bad": 0.25},
}


@fuzz(250)
@given(changed(ERASER), st.sampled_from(["soft", "hard"]), st.booleans(), st.data())
def test_files_of_rationales(row: Any, kind: Any, labelled: bool, data: st.DataObject) -> None:
    known: Any = {"labels": ["bad", "good"]} if labelled else {}
    with empty_folder() as folder:
        path = folder / "rationales.jsonl"
        raw = json.dumps(row).encode()
        path.write_bytes(data.draw(st.just(raw) | hit(raw)))
        explanations = answered(
            lambda: from_eraser(path, {"d": ["a", "film"], "None": []}, "mine", kind, **known)
        )
        if explanations is not None:
            use(explanations)


arrays = st.lists(st.integers(0, 3), max_size=3).flatmap(
    lambda shape: st.lists(odd_numbers, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))).map(
        lambda cells: np.array([float(min(max(cell, -9e99), 9e99)) for cell in cells]).reshape(shape).tolist()
    )
)


@fuzz(150)
@given(arrays | json_values, st.lists(st.integers(-2, 4), max_size=4) | json_values, st.integers(-1, 3))
def test_training_dynamics(probabilities: Any, labels: Any, ddof: int) -> None:
    found = answered(lambda: cartography(probabilities, labels, ddof=ddof))
    if found is not None:
        assert len(found.groups()) == len(found.confidence) == len(labels)


@fuzz(100)
@given(arrays | json_values, arrays | json_values)
def test_probabilities_before_and_after_erasure(full: Any, reduced: Any) -> None:
    for measure in (sufficiency, comprehensiveness, aopc_comprehensiveness):
        found = answered(lambda measure=measure: measure(full, reduced))  # type: ignore[misc]
        assert found is None or len(found) == len(full)


WRITTEN: dict[str, tuple[Callable[[Path], None], Callable[[Path], Any]]] = {
    "about.json": (lambda path: write_json(path, {"of": [0.1, "x"]}), read_json),
    "rows.parquet": (
        lambda path: write_parquet(path, pd.DataFrame({"a": [0.5, 1.0]})),
        lambda path: read_parquet(path).to_dict(),
    ),
    "w.safetensors": (
        lambda path: write_tensors(path, {"w": torch.arange(4.0)}),
        lambda path: {name: tensor.tolist() for name, tensor in read_tensors(path).items()},
    ),
}


def make(folder: Path) -> None:
    for name, (write, _) in WRITTEN.items():
        write(folder / name)


def content(folder: Path) -> list[Any]:
    return [read(folder / name) for name, (_, read) in WRITTEN.items()]


@fuzz(60)
@given(
    st.lists(st.sampled_from([*WRITTEN, "meta.json", "spec.json"]), min_size=1, max_size=3, unique=True),
    st.data(),
)
def test_damaged_runs_are_made_again(names: list[str], data: st.DataObject) -> None:
    with empty_folder() as folder:
        store = Store(folder)
        run = store.run({"seed": 1}, "models", make)
        whole = content(run)
        for name in names:
            raw = (run / name).read_bytes()
            damaged = data.draw(st.none() | hit(raw))
            (run / name).unlink()
            if damaged is not None:
                (run / name).write_bytes(damaged)
        answered(lambda: [*store.list(), *store.verify(), *store.leftovers()])
        assert content(answered(lambda: store.run({"seed": 1}, "models", make)) or Path()) == whole
        assert [info.damage for info in store.verify()] == [()]


@fuzz(40)
@given(st.sampled_from([*WRITTEN, "meta.json"]), st.data())
def test_damaged_leftovers_are_not_gone_on_with(name: str, data: st.DataObject) -> None:
    """Killed work leaves a folder; what is damaged in it is not taken for a checkpoint."""
    with empty_folder() as folder:
        store = Store(folder)
        run = store.run({"seed": 1}, "models", make)
        whole = content(run)
        (run / name).write_bytes(data.draw(hit((run / name).read_bytes())))
        if name != "meta.json":
            (run / "meta.json").unlink()
        run.rename(run.with_name(run.name + ".partial"))
        assert content(answered(lambda: store.run({"seed": 1}, "models", make)) or Path()) == whole
