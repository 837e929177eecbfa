from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rashomon.data import Dataset, Example
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import (
    Ask,
    answerable,
    background,
    cautions_about,
    draw,
    from_stored,
    hear,
    is_signed,
    notes_of,
    samples,
)
from rashomon.explainers import Explanations
from rashomon.explainers.record import UNKNOWN
from rashomon.models.build import load_model
from rashomon.models.label_names import in_model_labels
from rashomon.studies.agreement import Agreement
from rashomon.studies.recovery import Recovery
from tests.studies.planted import planted, sampled_later, subject_in


def test_draw_takes_some_in_their_order_by_the_seed() -> None:
    data = planted()
    drawn = draw(data, "test", 10, 0)
    assert len(drawn) == 10
    assert list(drawn) == sorted(drawn, key=data["test"].index)
    assert drawn == draw(data, "test", 10, 0) != draw(data, "test", 10, 1)
    assert draw(data, "test", 500, 0) == data["test"]
    assert background(Dataset("x", {"test": data["test"]}, data.labels), 0) == ()


@pytest.mark.parametrize(
    ("split", "count", "message"),
    [
        ("tset", 5, "did you mean 'test'"),
        ("none", 5, "empty"),
        ("test", 0, "At least one"),
        ("twice", 5, "'a'"),
    ],
)
def test_draw_refuses(split: str, count: int, message: str) -> None:
    example = Example("a", "good")
    data = Dataset("d", {"test": (example,), "none": (), "twice": (example, example)}, ())
    with pytest.raises(UserError, match=message):
        draw(data, split, count, 0)


def test_methods_that_do_not_fit_are_left_out_and_named(context: Context) -> None:
    subject = subject_in(context)
    (heard,) = hear(context, Ask(subject, ("attention", "attention-rollout"), 3))
    assert heard.explanations.methods == ("attention",)
    assert notes_of([heard, heard]) == (
        "attention-rollout is left out: the model has no layers of self-attention",
    )
    with pytest.raises(UserError, match="No method can explain this model"):
        hear(context, Ask(subject, ("attention-rollout",), 3))
    with pytest.raises(UserError, match="attention"):
        hear(context, Ask(subject, ("atention",), 3))
    assert answerable(["random", "random"], heard.model)[0] == ["random"]  # type: ignore[arg-type]


def test_every_seed_has_its_own_texts_and_model(context: Context) -> None:
    heard = hear(context, Ask(subject_in(context, seeds=(0, 1)), ("attention",), 8))
    assert [t.seed for t in heard] == [0, 1]
    assert heard[0].examples != heard[1].examples
    assert len({item.model for t in heard for item in t.explanations}) == 2


def test_warnings_are_counted_by_kind(context: Context) -> None:
    (heard,) = hear(context, Ask(subject_in(context), ("attention",), 3))
    items = [
        replace(i, method="captum:ig", warnings=(f"{n} tokens were cut",))
        for n, i in enumerate(heard.explanations)
    ]
    explanations = Explanations([*items[:2], replace(items[2], warnings=())])
    assert [str(each) for each in cautions_about([replace(heard, explanations=explanations)])] == [
        "captum:ig: 0 to 1 tokens were cut (2 of 3 texts)"
    ]


def test_stored_accounts_are_told_apart(context: Context) -> None:
    ask = Ask(subject_in(context, seeds=(0, 1)), ("attention", "random"), 24)
    one, two = (t.explanations for t in hear(context, ask))
    assert len(from_stored(one)) == 1
    by_model = from_stored(one + two)
    assert [t.explanations for t in by_model] == [one, two]
    shifted = sampled_later(context, hear(context, ask)[0], ("random",), 7)
    by_seed = from_stored(one + shifted)
    assert [t.explanations.methods for t in by_seed] == [("attention", "random")] * 2
    assert by_seed[0].explanations.by_method("random") != by_seed[1].explanations.by_method("random")
    with pytest.raises(UserError, match="two explanations"):
        from_stored(one + one)
    with pytest.raises(UserError, match="empty"):
        from_stored(Explanations())
    partly = from_stored(one[:24] + one[24:40])
    assert partly[0].notes == ("8 texts are left out: not every method explains them.",)


def test_what_has_a_sign() -> None:
    assert not is_signed("attention")
    assert is_signed("leave-one-out")
    assert is_signed("made elsewhere")


def test_a_checkpoint_is_not_described_by_a_specification() -> None:
    plain = Agreement(Subject(checkpoint="folder")).configuration()
    assert "model" not in plain["subject"]  # type: ignore[operator]
    assert plain["subject"]["checkpoint"] == "folder"  # type: ignore[index]


@pytest.mark.parametrize(
    ("given", "known", "expected", "note"),
    [
        (("no", "yes"), ("no", "yes"), (0, 1), ""),
        (("bad", "good"), ("good", "bad"), (1, 0), ""),
        (("Bad", "GOOD "), ("good", "odd", "bad"), (2, 0), ""),
        (("0", "1"), ("LABEL_0", "LABEL_1"), (0, 1), "read as numbers"),
        (("0", "2"), ("a", "b", "c"), (0, 2), "read as numbers"),
        (("1", "2"), ("LABEL_0", "LABEL_1"), (0, 1), "in order"),
        (("neg", "pos"), ("LABEL_0", "LABEL_1"), (0, 1), "in order"),
        (("x", "y"), ("a", "b", "c"), (None, None), "nothing that needs labels"),
    ],
)
def test_labels_of_the_data_become_classes_of_the_model(
    checkpoint: Callable[..., Path], given: tuple, known: tuple, expected: tuple, note: str
) -> None:
    model = load_model(checkpoint("bert"))
    model.labels = known
    examples = (Example("a", "good", 0), Example("b", "bad", 1), Example("c", "odd"))
    notes: list[str] = []
    read = in_model_labels(Dataset("d", {"test": examples}, given), model, notes)
    assert tuple(example.label for example in read["test"]) == (*expected, None)
    assert note in " ".join(notes) if note else not notes
    assert read.labels == known


def test_files_of_two_seeds_can_be_joined(context: Context) -> None:
    ask = Ask(subject_in(context), ("attention", "lime", "gradient-shap"), 6)
    (heard_once,) = hear(context, ask)
    one, two = heard_once.explanations, sampled_later(context, heard_once, ask.methods, 1)
    heard = from_stored(one + two)
    assert [t.explanations.methods for t in heard] == [ask.methods] * 2
    assert [len(t.explanations) for t in heard] == [18, 18]
    changed = [replace(i, scores=i.scores + 1) if i.method == "attention" else i for i in two]
    with pytest.raises(UserError, match="two explanations by 'attention'"):
        from_stored(one + changed)


def test_scores_of_an_unknown_model_stand_beside_every_model(context: Context) -> None:
    ask = Ask(subject_in(context, seeds=(0, 1)), ("attention", "random"), 24)
    one, two = (t.explanations for t in hear(context, ask))
    foreign = [replace(i, method="elsewhere", model=UNKNOWN, target=-1) for i in one.by_method("attention")]
    heard = from_stored(one + foreign + two)
    assert [set(t.explanations.methods) for t in heard] == [{"attention", "random", "elsewhere"}] * 2
    assert [{i.model for i in t.explanations} - {UNKNOWN} for t in heard] == [{one[0].model}, {two[0].model}]
    assert from_stored(Explanations(foreign))[0].explanations == Explanations(foreign)


def test_stored_explanations_are_those_asked_for(context: Context, tmp_path: Path) -> None:
    path = str(tmp_path / "explanations.parquet")
    (whole,) = hear(context, Ask(subject_in(context), ("attention", "lime", "random"), 10))
    whole.explanations.save(path)
    (heard,) = hear(context, Ask(stored=path))
    assert heard.explanations == whole.explanations
    assert hear(context, Ask(methods=("lime",), stored=path))[0].explanations.methods == ("lime",)
    both = hear(context, Ask(methods=("lime",), stored=path), extra=("random", "trivial"))[
        0
    ].explanations.methods
    assert both == ("lime", "random")
    with pytest.raises(UserError, match="by 'lmie', only by attention, lime, random"):
        hear(context, Ask(methods=("lmie",), stored=path))
    (few,) = hear(context, Ask(instances=4, stored=path))
    assert len(few.explanations.example_ids) == 4
    assert len(few.explanations) == 12
    assert few.notes == ("4 of the 10 stored texts are used, as asked by instances.",)
    reversed_explanations = Explanations(reversed(list(whole.explanations)))
    reversed_explanations.save(path)
    assert set(hear(context, Ask(instances=4, stored=path))[0].explanations.example_ids) == set(
        few.explanations.example_ids
    )
    with pytest.raises(UserError, match="At least one"):
        hear(context, Ask(instances=0, stored=path))


def test_a_configuration_tells_nothing_that_stored_explanations_did_not_need() -> None:
    configuration = Agreement(stored="explanations.parquet", measures=("kendall",)).configuration()
    assert configuration == {"instances": 500, "stored": "explanations.parquet", "measures": ["kendall"]}
    named = Recovery(methods=("lime",), stored="explanations.parquet").configuration()
    assert named["methods"] == ["lime"]
    assert list(named["subject"]) == ["dataset"]  # type: ignore[call-overload]


def test_what_samples() -> None:
    assert samples("lime")
    assert not samples("attention")
    assert samples("made elsewhere")
