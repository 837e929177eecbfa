"""Is it clear what is asked? Methods, classes and settings as users write them, checked before any work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, TypeAlias, cast, get_args

from rashomon.data.batches import Encoding
from rashomon.errors import DoesNotFit, UserError, unknown_name
from rashomon.explainers.base import Explainer, make_explainer
from rashomon.models.base import Model
from rashomon.models.tasks import Space

Method: TypeAlias = "str | Explainer | type[Explainer]"
Target: TypeAlias = "int | str | tuple[int, int]"


def chosen_explainers(model: Model, methods: Method | Iterable[Method]) -> list[Explainer]:
    """Every method that was asked for, once; one that this model cannot answer is refused."""
    if isinstance(methods, str | Explainer | type):
        methods = [methods]
    if not isinstance(methods, Iterable):
        raise UserError(f"Methods are named, as in ['lime', 'attention']; {methods!r} is no name.")
    asked = {
        explainer.label: explainer for explainer in (_explainer(method).suited(model) for method in methods)
    }
    if not asked:
        raise UserError("Name at least one method.")
    for explainer in asked.values():
        if reason := explainer.refusal(model):
            raise DoesNotFit(f"{explainer.label} cannot explain this model: {reason}.")
    return list(asked.values())


def _explainer(method: Any) -> Explainer:
    if isinstance(method, type) and issubclass(method, Explainer):
        return method()
    if not isinstance(method, str | Explainer):
        raise UserError(f"A method is named, as in 'lime'; {method!r} is no name.")
    return make_explainer(method)


def output_space(name: object) -> Space:
    """What of a class is explained, by its name."""
    if name not in get_args(Space):
        raise unknown_name("output space", str(name), get_args(Space))
    return cast(Space, name)


def space_refusal(model: Model, space: object) -> str | None:
    """Why the outputs of a model cannot be explained in a space; None where they can."""
    if output_space(space) == "probability" and model.gives_a_number:
        return "This model gives a number (it has a regression head), which has no probability; explain its logit."
    if space in model.task.spaces:
        return None
    known = " or ".join(f"the {name}" for name in model.task.spaces)
    return f"Of a {model.task.name} model {known} is explained, not the {space} logit."


def check_count(what: str, value: Any, least: int) -> None:
    if not _is_whole(value) or int(value) < least:
        raise UserError(f"{what} is a whole number from {least} upwards, not {value!r}.")


def _is_whole(value: Any) -> bool:
    """NumPy's integers are as good as Python's; true and false are no numbers."""
    return not isinstance(value, bool) and isinstance(value, Integral)


def chosen_targets(
    model: Model, targets: Target | Sequence[Target] | None, examples: int
) -> list[Any] | None:
    """What to explain, one an example: class numbers of numbers or label names, or spans as they are.

    One class alone counts for every example.
    """
    if targets is None:
        return None
    if isinstance(targets, str | Integral):
        targets = [targets] * examples
    if not isinstance(targets, Iterable):
        raise UserError(f"Targets are classes of the model, by number or name, not {targets!r}.")
    chosen = [_class_number(model, target) if model.labels else target for target in targets]
    if len(chosen) != examples:
        raise UserError(f"{len(chosen)} targets were given for {examples} examples.")
    return chosen


def check_targets(model: Model, targets: list[Any] | None, encodings: Sequence[Encoding]) -> None:
    """Refuse classes and spans that are not there."""
    for target, encoding in zip(targets or (), encodings, strict=False):
        try:
            model.task.check_target(target, model.classes, encoding)
        except (TypeError, ValueError):
            raise UserError(
                f"A target of a {model.task.name} model cannot be {target!r}; give the first and the last token."
            ) from None


def _class_number(model: Model, target: Any) -> int:
    if isinstance(target, str):
        if target not in model.labels:
            raise unknown_name("class of the model", target, model.labels)
        return model.labels.index(target)
    if not _is_whole(target):
        raise UserError(f"A target is the number or the name of a class, not {target!r}.")
    return int(target)
