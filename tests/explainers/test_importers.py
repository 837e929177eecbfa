from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rashomon.errors import UserError
from rashomon.explainers.importers import from_captum, from_eraser, from_scores

FULL: dict[str, Any] = {
    "targets": [1],
    "labels": ["bad", "good"],
    "probabilities": [[0.2, 0.8]],
    "model": "abc",
    "configuration": {"samples": 5},
    "seed": 1,
    "output_space": "logit",
    "versions": {"shap": "0.4"},
}


def test_a_text_is_cut_at_white_space() -> None:
    explanation = from_scores(["a  fine film"], [[0.1, 2, -1]], "mine", **FULL)[0]
    assert explanation.tokens == ("a", "fine", "film")
    assert explanation.offsets.tolist() == [[0, 1], [3, 7], [8, 12]]
    assert explanation.text == "a  fine film"
    assert (explanation.target_label, explanation.method, explanation.configuration) == (
        "good",
        "mine",
        {"samples": 5},
    )
    assert explanation.warnings == ()


@pytest.mark.parametrize(
    ("inputs", "scores", "method", "known", "message"),
    [
        (None, [[1.0]], "mine", {}, "no list of texts and 1 lists of scores"),
        (["a"], 1.0, "mine", {}, "1 texts and no list of lists of scores"),
        (["a"], [[1.0]], "", {}, "A method needs a name"),
        (["a"], [[1.0]], "mine", {"unit": "words"}, "did you mean 'word'"),
        (["a"], [[1.0]], "mine", {"seed": "one"}, "seed must be a whole number, not 'one'"),
        (["a"], [[1.0]], "mine", {"seed": 2**70}, "seed must be a whole number of at most 64 bits"),
        (["a"], [[1.0]], "mine", {"targets": 1}, "targets needs a list, not 1"),
        (["a"], [[1.0]], "mine", {"targets": ["good"]}, "What is given of example 0 is of another form"),
    ],
)
def test_what_cannot_be_understood_is_refused(
    inputs: Any, scores: Any, method: str, known: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        from_scores(inputs, scores, method, **known)


def test_what_is_not_known_is_said_and_not_invented() -> None:
    explanation = from_scores([["a", "film"]], [[1, 2]], "mine")[0]
    assert (explanation.target, explanation.target_label, explanation.model, explanation.output_space) == (
        -1,
        "unknown",
        "unknown",
        "unknown",
    )
    assert (explanation.seed, explanation.gap, explanation.probabilities, explanation.versions) == (
        None,
        None,
        (),
        {},
    )
    assert explanation.warnings == (
        "Made elsewhere; not known: target class, probabilities, model, full configuration, seed, output "
        "space, library versions.",
        "The original text is not known; it is put together from the tokens.",
    )


@pytest.mark.parametrize(
    ("tokens", "text", "words"),
    [
        (["un", "##believ", "##able", "film"], "Unbelievable film", [0, 0, 0, 1]),
        (["un", "believable", "Ġfilm", "s"], "unbelievable films", [0, 0, 1, 1]),
        (["▁un", "believable", "▁film"], "unbelievable   film", [0, 0, 1]),
        (["film", "#", "##"], "film # ##", [0, 1, 2]),
    ],
)
def test_marks_of_sub_words_are_understood(tokens: list[str], text: str, words: list[int]) -> None:
    explanation = from_scores([tokens], [[1.0] * len(tokens)], "mine", texts=[text], **FULL)[0]
    assert explanation.word_ids.tolist() == words
    assert explanation.warnings == ()
    assert "".join(explanation.surface(i) for i in range(len(explanation))) == text.replace(" ", "")
    joined = from_scores([tokens], [[1.0] * len(tokens)], "mine")[0]
    assert joined.text.lower() == " ".join(text.lower().split())


def test_a_token_that_is_not_in_the_text_gets_no_place_rather_than_a_wrong_one() -> None:
    """The unknown word holds an 'a', and the next token is an 'a' as well."""
    explanation = from_scores(
        [["the", "[UNK]", "a", "."]], [[1, 2, 3, 4]], "mine", texts=["the xax a."], **FULL
    )[0]
    assert explanation.offsets.tolist() == [[0, 3], [0, 0], [8, 9], [9, 10]]
    assert explanation.warnings == ("1 of 4 tokens were not found in the text and are not coloured there.",)


def test_special_tokens_are_named_or_warned_of() -> None:
    tokens = [["[CLS]", "good", "[SEP]"]]
    loud = from_scores(tokens, [[1, 2, 3]], "mine", texts=["good"], **FULL)[0]
    assert loud.content.all()
    assert any("'[CLS]' count as content" in warning for warning in loud.warnings)
    quiet = from_scores(tokens, [[1, 2, 3]], "mine", texts=["good"], special=[[True, False, True]], **FULL)[0]
    assert quiet.special.tolist() == [True, False, True]
    assert quiet.word_ids.tolist() == [-1, 0, -1]
    assert quiet.warnings == ()


def test_a_pair_is_told_apart_by_its_segments() -> None:
    explanation = from_scores(
        [["a", "man", "a", "child"]],
        [[1, 2, 3, 4]],
        "mine",
        segments=[[0, 0, 1, 1]],
        texts=["A man"],
        pair_texts=["a child"],
        **FULL,
    )[0]
    assert (explanation.text, explanation.text_pair) == ("A man", "a child")
    assert explanation.offsets.tolist() == [[0, 1], [2, 5], [0, 1], [2, 7]]
    assert explanation.word_ids.tolist() == [0, 1, 0, 1]
    guessed = from_scores([["a", "man", "a", "child"]], [[1, 2, 3, 4]], "mine", segments=[[0, 0, 1, 1]])[0]
    assert (guessed.text, guessed.text_pair) == ("a man", "a child")


@pytest.mark.parametrize(
    ("inputs", "scores", "known", "message"),
    [
        (["a b"], [[1.0]], {}, "2 tokens and scores of shape"),
        (["a b"], [[[1.0], [2.0]]], {}, "give one score a token"),
        (["a b"], [[1.0, "x"]], {}, "not a list of numbers"),
        (["a b"], [[1.0, [2.0]]], {}, "not a list of numbers"),
        (["a", "b"], [[1.0]], {}, "2 texts and 1 lists"),
        ("a", [[1.0]], {}, "give one list a text"),
        (["a"], [[1.0]], {"targets": [1, 0]}, "1 examples and 2 entries in targets"),
        (["a"], [[1.0]], {"special": [[False, True]]}, "one entry a token"),
        (["a"], [[1.0]], {"targets": [2], "labels": ["x", "y"]}, "does not count into the 2 labels"),
        (["a"], [[1.0]], {"target": [2]}, "did you mean 'targets'"),
    ],
)
def test_what_does_not_fit_is_refused(inputs: Any, scores: Any, known: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        from_scores(inputs, scores, "mine", **known)


# ---- Captum


def test_captum_aggregation_is_explicit_and_recorded() -> None:
    values = torch.tensor([[3.0, -4.0], [1.0, 1.0]])
    summed = from_captum(values, ["a", "b"], "ig", "sum")[0]
    assert summed.scores.tolist() == [-1, 2]
    assert summed.configuration == {"aggregation": "sum"}
    assert "full configuration" in summed.warnings[0]
    assert from_captum([values], [["a", "b"]], "ig", "norm")[0].scores.tolist() == pytest.approx([5, 2**0.5])
    assert from_captum(values[:, 0], ["a", "b"], "ig", "none")[0].scores.tolist() == [3, 1]
    for tensor, aggregation in ((values, "none"), (values[:, 0], "sum")):
        with pytest.raises(UserError, match="needs attributions of shape"):
            from_captum(tensor, ["a", "b"], "ig", aggregation)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="aggregation"):
        from_captum(values, ["a", "b"], "ig", "average")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="no padding"):
        from_captum(values, ["a"], "ig", "sum")


def test_what_captum_says_of_a_linear_model_comes_in_unchanged() -> None:
    attr = pytest.importorskip("captum.attr")
    weights = torch.tensor([[1.0, -2.0], [0.5, 3.0], [0.0, 1.0]])
    inputs = torch.tensor([[[1.0, 1.0], [2.0, 0.0], [3.0, -1.0]]], requires_grad=True)
    attributions = attr.InputXGradient(lambda x: (x * weights).sum((1, 2))).attribute(inputs)
    explanations = from_captum(attributions, [["a", "b", "c"]], "gradient-x-input", "sum")
    assert explanations[0].scores.tolist() == pytest.approx((weights * inputs[0]).sum(-1).tolist())


# ---- ERASER


def write(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
    return path


DOCUMENTS = {"d1": ["a", "very", "good", "film"], "d2": ["no", "plot"]}
SOFT = {"docid": "d1", "soft_rationale_predictions": [0.1, 0.2, 0.9, 0.3]}
HARD = {"docid": "d1", "hard_rationale_predictions": [{"start_token": 1, "end_token": 3}]}
CLASS = {"classification": "POS", "classification_scores": {"POS": 0.75, "NEG": 0.25}}


def test_eraser_soft_scores(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", {"annotation_id": "x1", "rationales": [SOFT], **CLASS}, "")
    explanation = from_eraser(path, DOCUMENTS, "lei", labels=["NEG", "POS"])[0]
    assert (explanation.example_id, explanation.method, explanation.text) == ("x1", "lei", "a very good film")
    assert explanation.scores.tolist() == [0.1, 0.2, 0.9, 0.3]
    assert (explanation.target, explanation.target_label, explanation.probabilities) == (
        1,
        "POS",
        (0.25, 0.75),
    )
    assert explanation.configuration == {"rationales": "soft"}


def test_eraser_without_the_order_of_labels_has_no_class_index(tmp_path: Path) -> None:
    path = write(tmp_path / "p.jsonl", {"annotation_id": "x1", "rationales": [SOFT], **CLASS})
    explanation = from_eraser(path, DOCUMENTS, "lei")[0]
    assert (explanation.target, explanation.target_label, explanation.probabilities) == (-1, "POS", ())
    assert "target class" in explanation.warnings[0]


def test_eraser_hard_spans_and_pairs(tmp_path: Path) -> None:
    second = {"docid": "d2", "hard_rationale_predictions": []}
    path = write(
        tmp_path / "p.jsonl",
        {"annotation_id": "x1", "rationales": [HARD, second]},
        {
            "annotation_id": "x2",
            "rationales": [
                {
                    "hard_rationale_predictions": [
                        {"docid": "d2", "start_token": 0, "end_token": 1},
                        {"docid": "d1", "start_token": 0, "end_token": 1},
                        {"docid": "d1", "start_token": 3, "end_token": 4},
                    ]
                }
            ],
        },
    )
    pair, other = from_eraser(path, DOCUMENTS, "lei", scores="hard")
    assert pair.scores.tolist() == [0, 1, 1, 0, 0, 0]
    assert pair.segments.tolist() == [0, 0, 0, 0, 1, 1]
    assert (pair.text, pair.text_pair) == ("a very good film", "no plot")
    assert (other.text, other.text_pair) == ("no plot", "a very good film")
    assert other.scores.tolist() == [1, 0, 1, 0, 0, 1]
    assert np.isin(pair.scores, (0, 1)).all()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{not json", r"Line 2 of .* is not JSON"),
        ({"rationales": [SOFT]}, "needs 'annotation_id'"),
        ({"annotation_id": "x", "rationales": []}, "'rationales'"),
        ({"annotation_id": "x", "rationales": [HARD]}, "no 'soft_rationale_predictions'"),
        ({"annotation_id": "x", "rationales": [{**SOFT, "docid": "d9"}]}, "'d9', which is not among"),
        ({"annotation_id": "x", "rationales": [{**SOFT, "docid": "d2"}]}, "4 scores for the 2 tokens"),
        ({"annotation_id": "x", "rationales": [SOFT, SOFT]}, "twice"),
    ],
)
def test_eraser_mistakes_are_told_with_their_line(tmp_path: Path, row: Any, message: str) -> None:
    path = write(tmp_path / "p.jsonl", {"annotation_id": "ok", "rationales": [SOFT]}, row)
    with pytest.raises(UserError, match=message):
        from_eraser(path, DOCUMENTS, "lei")


def test_eraser_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        from_eraser(tmp_path / "missing.jsonl", DOCUMENTS, "lei")
    far = {"docid": "d2", "hard_rationale_predictions": [{"start_token": 1, "end_token": 3}]}
    path = write(tmp_path / "p.jsonl", {"annotation_id": "x", "rationales": [far]})
    with pytest.raises(UserError, match="marks tokens 1 to 3 of 2"):
        from_eraser(path, DOCUMENTS, "lei", scores="hard")
    with pytest.raises(UserError, match="did you mean 'soft'"):
        from_eraser(path, DOCUMENTS, "lei", scores="sft")  # type: ignore[arg-type]
    path = write(tmp_path / "p.jsonl", {"annotation_id": "x", "rationales": [SOFT], "classification": "?"})
    with pytest.raises(UserError, match="no class named"):
        from_eraser(path, DOCUMENTS, "lei", labels=["NEG", "POS"])
