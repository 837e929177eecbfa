"""The same warning once, however many findings rest on the explanations that carry it."""

from __future__ import annotations

from dataclasses import replace

from rashomon.audits import cautions_in
from rashomon.experiments.cautions import Caution
from rashomon.studies.base import Finding
from tests.report.sample import bare_audit, sample_audit

OPEN = Caution("lime", "2 to 4 of the top 5 are open", 50, 100)
FEWER = Caution("lime", "3 of the top 5 are open", 20, 50)
OTHER = Caution("deep-shap", "3 of the top 5 are open", 1, 100)


def _finding(study: str, *cautions: Caution) -> Finding:
    return Finding(study, "?", "", {}, {}, warnings=("Own.",), cautions=cautions)


def test_it_is_told_of_the_most_texts_with_all_findings() -> None:
    first, second, third = _finding("x", FEWER), _finding("y", OPEN, OTHER), _finding("z")
    audit = replace(bare_audit(), findings=(first, second, third))
    assert cautions_in(audit) == [(OPEN, (first, second)), (OTHER, (second,))]
    assert second.all_warnings == ("Own.", str(OPEN), str(OTHER)), "a finding alone says all"
    assert f"note: {OPEN}" in str(second)


def test_the_shown_explanations_are_heard_where_no_finding_is() -> None:
    audit = replace(sample_audit(3, methods=("integrated-gradients",)), findings=())
    ((caution, concerned),) = cautions_in(audit)
    assert (caution.texts, caution.of, concerned) == (3, 3, ())
