from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rashomon.experiments.cautions import Caution
from rashomon.experiments.figures import Distributions, Figure, Gauge, Matrix, Plot, Series, TextMap
from rashomon.studies.base import Finding, Judgement
from rashomon.studies.finding_files import FIGURE_KINDS, read_finding, read_more, write_finding

UNDEFINED = float("nan")
FIGURES: tuple[Figure, ...] = (
    Matrix("m", ("a",), ("b",), {"tau": [[UNDEFINED]]}, {"tau": (-1.0, 1.0)}, {"tau": [["n = 0"]]}, "c"),
    Distributions("d", {"one": np.array([0.5, 1.0])}, "x", "c", (0.0, 1.0)),
    Plot("p", "x", "y", (Series("s", [1, 2], [3.0, UNDEFINED], [1, 2], [3, 4], False, "plus", True),), "c"),
    TextMap("t", "x", "y", ["1"], ["a “text”"], [0.5], [UNDEFINED], {"z": [1.0]}, {"z": (0.0, 1.0)}, "c"),
)


def _finding(*figures: Figure) -> Finding:
    gauge = Gauge("tau", 0.5, None, 0.75, floor=0.0, ends=(-1.0, 1.0), better="lower", variant="v")
    return Finding(
        study="agreement",
        question="Do they agree?",
        verdict="Hardly: tau 0.12.",
        configuration={"seed": 0, "subject": {"seeds": [1, 2]}},
        tables={
            "summary": pd.DataFrame({"method": ["a", "b"], "mean": [0.1, UNDEFINED], "n": [3, 0]}),
            "by pair": pd.DataFrame({"value": [1.5]}, index=pd.Index(["x"], name="pair")),
        },
        figures=figures,
        warnings=("few texts",),
        cautions=(Caution("lime", "is unsettled", 2, 3),),
        judgements=(Judgement("lime", "stability", "poor", "words", "tau .1", (gauge,)),),
        title="Agreement",
        chapter="One",
    )


def test_every_kind_of_figure_is_tried() -> None:
    assert [type(figure) for figure in FIGURES] == list(FIGURE_KINDS.values())


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    finding = _finding()
    write_finding(tmp_path, finding, {"seconds": 1.5})
    read = read_finding(tmp_path)
    assert replace(read, tables={}) == replace(finding, tables={})
    assert list(read.tables) == ["summary", "by pair"]
    pd.testing.assert_frame_equal(read.summary, finding.summary)
    pd.testing.assert_frame_equal(read.tables["by pair"], pd.DataFrame({"pair": ["x"], "value": [1.5]}))
    assert read_more(tmp_path) == {"seconds": 1.5}


@pytest.mark.parametrize("figure", FIGURES, ids=list(FIGURE_KINDS))
def test_figures_keep_their_kind_and_what_is_undefined(figure: Figure, tmp_path: Path) -> None:
    write_finding(tmp_path, _finding(figure))
    (read,) = read_finding(tmp_path).figures
    assert type(read) is type(figure)
    write_finding(tmp_path, _finding(read))
    # NaN differs from itself, so what is compared is how both are written.
    assert repr(read_finding(tmp_path).figures) == repr((read,))

    def plain(value: Figure) -> str:
        return repr(value).replace("(", "[").replace(")", "]").replace(",]", "]")

    assert plain(read) == plain(figure).replace("array[[0.5, 1. ]]", "[0.5, 1.0]")
