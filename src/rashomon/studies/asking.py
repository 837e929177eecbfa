"""Any study in one call, for Python users: ``ra.study("erasure", model, data, instances=100)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
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
from rashomon.models.given import require_model
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
    if not isinstance(model, ModelSpec | str):
        require_model(model)
    given = model if isinstance(model, Model) else None
    context = Context(
        Store(Path(store)) if store is not None else Store(), workers=workers, given_model=given
    )
    usual = kind()
    asked = replace(usual, subject=_subject(usual.subject, model, _dataset(context, data, model)))
    return with_settings(asked, settings).run(context)


def with_settings(asked: Study, settings: Mapping[str, Any]) -> Study:
    """The study with other settings, in plain or in typed form; a wrong name gets the nearest right one."""
    plain = to_plain(asked)
    left_open = to_plain(
        {**asked.left_open(), "subject": {"training": asked.base_training(asked.subject.model)}}
    )
    for name, value in settings.items():
        if name in plain:
            table, usual = plain, left_open
        elif name in plain["subject"] and name not in _GIVEN_APART:
            table, usual = plain["subject"], left_open["subject"]
        else:
            known = {*plain, *plain["subject"]} - {*_GIVEN_APART}
            raise unknown_name(f"setting of {asked.name}", name, known)
        table[name] = _merged(table[name], _plain(value, name), usual.get(name))
    return from_plain(type(asked), plain)


def so_many(known: tuple[int, ...], count: int) -> tuple[int, ...]:
    """The first seeds of a study, and where it has fewer, further ones."""
    further = (seed for seed in range(len(known) + count + 1) if seed and seed not in known)
    return (*known, *further)[:count]


def _subject(own: Subject, model: Model | ModelSpec | str, dataset: DatasetSpec | None) -> Subject:
    about = own.dataset if dataset is None else dataset
    if isinstance(model, Model):
        return Subject(about, ModelSpec(), None, own.seeds[:1], checkpoint=GIVEN)
    if isinstance(model, str) and is_trained_checkpoint(model):
        return Subject(about, ModelSpec(name=model), None, own.seeds[:1], checkpoint=model)
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
