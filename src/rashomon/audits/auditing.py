"""The audit: every study that fits a model and its data, and a verdict on each method.

Which studies there are, how an audit runs each and what each needs, the studies say themselves; the audit only asks the
registry. A study that cannot be carried out on this model or these data is left out with the reason among the warnings.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from rashomon.audits.kept_findings import finding_of, missing_work
from rashomon.audits.record import Audit, ReportContent
from rashomon.audits.verdicts import overall, verdicts
from rashomon.data import Dataset, Example, words_of
from rashomon.data.rationales import marks_of
from rashomon.errors import DoesNotFit, UserError, cautions, unknown_name
from rashomon.experiments.abilities import able_model
from rashomon.experiments.context import Context, Work, is_small
from rashomon.experiments.regularised import dynamics_of
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import METHODS, Ask, answerable, background, draw, heard_elsewhere
from rashomon.explainers import make_explainer
from rashomon.models.base import Model
from rashomon.models.label_names import in_model_labels
from rashomon.progress import part_of, progress
from rashomon.runs.store import library_versions
from rashomon.studies.agreement import Agreement, mean_by_example
from rashomon.studies.base import Finding, Study, configuration_of, in_order, studies

SHARES = (40, 45, 13, 2)  # of the time: models, explanations and adversaries, studies, what they found


@dataclass(frozen=True)
class AuditSettings:
    """What the audit looks at."""

    subject: Subject = field(default_factory=Subject)
    methods: tuple[str, ...] = METHODS
    instances: int = 100
    split: str = "test"
    without: tuple[str, ...] = ()  # studies to leave out
    also: tuple[str, ...] = ()  # studies that take long and are left out unless they are named here
    explanations: str | None = None  # a file of explanations by further methods, which take part

    @property
    def asked(self) -> Ask:
        """What every study is asked."""
        return Ask(self.subject, self.methods, self.instances, self.split, beside=self.explanations)


def run_audit(context: Context, settings: AuditSettings, command: str = "rashomon audit") -> Audit:
    """Carry out the studies that fit and judge every method by them."""
    heard: list[str] = []
    with cautions(heard):
        audit = _audit(context, settings, command)
    return replace(audit, warnings=tuple(dict.fromkeys((*heard, *audit.warnings))))


def _audit(context: Context, settings: AuditSettings, command: str) -> Audit:
    started = time.monotonic()
    check_names(settings)
    data = context.dataset(settings.subject.dataset)
    warnings: list[str] = []
    settings = replace(settings, split=_split(data, settings.split, warnings))
    if settings.subject.checkpoint is None:  # one model for all studies, however each would train its own
        # What it says of the texts after every epoch is kept, so that their map can be drawn.
        callbacks = tuple(dict.fromkeys((*settings.subject.callbacks, dynamics_of(settings.split))))
        how = settings.subject.how_trained
        settings = replace(settings, subject=replace(settings.subject, training=how, callbacks=callbacks))
    else:
        data = in_model_labels(data, context.models(settings.subject)[0].model, warnings)
    plan = _fitting(_plan(settings, warnings), able_model(context, settings.subject), data, warnings)
    findings = _findings(context, settings.subject, plan, warnings)
    model = context.models(settings.subject)[0].model
    seed = settings.subject.seeds[0]
    further = heard_elsewhere(context, settings.asked, model, data)
    data = data if further is None else further.only_their_texts(data, settings.split)
    examples, behind = draw(data, settings.split, settings.instances, seed), background(data, seed)
    methods, _ = answerable(settings.methods, model)
    explanations = context.explanations(model, examples, methods, seed=seed, background=behind)
    seconds = explanations.seconds
    if further is not None:
        explanations += further.of(examples)
    judged = verdicts(explanations.methods, findings, seconds)
    kept = (warning for finding in findings for warning in finding.warnings)
    return Audit(
        title=f"{settings.subject.describe()} on {data.name}",
        model=describe_model(model, settings.subject),
        dataset=f"{data.name}: {len(examples)} of {len(data[settings.split])} texts of the {settings.split} split",
        summary=overall(judged, findings),
        verdicts=judged,
        findings=tuple(findings),
        explanations=explanations,
        example_agreement=_example_agreement(findings),
        gold_labels={e.id: data.labels[e.label] for e in examples if e.label is not None},
        rationales={e.id: marked for e in examples if (marked := _marked_spans(e))},
        warnings=tuple(dict.fromkeys((*data.notes, *warnings, *kept))),
        configuration=configuration_of(settings),
        versions=library_versions(),
        command=command,
        seconds=time.monotonic() - started,
    )


def check_names(settings: AuditSettings) -> None:
    """Wrong names are told before any work is done."""
    for method in settings.methods:
        make_explainer(method)
    several = settings.subject.checkpoint is None and len(settings.subject.seeds) > 1
    if settings.explanations is not None and several:
        raise UserError("Given explanations are of one model, so give one seed.")
    known = [study.name for study in _all_studies(settings)]
    for name in settings.without:
        if name not in known:
            raise unknown_name("study of the audit", name, known)


def _all_studies(settings: AuditSettings) -> list[Study]:
    """Every registered study that is part of an audit, as it is run there."""
    asked = (kind for kind in in_order() if not kind.on_request or kind.name in settings.also)
    found = (kind.for_audit(settings.asked) for kind in asked)
    return [study for study in found if study is not None]


def _plan(settings: AuditSettings, warnings: list[str]) -> list[Study]:
    """Those that nobody wants left out."""
    studies = _all_studies(settings)
    warnings += [f"{s.name} was left out as asked." for s in studies if s.name in settings.without]
    return [study for study in studies if study.name not in settings.without]


def _fitting(plan: Sequence[Study], model: Model, data: Dataset, warnings: list[str]) -> list[Study]:
    """Those that fit; of the others a word why not, the same word once."""
    reasons: dict[str, list[str]] = {}
    fitting = []
    for study in plan:
        reason = study.fits(model, data)
        if reason is None:
            fitting.append(study)
        else:
            reasons.setdefault(reason, []).append(study.name)
    for reason, names in reasons.items():
        warnings.append(f"{', '.join(names)} {'was' if len(names) == 1 else 'were'} left out: {reason}")
    if not any(study.of_explanations for study in fitting):
        raise UserError(f"No study fits this model and these data: {' '.join(warnings)}")
    return fitting


def _split(data: Dataset, wanted: str, warnings: list[str]) -> str:
    """The asked split; where a dataset has no test split, the largest one, and a word about it."""
    if wanted != AuditSettings.split or data.splits.get(wanted):
        data[wanted]  # a wrong name is the user's mistake
        return wanted
    largest = max(data, key=lambda split: len(data[split]))
    warnings.append(f"{data.name} has no {wanted} split, so the texts are from its {largest} split.")
    return largest


def _findings(
    context: Context, subject: Subject, plan: Sequence[Study], warnings: list[str]
) -> list[Finding]:
    """First what takes long, each kind of it side by side, then the studies, which find it done. One bar for all."""
    with progress("auditing", sum(SHARES)) as advance:
        models = _needed_models(subject, plan)
        with part_of(advance, SHARES[0]):
            context.train_all([needed for needed in models if needed.model == subject.model])
        with part_of(advance, SHARES[1]):
            others = [needed for needed in models if needed.model != subject.model]
            _work_together(context, plan, context.training_work(others))
        with part_of(advance, SHARES[2]):
            if is_small(context.models(subject)[0].model):
                context.side_by_side(missing_work(plan, context), "studies")
        with part_of(advance, SHARES[3]):
            return _carry_out(context, plan, warnings)


def _needed_models(subject: Subject, plan: Sequence[Study]) -> list[Subject]:
    """All that the studies will ask for and that has to be trained, the audited model first."""
    needed = [subject, *(needed for study in plan for needed in study.needed_models())]
    return [each for each in needed if each.checkpoint is None]


def _work_together(context: Context, plan: Sequence[Study], trainings: Sequence[Work]) -> None:
    """Models of another kind, explanations, adversaries and searches of all studies, side by side as well."""
    needed = list(trainings)
    for study in plan:
        with suppress(DoesNotFit):  # the study says so itself when its turn comes
            needed += study.needed_work(context)
    context.side_by_side(needed, "explanations and adversaries")


def _carry_out(context: Context, plan: Sequence[Study], warnings: list[str]) -> list[Finding]:
    findings: list[Finding] = []
    with progress("auditing", len(plan)) as advance:
        for study in plan:
            try:
                findings.append(finding_of(study, context))
            except DoesNotFit as error:  # a full disk or a dead worker ends the audit
                warnings.append(f"{study.name} was left out: {error}")
            advance(1, study.name)
    if not any(studies.get(finding.study).of_explanations for finding in findings):
        raise UserError(f"No study could be carried out: {' '.join(warnings)}")
    return findings


def describe_model(model: Model, subject: Subject) -> str:
    size = sum(parameter.numel() for parameter in model.parameters())
    kind = "gives a number" if model.gives_a_number else f"{model.classes} classes"
    return f"{subject.describe()} ({size / 1e6:.1f} million parameters, {kind if model.labels else 'finds answers'})"


def _example_agreement(findings: Sequence[Finding]) -> dict[str, float]:
    """How far the methods agree on each example, where that was studied."""
    tables = [finding.tables["instances"] for finding in findings if finding.study == Agreement.name]
    return mean_by_example(tables[0]) if tables else {}


def _marked_spans(example: Example) -> list[tuple[int, int, int]]:
    """Characters of the words that a rationale marks, with their segment."""
    return [
        (segment, word.start, word.end)
        for segment, marks in marks_of(example).items()
        for word in words_of(example, segment)
        if word.index < len(marks) and marks[word.index]
    ]


def single_finding(study: Study, finding: Finding, command: str, seconds: float) -> ReportContent:
    """One study as a report of its own."""
    model, dataset = study.about(finding)
    return ReportContent(
        title=finding.question,
        model=model,
        dataset=dataset,
        summary=finding.verdict,
        findings=(finding,),
        warnings=(),
        configuration=finding.configuration,
        versions=library_versions(),
        command=command,
        seconds=seconds,
    )
