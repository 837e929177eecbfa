"""How does a network that is already in memory become a model? With its tokeniser, and with nothing taken on trust."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from rashomon.errors import UserError
from rashomon.models.adapters import has_adapters, network_inside
from rashomon.models.base import Model
from rashomon.models.checkpoints import quiet
from rashomon.models.huggingface import HuggingFaceClassifier, HuggingFaceModel, HuggingFaceSpanModel

HALF = (torch.float16, torch.bfloat16)


def wrap(
    network: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    labels: Sequence[str] | None = None,
    max_length: int = 512,
) -> Model:
    """Make a model of a Hugging Face network in memory: a sequence classifier, or an extractive question answerer.

    The network is used where it is and left as it came: on its device, in its mode (training or not), with its
    weights frozen or not, and without gradients. Its attention is switched between the plain and the fused kernel as
    the methods need. A network in half precision is copied in float32, because gradients and small differences
    drown in its rounding; what is explained is then the copy, whose answers are the network's up to that rounding.
    Adapters inside of a network (PEFT's LoRA and its kin) are explained with it. A network with quantised weights is
    explained as it is; where it cannot be differentiated, the methods that need gradients are refused.

    Args:
        network: any ``...ForSequenceClassification`` (a single logit counts as two classes) or
            ``...ForQuestionAnswering`` (whose texts are pairs of a question and its passage), perhaps in a PEFT model.
        tokenizer: the fast tokenizer that goes with it.
        labels: names of the classes; by default those of ``network.config``.
        max_length: longer texts are cut, and their explanations say so.

    Returns:
        A model for ``explain``, ``evaluate``, ``study`` and ``audit``.
    """
    if has_adapters(network):
        network = network_inside(network, tokenizer)
    _check_network(network)
    _check_tokenizer(network, tokenizer)
    names = _checked_labels(network, labels)
    if max_length < 1:
        raise UserError(f"The length of texts is a whole number from 1 upwards, not {max_length!r}.")
    if any(parameter.dtype in HALF for parameter in network.parameters()):
        network = nn.Module.float(deepcopy(network))  # a quantised network's own method refuses
    with quiet():
        network.set_attn_implementation("eager")  # the fused kernels do not tell their weights
    model: HuggingFaceModel
    if _answers(network):
        model = HuggingFaceSpanModel(network, tokenizer, max_length)
    else:
        model = HuggingFaceClassifier(network, tokenizer, names, max_length)
    return model.train(network.training)


def _answers(network: PreTrainedModel) -> bool:
    return type(network).__name__.endswith("ForQuestionAnswering")


def _check_network(network: Any) -> None:
    kind = type(network).__name__
    if isinstance(network, Model):
        raise UserError("This is a model already; it can be explained as it is.")
    if isinstance(network, PreTrainedTokenizerBase):
        raise UserError("The network comes first and the tokenizer second: wrap(network, tokenizer).")
    if hasattr(network, "tokenizer") and isinstance(getattr(network, "model", None), PreTrainedModel):
        raise UserError("Give the parts of the pipeline: wrap(pipeline.model, pipeline.tokenizer).")
    if not isinstance(network, PreTrainedModel):
        raise UserError(
            f"A {kind} is no Hugging Face network; other models take part as a subclass of Model."
        )
    if not (kind.endswith("ForSequenceClassification") or _answers(network)):
        raise UserError(
            f"A {kind} neither classifies texts nor answers questions; load it as ...ForSequenceClassification "
            "or ...ForQuestionAnswering."
        )
    if network.config.problem_type == "multi_label_classification":
        raise UserError("The network gives several labels at once; only classifiers with one are understood.")


def _check_tokenizer(network: PreTrainedModel, tokenizer: Any) -> None:
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise UserError(f"A {type(tokenizer).__name__} is no Hugging Face tokenizer; give the network's own.")
    if not tokenizer.is_fast:
        raise UserError(
            "The tokenizer cannot say where its tokens stand in the text; load its fast form (use_fast=True)."
        )
    words = cast(Any, network.get_input_embeddings()).weight.shape[0]
    last = max(tokenizer.get_vocab().values(), default=0)
    if last >= words:
        raise UserError(
            f"The tokenizer is another network's: it counts to {last}, and the network has {words} embeddings."
        )


def _checked_labels(network: PreTrainedModel, labels: Sequence[str] | None) -> tuple[str, ...] | None:
    if labels is None:
        return None
    if _answers(network):
        raise UserError("A network that answers questions has no classes to name; leave labels out.")
    classes = max(network.config.num_labels or 0, 2)  # one logit counts as two classes
    if isinstance(labels, str) or len(labels) != classes or not all(isinstance(n, str) for n in labels):
        raise UserError(f"The network has {classes} classes; give as many names, not {labels!r}.")
    return tuple(labels)
