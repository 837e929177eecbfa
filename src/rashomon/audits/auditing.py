"""The audit: every study that fits a model and its data, and a verdict on each method.

Nothing here needs labels except what says so. A study that cannot be carried out on this model or these data is
left out with the reason among the warnings.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rashomon.audits.record import Audit
from rashomon.audits.trial import TRIAL, WITHOUT_TRAINING, attention_trial
from rashomon.audits.verdicts import overall, verdicts
from rashomon.data import Dataset, Example, words_of
from rashomon.data.rationales import has_rationale, marks_of
from rashomon.errors import DoesNotFit, UserError, unknown_name
from rashomon.experiments.context import Context
from rashomon.experiments.subject import Subject
from rashomon.experiments.testimony import METHODS, Ask, about_stored, answerable, background, draw
from rashomon.explainers import Explanations, explain, make_explainer
from rashomon.models.base import Model
from rashomon.models.label_names import in_model_labels
from rashomon.progress import progress, silence
from rashomon.runs.store import library_versions
from rashomon.studies.agreement import Agreement, mean_by_example
from rashomon.studies.base import Finding, Study, configuration_of
from rashomon.studies.erasure import Erasure
from rashomon.studies.necessity import Necessity, uniform_twin
from rashomon.studies.noise_ceiling import NoiseCeiling, other_seeds
from rashomon.studies.recovery import Recovery

REPEATED = 50  # texts explained again for the noise ceiling, which is a mean and needs no more
TIMED_TEXTS = 8
SLOW = 1.0  # seconds a text
STUDIES = ("agreement", "noise-ceiling", "erasure", "recovery", "necessity", *TRIAL)


@dataclass(frozen=True)
class AuditSettings:
    """What the audit looks at. Necessity trains the model twice for each of its seeds."""

    subject: Subject = field(default_factory=Subject)
    methods: tuple[str, ...] = METHODS
    instances: int = 100
    split: str = "test"
    necessity_seeds: tuple[int, ...] = (0, 1)  # the second is also the noise ceiling's other model
    without: tuple[str, ...] = ()  # studies to leave out


def run_audit(context: Context, settings: AuditSettings, command: str = "rashomon audit") -> Audit:
    """Carry out the studies that fit and judge every method by them."""
    started = time.monotonic()
    check_names(settings)
    data = context.dataset(settings.subject.dataset)
    warnings: list[str] = []
    settings = replace(settings, split=_split(data, settings.split, warnings))
    if settings.subject.checkpoint is None:  # one model for all studies, however each would train its own
        trained = replace(settings.subject, training=settings.subject.how_trained)
        settings = replace(settings, subject=trained)
    _train_together(context, settings)
    model = context.models(settings.subject)[0].model
    if settings.subject.checkpoint is not None:
        data = in_model_labels(data, model, warnings)
    seed = settings.subject.seeds[0]
    examples, behind = draw(data, settings.split, settings.instances, seed), background(data, seed)
    methods, _ = answerable(settings.methods, model)
    # First, so that a setting that does not fit the model is told before hours of training.
    told = context.explanations(model, examples, methods, seed=seed, background=behind)
    findings = _carry_out(context, settings, _plan(settings, examples, model), warnings)
    by_study = {finding.study: finding for finding in findings}
    judged = verdicts(methods, by_study, measure_costs(model, examples, methods, behind))
    kept = (warning for finding in findings for warning in finding.warnings)
    return Audit(
        title=f"{settings.subject.describe()} on {data.name}",
        model=describe_model(model, settings.subject),
        dataset=f"{data.name}: {len(examples)} of {len(data[settings.split])} texts of the {settings.split} split",
        summary=overall(judged, by_study),
        verdicts=judged,
        findings=tuple(findings),
        explanations=told,
        example_agreement=_example_agreement(by_study),
        gold_labels={e.id: data.labels[e.label] for e in examples if e.label is not None},
        rationales={e.id: marked for e in examples if (marked := _marked_spans(e))},
        warnings=tuple(dict.fromkeys((*warnings, *kept))),
        configuration=configuration_of(settings),
        versions=library_versions(),
        command=command,
        seconds=time.monotonic() - started,
    )


def check_names(settings: AuditSettings) -> None:
    """Wrong names are told before any work is done."""
    for method in settings.methods:
        make_explainer(method)
    for name in settings.without:
        if name not in STUDIES:
            raise unknown_name("study of the audit", name, STUDIES)


def _split(data: Dataset, wanted: str, warnings: list[str]) -> str:
    """The asked split; where a dataset has no test split, the largest one, and a word about it."""
    if wanted != AuditSettings.split or data.splits.get(wanted):
        data[wanted]  # a wrong name is the user's mistake
        return wanted
    largest = max(data, key=lambda split: len(data[split]))
    warnings.append(f"{data.name} has no {wanted} split, so the texts are from its {largest} split.")
    return largest


def _train_together(context: Context, settings: AuditSettings) -> None:
    """All models that the studies will ask for, side by side rather than one study after the other."""
    subject = settings.subject
    if subject.checkpoint is not None or not subject.model.is_builtin:
        return  # of other models it is not known yet whether their attention can be tested
    wanted = [subject]
    if "noise-ceiling" not in settings.without:
        wanted.append(replace(subject, seeds=other_seeds(subject.seeds)))
    if "necessity" not in settings.without and subject.model.weights != "uniform":
        several = replace(subject, seeds=settings.necessity_seeds)
        wanted += [several, uniform_twin(several)]
    context.train_all(wanted)


def _carry_out(
    context: Context, settings: AuditSettings, plan: Mapping[str, Study], warnings: list[str]
) -> list[Finding]:
    findings: list[Finding] = []
    with progress("auditing", len(plan)) as advance:
        for name, study in plan.items():
            if name in settings.without:
                warnings.append(f"{name} was left out as asked.")
            else:
                try:
                    findings.append(study.run(context))
                except DoesNotFit as error:  # a full disk or a dead worker ends the audit
                    warnings.append(f"{name} was left out: {error}")
            advance(1, name)
    if not findings:
        raise UserError(f"No study fits this model and these data: {' '.join(warnings)}")
    return findings


def _plan(settings: AuditSettings, examples: tuple[Example, ...], model: Model) -> dict[str, Study]:
    ask = Ask(settings.subject, settings.methods, settings.instances, settings.split)
    plan: dict[str, Study] = {
        "agreement": Agreement(ask),
        "noise-ceiling": NoiseCeiling(ask, REPEATED),
        "erasure": Erasure(ask),
    }
    if any(has_rationale(example) for example in examples):
        plan["recovery"] = Recovery(ask)
    trainable = settings.subject.checkpoint is None and "attention" in model.capabilities
    if trainable and settings.subject.model.weights != "uniform":
        plan["necessity"] = Necessity(
            replace(settings.subject, seeds=settings.necessity_seeds), settings.split
        )
    if model.attention_parameters() and settings.subject.model.weights != "uniform":
        trial = attention_trial(settings.subject, settings.instances, settings.split)
        plan |= {name: study for name, study in trial.items() if trainable or name in WITHOUT_TRAINING}
    return plan


def measure_costs(
    model: Model, examples: tuple[Example, ...], methods: Sequence[str], behind: tuple[Example, ...]
) -> Mapping[str, float]:
    """Seconds a text, each method alone on the same few texts; of a slow method one text must do."""
    costs = {}
    with silence():
        for method in methods:
            first = _seconds(model, examples[:1], method, behind)  # also compiles and warms up
            few = examples[: 1 if first > SLOW else TIMED_TEXTS]
            costs[method] = _seconds(model, few, method, behind)
    return costs


def _seconds(model: Model, few: tuple[Example, ...], method: str, behind: tuple[Example, ...]) -> float:
    started = time.perf_counter()
    explain(model, few, [method], background=behind)
    return (time.perf_counter() - started) / len(few)


def describe_model(model: Model, subject: Subject) -> str:
    size = sum(parameter.numel() for parameter in model.parameters())
    return f"{subject.describe()} ({size / 1e6:.1f} million parameters, {model.classes} classes)"


def _example_agreement(findings: Mapping[str, Finding]) -> dict[str, float]:
    return mean_by_example(findings["agreement"].tables["instances"]) if "agreement" in findings else {}


def _marked_spans(example: Example) -> list[tuple[int, int, int]]:
    """Characters of the words that a rationale marks, with their segment."""
    return [
        (segment, word.start, word.end)
        for segment, marks in marks_of(example).items()
        for word in words_of(example, segment)
        if word.index < len(marks) and marks[word.index]
    ]


def _studied(study: Any, finding: Finding) -> tuple[str, str]:
    """The model and the data of one study; those of stored explanations are what their file says."""
    ask: Ask | None = getattr(study, "ask", None)
    subject: Subject = ask.subject if ask is not None else study.subject
    if ask is None or ask.stored is None:
        models = getattr(study, "encoders", ()) or (subject.describe(),)
        datasets = getattr(study, "datasets", ()) or (subject.dataset.name,)
        return ", ".join(models), ", ".join(datasets)
    model, texts = about_stored(ask.stored)
    texts += f": {finding.tables['instances']['example'].nunique()} texts"
    also_used = finding.configuration["ask"].get("subject", {})
    if "dataset" in also_used:
        texts += f", matched with {subject.dataset.name}"
    return subject.describe() if "checkpoint" in also_used else model, texts


def single_finding(study: Study, finding: Finding, command: str, seconds: float) -> Audit:
    """One study as a report of its own."""
    model, dataset = _studied(study, finding)
    return Audit(
        title=finding.question,
        model=model,
        dataset=dataset,
        summary=finding.verdict,
        verdicts=(),
        findings=(finding,),
        explanations=Explanations(),
        example_agreement={},
        gold_labels={},
        rationales={},
        warnings=(),
        configuration=finding.configuration,
        versions=library_versions(),
        command=command,
        seconds=seconds,
    )
