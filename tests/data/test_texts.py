"""Whatever holds texts becomes examples; whatever does not is refused in a sentence."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rashomon.data import Dataset, Example, as_examples
from rashomon.errors import UserError

ONE, TWO = Example("a", "good film"), Example("b", "bad film")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("good film", [("0", "good film", None)]),
        (ONE, [("a", "good film", None)]),
        (["good film", TWO], [("0", "good film", None), ("b", "bad film", None)]),
        (("good film", "bad film"), [("0", "good film", None), ("1", "bad film", None)]),
        ([("good", "film")], [("0", "good", "film")]),
        ({"text": "good film", "label": 1}, [("0", "good film", None)]),
        ([{"id": 7, "text": "good", "text_pair": "film"}], [("7", "good", "film")]),
        (np.array(["good film"]), [("0", "good film", None)]),
        ((text for text in ["good film"]), [("0", "good film", None)]),
        (pd.Series(["good film"], index=["k"]), [("k", "good film", None)]),
        (pd.Series(["good", "film"], index=[0, 0]), [("0", "good", None), ("1", "film", None)]),
        (pd.DataFrame({"text": ["good film"], "label": ["?"]}, index=[9]), [("9", "good film", None)]),
        (pd.DataFrame({"text": ["good"], "text_pair": ["film"]}), [("0", "good", "film")]),
        (pd.DataFrame({"question": ["who"], "passage": ["she"], "n": [1]}), [("0", "who", "she")]),
        ([], []),
    ],
)
def test_natural_inputs(given: object, expected: list[tuple[str, str, str | None]]) -> None:
    assert [(e.id, e.text, e.text_pair) for e in as_examples(given)] == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "not a NoneType"),
        (7, "not an int"),
        (b"good", "not a bytes"),
        ([1], "The text 0 is an int"),
        ([["good", "bad", "film"]], "The text 0 is a list"),
        ([("good", 1)], "labels are not part of it"),
        ([{"body": "good"}], "The text 0 is a dict"),
        ([{"text": "good", "tokens": ["good"]}], "'tokens'"),
        (pd.Series([1.5]), "is a float"),
        (pd.Series([None, "good"]), "NoneType"),
        (pd.DataFrame({"body": ["good film"]}), "There is no column 'text' .* frame\\['body'\\]"),
        (
            pd.DataFrame({"text": [None, "good film"]}),
            "1 of 2 rows of the frame has an empty text .*: row 1. Mend or remove",
        ),
        ([ONE, ONE], "2 examples have the id 'a'"),
        ([Example("1", "good"), "bad"], "2 examples have the id '1'"),
        (Dataset("d", {"test": (ONE,)}, ()), "data\\['test'\\]"),
    ],
)
def test_everything_else_is_refused_in_a_sentence(given: object, said: str) -> None:
    with pytest.raises(UserError, match=said):
        as_examples(given)  # type: ignore[arg-type]
