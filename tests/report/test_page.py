import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest

from rashomon.audits.record import MethodVerdict
from rashomon.errors import UserError
from rashomon.experiments.cautions import Caution
from rashomon.explainers.collection import Explanations
from rashomon.report import render, save_report
from rashomon.report.page import title_of
from rashomon.report.verdict_table import verdict_table
from rashomon.studies.base import Judgement

from .sample import HOSTILE, bare_audit, sample_audit, sample_study


class Outline(HTMLParser):
    """What elements a browser would see."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.ids, self.scripts, self.links, self.headings = [], [], [], [], []
        self.inside = None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "script":
            self.scripts.append("")
            self.inside = "script"
        if tag == "a":
            self.links.append(attributes["href"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts[-1] += data


AUDITS = {
    "whole": lambda: sample_audit(6),
    "bare": bare_audit,
    "hostile": lambda: sample_audit(8, hostile=True),
    "pairs": lambda: sample_audit(3, pairs=True),
    "one method": lambda: sample_audit(3, methods=("lime",)),
    "no gold": lambda: sample_audit(3, gold=False),
    "undefined": lambda: sample_audit(3, undefined=True),
    "no examples": lambda: replace(sample_audit(1), explanations=Explanations()),
    "no findings": lambda: replace(sample_audit(1), findings=()),
    "one study": sample_study,
    "study twice": lambda: replace(sample_audit(1), findings=sample_audit(1).findings * 2),
}


@pytest.mark.parametrize("name", AUDITS)
def test_every_page_is_sound(name):
    page = Outline(render(AUDITS[name]()))
    assert len(page.ids) == len(set(page.ids))
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert page.headings[0] == 1
    assert page.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(page.headings, page.headings[1:], strict=False))
    assert len(page.scripts) == 2  # the examples and the page's own, whatever the texts say
    json.loads(page.scripts[0])
    external = [v for _, attrs in page.tags for k, v in attrs.items() if k in ("src", "href", "action")]
    assert all(value.startswith(("#", "data:")) for value in external)


def test_hostile_text_stays_text():
    page = render(sample_audit(8, hostile=True))
    assert "<script>alert" not in page
    assert "onerror=alert(1)>" not in page
    assert "49" not in re.findall(r"\{\{.*?\}\}|>49<", page)
    data = json.loads(Outline(page).scripts[0])
    assert [example["texts"][0] for example in data["examples"][: len(HOSTILE)]] == list(HOSTILE)


def test_the_order_of_the_page():
    page = Outline(render(sample_audit(2)))
    wanted = [
        "summary",
        "warnings",
        "study-agreement",
        "study-erasure",
        "chapter-study-seed-variance",
        "study-seed-variance",
    ]
    wanted += ["study-adversary", "examples", "configuration", "versions", "reproduce"]
    assert [name for name in page.ids if name in wanted] == wanted


def test_figures_keep_the_order_of_the_finding():
    ids = Outline(render(sample_audit(2))).ids
    figures = [name for name in ids if re.fullmatch(r"study-agreement-f\d", name)]
    assert figures == ["study-agreement-f0", "study-agreement-f1", "study-agreement-f2"]


def test_ratings_have_words_and_missing_ones_are_unknown():
    verdicts = (
        MethodVerdict(
            "a",
            "Good.",
            (Judgement("a", "agreement", "good", "agrees", ".4"), Judgement("a", "taste", "odd", "w", "")),
        ),
        MethodVerdict("b", "Unseen.", ()),
    )
    page = render(replace(bare_audit(), verdicts=verdicts))
    assert "Agrees with the others?" in page
    assert "Taste" in page
    assert page.count("not judged") == 2
    assert re.search(r'<td role="cell" class="is-good">', page)
    assert re.search(r"</svg> good</span> agrees \(\.4\)</span>", page), (
        "a number without a scale stands in words"
    )
    assert 'class="gauge-drawing"' not in page


def test_long_tables_are_folded_and_cut():
    page = render(sample_audit(1))
    assert "Table: per instance" in page
    assert "The first 60 of 240 rows; all are in tables/agreement-per-instance.parquet." in page


def test_studies_without_a_title_get_one():
    finding = sample_audit(1).findings[0]
    assert title_of(finding) == "Agreement between methods"
    assert title_of(replace(finding, title="", study="label-smoothing_sweep")) == "Label smoothing sweep"
    assert title_of(replace(finding, title="", study="")) == "Study"


def test_the_page_of_one_study_has_nothing_of_an_audit(tmp_path):
    written = save_report(sample_study(), tmp_path)
    page = written.report.read_text(encoding="utf-8")
    assert "Rashomon study" in page
    assert 'id="examples"' not in page
    assert "explanations.parquet" not in page
    assert written.explanations is None
    assert not (tmp_path / "explanations.parquet").exists()
    findings = json.loads(written.findings.read_text(encoding="utf-8"))
    assert not {"verdicts", "example_agreement", "explanations"} & set(findings)
    assert "Rashomon audit" in render(sample_audit(1))


def _listed(page):
    return page[
        page.index('<h2 id="warnings-h">') : page.index("<section", page.index('<h2 id="warnings-h">'))
    ]


def test_warnings_of_explanations_are_counted():
    assert "integrated-gradients: The completeness gap is 3.1 %; use more steps. (6 of 6 texts)" in _listed(
        render(sample_audit(6))
    )


def test_judgements_are_drawn_with_their_numbers_in_reach():
    audit = sample_audit(1)
    page = Outline(render(audit))
    reached = [attrs for tag, attrs in page.tags if tag == "span" and attrs.get("tabindex") == "0"]
    drawn = [j.number for v in audit.verdicts for j in v.judgements if j.gauges]
    assert sorted(attrs["aria-label"] for attrs in reached) == sorted(drawn)
    assert {attrs["role"] for attrs in reached} == {"img"}


def test_a_column_has_one_scale_and_names_its_signs():
    table = verdict_table(sample_audit(1).verdicts)
    columns = {column.title: column for column in table.columns}
    agreement, cost = columns["Agrees with the others?"], columns["At what cost?"]
    assert (agreement.measure, agreement.ends, agreement.variants) == ("tau", ("−.1", "1"), ())
    assert cost.ends == ("10", ".001"), "right is better"
    signs = columns["Agrees with itself?"].variants
    assert [said for _, said in signs] == ["sampled again", "trained again"]
    assert columns["Finds the truth?"].ends is None
    undefined = verdict_table(sample_audit(1, undefined=True).verdicts)
    assert undefined.rows[0][1][0].drawing is None, "what is not a number has no place"


def test_render_is_deterministic():
    assert render(sample_audit(4)) == render(sample_audit(4))


def test_save_report(tmp_path):
    audit = sample_audit(5, hostile=True)
    written = save_report(audit, tmp_path / "new" / "out")
    assert written.report.read_text(encoding="utf-8") == render(audit)
    findings = json.loads(written.findings.read_text(encoding="utf-8"))
    assert findings["findings"][0]["study"] == "agreement"
    assert Explanations.load(written.explanations) == audit.explanations
    names = sorted(path.name for path in (tmp_path / "new" / "out" / "tables").iterdir())
    assert names == sorted(path.name for path in written.tables)
    stored = pd.read_parquet(tmp_path / "new" / "out" / "tables" / "agreement-summary.parquet")
    pd.testing.assert_frame_equal(stored, audit.findings[0].tables["summary"], check_dtype=False)
    hidden = [path.name for path in (tmp_path / "new").rglob("*") if path.name.startswith(".")]
    assert hidden == [".rashomon.json"]
    save_report(audit, tmp_path / "new" / "out")  # again, over itself


def test_half_a_character_does_not_stop_the_page(tmp_path):
    written = save_report(replace(bare_audit(), title="odd \ud800 title"), tmp_path)
    assert b"odd ? title" in written.report.read_bytes()


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "taken").write_text("x")
    with pytest.raises(UserError, match=r"Cannot write to .*taken"):
        save_report(bare_audit(), tmp_path / "taken")


def test_an_unwritable_folder(tmp_path, monkeypatch):
    def refuse(path, data):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("rashomon.report.page.write_bytes", refuse)
    with pytest.raises(UserError, match=r"cannot be written to .*: Permission denied; choose another place"):
        save_report(bare_audit(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_earlier_report_is_replaced_whole(tmp_path):
    first = save_report(sample_audit(3), tmp_path)
    assert first.tables
    again = save_report(bare_audit(), tmp_path)
    assert again.report.read_text(encoding="utf-8") == render(bare_audit())
    assert [path for path in tmp_path.rglob("*.parquet") if path.parent.name == "tables"] == []


def test_a_warning_stands_once():
    audit = sample_audit(1)
    first, second, *rest = audit.findings
    unsettled = Caution("lime", "2 to 4 of 5 tokens are open", 50, 100)
    findings = (
        replace(first, warnings=("Odd.", "Rare."), cautions=(unsettled,)),
        replace(
            second,
            warnings=("Odd.",),
            cautions=(replace(unsettled, about="3 of 5 tokens are open", texts=9, of=50),),
        ),
        *rest,
    )
    page = render(replace(audit, findings=findings, warnings=("Whole.", "Odd.", "Rare.")))
    assert [page.count(warning) for warning in ("Whole.", "Odd.", "Rare.")] == [1, 1, 1]
    assert page.count("tokens are open") == 1
    listed = _listed(page)
    assert "lime: 2 to 4 of 5 tokens are open (50 of 100 texts)" in listed
    assert "Rare." not in listed, "what concerns one section is told there"
    named = re.findall(r'<a href="#([a-z-]+)">', listed[listed.index("lime: 2 to 4") :])
    assert named[:2] == ["study-agreement", "study-erasure"]
    assert "Odd." in listed
