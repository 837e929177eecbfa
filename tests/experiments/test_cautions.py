"""The same warning of many texts is one caution, whatever its numbers."""

from __future__ import annotations

from dataclasses import replace

from rashomon.experiments.cautions import Caution, cautions_of
from tests.report.sample import sample_audit


def _warned(*warnings: str) -> list[str]:
    items = list(sample_audit(4, methods=("lime",)).explanations)
    warned = [replace(item, warnings=(said,)) for item, said in zip(items, warnings, strict=False)]
    rest = [replace(item, warnings=()) for item in items[len(warned) :]]
    return [str(caution) for caution in cautions_of([*warned, *rest])]


def test_numbers_that_differ_become_a_range() -> None:
    said = _warned(
        "tau 0.41 of top-5, 64 texts", "tau -0.20 of top-5, 64 texts", "tau 0.30 of top-5, 9 texts"
    )
    assert said == ["lime: tau -0.20 to 0.41 of top-5, 9 to 64 texts (3 of 4 texts)"]


def test_other_words_are_another_kind() -> None:
    assert _warned("cut at 40", "cut at 40", "no rule for 1 part") == [
        "lime: cut at 40 (2 of 4 texts)",
        "lime: no rule for 1 part (1 of 4 texts)",
    ]
    assert _warned() == []


def test_a_kind_is_the_same_over_other_texts() -> None:
    caution = Caution("lime", "3 of the top 5 are open after 1000 samples", 1, 9)
    assert (
        caution.kind == replace(caution, about="2 to 4 of the top 5 are open after 1000 samples", of=50).kind
    )
    assert caution.kind != replace(caution, method="kernel-shap").kind
