from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score

from rashomon.data import Dataset, Example
from rashomon.data.rationales import has_rationale
from rashomon.errors import UserError
from rashomon.experiments.context import Context
from rashomon.experiments.evidence import rationale_of
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import Ask, hear
from rashomon.explainers import Explanations, explain
from rashomon.models.build import load_model
from rashomon.studies.recovery import Recovery, judgements
from tests.studies.planted import planted, subject_in

SST = Example(
    "s",
    "a good bad film",
    1,
    tokens=("a", "good", "bad", "film"),
    phrases=((0, 1, 2), (1, 2, 4), (2, 3, 0), (3, 4, 2), (1, 3, 3), (0, 4, 3)),
)


@pytest.mark.usefixtures("witnesses")
def test_an_oracle_finds_everything_and_chance_the_base_rate(context: Context) -> None:
    data = planted(held_out=80)
    finding = Recovery(subject_in(context, data), ("oracle", "constant", "attention"), 80).run(context)
    summary = finding.tables["summary"].set_index(["measure", "method"])
    for measure in ("average-precision", "precision-at-1", "perfect-top-k", "token-f1", "iou-f1", "auprc"):
        assert summary.loc[(measure, "oracle"), "mean"] == pytest.approx(1.0)
    used = set(finding.tables["instances"]["example"])
    rate = np.mean([np.mean(e.rationale) for e in data["test"] if e.id in used])  # type: ignore[arg-type]
    assert summary.loc[("precision-at-1", "random"), "mean"] == pytest.approx(rate, abs=0.12)
    assert summary.loc[("average-precision", "constant"), "mean"] == pytest.approx(rate)
    assert summary.loc[("precision-at-1", "constant"), "n"] == 0, "a constant has no top"
    assert summary.loc[("average-precision", "oracle"), "p_holm"] < 0.01
    assert "found best by oracle" in finding.verdict


def test_average_precision_equals_scikit_learn(context: Context) -> None:
    data = planted()
    ask = Ask(subject_in(context, data), ("leave-one-out",), 24)
    table = Recovery.of(ask).run(context).tables["instances"]
    (heard,) = hear(context, ask)
    rows = table.query("method == 'leave-one-out' and measure == 'average-precision'")
    by_id = {example.id: example for example in data["test"]}
    for row in rows.to_dict("records"):
        scores = np.abs(heard.explanations.of(row["example"])[0].scores)
        assert row["value"] == pytest.approx(average_precision_score(by_id[row["example"]].rationale, scores))


@pytest.mark.usefixtures("witnesses")
def test_wrong_predictions_and_bare_texts_are_left_out_and_counted(context: Context) -> None:
    data = planted()
    first, second, *rest = data["test"]
    test = (replace(first, label=1 - first.label), replace(second, rationale=None), *rest)  # type: ignore[operator]
    subject = subject_in(context, Dataset("d", {**data.splits, "test": test}, data.labels))
    finding = Recovery(subject, ("oracle",), 24).run(context)
    model = context.models(subject)[0].model
    wrong = sum(i.target != e.label for i, e in zip(explain(model, test, ["random"]), test, strict=True))
    assert wrong >= 1
    expected = (
        f"{23 - wrong} of 24 texts are used: 1 have no rationale, {wrong} are not classified correctly."
    )
    assert expected in finding.warnings
    assert not {first.id, second.id} & set(finding.tables["instances"]["example"])


def test_sub_words_take_the_mark_of_their_word(checkpoint: Callable[..., Path]) -> None:
    example = Example("a", "A warmness film zzz", 1, rationale=(0, 1, 0, 1))
    for kind in ("bert", "roberta"):
        (item,) = explain(load_model(checkpoint(kind)), [example], ["random"])
        where, marks = rationale_of(item, example)
        assert not item.special[where].any()
        words = ["A", "warmness", "film", "zzz"]
        for position, mark in zip(where, marks, strict=True):
            start, end = item.offsets[position]
            piece = example.text[start:end].strip()
            assert not piece or mark == (piece in "warmness" or piece in "zzz"), (kind, piece)
        assert marks.sum() > 2, "both marked words are in pieces"
        assert len(where) > len(words)
        _, word_marks = rationale_of(Explanations([item]).words()[0], example)
        assert word_marks.tolist() == [0, 1, 0, 1]


def test_a_side_that_nobody_marked_is_not_ranked(checkpoint: Callable[..., Path]) -> None:
    pair = Example("p", "people walk and run", 0, "people sleep", rationale_pair=(0, 1))
    (item,) = explain(load_model(checkpoint("bert", 3, True)), [pair], ["random"])
    where, marks = rationale_of(item, pair)
    assert [item.tokens[i] for i in where] == ["people", "sleep"]
    assert set(item.segments[where]) == {1}
    assert marks.tolist() == [0, 1]
    both = replace(pair, rationale=(1, 0, 0, 1))
    assert len(rationale_of(item, both)[0]) == 6


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        (SST, (0, 1, 0, 0)),
        (replace(SST, label=0), (0, 1, 0, 0)),  # whatever number the model gives the class
        (replace(SST, phrases=(*SST.phrases[:-1], (0, 4, 1))), (0, 0, 1, 0)),  # type: ignore[misc]
        (replace(SST, phrases=(*SST.phrases[:-1], (0, 4, 2))), None),  # type: ignore[misc]
        (replace(SST, phrases=()), None),
        (Example("b", "good"), None),
        (Example("b", "good", rationale=()), None),
    ],
)
def test_phrases_become_rationales(context: Context, example: Example, expected: tuple | None) -> None:
    assert has_rationale(example) == (expected is not None)
    if expected is not None:
        model = context.models(subject_in(context))[0].model
        (item,) = explain(model, [example], ["random"])
        assert tuple(rationale_of(item, example)[1]) == expected


def test_labels_of_a_checkpoint_are_matched_by_name(
    context: Context, checkpoint: Callable[..., Path]
) -> None:
    folder = checkpoint("distilbert")
    model = load_model(folder)
    texts = [
        Example(str(i), text, rationale=(1, 0, 0))
        for i, text in enumerate(("good dull film", "bad plot one"))
    ]
    said = [item.target_label for item in explain(model, texts, ["random"])]
    names = tuple(reversed(model.labels))  # the file counts the other way round
    data = Dataset(
        "d",
        {"test": tuple(replace(e, label=names.index(s)) for e, s in zip(texts, said, strict=True))},
        names,
    )
    subject = Subject(context.adopt(data), checkpoint=str(folder))
    finding = Recovery(subject, ("attention",), 5).run(context)
    assert "2 of 2 texts are used: 0 have no rationale, 0 are not classified correctly." in finding.warnings


def test_stored_explanations(context: Context, tmp_path: Path) -> None:
    ask = Ask(subject_in(context), ("attention", "leave-one-out", "random"), 12)
    fresh = Recovery.of(ask).run(context)
    (heard,) = hear(context, ask)
    path = tmp_path / "explanations.parquet"
    heard.explanations.save(path)
    stored = Recovery.of(replace(ask, stored=str(path))).run(context)
    assert stored.tables["summary"].equals(fresh.tables["summary"])
    Explanations(replace(i, target=-1, target_label="", probabilities=()) for i in heard.explanations).save(
        path
    )
    untold = Recovery.of(replace(ask, stored=str(path))).run(context)
    assert any(w.startswith("12 of 12 texts are used") for w in untold.warnings)


def test_nothing_to_recover(context: Context) -> None:
    data = planted()
    bare = Dataset("d", {s: tuple(replace(e, rationale=None) for e in data[s]) for s in data}, data.labels)
    with pytest.raises(
        UserError, match="No text of d that would be explained says which of its tokens matter"
    ):
        Recovery(subject_in(context, bare), ("attention",), 5).run(context)
    assert not context.store.list(), "told before anything is trained"
    partly = Dataset("d", {**bare.splits, "test": (data["test"][0], *bare["test"][1:])}, data.labels)
    wrong = replace(partly, splits={**partly.splits, "test": tuple(map(_mislabelled, partly["test"]))})
    message = (
        "nothing to use of d: 0 of 24 texts are used: 23 have no rationale, 1 are not classified correctly"
    )
    with pytest.raises(UserError, match=message):
        Recovery(subject_in(context, wrong), ("attention",)).run(context)


def _mislabelled(example: Example) -> Example:
    return replace(example, label=1 - example.label)  # type: ignore[operator]


def test_texts_are_told_apart_by_what_they_say(context: Context, tmp_path: Path) -> None:
    """Ids of files are mostly numbers: the same id in another file is another text."""
    ask = Ask(subject_in(context), ("leave-one-out", "random"), 12)
    (heard,) = hear(context, ask)
    path, others = tmp_path / "explanations.parquet", set(heard.explanations.example_ids[:3])
    Explanations(
        replace(i, text=i.text + " again") if i.example_id in others else i for i in heard.explanations
    ).save(path)
    finding = Recovery.of(replace(ask, stored=str(path))).run(context)
    assert any("3 do not match a text of the data." in warning for warning in finding.warnings)
    assert not others & set(finding.tables["instances"]["example"])
    Explanations(replace(i, text_pair="again") for i in heard.explanations).save(path)
    with pytest.raises(UserError, match="12 do not match"):
        Recovery.of(replace(ask, stored=str(path))).run(context)


def test_texts_without_a_label_are_not_called_wrong(context: Context) -> None:
    data = planted()
    for count in (2, 24):
        bare = tuple(replace(e, label=None) if i < count else e for i, e in enumerate(data["test"]))
        subject = subject_in(context, Dataset("d", {**data.splits, "test": bare}, data.labels))
        study = Recovery(subject, ("leave-one-out",), 24)
        if count == 2:
            assert any("2 are without a usable label." in warning for warning in study.run(context).warnings)
        else:
            with pytest.raises(UserError, match="0 are not classified correctly, 24 are without a usable"):
                study.run(context)


def _summary(mean: float, p: float, floor: float = 0.2, **tested: object) -> pd.DataFrame:
    rows = [
        {"measure": "average-precision", "method": method, "mean": value, "low": np.nan, "high": np.nan}
        | {"n": 100, "test": "wilcoxon", "p_against_random": q, "p_holm": q}
        for method, value, q in (("a", mean, p), ("random", floor, np.nan))
    ]
    return pd.DataFrame(rows).assign(**tested)


@pytest.mark.parametrize(
    ("summary", "rating", "words"),
    [
        (_summary(0.9, 0.001), "good", "finds the tokens"),
        (_summary(0.6, 0.001), "mixed", "finds some"),
        (_summary(0.3, 0.001), "poor", "finds few"),
        (_summary(0.85, 0.30, floor=0.84), "poor", "no better than a random order"),
        (_summary(0.85, 0.01, floor=0.80), "poor", "finds few"),  # most tokens are marked: .85 is nothing
        # a method that finds every token in ten texts is not called poor because thirty tests were made
        (_summary(0.74, 0.16, p_against_random=0.006), "mixed", "more texts"),
        (_summary(0.74, 0.16, p_against_random=0.2), "poor", "no better"),
        (_summary(np.nan, np.nan), "unknown", "not compared with the known tokens"),
    ],
)
def test_truth(summary: pd.DataFrame, rating: str, words: str) -> None:
    (judged,) = judgements(summary)
    assert (judged.method, judged.aspect, judged.rating) == ("a", "truth", rating)
    assert words in judged.words
    assert judgements(summary.assign(measure="auprc")) == (), "judged by average precision alone"
