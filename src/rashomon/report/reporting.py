"""An audit in one call, for Python users: ``ra.audit(model, data).save("report.html")``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rashomon.audits.auditing import AuditSettings, run_audit
from rashomon.audits.record import Audit
from rashomon.data import Dataset
from rashomon.data.texts import Texts, as_examples
from rashomon.experiments.context import Context
from rashomon.experiments.subject import GIVEN, Subject
from rashomon.experiments.testimony import METHODS
from rashomon.explainers import Explanations
from rashomon.models.base import Model
from rashomon.models.given import require_model
from rashomon.models.model_spec import ModelSpec
from rashomon.report.page import ReportFiles, render, save_report
from rashomon.runs.files import write_bytes, written_or_told
from rashomon.runs.store import Store


@dataclass(frozen=True, repr=False)
class Report:
    """An audit that can be saved and shows itself in a notebook.

    Attributes:
        audit: everything the page shows: ``summary``, ``verdicts``, ``findings``, ``explanations``, ``warnings``.
    """

    audit: Audit

    def save(self, path: str | Path) -> Path:
        """One page when ``path`` ends in .html; otherwise a folder with the page, findings and tables."""
        target = Path(path)
        if target.suffix != ".html":
            return self.save_folder(target).report
        page = render(self.audit).encode("utf-8", "replace")
        with written_or_told(f"The report cannot be written to {target}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(target, page)
        return target

    def save_folder(self, folder: Path) -> ReportFiles:
        return save_report(self.audit, folder)

    def __repr__(self) -> str:
        return f"Report({self.audit.title}: {self.audit.summary})"

    def __str__(self) -> str:
        lines = [f"{verdict.method}: {verdict.sentence}" for verdict in self.audit.verdicts]
        return "\n".join([self.audit.title, self.audit.summary, *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{escape(v.method)}</th><td>{escape(v.sentence)}</td></tr>" for v in self.audit.verdicts
        )
        return f"<p>{escape(self.audit.summary)}</p><table>{rows}</table>"


def audit(
    model: Model,
    data: Dataset | Texts,
    *,
    methods: Sequence[str] = METHODS,
    instances: int = 100,
    split: str = "test",
    seed: int = 0,
    explanations: Explanations | str | Path | None = None,
    store: str | Path | None = None,
) -> Report:
    """Run every study that fits a model and its data, and judge every method by them.

    Args:
        model: a model in memory; a folder is loaded by ``load_model``, a network made a model by ``wrap``.
        data: a dataset, or plain texts. Nothing needs labels except what says so; labels of examples outside of a
            dataset are numbers of the model's classes.
        methods: names of explainers, with settings in parentheses.
        instances: how many texts are explained.
        split: the split they are drawn from.
        seed: of the draw and of the methods that sample.
        explanations: of this model and of texts of this split by further methods (``explain``, ``from_scores``, or
            a file that was saved), which take part: in agreement, erasure and recovery.
        store: the folder of finished work; by default ``$RASHOMON_STORE`` or the user's cache.

    Returns:
        A report that shows itself in a notebook and is saved by ``report.save("report.html")``.
    """
    require_model(model)
    dataset = data if isinstance(data, Dataset) else _texts(data, split, model)
    context = Context(Store(Path(store)) if store is not None else Store(), given_model=model)
    subject = Subject(context.adopt(dataset), ModelSpec(), None, (seed,), checkpoint=GIVEN)
    beside = (
        context.adopt_explanations(explanations)
        if isinstance(explanations, Explanations)
        else explanations and str(explanations)
    )
    settings = AuditSettings(subject, tuple(methods), instances, split, explanations=beside or None)
    return Report(run_audit(context, settings, command="rashomon.audit(model, data)"))


def _texts(given: Texts, split: str, model: Model) -> Dataset:
    return Dataset("texts", {split: tuple(as_examples(given))}, model.labels)
