"""Any study in one call, for Python users: ``ra.study("erasure", model, data, instances=100)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rashomon.data import Dataset
from rashomon.data.texts import Texts, as_examples
from rashomon.errors import UserError, unknown_name
from rashomon.experiments.context import Context
from rashomon.experiments.subject import GIVEN, DatasetSpec, Subject
from rashomon.explainers import Explainer
from rashomon.models.base import Model
from rashomon.models.build import is_trained_checkpoint
from rashomon.models.model_spec import ModelSpec
from rashomon.runs.specifications import from_plain, to_plain
from rashomon.runs.store import Store
from rashomon.studies.base import Finding, Study, studies

_GIVEN_APART = ("dataset", "model", "checkpoint")  # parts of the subject that are arguments of their own


def study(
    name: str,
    model: Model | ModelSpec | str = "bilstm",
    data: Dataset | Texts | None = None,
    *,
    store: str | Path | None = None,
    workers: int | None = None,
    **settings: Any,
) -> Finding:
    """Ask one question of a model.

    Args:
        name: the study, such as ``"agreement"`` or ``"erasure"`` (``rashomon list studies``).
        model: a model in memory; a checkpoint folder or hub id, used as it is; or a name such as ``"bilstm"``,
            trained once for each seed of the study.
        data: a dataset, a dataset's name, or plain texts where nothing is trained and labels are not needed.
        store: the folder of finished work; by default ``$RASHOMON_STORE`` or the user's cache.
        workers: how many models are trained side by side.
        settings: fields of the study (``instances=100, methods=["lime", "attention"]``), nested ones as dicts.
            What is no field of the study but of its subject goes there: ``seeds=(0, 1)``,
            ``training={"epochs": 5}``; where the study has a field of that name, write ``subject={"seeds": (0, 1)}``.

    Returns:
        The finding: a verdict, tables and figures. It shows itself in a notebook.
    """
    kind = studies.get(name)
    given = model if isinstance(model, Model) else None
    context = Context(
        Store(Path(store)) if store is not None else Store(), workers=workers, given_model=given
    )
    usual = kind()
    subject = _subject(subject_of(usual), model, _dataset(context, data, model))
    return with_settings(with_subject(usual, subject), settings).run(context)


def subject_of(asked: Any) -> Subject:
    """What a study is about."""
    subject: Subject = asked.ask.subject if _has(asked, "ask") else asked.subject
    return subject


def with_subject(asked: Any, subject: Subject) -> Any:
    if _has(asked, "ask"):
        return replace(asked, ask=replace(asked.ask, subject=subject))
    return replace(asked, subject=subject)


def with_settings(asked: Study, settings: Mapping[str, Any]) -> Study:
    """The study with other settings, in plain or in typed form; a wrong name gets the nearest right one."""
    plain, left_open = to_plain(asked), to_plain(_left_open(asked))
    for name, value in settings.items():
        place, usual = _place(asked, name, plain, left_open)
        place[name] = _merged(place.get(name), _plain(value, name), usual.get(name))
    return from_plain(type(asked), plain)


def _subject(own: Subject, model: Model | ModelSpec | str, dataset: DatasetSpec | None) -> Subject:
    about = own.dataset if dataset is None else dataset
    if isinstance(model, Model):
        return Subject(about, ModelSpec(), None, own.seeds[:1], checkpoint=GIVEN)
    if isinstance(model, str) and is_trained_checkpoint(model):
        return Subject(about, ModelSpec(name=model), None, own.seeds[:1], checkpoint=model)
    if not isinstance(model, ModelSpec | str):
        raise UserError(
            f"A {type(model).__name__} is not a model here; make one of a network and its tokenizer with wrap."
        )
    return replace(own, dataset=about, model=ModelSpec(name=model) if isinstance(model, str) else model)


def _dataset(context: Context, data: Dataset | Texts | None, model: object) -> DatasetSpec | None:
    if data is None:
        return None
    if isinstance(data, str):
        return DatasetSpec(name=data)
    if isinstance(data, Dataset):
        return context.adopt(data)
    texts = as_examples(data)
    if not isinstance(model, Model):
        raise UserError(
            "Plain texts are enough for a model in memory; to train one, give a dataset with labels, "
            "as Dataset.from_list and Dataset.from_pandas make."
        )
    return context.adopt(Dataset("texts", {"test": tuple(texts)}, model.labels))


def _place(asked: Any, name: str, plain: Any, left_open: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The table that a setting stands in, and what the study would take for values left open there."""
    if name in plain:
        return plain, left_open
    known = [*plain]
    if "ask" in plain:
        if name in plain["ask"]:
            return plain["ask"], left_open.get("ask", {})
        known = [*known, *plain["ask"]]
        plain, left_open = plain["ask"], left_open.get("ask", {})
    if name in plain["subject"] and name not in _GIVEN_APART:
        return plain["subject"], left_open.get("subject", {})
    raise unknown_name(f"setting of {asked.name}", name, {*known, *plain["subject"]} - {"ask", *_GIVEN_APART})


def _left_open(asked: Any) -> dict[str, Any]:
    subject = {"subject": {"training": asked.base_training(subject_of(asked).model)}}
    return {**asked.left_open(), **({"ask": subject} if _has(asked, "ask") else subject)}


def _merged(old: Any, new: Any, usual: Any) -> Any:
    """``new`` over ``old``, table by table; what was left open starts from what the study would take."""
    before = usual if old is None else old
    if isinstance(before, list) and isinstance(new, str):
        return [new]  # one method or measure
    if not (isinstance(before, dict) and isinstance(new, dict)):
        return new
    inner = usual if isinstance(usual, dict) else {}
    return before | {key: _merged(before.get(key), value, inner.get(key)) for key, value in new.items()}


def _plain(value: Any, name: str) -> Any:
    """A setting in plain types; an explainer goes by its name with its settings."""
    if isinstance(value, Explainer):
        return value.label
    if isinstance(value, list | tuple):
        return [_plain(item, name) for item in value]
    if isinstance(value, Path):
        return str(value)
    try:
        return to_plain(value)
    except TypeError as error:
        raise UserError(f"{name} cannot be {value!r}: {error}.") from error


def _has(asked: Any, field: str) -> bool:
    return any(f.name == field for f in fields(asked))
