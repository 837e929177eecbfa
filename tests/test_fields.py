"""The meaning of a setting is read from where it stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pytest

from rashomon.fields import dataclass_in, described_fields, setting
from rashomon.models.model_spec import ModelSpec
from rashomon.training.settings import TrainingSpec


@dataclass(frozen=True)
class Inner:
    depth: int = 3


@dataclass(frozen=True)
class Base:
    plain: int = 1  # said in a comment
    silent: str = "word"


@dataclass(frozen=True)
class Outer(Base):
    needed: float | None = None
    said: tuple[int, ...] = setting((1, 2), "said in words", "--say")
    chosen: Literal["a", "b"] = "a"  # one of two
    inner: Inner | None = field(default_factory=Inner)

    def method(self) -> None:
        silent: str = "other"  # a comment that is none of the field's
        assert silent


def test_fields_carry_their_meaning() -> None:
    found = {one.name: one for one in described_fields(Outer)}
    assert list(found) == ["plain", "silent", "needed", "said", "chosen", "inner"]
    assert [one.help for one in found.values()] == [
        "said in a comment", "", "", "said in words", "one of two", ""
    ]  # fmt: skip
    assert found["said"].default == (1, 2)
    assert found["said"].names == ("--say",)
    assert found["chosen"].choices == ("a", "b")
    assert found["inner"].default == Inner()


def test_a_setting_is_an_ordinary_field() -> None:
    assert Outer().said == (1, 2)
    assert Outer(said=(3,)).said == (3,)


def test_dataclasses_are_seen_through_unions() -> None:
    assert dataclass_in(Inner | None) is Inner
    assert dataclass_in(Inner) is Inner
    assert dataclass_in(int | None) is None


@pytest.mark.parametrize("specification", [ModelSpec, TrainingSpec])
def test_every_setting_of_a_model_and_a_training_is_described(specification: type) -> None:
    assert all(one.help for one in described_fields(specification))
