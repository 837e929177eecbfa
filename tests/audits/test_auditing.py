from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import rashomon as ra
from rashomon.audits.auditing import AuditSettings, run_audit, single_finding
from rashomon.data import Columns, Dataset, Example
from rashomon.errors import Caution, UserError
from rashomon.experiments.context import Context
from rashomon.experiments.subject import DatasetSpec, Subject
from rashomon.experiments.testimony import Ask, hear
from rashomon.explainers import Explanations
from rashomon.studies.agreement import Agreement
from rashomon.studies.recovery import Recovery
from tests.studies.planted import LABELS, SMALL, planted, subject_in

METHODS = ("attention", "leave-one-out", "random")
TRIAL = ("permutation", "instance-adversary", "seed-variance", "attefa")
MAPPED = ("cartography", "curvature")
STUDIES = (
    "performance",
    "model-check",
    "agreement",
    "noise-ceiling",
    "erasure",
    "recovery",
    *MAPPED,
    "necessity",
    *TRIAL,
)
TEXTS = (
    "a witty warm film and a great plot",
    "the movie was dull",
    "not very good but people walk with warmness",
    "awful and long",
    "one two three people sleep",
    '<script>alert(1)</script> & a "great" film',
)


def _file(folder: Path, labels: tuple[str, ...], pair: bool) -> Path:
    path = folder / "reviews.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        rows = csv.writer(stream)
        rows.writerow(["body", "other", "stars"])
        for i, text in enumerate(TEXTS):
            rows.writerow([text, TEXTS[-1 - i] if pair else "", labels[i % len(labels)] if labels else ""])
    return path


def test_the_built_in_model(
    context: Context, asked: list[tuple[str, ...]], trainings: list[tuple[str, int]]
) -> None:
    # However single studies would train it: the audited model is one.
    subject = replace(subject_in(context), training=None)
    settings = AuditSettings(subject, METHODS, 12)
    audit = run_audit(context, settings)
    assert tuple(finding.study for finding in audit.findings) == STUDIES
    # The noise ceiling's other model is seed variance's too, and necessity's uniform one AtteFa's.
    assert sorted(trainings) == [("softmax", 0), ("softmax", 1), ("uniform", 0)]
    # Once for all studies, once with another sampling seed, once for the other model, and the control of erasure.
    assert asked == [METHODS, ("random",), METHODS, ("trivial",)]
    assert [verdict.method for verdict in audit.verdicts] == list(METHODS)
    assert audit.explanations.methods == METHODS
    assert len(audit.explanations.example_ids) == len(audit.gold_labels) == len(audit.rationales) == 12
    assert set(audit.gold_labels.values()) == set(LABELS[:2])
    first = audit.explanations[0]
    ((segment, start, end), *_) = audit.rationales[first.example_id]
    assert segment == 0
    assert first.text[start:end] in {"awful", "dull", "bad", "great", "witty", "good"}
    assert set(audit.example_agreement) == set(audit.explanations.example_ids)
    assert audit.dataset == "tiny: 12 of 24 texts of the test split"
    again = run_audit(context, settings)
    assert len(asked) == 4, "nothing is explained twice"
    assert len(trainings) == 3
    for one, two in zip(audit.findings, again.findings, strict=True):
        assert one.verdict == two.verdict
        for name in one.tables:
            assert one.tables[name].equals(two.tables[name])


def test_a_simulation_is_run_when_it_is_asked_for(context: Context) -> None:
    subject = subject_in(context, planted(held_out=90))
    without = ("noise-ceiling", "necessity", *TRIAL)
    settings = AuditSettings(
        subject, ("attention", "leave-one-out"), 8, without=without, also=("simulation",)
    )
    audit = run_audit(context, settings)
    worth = next(finding for finding in audit.findings if finding.study == "simulation")
    assert worth.title == "What is it worth?"
    assert set(worth.summary["explanation"]) == {"none", "random", "trivial", "attention", "leave-one-out"}
    assert worth.summary["size"].unique().tolist() == [24]
    assert {judgement.method for judgement in worth.judgements} == {"attention", "leave-one-out"}
    plain = run_audit(context, replace(settings, also=()))
    assert "simulation" not in [finding.study for finding in plain.findings]


@pytest.mark.parametrize(
    ("kind", "labels", "pair"),
    [("bert", 2, False), ("bert", 3, True), ("distilbert", 4, False), ("roberta", 5, True)],
)
def test_checkpoints_on_a_file(
    context: Context, checkpoint: Callable[..., Path], tmp_path: Path, kind: str, labels: int, pair: bool
) -> None:
    names = tuple(f"LABEL_{i}" for i in range(labels))
    path = _file(tmp_path, names[::-1], pair)
    columns = Columns(text="body", pair="other" if pair else None, label="stars")
    spec = DatasetSpec(file=str(path), columns=columns, labelled=False)
    subject = Subject(spec, checkpoint=str(checkpoint(kind, labels)))
    audit = run_audit(
        context, AuditSettings(subject, ("attention", "gradient-x-input", "attention-rollout"), 10)
    )
    assert [finding.study for finding in audit.findings] == [
        "performance",
        "model-check",
        "agreement",
        "noise-ceiling",
        "erasure",
        "curvature",
    ]
    by_text = {item.example_id: item.text for item in audit.explanations}
    assert set(by_text.values()) == set(TEXTS)
    gold = {by_text[i]: label for i, label in audit.gold_labels.items()}
    assert gold == {text: names[::-1][i % labels] for i, text in enumerate(TEXTS)}
    assert any(item.text_pair is not None for item in audit.explanations) == pair
    described_subject = audit.configuration["subject"]
    assert described_subject["dataset"]["file"] == str(path), "how to reproduce it is told"
    assert "model" not in described_subject
    assert audit.title.endswith("on reviews")


def test_nothing_needs_labels(context: Context, checkpoint: Callable[..., Path], tmp_path: Path) -> None:
    spec = DatasetSpec(
        file=str(_file(tmp_path, (), False)), columns=Columns(text="body", label="stars"), labelled=False
    )
    subject = Subject(spec, checkpoint=str(checkpoint("bert")))
    audit = run_audit(context, AuditSettings(subject, ("attention", "lime"), 4, without=("noise-ceiling",)))
    assert audit.gold_labels == {}
    assert [finding.study for finding in audit.findings] == [
        "performance",
        "model-check",
        "agreement",
        "erasure",
        "curvature",
    ]
    assert "have no labels, so how often it is right cannot be told" in audit.findings[0].verdict
    assert "noise-ceiling was left out as asked." in audit.warnings


def test_labels_that_are_not_the_models_are_said(context: Context, checkpoint: Callable[..., Path]) -> None:
    examples = tuple(Example(str(i), text, i % 2) for i, text in enumerate(TEXTS))
    settings = AuditSettings(methods=("attention", "leave-one-out"), instances=3)
    for labels, classes, note in (
        (("1", "2"), 2, "matched in order"),
        (("x", "y"), 3, "nothing that needs labels"),
    ):
        data = context.adopt(Dataset("d", {"test": examples}, labels))
        subject = Subject(data, checkpoint=str(checkpoint("bert", classes)))
        with pytest.warns(Caution, match=note):
            audit = run_audit(context, replace(settings, subject=subject))
        assert sum(note in warning for warning in audit.warnings) == 1
        assert bool(audit.gold_labels) == (classes == 2)


def test_a_study_that_cannot_be_done_is_named(context: Context) -> None:
    data = planted()
    wrong = tuple(replace(example, label=1 - example.label) for example in data["test"])  # type: ignore[operator]
    subject = subject_in(context, Dataset("d", {**data.splits, "test": wrong}, data.labels))
    settings = AuditSettings(subject, ("leave-one-out",), 6, without=("necessity", "noise-ceiling", *TRIAL))
    audit = run_audit(context, settings)
    assert [finding.study for finding in audit.findings] == [
        "performance",
        "model-check",
        "erasure",
        "curvature",
    ]
    left_out = [warning for warning in audit.warnings if "left out: " in warning]
    assert [warning.split()[0] for warning in left_out] == [
        "agreement,",
        "recovery",
    ]  # and the map, for the same reason
    assert audit.example_agreement == {}
    uniform = subject_in(context, model=replace(SMALL, weights="uniform"))
    uniform_audit = run_audit(
        context, replace(settings, subject=uniform, methods=METHODS, without=("noise-ceiling",))
    )
    assert not {"necessity", *TRIAL} & {finding.study for finding in uniform_audit.findings}, (
        "there is no attention to try"
    )


def test_texts_come_from_the_split_that_is_there(context: Context) -> None:
    data = planted()
    splits = {"train": data["train"], "dev": data["dev"]}
    subject = subject_in(context, Dataset("d", splits, data.labels))
    settings = AuditSettings(subject, METHODS, 4, without=("necessity", "noise-ceiling", "recovery", *TRIAL))
    audit = run_audit(context, settings)
    assert "of the train split" in audit.dataset
    assert "d has no test split, so the texts are from its train split." in audit.warnings
    assert "dev split" in run_audit(context, replace(settings, split="dev")).dataset
    with pytest.raises(UserError, match="dve"):
        run_audit(context, replace(settings, split="dve"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"methods": ("lmie",)}, "lime"),
        ({"without": ("erasur",)}, "erasure"),
        ({"without": STUDIES}, "No study fits"),
        ({"without": STUDIES[1:]}, "No study fits"),  # one that says nothing of explanations is not enough
    ],
)
def test_mistakes(context: Context, change: dict, message: str) -> None:
    settings = AuditSettings(subject_in(context), METHODS, 4)
    with pytest.raises(UserError, match=message):
        run_audit(context, replace(settings, **change))
    if "No study" not in message:
        assert not context.store.list(), "told before any work is done"


def test_costs_are_seconds_a_text_and_those_of_the_run_itself(context: Context) -> None:
    settings = AuditSettings(subject_in(context), METHODS, 6)
    first, second = run_audit(context, settings), run_audit(context, settings)
    assert set(first.explanations.seconds) == set(METHODS)
    assert all(0 < seconds < 5 for seconds in first.explanations.seconds.values())
    assert second.explanations.seconds == first.explanations.seconds, "nothing is timed again"
    numbers = [
        {j.number for v in a.verdicts for j in v.judgements if j.aspect == "cost"} for a in (first, second)
    ]
    assert numbers[0] == numbers[1]


def test_a_report_on_stored_explanations_names_what_is_in_the_file(context: Context, tmp_path: Path) -> None:
    ask = Ask(subject_in(context), METHODS, 6)
    (heard,) = hear(context, ask)
    fingerprint, path = heard.explanations[0].model, tmp_path / "explanations.parquet"
    heard.explanations.save(path)
    study = Agreement(instances=5, stored=str(path))
    content = single_finding(study, study.run(context), "", 1.0)
    assert (content.model, content.dataset) == (fingerprint, "explanations.parquet: 5 texts")
    assert not {"subject", "methods", "split"} & set(content.configuration)
    assert (content.configuration["instances"], content.configuration["stored"]) == (5, str(path))
    matched = Recovery.of(replace(ask, stored=str(path)))
    finding = matched.run(context)
    used = finding.tables["instances"]["example"].nunique()
    assert single_finding(matched, finding, "", 1.0).dataset.startswith(
        f"explanations.parquet: {used} texts, matched"
    )
    Explanations(replace(item, model="unknown") for item in heard.explanations).save(path)
    assert single_finding(study, study.run(context), "", 1.0).model == "stored explanations"


def test_what_was_done_to_the_data_is_in_the_record(context: Context) -> None:
    data = replace(planted(), notes=("2 of 98 rows of reviews.csv have an empty text and were left out.",))
    settings = AuditSettings(subject_in(context, data), METHODS, 3, without=STUDIES[3:])
    assert data.notes[0] in run_audit(context, settings).warnings


def test_explanations_from_elsewhere_take_part(tmp_path: Path) -> None:
    data = planted()
    model = ra.train("mlp", data, embedding_dim=12, hidden=12, epochs=3, learning_rate=0.03)
    texts = data["test"][:10]
    theirs = [replace(item, method="theirs") for item in ra.explain(model, texts, "leave-one-out")]
    report = ra.audit(
        model, data, methods=("attention",), explanations=Explanations(theirs), store=tmp_path / "store"
    )
    audit = report.audit
    assert [verdict.method for verdict in audit.verdicts] == ["attention", "theirs"]
    assert set(audit.explanations.example_ids) == {example.id for example in texts}
    judged = {j.aspect for j in audit.verdicts[1].judgements if j.method == "theirs"}
    assert {"agreement", "faithfulness", "truth"} <= judged
    assert "stability" not in judged, "it cannot be asked again"
    stranger = Explanations(replace(item, model="another") for item in theirs)
    with pytest.raises(UserError, match="another model than the one given, so they say nothing of it"):
        ra.audit(model, data, methods=("attention",), explanations=stranger, store=tmp_path / "store")


def test_too_few_texts_are_the_reason_on_the_terminal_too(context: Context) -> None:
    settings = AuditSettings(subject_in(context), ("attention", "leave-one-out"), 2, without=STUDIES[3:])
    audit = run_audit(context, settings)
    assert "too few texts to tell" in audit.verdicts[0].sentence
