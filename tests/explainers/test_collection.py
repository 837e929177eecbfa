from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from rashomon.errors import UserError
from rashomon.explainers.collection import SHOWN, Explanations
from rashomon.explainers.record import Explanation

NO_PLACE = Path("/proc/nowhere/e.parquet")


def explanation(
    example_id: str, method: str, scores: Sequence[float] = (0.0, 1.0, -2.0), **changes: Any
) -> Explanation:
    """[CLS] good ##ness: a special token and a word of two pieces."""
    item = Explanation(
        example_id=example_id,
        text="goodness",
        text_pair=None,
        tokens=("[CLS]", "good", "##ness"),
        offsets=np.array([[0, 0], [0, 4], [4, 8]]),
        word_ids=np.array([-1, 0, 0]),
        segments=np.zeros(3, dtype=np.int64),
        special=np.array([True, False, False]),
        scores=np.zeros(3),
        method=method,
        configuration={"samples": 10, "nested": {"list": [1, 2.5, None, "ö"]}},
        seed=None,
        target=1,
        target_label="positive",
        probabilities=(0.25, 0.75),
        output_space="logit",
        model="abc",
        gap=0.01,
        versions={"torch": "2"},
        warnings=("careful",),
    )
    return replace(item, **{"scores": scores, **changes})


@pytest.fixture
def four() -> Explanations:
    return Explanations(
        explanation(example, method) for example in ("e1", "e2") for method in ("lime", "attention")
    )


def test_it_is_an_immutable_sequence(four: Explanations) -> None:
    assert len(four) == 4
    assert four[0].method == "lime"
    assert four[-1] == four[3]
    assert isinstance(four[1:3], Explanations)
    assert [item.method for item in four[1:3]] == ["attention", "lime"]
    assert (four[:1] + four[1:]) == four
    assert four[0] in four
    assert not Explanations()
    with pytest.raises(TypeError):
        four[0] = four[1]  # type: ignore[index]


def test_choosing(four: Explanations) -> None:
    assert four.methods == ("lime", "attention")
    assert four.example_ids == ("e1", "e2")
    assert [item.example_id for item in four.by_method("lime")] == ["e1", "e2"]
    assert four.of("e2").methods == ("lime", "attention")
    assert four.where(method="lime", example_id=["e2"]) == four[2:3]
    assert len(four.where(lambda item: item.example_id == "e1")) == 2
    assert len(four.where(method="nobody")) == 0
    with pytest.raises(UserError, match="did you mean 'attention'"):
        four.by_method("atention")
    with pytest.raises(UserError, match="no example"):
        four.of("e9")


def test_words_are_merged_in_all(four: Explanations) -> None:
    words = four.words("max")
    assert all(item.tokens == ("[CLS]", "goodness") and item.merged_by == "max" for item in words)
    assert words[0].scores.tolist() == [0, -2]


def test_pandas_has_a_row_a_token(four: Explanations) -> None:
    frame = four.to_pandas()
    assert len(frame) == 12
    assert frame["position"].tolist() == [0, 1, 2] * 4
    lime = frame[(frame["method"] == "lime") & (frame["example_id"] == "e2")]
    assert lime["score"].tolist() == [0, 1, -2]
    assert lime["special"].tolist() == [True, False, False]
    assert lime[["start", "end"]].to_numpy().tolist() == [[0, 0], [0, 4], [4, 8]]
    assert frame["seed"].isna().all()
    assert frame["target"].dtype == np.int64
    empty = Explanations().to_pandas()
    assert len(empty) == 0
    assert list(empty.columns) == list(frame.columns)


# ---- comparing


def test_aligned_leaves_special_tokens_out_and_counts_them() -> None:
    """Common zeros would look like agreement (T8); so does a large score on [CLS]."""
    both = Explanations(
        [
            explanation("e1", "a", (5, 1, 2)),
            explanation("e2", "a", (5, 3, 4)),
            explanation("e2", "b", (5, 7, 8)),
            explanation("e1", "b", (5, 5, 6)),
        ]
    )
    aligned = both.aligned()
    assert aligned.example_ids == ("e1", "e2")
    assert [scores.tolist() for scores in aligned.scores["a"]] == [[1, 2], [3, 4]]
    assert [scores.tolist() for scores in aligned.scores["b"]] == [[5, 6], [7, 8]]
    assert aligned.special_excluded == 2
    assert aligned.incomplete == ()


def test_aligned_names_the_examples_that_some_method_lacks() -> None:
    aligned = Explanations([explanation("e1", "a"), explanation("e1", "b"), explanation("e2", "a")]).aligned()
    assert aligned.example_ids == ("e1",)
    assert aligned.incomplete == ("e2",)
    assert len(aligned.scores["a"]) == len(aligned.scores["b"]) == 1


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([], "no explanations"),
        ([explanation("e1", "a"), explanation("e2", "b")], "No example was explained by all"),
        ([explanation("e1", "a"), explanation("e1", "a")], "two explanations by 'a'"),
        (
            [explanation("e1", "a"), explanation("e1", "b", tokens=("[CLS]", "goo", "##dness"))],
            "different tokens",
        ),
        ([explanation("e1", "a"), explanation("e1", "b", unit="word")], "in tokens and words"),
        (
            [explanation("e1", "a"), explanation("e1", "b", target=0, target_label="negative")],
            "different classes",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(items: list[Explanation], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Explanations(items).aligned()


def test_an_unknown_target_may_be_compared() -> None:
    assert Explanations(
        [explanation("e1", "a"), explanation("e1", "b", target=-1)]
    ).aligned().example_ids == ("e1",)


# ---- the file


def test_saved_and_loaded_it_is_the_same(tmp_path: Path, four: Explanations) -> None:
    pair = explanation("e3", "lime", text_pair="second", segments=[0, 0, 1], offsets=[[0, 0], [0, 4], [0, 6]])
    odd = explanation(
        "e4", "lime", (float("nan"), 1, 2), gap=None, seed=5, warnings=(), probabilities=(), target=-1
    )
    none = explanation("e5", "lime", (), tokens=(), offsets=[], word_ids=[], segments=[], special=[])
    everything = four.words() + four + [pair, odd, none]
    everything.save(tmp_path / "new" / "e.parquet")
    assert Explanations.load(tmp_path / "new" / "e.parquet") == everything
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["e.parquet"]  # nothing left aside


def test_an_empty_collection_is_saved_too(tmp_path: Path) -> None:
    Explanations().save(tmp_path / "e.parquet")
    assert Explanations.load(tmp_path / "e.parquet") == Explanations()


@given(
    scores=st.lists(st.floats(allow_nan=True, width=64), max_size=6),
    text=st.text(st.characters(codec="utf-8"), min_size=6, max_size=12),
)
def test_any_scores_and_text_survive(tmp_path_factory: Any, scores: list[float], text: str) -> None:
    n = len(scores)
    item = explanation(
        text,
        text,
        scores,
        text=text,
        tokens=tuple(text[:n]),
        offsets=[[i, i + 1] for i in range(n)],
        word_ids=range(n),
        segments=[0] * n,
        special=[False] * n,
    )
    path = tmp_path_factory.getbasetemp() / "any.parquet"
    Explanations([item, item]).save(path)
    assert Explanations.load(path)[1] == item


def test_the_file_is_plain_parquet_with_a_row_an_explanation(tmp_path: Path, four: Explanations) -> None:
    four.save(tmp_path / "e.parquet")
    frame = pd.read_parquet(tmp_path / "e.parquet")
    assert len(frame) == 4
    assert frame["scores"][0].tolist() == [0, 1, -2]
    assert frame["configuration"][0] == '{"samples": 10, "nested": {"list": [1, 2.5, null, "ö"]}}'


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, four: Explanations, monkeypatch: Any) -> None:
    path = tmp_path / "e.parquet"
    four.save(path)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UserError, match="No space left"):
        Explanations().save(path)
    assert Explanations.load(path) == four
    assert [file.name for file in tmp_path.iterdir()] == ["e.parquet"]


def test_files_from_before_the_share_that_was_not_seen(tmp_path: Path, four: Explanations) -> None:
    path = tmp_path / "e.parquet"
    Explanations([replace(four[0], unseen=0.25), replace(four[1], unseen=0.0), four[2]]).save(path)
    assert [item.unseen for item in Explanations.load(path)] == [0.25, 0.0, None]
    pq.write_table(pq.read_table(path).drop_columns(["unseen"]), path)
    old = Explanations.load(path)
    assert [item.unseen for item in old] == [None] * 3
    assert old[2] == four[2]
    assert old.words()[0].unseen is None
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(UserError, match="a share is from 0 to 1"):
            replace(four[0], unseen=wrong)


def test_files_that_are_no_explanations_are_refused(tmp_path: Path, four: Explanations) -> None:
    with pytest.raises(UserError, match="no explanations file"):
        Explanations.load(tmp_path / "missing.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(UserError, match="not Parquet"):
        Explanations.load(tmp_path / "text.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(UserError, match=r"not written by Explanations\.save"):
        Explanations.load(tmp_path / "other.parquet")
    four.save(tmp_path / "e.parquet")
    table = pq.read_table(tmp_path / "e.parquet")
    newer = table.replace_schema_metadata({**table.schema.metadata, b"rashomon.schema_version": b"99"})
    pq.write_table(newer, tmp_path / "newer.parquet")
    with pytest.raises(UserError, match="version 99"):
        Explanations.load(tmp_path / "newer.parquet")
    pq.write_table(table.drop_columns(["scores"]), tmp_path / "less.parquet")
    with pytest.raises(UserError, match="make the file again"):
        Explanations.load(tmp_path / "less.parquet")
    with pytest.raises(UserError, match="cannot be written"):
        four.save(NO_PLACE)


# ---- showing itself


def test_a_terminal_and_a_notebook_show_some_and_say_how_many_more() -> None:
    many = Explanations(explanation(f"e{i}", "lime") for i in range(SHOWN + 7))
    console = Console(width=100, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(many)
    assert capture.get().count("Prediction: positive") == SHOWN
    assert "and 7 more examples" in capture.get()
    page = many._repr_html_()
    assert page.count("<section") == SHOWN
    assert "and 7 more examples" in page
    assert repr(many) == f"Explanations({SHOWN + 7} of {SHOWN + 7} examples by lime)"


def test_a_digest_tells_who_says_what_of_which_tokens(four: Explanations) -> None:
    item = four[0]
    same = Explanations([item]).digest()
    assert Explanations([replace(item)]).digest() == same
    read_otherwise = replace(item, tokens=tuple(f"{token}x" for token in item.tokens))
    for other in (replace(item, scores=item.scores + 1), replace(item, method="other"), read_otherwise):
        assert Explanations([other]).digest() != same
    assert Explanations([item, replace(item, example_id="next")]).digest() != same
