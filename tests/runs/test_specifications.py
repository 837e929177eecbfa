from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rashomon.errors import UserError
from rashomon.runs import specifications as spec
from rashomon.runs.specifications import from_plain, key, to_plain


class Objective(ABC):
    @abstractmethod
    def loss(self) -> float: ...


@dataclass(frozen=True)
class CrossEntropy(Objective):
    def loss(self) -> float:
        return 0.0


@dataclass(frozen=True)
class Hinge(Objective):
    margin: float = 1.0

    def loss(self) -> float:
        return self.margin


@dataclass(frozen=True)
class Constant:
    value: float


@dataclass(frozen=True)
class Linear:
    value: float


@dataclass(frozen=True)
class Optimizer:
    name: Literal["adam", "sgd"] = "adam"
    rate: float = 1e-3
    decay: float | None = None


@dataclass(frozen=True)
class Training:
    model: str
    optimizer: Optimizer = Optimizer()
    seeds: tuple[int, ...] = (0,)
    span: tuple[int, float] | None = None
    shuffle: bool = True
    layers: tuple[Optimizer, ...] = ()
    objective: Objective = CrossEntropy()
    schedule: Constant | Linear | None = None
    limit: int | float | str = 0
    options: Mapping[str, float] = field(default_factory=dict)
    folds: Literal[3, 5] = 5
    derived: int = field(default=7, init=False)


finite = st.floats(allow_nan=False, allow_infinity=False)
optimizers = st.builds(
    Optimizer, name=st.sampled_from(["adam", "sgd"]), rate=finite, decay=st.none() | finite
)
trainings = st.builds(
    Training,
    model=st.text(max_size=5),
    optimizer=optimizers,
    seeds=st.lists(st.integers(), max_size=3).map(tuple),
    span=st.none() | st.tuples(st.integers(), finite),
    shuffle=st.booleans(),
    layers=st.lists(optimizers, max_size=2).map(tuple),
    objective=st.just(CrossEntropy()) | st.builds(Hinge, finite),
    schedule=st.none() | st.builds(Constant, finite) | st.builds(Linear, finite),
    limit=st.integers() | finite | st.text(max_size=3),
    options=st.dictionaries(st.text(max_size=3), finite, max_size=3),
    folds=st.sampled_from([3, 5]),
)


@given(trainings)
def test_round_trip_through_json(training: Training) -> None:
    text = json.dumps(to_plain(training), allow_nan=False)
    again = from_plain(Training, json.loads(text))
    assert again == training
    assert type(again.limit) is type(training.limit)
    assert key(again) == key(training)


@given(
    trainings,
    trainings,
    st.sampled_from([field.name for field in dataclasses.fields(Training) if field.init]),
)
def test_equal_keys_mean_equal_specifications(one: Training, donor: Training, name: str) -> None:
    other = dataclasses.replace(one, **{name: getattr(donor, name)})  # two that differ in one field at most
    same = one == other and type(one.limit) is type(other.limit)  # 1 == 1.0, where either may stand
    assert (key(one) == key(other)) == same


def test_toml_gives_the_same_object_as_python() -> None:
    text = """
    model = "bilstm"
    seeds = [1, 2]
    span = [3, 1]
    objective = {type = "Hinge", margin = 2}
    schedule = {type = "Linear", value = 1}
    [optimizer]
    rate = 1
    """
    python = Training("bilstm", Optimizer(rate=1), (1, 2), (3, 1), objective=Hinge(2), schedule=Linear(1))
    parsed = from_plain(Training, tomllib.loads(text))
    assert parsed == python
    assert key(parsed) == key(python)


EQUAL_KEYS = {
    "order of names": ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}),
    "tuple or list": ({"a": (1, (2, 3))}, {"a": [1, [2, 3]]}),
    "int in a float field": (Optimizer(rate=1), Optimizer(rate=1.0)),
    "int in an optional float field": (Optimizer(decay=0), Optimizer(decay=0.0)),
    "minus zero": (Constant(-0.0), Constant(0.0)),
    "numpy scalars": (Training("m", seeds=(np.int64(3),)), Training("m", seeds=(3,))),  # type: ignore[arg-type]
    "defaults said or unsaid": (Training("m"), Training("m", folds=5)),
}
DIFFERENT_KEYS = {
    "value": (Constant(1.0), Constant(1.0 + 2**-52)),
    "class in a union": (Training("m", schedule=Constant(1)), Training("m", schedule=Linear(1))),
    "class under a base": (Training("m"), Training("m", objective=Hinge())),
    "class at the top": (Constant(1), Linear(1)),
    "order of a list": ((1, 2), (2, 1)),
    "text or number": ({"a": 1}, {"a": "1"}),
    "true or one": ({"a": 1}, {"a": True}),
}


@pytest.mark.parametrize(("one", "other"), EQUAL_KEYS.values(), ids=EQUAL_KEYS)
def test_equal_keys(one: object, other: object) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT_KEYS.values(), ids=DIFFERENT_KEYS)
def test_different_keys(one: object, other: object) -> None:
    assert key(one) != key(other)


def test_key_is_short_hex_and_names_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(Training("m"))
    assert len(before) == 20
    assert set(before) <= set("0123456789abcdef")
    monkeypatch.setattr(spec, "version", lambda name: "999")
    assert key(Training("m")) != before


def test_key_is_the_same_in_another_process() -> None:
    script = (
        "from rashomon.runs.specifications import key; print(key({'b': {'x': 0.1}, 'a': ['é', 2, None]}))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert printed == {f"{key({'a': ('é', 2, None), 'b': {'x': 0.1}})}\n".encode()}


@dataclass(frozen=True)
class WithFile:
    vectors: Path


def test_paths_count_by_content(tmp_path: Path) -> None:
    one, other, folder = tmp_path / "one", tmp_path / "other", tmp_path / "folder"
    one.write_text("same")
    other.write_text("same")
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file").write_text("x")
    assert key(WithFile(one)) == key(WithFile(other)) != key(WithFile(folder))
    before = key(WithFile(folder)), key(WithFile(other))
    (folder / "deep" / "file").write_text("longer")
    other.write_text("changed")
    assert key(WithFile(folder)) != before[0]
    assert key(WithFile(other)) != before[1]
    assert from_plain(WithFile, to_plain(WithFile(one))) == WithFile(one)
    with pytest.raises(UserError, match=r"Cannot read .*absent"):
        key(WithFile(tmp_path / "absent"))


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown field": ({"modle": "m"}, "did you mean 'model'"),
    "unknown nested field": (
        {"model": "m", "optimizer": {"rat": 1}},
        "field of optimizer named 'rat'.*'rate'",
    ),
    "missing field": ({}, "model is missing"),
    "text for number": (
        {"model": "m", "optimizer": {"rate": "fast"}},
        "optimizer.rate must be a number, not 'fast'",
    ),
    "optional number": ({"model": "m", "optimizer": {"decay": "x"}}, "optimizer.decay must be a number"),
    "float for int": ({"model": "m", "seeds": [0, 1.5]}, r"seeds\[1\] must be a whole number, not 1.5"),
    "bool for int": ({"model": "m", "seeds": [True]}, r"seeds\[0\] must be a whole number"),
    "number for bool": ({"model": "m", "shuffle": 1}, "shuffle must be true or false"),
    "number for text": ({"model": 3}, "model must be a text"),
    "literal": (
        {"model": "m", "optimizer": {"name": "adan"}},
        "value of optimizer.name.*did you mean 'adam'",
    ),
    "number literal": ({"model": "m", "folds": 4}, "folds must be one of 3, 5, not 4"),
    "text for list": ({"model": "m", "seeds": "123"}, "seeds must be a list"),
    "wrong length": ({"model": "m", "span": [1]}, "span must be a list of 2"),
    "number for table": ({"model": "m", "optimizer": 3}, "optimizer must be a table"),
    "nested in tuple": ({"model": "m", "layers": [{"name": "sgdd"}]}, r"layers\[0\].name"),
    "untagged union": (
        {"model": "m", "schedule": {"value": 1}},
        "schedule.type must say which of Constant, Linear",
    ),
    "untagged base": (
        {"model": "m", "objective": {}},
        "objective.type must say which of CrossEntropy, Hinge",
    ),
    "wrong tag": ({"model": "m", "objective": {"type": "Hings"}}, "did you mean 'Hinge'"),
    "no type fits": ({"model": "m", "limit": [1]}, "limit: .* fits none"),
    "infinite": (
        {"model": "m", "optimizer": {"rate": float("inf")}},
        "optimizer.rate must be a finite number",
    ),
    "derived field": ({"model": "m", "derived": 1}, "no field"),
    "values of a mapping": ({"model": "m", "options": {"x": "y"}}, "options.x must be a number"),
}


@pytest.mark.parametrize(("data", "message"), WRONG.values(), ids=WRONG)
def test_wrong_data_is_told_in_a_sentence(data: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        from_plain(Training, data)


def test_whole_specification_must_be_a_table() -> None:
    with pytest.raises(UserError, match="must be a table"):
        from_plain(Training, [1, 2])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_json_does_not_have_are_refused(value: float) -> None:
    with pytest.raises(UserError, match="finite"):
        key(Constant(value))


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", {1: 2}])
def test_what_has_no_plain_form_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        key({"a": value})


def test_plain_is_untagged_where_the_class_is_plain() -> None:
    plain = to_plain(Training("m", schedule=Linear(2)))
    assert plain["optimizer"] == {"name": "adam", "rate": 1e-3, "decay": None}
    assert plain["schedule"] == {"type": "Linear", "value": 2.0}
    assert plain["objective"] == {"type": "CrossEntropy"}
    assert {field.name for field in dataclasses.fields(Training) if field.init} == set(plain)
