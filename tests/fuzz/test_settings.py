"""What is typed: methods with settings, steps, configurations in TOML. Understood, or refused in a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rashomon.cli.options import method_names
from rashomon.cli.study import _from_file, _with_settings
from rashomon.data.preprocess import apply_dataset_steps, apply_token_steps, steps
from rashomon.data.tokens import tokenise
from rashomon.explainers import explainers, make_explainer
from rashomon.models import ModelSpec
from rashomon.registry import Registry
from rashomon.runs.by_name import in_one_word, make_by_name, settings_of
from rashomon.runs.specifications import from_plain, to_plain
from rashomon.studies import studies
from rashomon.training import TrainingSpec
from rashomon.training.callbacks import callbacks
from rashomon.training.objectives import objectives
from tests.fuzz.answering import answered, empty_folder, fuzz
from tests.fuzz.inputs import changed, hit, json_values, odd_numbers, texts
from tests.models.tiny import dataset

REGISTRIES: dict[str, Registry[Any]] = {
    "explainers": explainers,
    "objectives": objectives,
    "callbacks": callbacks,
}
values = st.sampled_from(
    ["1", "0", "-1", "500", "2.5", "1e400", "nan", "true", "[1, 2]", "[", "]", "mask", "", "None"]
)


@st.composite
def in_words(draw: st.DrawFn, registry: Registry[Any]) -> str:
    """A name of the registry or nearly, with settings of it or nearly."""
    name = draw(st.sampled_from(registry.names()))
    known = sorted(settings_of(registry.get(name))) or ["samples"]
    names = st.sampled_from(known) | texts
    parts = draw(st.lists(st.tuples(names, st.sampled_from(["=", "=", "=", ""]), values | texts), max_size=3))
    name = draw(st.just(name) | texts)
    inside = draw(st.sampled_from([", ", ",", " "])).join("".join(part) for part in parts)
    return draw(st.sampled_from(["{}({})", "{}({})", " {} ({}) ", "{}({}", "{}{})"])).format(name, inside)


@pytest.mark.parametrize("plural", REGISTRIES)
@fuzz(120)
@given(st.data())
def test_names_with_settings(plural: str, data: st.DataObject) -> None:
    registry = REGISTRIES[plural]
    text = data.draw(in_words(registry) | texts)
    made = answered(lambda: make_by_name(registry, text))
    if made is not None:
        name = text.partition("(")[0].strip()
        again = answered(lambda: make_by_name(registry, in_one_word(name, made)))
        assert again == made, in_one_word(name, made)


@fuzz(80)
@given(st.lists(in_words(explainers), max_size=3).map(",".join))
def test_lists_of_methods(text: str) -> None:
    for name in method_names(text):
        answered(lambda name=name: make_explainer(name))  # type: ignore[misc]


@st.composite
def one_step(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from(steps.names()) | texts)
    argument = draw(st.sampled_from(["3", "0", "-1", "", "qqq", "٣", "²", "9" * 4400, "1e3"]) | texts)
    return draw(st.sampled_from(["{}:{}", "{}", "{} : {}"])).format(name, argument)


@fuzz(200)
@given(st.lists(one_step(), max_size=4), texts)
def test_steps(asked: list[str], text: str) -> None:
    words = tokenise(text)
    left = answered(lambda: apply_token_steps(words, asked))
    if left is not None:
        places = [(word.start, word.end) for word in words]
        assert all((word.start, word.end) in places for word in left)
    kept = answered(lambda: apply_dataset_steps(dataset(), asked))
    assert kept is None or all(set(kept[name]) <= set(dataset()[name]) for name in kept)


@fuzz(150)
@given(st.data())
def test_configurations_of_studies(data: st.DataObject) -> None:
    kind = studies.get(data.draw(st.sampled_from(studies.names())))
    plain = data.draw(changed(to_plain(kind())))
    made = answered(lambda: from_plain(kind, plain))
    if made is not None:
        assert from_plain(kind, json.loads(json.dumps(to_plain(made)))) == made


@pytest.mark.parametrize("kind", [ModelSpec, TrainingSpec])
@fuzz(150)
@given(st.data())
def test_configurations_of_models_and_trainings(kind: Callable[[], Any], data: st.DataObject) -> None:
    made = answered(lambda: from_plain(kind, data.draw(changed(to_plain(kind())))))  # type: ignore[arg-type]
    if made is not None:
        assert from_plain(kind, json.loads(json.dumps(to_plain(made)))) == made  # type: ignore[arg-type]


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{json.dumps(name)} = {as_toml(inner)}" for name, inner in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return '""' if value is None else json.dumps(value)


@fuzz(150)
@given(st.data())
def test_files_of_configuration(data: st.DataObject) -> None:
    kind = studies.get(data.draw(st.sampled_from(studies.names())))
    document = data.draw(st.just(to_plain(kind())) | changed(to_plain(kind())))
    lines = document.items() if isinstance(document, dict) else [("subject", document)]
    text = "\n".join(f"{json.dumps(name)} = {as_toml(value)}" for name, value in lines if value is not None)
    with empty_folder() as folder:
        path = folder / "study.toml"
        raw = text.encode(errors="replace")
        path.write_bytes(data.draw(st.just(raw) | hit(raw)))
        answered(lambda: _from_file(kind, path))


@fuzz(150)
@given(st.data())
def test_single_settings_of_studies(data: st.DataObject) -> None:
    study = studies.get(data.draw(st.sampled_from(studies.names())))()
    names = st.sampled_from(sorted(to_plain(study))) | st.sampled_from(
        [
            "training.epochs",
            "subject.model.hidden",
            "subject.training.epochs",
            "subject.dataset.name",
            "a.b.c",
            "",
        ]
    )
    value = values | texts | json_values.map(as_toml) | odd_numbers.map(str)
    setting = data.draw(st.tuples(names | texts, st.sampled_from(["=", " = ", ""]), value).map("".join))
    answered(lambda: _with_settings(study, [setting]))
