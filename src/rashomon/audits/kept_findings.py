"""What an audit found before: findings in the store, made side by side, and read by the next audit of the same.

A finding follows from its study's settings, the data, and the code: the key holds all three, and the code by its
content, because a study takes seconds and one that was mended must not be answered by what it said before.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from weakref import WeakValueDictionary

from rashomon.errors import Caution, DoesNotFit, cautions
from rashomon.experiments.context import Context, Work
from rashomon.experiments.subject import GIVEN
from rashomon.runs.specifications import Plain
from rashomon.runs.store import Store
from rashomon.studies.base import Finding, Study
from rashomon.studies.finding_files import read_finding, read_more, write_finding

KIND = "findings"


def can_be_kept(study: Study) -> bool:
    """Only of models that were trained here, which the settings tell all about, on data that can be read again."""
    subject, beside = study.subject, getattr(study, "beside", None) or ""
    return subject.checkpoint is None and not any(
        name.startswith(GIVEN) for name in (subject.dataset.name, beside)
    )


def finding_of(study: Study, context: Context) -> Finding:
    """What the study finds, or found."""
    if not can_be_kept(study):
        return study.run(context)
    specification = _specification(study, context)
    if not context.store.finished(specification, KIND):
        _make(study, context, specification)
    folder = context.store.path(specification, KIND)
    for sentence in read_more(folder)["cautions"]:
        warnings.warn(sentence, Caution, stacklevel=2)
    return read_finding(folder)


def missing_work(plan: Sequence[Study], context: Context) -> list[Work]:
    """The findings that are not in the store. Studies on request train much and share it out themselves."""
    work = []
    for study in plan:
        if study.on_request or not can_be_kept(study):
            continue
        specification = _specification(study, context)
        if not context.store.finished(specification, KIND):
            place = context.store.path(specification, KIND)
            same = context.store, context.data_dir, specification["data"]
            _contexts[same] = context  # for what of it this process does itself
            work.append(Work(place, partial(_make_in_worker, study, same)))
    return work


Reading = tuple[Store, Path | None, str]  # where work is kept, where data are looked for, and which
_contexts: WeakValueDictionary[Reading, Context] = WeakValueDictionary()


def _make_in_worker(study: Study, reading: Reading) -> None:
    context = _contexts.get(reading) or _context(reading)
    with suppress(DoesNotFit):  # the audit hears it again when the study's turn comes
        _make(study, context, _specification(study, context))


@lru_cache(maxsize=1)
def _context(reading: Reading) -> Context:
    """One for all studies of a worker, so that data are read once, and again when a file has changed."""
    store, data_dir, _ = reading
    return Context(store, data_dir, workers=1)


def _make(study: Study, context: Context, specification: dict[str, Plain]) -> None:
    heard: list[str] = []
    with cautions(heard):
        finding = study.run(context)
    more = {"cautions": heard}
    context.store.run(specification, KIND, lambda folder: write_finding(folder, finding, more))


def _specification(study: Study, context: Context) -> dict[str, Plain]:
    data = context.dataset(study.subject.dataset)
    beside = getattr(study, "beside", None)
    return {
        "study": study.name,
        "settings": study,
        "beside": context.given_explanations(beside).digest() if beside else None,
        "data": data.fingerprint,
        "notes": list(data.notes),
        "code": _code(),
    }


@lru_cache(maxsize=1)
def _code() -> str:
    """The package's code, by its content."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for file in sorted(root.rglob("*.py")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\n" + file.read_bytes())
    return digest.hexdigest()[:20]
