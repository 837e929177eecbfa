"""Is it clear what is asked? Methods, classes and settings as users write them, checked before any work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, TypeAlias, get_args

from rashomon.errors import UserError, unknown_name
from rashomon.explainers.base import Explainer, OutputSpace, make_explainer
from rashomon.models.base import Model

Method: TypeAlias = "str | Explainer | type[Explainer]"
Target: TypeAlias = "int | str"


def require_model(model: object) -> None:
    """Refuse what is no model yet, with the way to make one of it."""
    if isinstance(model, Model):
        return
    if isinstance(model, str):
        raise UserError(f"{model!r} is a name; load the model with load_model, or train it with train.")
    raise UserError(
        f"A {type(model).__name__} is not a model here; make one of a network and its tokenizer with wrap."
    )


def chosen_explainers(model: Model, methods: Method | Iterable[Method]) -> list[Explainer]:
    """Every method that was asked for, once; one that this model cannot answer is refused."""
    if isinstance(methods, str | Explainer | type):
        methods = [methods]
    if not isinstance(methods, Iterable):
        raise UserError(f"Methods are named, as in ['lime', 'attention']; {methods!r} is no name.")
    asked = {explainer.label: explainer for explainer in map(_explainer, methods)}
    if not asked:
        raise UserError("Name at least one method.")
    for explainer in asked.values():
        if reason := explainer.refusal(model):
            raise UserError(f"{explainer.label} cannot explain this model: {reason}.")
    return list(asked.values())


def _explainer(method: Any) -> Explainer:
    if isinstance(method, type) and issubclass(method, Explainer):
        return method()
    if not isinstance(method, str | Explainer):
        raise UserError(f"A method is named, as in 'lime'; {method!r} is no name.")
    return make_explainer(method)


def check_space(space: object) -> None:
    if space not in get_args(OutputSpace):
        raise unknown_name("output space", str(space), get_args(OutputSpace))


def check_count(what: str, value: Any, least: int) -> None:
    if not _is_whole(value) or int(value) < least:
        raise UserError(f"{what} is a whole number from {least} upwards, not {value!r}.")


def _is_whole(value: Any) -> bool:
    """NumPy's integers are as good as Python's; true and false are no numbers."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def chosen_targets(
    model: Model, targets: Target | Sequence[Target] | None, examples: int
) -> list[int] | None:
    """Class numbers, one an example, of numbers or label names; one alone counts for every example."""
    if targets is None:
        return None
    if isinstance(targets, str | Integral):
        targets = [targets] * examples
    if not isinstance(targets, Iterable):
        raise UserError(f"Targets are classes of the model, by number or name, not {targets!r}.")
    numbers = [_class_number(model, target) for target in targets]
    if len(numbers) != examples:
        raise UserError(f"{len(numbers)} targets were given for {examples} examples.")
    return numbers


def _class_number(model: Model, target: Any) -> int:
    if isinstance(target, str):
        if target not in model.labels:
            raise unknown_name("class of the model", target, model.labels)
        return model.labels.index(target)
    if not _is_whole(target):
        raise UserError(f"A target is the number or the name of a class, not {target!r}.")
    if not 0 <= int(target) < model.classes:
        raise UserError(f"There is no class {target}; the model has the classes 0 to {model.classes - 1}.")
    return int(target)
