"""What can be asked of this model? What was found out by probing it, before an audit is begun.

rashomon check MODEL
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from rashomon.data.example import Example
from rashomon.explainers.base import explainers, make_explainer
from rashomon.explainers.explaining import explain
from rashomon.models.base import Model, without_attention
from rashomon.models.evaluator import evaluating
from rashomon.wording import how_many, milliseconds

_TEXT = "The plot is thin, the jokes are old, and yet it is hard not to like this warm and witty little film"
_PASSAGE = "It was shown in a small town first, and people went there twice because it was warm and witty."
_NO_RULE = "no DeepLIFT rule for "
_REACH = "reach the embedding of every word"
_READS = {
    "first": "the vector of the first token",
    "last": "the vector of the last token",
    "all": "the vectors of all tokens",
    "each": "every token's vector for itself",
    "decoder": "the decoder's vector at the end of the text",
}


@dataclass(frozen=True)
class ModelCheck:
    """What was found; shows itself in terminals and notebooks."""

    model: str
    task: str
    labels: tuple[str, ...]
    parameters: int
    longest_text: int  # tokens
    attention: str
    gradients: str
    removal: str
    pooling: str
    padding: str
    positions: str
    deeplift_gap: float | None
    deeplift_missing: str  # operations without a rule; empty where all have one
    milliseconds: float | None  # a forward pass of one text of ordinary length, where it was timed
    refused: dict[str, str] = field(default_factory=dict)  # methods, with the reason
    answered: tuple[str, ...] = ()
    caution: str = ""  # what to be wary of in all that it says

    def rows(self) -> list[tuple[str, str]]:
        """As a table: what, and what was found."""
        missing = (
            f"no rule for {self.deeplift_missing}" if self.deeplift_missing else "every operation has a rule"
        )
        gap = (
            ""
            if self.deeplift_gap is None
            else f"; scores miss the output's change by {self.deeplift_gap:.1e}"
        )
        table = [
            ("model", f"{self.model}, {self.parameters:,} parameters"),
            ("task", f"{self.task}: {', '.join(self.labels)}" if self.labels else self.task),
            ("longest text", f"{self.longest_text} tokens"),
            ("attention", self.attention),
            ("gradients", self.gradients),
            ("DeepLIFT", "refused" if "deeplift" in self.refused else missing + gap),
            ("a token taken out", self.removal),
            ("prediction reads", self.pooling),
            ("padding", self.padding),
            ("positions", self.positions),
        ]
        if self.milliseconds is not None:
            table.append(("speed", f"{milliseconds(self.milliseconds / 1000)} for a text of ordinary length"))
        if self.caution:
            table.append(("mind", self.caution))
        table.append(("methods", f"{len(self.answered)} answer: {', '.join(self.answered)}"))
        return table + [(f"refused: {', '.join(methods)}", why) for why, methods in self.by_reason().items()]

    def by_reason(self) -> dict[str, list[str]]:
        """The methods that are refused, those for the same reason together."""
        together: dict[str, list[str]] = {}
        for method, why in self.refused.items():
            together.setdefault(why, []).append(method)
        return together

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return asdict(self)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
        for what, found in self.rows():
            table.add_row(what, found)
        yield table


def check_model(model: Model, timed: bool = True) -> ModelCheck:
    """Find out what a model can do.

    Args:
        model: any model.
        timed: whether to say how long an answer takes, too.

    Returns:
        What was found, and for every method whether it can be asked, or why not.
    """
    refused = {name: make_explainer(name).suited(model).refusal(model) for name in explainers.names()}
    answered = tuple(name for name, why in refused.items() if not why)
    gap, missing = _lifted(model) if "deeplift" in answered else (None, "")
    traits = getattr(model, "traits", None)
    call = getattr(model, "call", None)
    first = None if call is None else call.first_position
    network = getattr(model, "network", model)
    return ModelCheck(
        model=type(network).__name__,
        task=model.task.name,
        labels=model.labels,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        longest_text=model.max_length,
        attention=_attention(model),
        gradients=_REACH if "gradients" in model.capabilities else _why(model, "gradients"),
        removal=_removal(model),
        pooling="its own attention over all tokens" if traits is None else _READS[traits.pooling],
        padding="changes the answer; texts of one length are read together"
        if model.equal_lengths
        else "does not change the answer",
        positions="its own" if first is None else f"counted from {first}, and kept when a token is taken out",
        deeplift_gap=gap,
        deeplift_missing=missing,
        milliseconds=_milliseconds(model) if timed else None,
        refused={name: why for name, why in refused.items() if why},
        answered=answered,
        caution="" if traits is None else traits.company_words,
    )


def _example(model: Model) -> Example:
    return Example("check", _TEXT, text_pair=_PASSAGE if model.task.per_token else None)


def _attention(model: Model) -> str:
    if "attention" not in model.capabilities:
        return _why(model, "attention")
    with torch.no_grad(), evaluating(model):
        output = model(model.collate(model.encode([_example(model)])))
    heads = 0 if output.attention is None else output.attention.shape[1]
    if output.stacks is not None:
        return f"{heads} heads, of a decoder that reads the text and its encoder; both are followed"
    layers = len(output.layers or ())
    depth = f"{layers} layers of " if layers else ""
    return f"{depth}{how_many(heads, 'head')}" + ("" if layers else f"; {_why(model, 'layers')}")


def _removal(model: Model) -> str:
    if model.task.keeps_positions:
        return "is masked instead: the places of answers must stay"
    if "removal" in model.capabilities:
        return "really is left out of the row"
    return "is hidden by the attention mask and keeps its place"


def _why(model: Model, capability: str) -> str:
    return model.lacks.get(capability) or "none"


def _lifted(model: Model) -> tuple[float | None, str]:
    (item,) = explain(model, [_example(model)], ["deeplift"])
    named = [warning for warning in item.warnings if warning.startswith(_NO_RULE)]
    return item.gap, named[0].removeprefix(_NO_RULE).partition(";")[0] if named else ""


def _milliseconds(model: Model, times: int = 3) -> float:
    batch = model.collate(model.encode([_example(model)]))
    with torch.inference_mode(), evaluating(model), without_attention(model):
        model(batch)  # the first call pays for more than itself
        started = time.perf_counter()
        for _ in range(times):
            model(batch)
    return (time.perf_counter() - started) / times * 1000
