"""The audit: every study that fits a model and its data, and a verdict on each method.

Nothing here needs labels except what says so. A study that cannot be carried out on this model or these data is
left out with the reason among the warnings.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rashomon.data import Dataset, Example, words_of
from rashomon.errors import UserError
from rashomon.explain import Explanations, explain, explainers
from rashomon.models.base import Model
from rashomon.progress import progress, silence
from rashomon.runs.store import library_versions
from rashomon.studies.agreement import Agreement, mean_by_example
from rashomon.studies.base import Audit, Finding, Study
from rashomon.studies.context import Context
from rashomon.studies.erasure import Erasure
from rashomon.studies.necessity import Necessity
from rashomon.studies.noise_ceiling import NoiseCeiling
from rashomon.studies.recovery import Recovery, has_rationale
from rashomon.studies.subject import Subject
from rashomon.studies.verdicts import overall, verdicts
from rashomon.studies.witnesses import METHODS, Ask, answerable, background, configuration_of, draw

TIMED_TEXTS = 8


@dataclass(frozen=True)
class AuditSettings:
    """What the audit looks at. Necessity trains the model twice for each of its seeds."""

    subject: Subject = field(default_factory=Subject)
    methods: tuple[str, ...] = METHODS
    instances: int = 200
    split: str = "test"
    necessity_seeds: tuple[int, ...] = (0, 1, 2)
    without: tuple[str, ...] = ()  # studies to leave out


def run_audit(context: Context, settings: AuditSettings, command: str = "rashomon audit") -> Audit:
    """Carry out the studies that fit and judge every method by them."""
    started = time.monotonic()
    data = context.dataset(settings.subject.dataset)
    model = context.models(settings.subject)[0].model
    warnings: list[str] = []
    if settings.subject.checkpoint is not None:
        data = in_model_labels(data, model, warnings)
        settings = replace(settings, subject=replace(settings.subject, dataset=context.adopt(data)))
    settings = replace(settings, split=_split(data, settings.split))
    examples = draw(data, settings.split, settings.instances, settings.subject.seeds[0])
    for method in settings.methods:
        explainers.get(method)  # a wrong name is told before any work is done
    plan = _plan(settings, data, examples, model)
    findings: list[Finding] = []
    with progress("auditing", len(plan)) as advance:
        for name, study in plan.items():
            if name in settings.without:
                warnings.append(f"{name} was left out as asked")
                continue
            try:
                findings.append(study().run(context))
            except UserError as error:
                warnings.append(f"{name} was left out: {error}")
            advance(1, name)
    if not findings:
        raise UserError(f"No study fits this model and these data: {'; '.join(warnings)}")
    methods, _ = answerable(settings.methods, model)
    told = context.explanations(
        model,
        examples,
        methods,
        seed=settings.subject.seeds[0],
        background=background(data, settings.subject.seeds[0]),
    )
    costs = measure_costs(model, examples, methods, background(data, 0))
    judged = verdicts(methods, {finding.study: finding for finding in findings}, costs)
    kept = dict.fromkeys(warning for finding in findings for warning in finding.warnings)
    return Audit(
        title=f"{settings.subject.describe()} on {data.name}",
        model=describe_model(model, settings.subject),
        dataset=f"{data.name}: {len(examples)} of {len(data[settings.split])} texts of the {settings.split} split",
        summary=overall(judged, {finding.study: finding for finding in findings}),
        verdicts=judged,
        findings=tuple(findings),
        explanations=told,
        example_agreement=_example_agreement(findings),
        gold_labels={e.id: data.labels[e.label] for e in examples if e.label is not None},
        rationales={e.id: marked for e in examples if (marked := _marked_spans(e))},
        warnings=(*warnings, *kept),
        configuration=configuration_of(settings),
        versions=library_versions(),
        command=command,
        seconds=time.monotonic() - started,
    )


def in_model_labels(data: Dataset, model: Model, warnings: list[str]) -> Dataset:
    """The data with labels counted as the model counts its classes: by name where the names are the same."""
    if data.labels == model.labels or not data.labels:
        return data
    if set(data.labels) <= set(model.labels):
        places = [model.labels.index(label) for label in data.labels]
    elif len(data.labels) == model.classes:
        warnings.append(
            f"The labels {', '.join(data.labels)} were taken for the model's {', '.join(model.labels)}, in order."
        )
        places = list(range(model.classes))
    else:
        warnings.append("The data's labels are not the model's, so nothing that needs labels was done.")
        places = []
    splits = {
        split: tuple(
            replace(e, label=places[e.label] if e.label is not None and places else None) for e in data[split]
        )
        for split in data
    }
    return Dataset(data.name, splits, model.labels, data.notes)


def _plan(
    settings: AuditSettings, data: Dataset, examples: tuple[Example, ...], model: Model
) -> dict[str, Callable[[], Study]]:
    ask = Ask(settings.subject, settings.methods, settings.instances, settings.split)
    plan: dict[str, Callable[[], Study]] = {
        "agreement": lambda: Agreement(ask),
        "noise-ceiling": lambda: NoiseCeiling(ask),
        "erasure": lambda: Erasure(ask),
    }
    if any(has_rationale(example) for example in examples):
        plan["recovery"] = lambda: Recovery(ask)
    trainable = settings.subject.checkpoint is None and "attention" in model.capabilities
    if trainable and all(example.label is not None for example in examples):
        subject = replace(settings.subject, seeds=settings.necessity_seeds)
        plan["necessity"] = lambda: Necessity(subject, settings.split)
    return plan


def _split(data: Dataset, wanted: str) -> str:
    """The asked split, or the largest one where files have no such split."""
    if data.splits.get(wanted):
        return wanted
    return max(data, key=lambda split: len(data[split]))


def measure_costs(
    model: Model, examples: tuple[Example, ...], methods: list[str], behind: tuple[Example, ...]
) -> Mapping[str, float]:
    """Seconds a text, each method alone on the same few texts."""
    few = examples[:TIMED_TEXTS]
    costs = {}
    with silence():
        for method in methods:
            explain(model, few[:1], [method], background=behind)  # compiles and warms up
            started = time.perf_counter()
            explain(model, few, [method], background=behind)
            costs[method] = (time.perf_counter() - started) / len(few)
    return costs


def describe_model(model: Model, subject: Subject) -> str:
    size = sum(parameter.numel() for parameter in model.parameters())
    return f"{subject.describe()} ({size / 1e6:.1f} million parameters, {model.classes} classes)"


def _example_agreement(findings: list[Finding]) -> dict[str, float]:
    for finding in findings:
        if finding.study == "agreement":
            return mean_by_example(finding.tables["instances"])
    return {}


def _marked_spans(example: Example) -> list[tuple[int, int, int]]:
    """Characters of the words that a rationale marks, with their segment."""
    spans = []
    for segment, marks in ((0, example.rationale), (1, example.rationale_pair)):
        if marks is None:
            continue
        for word in words_of(example, segment):
            if word.index < len(marks) and marks[word.index]:
                spans.append((segment, word.start, word.end))
    return spans


def single_finding(finding: Finding, command: str) -> Audit:
    """One study as a report of its own."""
    return Audit(
        title=finding.study,
        model="",
        dataset="",
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
        seconds=0.0,
    )
