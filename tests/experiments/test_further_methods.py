"""Explanations from elsewhere beside the methods that are asked: whose they may be, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import rashomon as ra
from rashomon.data import Dataset
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.further_methods import further_methods
from rashomon.experiments.testimony import Ask, hear
from rashomon.explainers import Explanation, Explanations
from rashomon.models.base import Model
from tests.studies.planted import planted, subject_in

DATA = planted()
TEXTS = DATA["test"][:6]


@pytest.fixture(scope="module")
def model() -> Model:
    return ra.train("mlp", DATA, embedding_dim=8, hidden=8, epochs=2, learning_rate=0.03)


@pytest.fixture(scope="module")
def their_explanations(model: Model) -> Explanations:
    """By another tool, which counts the texts from 0 and knows nothing of our model."""
    rng = np.random.default_rng(3)
    return ra.from_scores(
        [list(example.tokens or ()) for example in TEXTS],
        [rng.normal(size=len(example.tokens or ())) for example in TEXTS],
        "their-method",
        texts=[example.text for example in TEXTS],
    )


def every(explanations: Explanations, **changes: object) -> Explanations:
    return Explanations(replace(item, **changes) for item in explanations)  # type: ignore[arg-type]


def test_texts_are_found_by_what_they_say(their_explanations: Explanations, model: Model) -> None:
    further = further_methods(their_explanations, model, DATA, "test", {"attention"})
    assert further.explanations.methods == ("their-method",)
    assert set(further.explanations.example_ids) == {example.id for example in TEXTS}
    assert [item.text for item in further.explanations] == [example.text for example in TEXTS]
    limited = further.only_their_texts(DATA, "test")
    assert (limited["test"], limited["train"]) == (TEXTS, DATA["train"])


def test_what_is_asked_anyway_is_not_used(their_explanations: Explanations, model: Model) -> None:
    both = their_explanations + ra.explain(model, TEXTS, "attention")
    further = further_methods(both, model, DATA, "test", {"attention"})
    assert further.explanations.methods == ("their-method",)
    assert further.notes == (
        "The given explanations by attention are not used, because these methods are asked anyway.",
    )


def test_another_class_is_left_out(model: Model) -> None:
    mine = ra.explain(model, TEXTS, "gradient-x-input")
    turned = Explanations([replace(mine[0], target=1 - mine[0].target), *mine[1:]])
    further = further_methods(turned, model, DATA, "test", ())
    assert len(further.explanations) == 5
    assert "1 of 6 given texts are left out: another class was explained there." in further.notes


def cut(item: Explanation) -> Explanation:
    return replace(item, tokens=("[odd]", *item.tokens[1:]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda explanations: every(explanations, model="another"),
            "6 of 6 stored explanations are of another model",
        ),
        (
            lambda explanations: Explanations(
                replace(item, text=f"{item.text} indeed") for item in explanations
            ),
            "must be of texts of tiny.*which is not there",
        ),
        (
            lambda explanations: Explanations(cut(item) for item in explanations),
            "not in the tokens of this model",
        ),
        (lambda explanations: every(explanations, target=9), "a class the model lacks"),
        (lambda explanations: every(explanations, unit="word"), "before sub-words are merged"),
        (lambda explanations: every(explanations, method="attention"), "they add nothing"),
        (lambda explanations: explanations[:3] + explanations[:3], "two explanations by 'their-method'"),
    ],
)
def test_what_is_of_something_else_is_refused(
    their_explanations: Explanations, model: Model, change: object, said: str
) -> None:
    assert callable(change)
    with pytest.raises(UserError, match=said):
        further_methods(change(their_explanations), model, DATA, "test", {"attention"})


def test_texts_of_another_split_are_refused(model: Model) -> None:
    mine = ra.explain(model, DATA["train"][:3], "gradient-x-input")
    with pytest.raises(UserError, match="of none of its test split"):
        further_methods(mine, model, DATA, "test", ())


def test_a_text_that_stands_there_twice_needs_its_id(their_explanations: Explanations, model: Model) -> None:
    twice = Dataset("d", {"test": (*TEXTS, replace(TEXTS[0], id="again"))}, DATA.labels)
    with pytest.raises(UserError, match="more than once"):
        further_methods(their_explanations, model, twice, "test", ())
    named = Explanations(replace(item, example_id=TEXTS[n].id) for n, item in enumerate(their_explanations))
    assert len(further_methods(named, model, twice, "test", ()).explanations) == 6


def test_they_are_heard_beside_the_others(
    context: Context, tmp_path: Path, their_explanations: Explanations
) -> None:
    their_explanations.save(tmp_path / "explanations.parquet")
    ask = Ask(subject_in(context), ("attention",), 4, beside=str(tmp_path / "explanations.parquet"))
    (heard,) = hear(context, ask, extra=("random",))
    assert heard.explanations.methods == ("attention", "random", "their-method")
    assert heard.further == ("their-method",)
    assert len(heard.explanations.aligned().example_ids) == 4
    (own,) = hear(context, ask, with_further=False)
    assert (own.explanations.methods, own.examples) == (("attention",), heard.examples)
