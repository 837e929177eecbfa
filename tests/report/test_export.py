import json
import math
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rashomon.experiments.cautions import Caution
from rashomon.report.export import findings_data, plain, slug, tables
from rashomon.runs.frames import storable, tidy
from rashomon.runs.specifications import from_plain
from rashomon.studies.base import Judgement

from .sample import sample_audit


@dataclass(frozen=True)
class Setting:
    steps: int
    where: Path


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.nan, None),
        (np.float32("inf"), None),
        (np.int64(3), 3),
        (pd.NA, None),
        (pd.NaT, None),
        ((1, {2}), [1, [2]]),
        (np.array([[1.0, np.nan]]), [[1.0, None]]),
        ({1: Setting(2, Path("a/b"))}, {"1": {"steps": 2, "where": "a/b"}}),
        (date(2026, 1, 2), "2026-01-02"),
        (pd.Timestamp("2026-01-02"), "2026-01-02T00:00:00"),
        (True, True),
    ],
)
def test_plain(value, expected):
    result = plain(value)
    assert result == expected
    json.dumps(result, allow_nan=False)


def test_findings_hold_tables_and_figures():
    audit = sample_audit(2)
    data = json.loads(json.dumps(findings_data(audit), allow_nan=False))
    agreement = data["findings"][0]
    assert [figure["kind"] for figure in agreement["figures"]] == ["matrix", "distributions", "plot"]
    assert agreement["tables"]["summary"][0]["method"] == "attention"
    assert agreement["figures"][0]["layers"]["Kendall tau-b"][2][7] is None
    assert data["verdicts"][0]["judgements"][0]["aspect"] == "agreement"
    assert len(data["findings"]) == len(audit.findings)


def test_judgements_and_cautions_come_back_as_they_were():
    audit = sample_audit(2)
    caution = Caution("lime", "3 of 5 tokens are open", 9, 50)
    audit = replace(audit, findings=(replace(audit.findings[0], cautions=(caution,)),))
    data = json.loads(json.dumps(findings_data(audit), allow_nan=False))
    for verdict, stored in zip(audit.verdicts, data["verdicts"], strict=True):
        assert (
            tuple(from_plain(Judgement, judgement) for judgement in stored["judgements"])
            == verdict.judgements
        )
    assert any(judgement.gauges for verdict in audit.verdicts for judgement in verdict.judgements)
    assert from_plain(Caution, data["findings"][0]["cautions"][0]) == caution


def test_table_names_are_unique():
    finding = sample_audit(1).findings[0]
    twice = (finding, replace(finding, study="Agreement"))
    assert list(tables(twice)) == [
        "agreement-summary",
        "agreement-per-instance",
        "agreement-summary-2",
        "agreement-per-instance-2",
    ]


def test_tidy_flattens_indexes_and_columns():
    frame = pd.DataFrame({("tau", "mean"): [1.0], ("tau", "n"): [2]}, index=pd.Index(["lime"], name="method"))
    flat = tidy(frame)
    assert list(flat.columns) == ["method", "tau mean", "tau n"]
    assert flat.iloc[0].tolist() == ["lime", 1.0, 2]


def test_storable_turns_mixed_columns_into_text(tmp_path):
    frame = pd.DataFrame({"mixed": [1, "a", None, {1}], "good": [1.0, 2.0, math.nan, 4.0]})
    safe = storable(frame)
    safe.to_parquet(tmp_path / "t.parquet")
    mixed = pd.read_parquet(tmp_path / "t.parquet")["mixed"]
    assert mixed.isna().tolist() == [False, False, True, False]
    assert mixed.dropna().tolist() == ["1", "a", "{1}"]
    assert safe["good"].dtype == float


@pytest.mark.parametrize(("name", "expected"), [("A b/../c", "a-b-c"), ("", "unnamed"), ("日本", "unnamed")])
def test_slug(name, expected):
    assert slug(name) == expected
