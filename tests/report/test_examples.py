import json
from dataclasses import replace

import numpy as np
import pytest

from rashomon.explainers.collection import Explanations
from rashomon.explainers.display import LEVELS, pieces
from rashomon.report.examples import example_data

from .sample import sample_audit


def utf16(text):
    return text.encode("utf-16-le", "surrogatepass")


def cut(text, lengths):
    data, parts, start = utf16(text), [], 0
    for length in lengths:
        parts.append(data[2 * start : 2 * (start + length)].decode("utf-16-le"))
        start += length
    return parts


def strength(letter):
    return 0 if letter == "." else (ord(letter) - 64 if letter.isupper() else -(ord(letter) - 96))


@pytest.mark.parametrize("options", [{}, {"hostile": True}, {"pairs": True}])
def test_heat_is_that_of_the_display(options):
    audit = sample_audit(8, **options)
    data = example_data(audit)
    for shown in data["examples"]:
        for row, item in zip(shown["rows"], audit.explanations.of(shown["id"]), strict=True):
            assert data["methods"][row["method"]] == item.method
            for segment, text in enumerate(shown["texts"]):
                lengths, evidence = shown["cuts"][row["cut"]][segment]
                parts, at = cut(text, lengths), []
                assert "".join(parts) == text
                for part, letter in zip(parts, row["heat"][segment], strict=True):
                    at += [strength(letter)] * len(part)
                expected = []
                for piece in pieces(item, segment):
                    level = round(abs(piece.strength) * LEVELS)
                    expected += [level if piece.strength > 0 else -level] * len(piece.text)
                assert at == expected
                spans = [s for s in audit.rationales[shown["id"]] if s[0] == segment]
                inside = "".join(parts[i] for i in evidence)
                assert inside == "".join(text[a:b] for _, a, b in spans)


def test_rationale_may_cut_through_a_token():
    audit = sample_audit(1)
    name = audit.explanations.example_ids[0]
    data = example_data(replace(audit, rationales={name: [(0, 1, 6)]}))
    shown = data["examples"][0]
    lengths, evidence = shown["cuts"][0][0]
    parts = cut(shown["texts"][0], lengths)
    assert "".join(parts[i] for i in evidence) == shown["texts"][0][1:6]


def test_cuts_are_shared_between_methods():
    assert all(len(example["cuts"]) == 1 for example in example_data(sample_audit(5))["examples"])


def test_size_stays_small():
    audit = sample_audit(50)
    per_reading = len(json.dumps(example_data(audit))) / len(audit.explanations)
    assert per_reading < 400


def test_right_and_wrong():
    audit = sample_audit(30)
    for shown in example_data(audit)["examples"]:
        assert shown["right"] == (audit.gold_labels[shown["id"]] == "positive")
    item = replace(audit.explanations[0], probabilities=(0.9, 0.1))
    other = example_data(replace(audit, explanations=Explanations([item])))["examples"][0]
    assert other["right"] is None
    assert example_data(sample_audit(2, gold=False))["examples"][0]["gold"] is None


def test_undefined_scores_and_agreement():
    data = example_data(sample_audit(2, undefined=True))
    row = data["examples"][0]["rows"][0]
    assert set(row["heat"][0]) == {"."}
    assert data["examples"][0]["agreement"] is None
    assert "strongest" not in row
    assert "not finite" in data["warnings"][row["warnings"][0]]


def test_notes_tell_rows_apart():
    first = sample_audit(1, methods=("lime",)).explanations[0]
    same = [replace(first, seed=1), replace(first, seed=2, target=0, target_label="negative", gap=0.2)]
    audit = replace(sample_audit(1, methods=("lime",)), explanations=Explanations(same))
    rows = example_data(audit)["examples"][0]["rows"]
    assert rows[0]["notes"] == ["seed 1"]
    assert rows[1]["notes"] == ["completeness gap 20%", "explains negative", "seed 2"]


def test_empty_text():
    first = sample_audit(1, methods=("lime",)).explanations[0]
    none = np.empty(0)
    blank = replace(
        first, text="", tokens=(), offsets=none, word_ids=none, segments=none, special=none, scores=none
    )
    shown = example_data(replace(sample_audit(1), explanations=Explanations([blank])))["examples"][0]
    assert shown["tokens"] == 0


def test_what_was_not_seen_stands_beside_the_prediction():
    audit = sample_audit(2)
    first, *rest = audit.explanations.example_ids
    cut = Explanations(
        replace(item, unseen=0.4 if item.example_id == first else 0.0) for item in audit.explanations
    )
    said = {
        shown["id"]: shown["said"] for shown in example_data(replace(audit, explanations=cut))["examples"]
    }
    assert said[first].endswith("; 40% of the text not seen")
    assert all("not seen" not in said[other] for other in rest)
